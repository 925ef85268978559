"""A job as FATE-Flow answers for it, recorded from the embedded server and cut down: reader, psi, label_flip, dp_hetero_lr.

The server plays guest 9999, host 10000 and arbiter 10001, and their homes lie side by side, with ledgers that the job charged.
"""

import copy
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlsplit

from flow_double import VERSION, flow_double
from ledger_scenarios import release

from fate_dp.pipelines.report.job_facts import ReportRequest
from fate_dp.privacy import Ledger
from fate_dp.privacy.events import ADD_OR_REMOVE, Event, PoissonSampledGaussian
from fate_dp.privacy.ledger.entries import BudgetCap
from fate_dp.privacy.ledger.policy import declare_source

JOB, OTHER_JOB = "202611231539387421710", "202611231550000000010"
GUEST, HOST, ARBITER = ("guest", "9999"), ("host", "10000"), ("arbiter", "10001")
SOURCE, HOST_DATA = "loans/guest/y", "columns:081674d555753c0c"
ROWS = 131
HOST_PURPOSE = "flipback of the host's own joint scores"
"""Words that stand in the host's ledger alone."""
STEP = Event(PoissonSampledGaussian(0.25, 1.7), "record", ADD_OR_REMOVE, ("server", "model"))
"""A private step of the host's, which an earlier job charged once."""
PARTIES = [{"role": role, "party_id": [party_id]} for role, party_id in (GUEST, HOST, ARBITER)]
BOTH = PARTIES[:2]


def read(source, key="output_data"):
    return {"task_output_artifact": {"producer_task": source, "output_artifact_key": key}}


DAG = {
    "parties": PARTIES,
    "stage": "train",
    "conf": {},
    "tasks": {
        "reader_0": {"component_ref": "reader", "stage": "default", "parameters": {}, "parties": BOTH},
        "psi_0": {
            "component_ref": "psi",
            "stage": "default",
            "parameters": {},
            "parties": BOTH,
            "inputs": {"data": {"input_data": read("reader_0")}},
        },
        "label_flip_0": {
            "component_ref": "label_flip",
            "stage": "default",
            "parameters": {"epsilon": 1.0, "label_source": SOURCE},
            "parties": BOTH,
            "inputs": {"data": {"input_data": read("psi_0")}},
        },
        "dp_hetero_lr_0": {
            "component_ref": "dp_hetero_lr",
            "parameters": {"epochs": 2, "train_scores": True},
            "inputs": {"data": {"train_data": read("label_flip_0")}},
        },
    },
    "party_tasks": {
        f"{role}_{party_id}": {
            "parties": [{"role": role, "party_id": [party_id]}],
            "tasks": {"reader_0": {"parameters": {"name": role, "namespace": "loans"}}},
        }
        for role, party_id in (GUEST, HOST)
    },
}
TRAINED = {
    "mechanism": "training on encrypted shares of labels that were flipped or declared public",
    "rows": ROWS,
    "training rows: accuracy on flips": 0.6259541984732825,
    "training rows: accuracy on true labels, estimated": 0.7725590177609755,
    "training rows: accuracy, standard error": 0.0914841652358093,
    "training rows: accuracy, bias": 0.2598223292333806,
}
FLIPPED = {"mechanism": "randomised response on the label, memoised per record", "rows": ROWS}
HOST_TRAINED = {"features": 4, "cap on them": 17, "privacy": "none"}
METRICS = {
    ("psi_0", "guest"): [("summary", None, {"input_count": ROWS, "intersect_count": ROWS})],
    ("psi_0", "host"): [("summary", None, {"input_count": 140, "intersect_count": ROWS})],
    ("label_flip_0", "guest"): [("summary", None, FLIPPED)],
    ("dp_hetero_lr_0", "guest"): [
        ("loss", "loss", [{"metric": 0.8486398572388734, "step": 0, "timestamp": 1795449281.2}]),
        ("loss", "loss", [{"metric": 0.7517837994315709, "step": 1, "timestamp": 1795449283.1}]),
        ("summary", None, TRAINED),
    ],
    ("dp_hetero_lr_0", "host"): [("summary", None, HOST_TRAINED)],
}
BEGIN = 1_795_448_533_000
"""Milliseconds."""


class Recorded:
    """The answers of a server, to be changed by a test before it is asked."""

    def __init__(self):
        self.dag, self.metrics = copy.deepcopy(DAG), copy.deepcopy(METRICS)
        self.jobs = [self._job(role, party_id) for role, party_id in (GUEST, HOST, ARBITER)]
        runs = [(task, *party) for task in list(DAG["tasks"])[:3] for party in (GUEST, HOST)]
        self.tasks = [self._task(*run, place) for place, run in enumerate(runs)]
        self.tasks += [self._task("dp_hetero_lr_0", *party, len(runs)) for party in (GUEST, HOST, ARBITER)]

    def _job(self, role, party_id):
        times = {"start_time": BEGIN, "end_time": BEGIN + 90_000}
        return {"job_id": JOB, "role": role, "party_id": party_id, "status": "success", **times}

    def _task(self, task, role, party_id, place):
        start = BEGIN + 10_000 * place
        return {
            "task_name": task,
            "role": role,
            "party_id": party_id,
            "party_status": "success",
            "provider_name": "fate:2.2.0@local",
            "start_time": start,
            "end_time": start + 8_000 + 100 * len(role),
            "error_report": "",
        }

    def fail(self, task, error, role="guest"):
        """The task refuses at every party, with a traceback at one; what comes after it waits."""
        names = list(self.dag["tasks"])
        later = names[names.index(task) + 1 :]
        for row in self.tasks:
            if row["task_name"] == task:
                row.update(party_status="failed", error_report=error if row["role"] == role else "")
            elif row["task_name"] in later:
                row.update(party_status="waiting", start_time=None, end_time=None)
        for row in self.jobs:
            row["status"] = "failed"
        self.metrics = {key: records for key, records in self.metrics.items() if key[0] not in (task, *later)}

    # What flow_double asks of a mapping, with the question behind the path.
    def __contains__(self, path):
        return self.get(path) is not None

    def __getitem__(self, path):
        return self.get(path)

    def get(self, path):
        parts = urlsplit(path)
        asked = dict(parse_qsl(parts.query))
        if parts.path == "job/query":
            rows = [{**row, "dag": {"dag": self.dag, "schema_version": "2.2.0"}} for row in chosen(self.jobs, asked)]
            return rows or None
        if parts.path == "job/task/query":
            return chosen(self.tasks, {**asked, "job_id": ""})
        if parts.path == "output/metric/query":
            records = self.metrics.get((asked["task_name"], asked["role"]), [])
            return [{"name": name, "type": kind, "groups": [], "data": data} for name, kind, data in records]
        return (
            VERSION
            if parts.path == "server"
            else VERSION["server/fateflow"]
            if parts.path.startswith("server")
            else None
        )


def chosen(rows, asked):
    return [row for row in rows if all(row.get(name, value) == value or not value for name, value in asked.items())]


def homes(folder):
    """Homes of guest and host, with what the job and an earlier one charged to them."""
    guest, host = (folder / f"party-{party_id}" for _, party_id in (GUEST, HOST))
    for home in (guest, host):
        home.mkdir(parents=True)
    declare_source(guest / "policy.yaml", SOURCE, cap=3.0)
    ledger = Ledger(guest / "ledger.sqlite")
    flips = release(ledger, range(ROWS), 1.0, source=SOURCE, job_id=JOB)
    ledger.mark_released(flips.release_id)
    ledger = Ledger(host / "ledger.sqlite")
    ledger.record(
        dataset=HOST_DATA,
        event=STEP,
        release_key="r",
        fingerprint="f",
        cap=BudgetCap(9, 1e-6),
        job_id=OTHER_JOB,
        task_id="t",
    )
    ledger.record_scores(
        dataset=HOST_DATA, weights_digest="a", purpose=HOST_PURPOSE, rows=77, cap=5, job_id=JOB, task_id="t"
    )
    return folder


@contextmanager
def asked_of(recorded, folder, party_id=None, job_id=JOB, **more):
    """What `gather` is to be asked, while a double answers."""
    with flow_double(recorded) as (address, _):
        yield ReportRequest(address, job_id, folder, party_id, **more)
