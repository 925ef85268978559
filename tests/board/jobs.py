"""The jobs that the walk looks at: every component of ours, a refused job, and one that FATE's own reader fails."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml
from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import HeteroSecureBoost, Reader

from examples.pipelines import Federation, StudyTables, private_training_pipeline
from fate_dp.components.common.charges import columns_name
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.cli.servers import DESCRIPTIONS
from fate_dp.pipelines.clients import (
    Align,
    DPBinning,
    DPHeteroLR,
    DPHomoGBDT,
    DPScorecard,
    Flipback,
    KeyedSplit,
    LabelCount,
    ScoreCorrection,
    ShareLR,
    Shuffler,
    Smote,
)
from fate_dp.pipelines.jobs.job import JobFailed, run_job
from fate_dp.pipelines.jobs.party_ledgers import declare
from fate_dp.privacy.ledger.policy import declare_caps
from fate_dp.privacy.private_files import POLICY_FILE, party_folder
from tests.end_to_end.loans import NAMESPACE, PARTIES, QUICK, evaluated, flipped_pipeline, loans, upload

OURS = {path.stem for path in DESCRIPTIONS.glob("*.yaml")}
"""The registry: every component that the package describes to the board."""
CAP = 2.0
HOSPITALS = Federation(shuffler="9997")
HOSPITAL_TABLES = StudyTables(NAMESPACE, test="none")
# Each of the three parties brings a third; beside the largest one of two, the other one must bring enough messages.
WARDS, MESSAGES = 660, 200
MEMORY, BINS, SMOOTHING, POINTS = 128, 4, 0.5, 25
ROUNDS, EPOCHS = 3, QUICK["epochs"]
PLACES = [HOSPITAL_TABLES.training(*party) for party in HOSPITALS.data_parties()]


def run_all(address, home: Path, folder: Path) -> dict[str, dict]:
    """{name: {"id", "error"}} of the jobs, one after another; the error is the sentence that `run_job` raises."""
    parties = open_home(home).parties
    guest, host = loans(131, seed=8)
    wards, _ = loans(WARDS, seed=9)
    named = {"guest": guest, "host": host}
    wards["id"] = "ward-" + wards["id"].astype(str)
    named |= {place: wards[start::3] for start, place in enumerate(PLACES)}
    for name, table in named.items():
        upload(address, home, folder, name, table)
    declare(parties, PARTIES.guest, f"{NAMESPACE}/guest/y", cap=CAP)
    features = columns_name([name for name in wards if name.startswith("x")])
    for _, party in HOSPITALS.data_parties():
        declare_caps(party_folder(parties, party) / POLICY_FILE, features, epsilon=20.0)
    pipelines = {
        **{name: make() for name, make in SUCCESSFUL.items()},
        "refused": flipped_pipeline(epsilon=3 * CAP)[0],
        "failed": flipped_pipeline(guest="nobody_uploaded")[0],
    }

    def run(pipeline) -> dict:
        try:
            return {"id": run_job(pipeline, address, home=home).job_id, "error": None}
        except JobFailed as failure:
            return {"id": failure.job_id, "error": str(failure)}

    return {name: run(pipeline) for name, pipeline in pipelines.items()}


def kept(file: Path, make) -> dict:
    """What is in a file, made and written where it is not there yet."""
    if not file.exists():
        file.write_text(json.dumps(make()), encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


def vertical() -> FateFlowPipeline:
    """Two parties with different columns: everything that works on flipped labels, in one job."""
    pipeline, flip = flipped_pipeline()
    both, flipped = PARTIES.data_parties(), flip.outputs["output_data"]
    model = DPHeteroLR("dp_hetero_lr_0", train_data=flipped, flipback={"mode": "none"}, train_scores=True, **QUICK)
    scored = model.outputs["train_output_data"]
    back = Flipback("flipback_0", runtime_parties=both, mode="swap", input_data=flipped, scores=scored)
    balanced = Smote(
        "smote_0", runtime_parties={"guest": PARTIES.guest}, dataset=f"{NAMESPACE}/guest", train_data=flipped
    )
    align = Align("align_0", runtime_parties=both, worker_memory=MEMORY, input_data=flipped)
    shared = ShareLR(
        "share_lr_0",
        runtime_parties=both,
        epochs=EPOCHS,
        train_data=align.outputs["output_data"],
        alignment=align.outputs["alignment"],
    )
    split = KeyedSplit("keyed_split_0", runtime_parties=both, salt="spring", test_share=0.3, input_data=flipped)
    return pipeline.add_tasks([model, back, balanced, align, shared, split, evaluated(scored)])


def boosted() -> FateFlowPipeline:
    """The same flips in bins for a scorecard, and in FATE's boosted trees, whose scores are corrected."""
    pipeline, flip = flipped_pipeline()
    both, flipped = PARTIES.data_parties(), flip.outputs["output_data"]
    binned = DPBinning(
        "dp_binning_0",
        runtime_parties=both,
        other_columns={"range": [-3, 3], "bins": BINS},
        smoothing=SMOOTHING,
        train_data=flipped,
    )
    card = DPScorecard(
        "dp_scorecard_0",
        runtime_parties=both,
        privacy="none",
        points_to_double=POINTS,
        train_data=binned.outputs["train_output_data"],
        binning_model=binned.outputs["output_model"],
    )
    card.hosts[0].task_parameters(epsilon=2.0)
    trees = HeteroSecureBoost(
        "secureboost_0", runtime_parties=both, num_trees=1, max_depth=2, max_bin=4, train_data=flipped
    )
    corrected = ScoreCorrection(
        "score_correction_0",
        runtime_parties={"guest": PARTIES.guest},
        epsilon=1.0,
        input_data=trees.outputs["train_output_data"],
    )
    return pipeline.add_tasks([binned, card, trees, corrected])


def horizontal() -> FateFlowPipeline:
    """Three parties with the same columns: noisy counts of their labels, and a training with a noisy sum."""
    training = {
        "rounds": ROUNDS,
        "batch_size": WARDS // 3,
        "records": WARDS,
        "aggregation": "secure_sum",
        "epsilon": 2.0,
    }
    pipeline = private_training_pipeline(HOSPITALS, HOSPITAL_TABLES, {"dp_homo_nn_0": training})
    parties = {"guest": HOSPITALS.guest, "host": list(HOSPITALS.hosts)}
    rows = pipeline.tasks["reader_0"].outputs["output_data"]
    counts = LabelCount("label_count_0", runtime_parties=parties, epsilon=0.5, input_data=rows)
    trees = DPHomoGBDT(
        "dp_homo_gbdt_0",
        runtime_parties=HOSPITALS.at_training("secure_sum"),
        records=WARDS,
        epsilon=2.0,
        trees=4,
        rounds=2,
        train_data=rows,
    )
    return pipeline.add_tasks([counts, trees])


def shuffled() -> FateFlowPipeline:
    """A mean over the rows of guest and one host; another host shuffles."""
    bank, shuffler = HOSPITALS.hosts[0], HOSPITALS.shuffler
    pipeline = FateFlowPipeline().set_parties(guest=HOSPITALS.guest, host=[bank, shuffler], arbiter=HOSPITALS.arbiter)
    reader = Reader("reader_0", runtime_parties={"guest": HOSPITALS.guest, "host": [bank]})
    reader.guest.task_parameters(namespace=NAMESPACE, name=PLACES[0])
    reader.hosts[0].task_parameters(namespace=NAMESPACE, name=PLACES[1])
    statistics = Shuffler(
        "shuffler_0",
        shuffler=shuffler,
        epsilon=1.0,
        min_messages=MESSAGES,
        requests=[{"column": "x0", "kind": "mean", "low": -3.0, "high": 3.0}],
        input_data=reader.outputs["output_data"],
    )
    return pipeline.add_tasks([reader, statistics])


SUCCESSFUL = {"vertical": vertical, "boosted": boosted, "horizontal": horizontal, "shuffled": shuffled}


@dataclass(frozen=True)
class Drawn:
    """What the board draws of a job: its tasks by name, one arrow for each artifact that one takes from another."""

    components: dict[str, str]
    parameters: dict[str, dict]
    arrows: int


def drawn(make: Callable[[], FateFlowPipeline]) -> Drawn:
    """From the pipeline's own DAG, so that nothing is listed twice."""
    tasks = yaml.safe_load(make().compile().get_dag())["dag"]["tasks"]
    return Drawn(
        {name: task["component_ref"] for name, task in tasks.items()},
        {name: task.get("parameters") or {} for name, task in tasks.items()},
        len(re.findall("producer_task", json.dumps(tasks))),
    )


def walked() -> dict[str, tuple[str, str]]:
    """{task: (job, one of its parameters as the board shows it)} of every component of ours, from its first job."""
    found: dict[str, tuple[str, str]] = {}
    for job, make in SUCCESSFUL.items():
        of_job = drawn(make)
        for task, component in of_job.components.items():
            if component in OURS:
                plain = {name: each for name, each in of_job.parameters[task].items() if type(each) in (int, str)}
                numbers = {name: each for name, each in of_job.parameters[task].items() if type(each) is float}
                name, value = next(iter({**plain, **numbers}.items()))
                found.setdefault(task, (job, f"{name}: {value:g}" if type(value) is float else f"{name}: {value}"))
    return found
