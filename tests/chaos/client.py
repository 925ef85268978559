"""`python -m tests.chaos.client HOME EPSILON PATIENCE`: one small job, whose end is told as one line of JSON.

The program waits for less than a user's does: it says after PATIENCE seconds what run_job says after minutes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.flow.programs import FlowServerError, read_record
from fate_dp.deploy.flow.server import address_of
from fate_dp.pipelines.clients import DPHeteroLR, LabelFlip
from fate_dp.pipelines.jobs import job, tasks
from fate_dp.pipelines.jobs.job import JobFailed, run_job, task_output_data
from fate_dp.pipelines.jobs.ready import Parties, Tables, new_pipeline

if TYPE_CHECKING:
    from fate_client.pipeline import FateFlowPipeline

PARTIES, TABLES, FLIP = Parties(), Tables("small", "guest", "host"), "label_flip_0"
TRAINING = "dp_hetero_lr_0"
JOB_SECONDS = 150.0


@dataclass(frozen=True)
class Outcome:
    """How a job ended; ``flips`` is the digest of its flipped labels, empty where it came to none."""

    succeeded: bool
    job_id: str | None
    sentence: str = ""
    party: str = ""
    flips: str = ""


def pipeline(epsilon: float) -> FateFlowPipeline:
    """PSI, flips, three epochs."""
    from fate_client.pipeline.components.fate import PSI
    from fate_client.pipeline.interface import DataWarehouseChannel

    both = PARTIES.data_parties()
    inputs = [
        DataWarehouseChannel(name=name, namespace=TABLES.namespace, parties={role: [party]})
        for role, party, name in (("guest", PARTIES.guest, TABLES.guest), ("host", PARTIES.host, TABLES.host))
    ]
    psi = PSI("psi_0", runtime_parties=both, input_data=inputs)
    rows: Any = psi.outputs["output_data"]
    source = TABLES.label_source()
    flip = LabelFlip(FLIP, runtime_parties=both, epsilon=epsilon, label_source=source, input_data=rows)
    training = DPHeteroLR(TRAINING, train_data=flip.outputs["output_data"], epochs=3)
    return new_pipeline(PARTIES).add_tasks([psi, flip, training])


def played(home: Path, epsilon: float, patience: float) -> Outcome:
    """Run one job to its end."""
    job.SILENCE_SECONDS = tasks.STOPPED_SECONDS = tasks.GONE_SECONDS = patience
    tasks.LOOK_SECONDS = patience / 5
    record = read_record(open_home(home).record)
    assert record is not None, "the server was started"
    address = address_of(record)
    try:
        result = run_job(pipeline(epsilon), address, lambda *_: None, JOB_SECONDS, home)
        return Outcome(True, result.job_id, flips=digest(address, result.job_id))
    except JobFailed as failure:
        party = failure.record.role if failure.record else ""
        flips = digest(address, failure.job_id) if failure.job_id else ""
        return Outcome(False, failure.job_id, str(failure), party, flips)
    except FlowServerError as failure:
        return Outcome(False, None, str(failure))


def digest(address: Any, job_id: str) -> str:
    """Of the labels of each record, in any order of the records."""
    try:
        frame = task_output_data(address, job_id, "guest", PARTIES.guest, FLIP)["output_data"]
    except FlowServerError:
        return ""
    text = frame.set_index("id")["y"].astype(int).sort_index().to_csv()
    return hashlib.sha256(text.encode()).hexdigest()[:12]


if __name__ == "__main__":
    outcome = played(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
    print(json.dumps(asdict(outcome)), flush=True)
