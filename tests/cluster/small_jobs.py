"""Short jobs on a small table, for the tests that break things while jobs run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from fate_dp.deploy.flow.server import processes_of
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import ENDED, query_tasks
from fate_dp.pipelines.jobs.party_ledgers import declare
from fate_dp.pipelines.jobs.ready import Parties, Tables, new_pipeline
from fate_dp.pipelines.jobs.upload import TableMeta

from .places import GUEST, HOST_ID, Place

PARTIES, TABLES, EPSILON = Parties(), Tables("small", "guest", "host"), 1.0
# Labels that no job has released before the test that needs them so.
FRESH = Tables("small", "guest_fresh", "host_fresh")


def small_tables(rows: int = 120, seed: int = 5):
    """A pandas table of each side: the guest's with label y, ids shared, the host's last column constant in a copy."""
    draws = np.random.default_rng(seed)
    features = draws.standard_normal((rows, 16))
    ids = [f"loan-{number}" for number in range(rows)]
    guest = pd.DataFrame(features[:, :8], columns=[f"x{column}" for column in range(8)])
    guest.insert(0, "y", (features @ draws.standard_normal(16) + draws.standard_normal(rows) > 0).astype(int))
    guest.insert(0, "id", ids)
    host = pd.DataFrame(features[:, 8:], columns=[f"z{column}" for column in range(8)])
    host.insert(0, "id", ids)
    return guest, host.iloc[::-1]


def upload_small(place: Place, folder: Path, owners: tuple = (GUEST, HOST_ID)) -> None:
    """Both sides, both again for other people, and a table of the host's that a training must refuse."""
    folder.mkdir(exist_ok=True)
    guest, host = small_tables()
    tables = {
        "guest": (GUEST, guest),
        "guest_fresh": (GUEST, guest.assign(id="fresh-" + guest["id"], y=1 - guest["y"])),
        "host": (HOST_ID, host),
        "host_fresh": (HOST_ID, host.assign(id="fresh-" + host["id"])),
        "host_constant": (HOST_ID, host.assign(z0=2.5)),
    }
    for name, (_, table) in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    metas = {GUEST: TableMeta(label_name="y")}
    place.upload(
        [
            (party_id, folder / f"{name}.csv", TABLES.namespace, name, metas.get(party_id))
            for name, (party_id, _) in tables.items()
            if party_id in owners
        ]
    )
    for table in (TABLES, FRESH):
        declare(place.parties(GUEST), GUEST, table.label_source(), cap=EPSILON)


def two_tasks(tables: Tables = TABLES):
    """psi -> label_flip; the tables are read by psi itself."""
    from fate_client.pipeline.components.fate import PSI
    from fate_client.pipeline.interface import DataWarehouseChannel

    from fate_dp.pipelines.clients import LabelFlip

    sides = {"guest": (PARTIES.guest, tables.guest), "host": (PARTIES.host, tables.host)}
    psi = PSI(
        "psi_0",
        runtime_parties=PARTIES.data_parties(),
        input_data=[
            DataWarehouseChannel(name=name, namespace=TABLES.namespace, parties={role: [party]})
            for role, (party, name) in sides.items()
        ],
    )
    flip = LabelFlip(
        "label_flip_0",
        runtime_parties=PARTIES.data_parties(),
        epsilon=EPSILON,
        label_source=tables.label_source(),
        input_data=psi.outputs["output_data"],
    )
    return new_pipeline(PARTIES).add_tasks([psi, flip])


def submit(place: Place, pipeline) -> str:
    """Queue a job at the guest's server; its id."""
    client = connect(place.addresses[GUEST])
    pipeline.compile()
    response = client.job.submit(dag_schema=yaml.safe_load(pipeline.get_dag()))
    assert response["code"] == 0, response
    return response["job_id"]


def job_status(place: Place, job_id: str) -> str:
    response = connect(place.addresses[GUEST]).job.query(job_id=job_id, role="guest", party_id=GUEST)
    return response["data"][0]["status"] if response.get("code") == 0 else "no answer"


def wait_for(what: Callable[[], object], seconds: float, name: str, pause: float = 0.2) -> None:
    """Wait until something happens that the test depends on."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"{name} did not happen within {seconds:.0f} seconds"
        time.sleep(pause)


def has_ended(place: Place, job_id: str) -> bool:
    return job_status(place, job_id) in ENDED


def executors(place: Place, party_id: str, job_id: str, task: str) -> list:
    """The processes that execute a component of a job at a party."""
    found = []
    for process in processes_of(Path(place.homes[party_id])):
        command = " ".join(process.cmdline())
        if "component execute" in command and job_id in command and f"/{task}/" in command:
            found.append(process)
    return found


def is_running(place: Place, job_id: str, task: str) -> bool:
    tasks = query_tasks(connect(place.addresses[GUEST]), job_id)
    return any(record.task == task and record.status == "running" for record in tasks)
