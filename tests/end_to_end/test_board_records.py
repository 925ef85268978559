"""What FATE-Board can draw of the jobs on the session's FATE-Flow: records, logs, and no true labels in its tables.

Every finished job of the session is looked at. Alone, this file runs one job with the components that fit into it.
"""

import re
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import pytest

from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.cli.servers import DESCRIPTIONS
from fate_dp.pipelines.clients import Align, DPHeteroLR, Flipback, ShareLR, Smote
from fate_dp.pipelines.jobs.flow import connect
from fate_dp.pipelines.jobs.job import run_job
from fate_dp.pipelines.jobs.party_ledgers import declare
from tests.support.board_rules import NEVER_DRAWN, TaskNames, check_records, check_task

from .loans import NAMESPACE, PARTIES, QUICK, evaluated, flipped_pipeline, loans, upload

pytestmark = pytest.mark.end_to_end

OURS = {path.stem for path in DESCRIPTIONS.glob("*.yaml")}
# FATE's Evaluation draws our scores, so that its records must be drawn as well.
CHECKED = OURS | {"evaluation"}
NEEDED = {"psi", "label_flip", "dp_hetero_lr", "evaluation"}
# What a training says about itself is said at the guest; a person at the guest's board looks there.
TRAININGS = {"dp_hetero_lr", "share_lr"}
BEFORE_THE_FLIP = {"reader", "psi"}
# What stands in the summary of the guest, in the names of its lines.
FACTS = {
    "label_flip": ("mechanism", "epsilon", "probability|standard deviation of the noise", "rows"),
    "flipback": ("mechanism", "epsilon", "rows"),
    "dp_hetero_lr": ("mechanism", "epsilon", "probability", "privacy", "labels", "epochs", "rows"),
    "share_lr": ("mechanism", "epsilon", "epochs", "rows"),
    "smote": ("mechanism", "epsilon", "rows"),
    "align": ("mechanism", "rows"),
    "dp_homo_nn": ("mechanism", "epsilon", "noise", "rounds", "rows|records"),
    "dp_homo_gbdt": ("mechanism", "epsilon", "noise", "rounds", "records"),
    "shuffler": ("mechanism", "epsilon", "rows|records"),
    "dp_binning": ("mechanism", "epsilon", "rows"),
    "dp_scorecard": ("mechanism|privacy", "epsilon", "rows"),
    "score_correction": ("mechanism", "epsilon", "rate of flips", "rows"),
    "keyed_split": ("split", "rows"),
    "label_count": ("mechanism", "epsilon", "standard deviation of the noise", "rows"),
}
# With so many flips among the rows that are shown, none at all has a chance of e^-15.
ENOUGH_FLIPS = 15
# What FATE-Flow and FATE log of every task comes from modules whose names begin with an underscore.
LOGGED = re.compile(r"\[INFO\]\[[^]]+\]\[\d+\]\[(?!_)\w+\.\w+\]\[line:\d+\]: \S")


@dataclass(frozen=True)
class Task:
    """A finished task at a party, and what the board asks FATE-Flow about it."""

    client: object
    job_id: str
    names: TaskNames
    stage: str

    def __str__(self) -> str:
        return f"{self.names.component} {self.names} in job {self.job_id}"

    def _where(self) -> dict:
        names = self.names
        return {"job_id": self.job_id, "role": names.role, "party_id": names.party_id, "task_name": names.task}

    @cached_property
    def records(self) -> list:
        return self.client.output.query_metric(**self._where()).get("data") or []

    def summaries(self) -> list:
        return [record["data"] for record in self.records if record["name"] == "summary"]

    @cached_property
    def own_log_lines(self) -> list:
        """Of the task's log as the log tab shows it, what the component itself wrote."""
        lines = self.client.log.query(log_type="task_info", **self._where()).get("data") or []
        return [line["content"] for line in lines if LOGGED.match(line["content"])]

    @cached_property
    def shown_tables(self) -> list[pd.DataFrame]:
        """The tables of the data tab by record id, with the name of the label column in `attrs`."""
        tables = []
        for versions in self.client.output.data_display(**self._where()).values():
            for table in versions if isinstance(versions, list) else ():
                fields = table["metadata"]["schema_meta"]["fields"]
                of_kind = {field["property"]: field["name"] for field in fields}
                shown = pd.DataFrame(table["data"], columns=[field["name"] for field in fields])
                tables.append(shown.set_index(of_kind["match_id"]))
                tables[-1].attrs["label"] = of_kind.get("label")
        return tables


@pytest.fixture(scope="module")
def own_job(flow_address, flow_home, tmp_path_factory):
    """label_flip, dp_hetero_lr, flipback, smote, align and share_lr in one job; an odd number of rows has a smaller class."""
    folder, (guest, host) = tmp_path_factory.mktemp("board"), loans(131, seed=8)
    for name, table in (("board_guest", guest), ("board_host", host)):
        upload(flow_address, flow_home, folder, name, table)
    declare(open_home(flow_home).parties, PARTIES.guest, f"{NAMESPACE}/board_guest/y", cap=2.0)
    pipeline, flip = flipped_pipeline(guest="board_guest", host="board_host")
    both, flipped = PARTIES.data_parties(), flip.outputs["output_data"]
    # The host's four features allow scores of one model only: those of the training's end, none for flipback on the way.
    model = DPHeteroLR("dp_hetero_lr_0", train_data=flipped, flipback={"mode": "none"}, train_scores=True, **QUICK)
    back = Flipback(
        "flipback_0", runtime_parties=both, mode="swap", input_data=flipped, scores=model.outputs["train_output_data"]
    )
    balanced = Smote(
        "smote_0", runtime_parties={"guest": PARTIES.guest}, dataset=f"{NAMESPACE}/board_guest", train_data=flipped
    )
    align = Align("align_0", runtime_parties=both, input_data=flipped)
    # Without scores of the training rows, of which none are left.
    shared = ShareLR(
        "share_lr_0",
        runtime_parties=both,
        epochs=2,
        train_data=align.outputs["output_data"],
        alignment=align.outputs["alignment"],
    )
    pipeline.add_tasks([model, back, balanced, align, shared, evaluated(model.outputs["train_output_data"])])
    return run_job(pipeline, flow_address, home=flow_home)


@pytest.fixture(scope="module")
def tasks(request, flow_address):
    """All tasks of the session's finished jobs at all parties, of an own job as well where those do not suffice."""
    client = connect(flow_address)
    found = finished_tasks(client)
    flipped = any(task.names.component == "label_flip" and shown_flips(task) > ENOUGH_FLIPS for task in found)
    if not flipped or not {task.names.component for task in found} >= NEEDED:
        request.getfixturevalue("own_job")
        found = finished_tasks(client)
    return found


def finished_tasks(client) -> list[Task]:
    jobs = {row["job_id"]: row["dag"]["dag"] for row in client.job.query(status="success").get("data") or []}
    return [
        Task(
            client,
            job,
            TaskNames(row["task_name"], row["component"], row["role"], row["party_id"]),
            dag["tasks"][row["task_name"]].get("stage") or dag["stage"],
        )
        for job, dag in sorted(jobs.items())
        for row in client.task.query(job_id=job).get("data") or []
    ]


def test_every_record_of_every_task_keeps_the_boards_rules(tasks):
    findings = [
        f"{task}: {finding}"
        for task in tasks
        if task.names.component in CHECKED
        for finding in check_task(task.names, task.records, CHECKED)
    ]
    assert findings == []


def test_a_record_that_the_board_drops_is_found(tasks):
    """FATE's own PSI logs one beside its summary."""
    found = {
        finding.rule
        for task in tasks
        if task.names.component == "psi"
        for finding in check_records(str(task.names), "psi", task.records)
    }
    assert found == {NEVER_DRAWN}


def test_the_records_that_were_checked_are_there(tasks):
    recorded = {task.names.component for task in tasks if task.records}
    assert recorded >= NEEDED
    assert recorded & OURS == {task.names.component for task in tasks} & OURS


def test_a_training_logs_its_loss_once_and_at_the_guest_alone(tasks):
    losses = {
        str(task): any("loss" in (record["type"] or "") for record in task.records)
        for task in tasks
        if task.names.component in TRAININGS
    }
    # The board draws one series, so that the folds of a cross-validation show none.
    trained = {
        str(task) for task in tasks if task.names.component in TRAININGS and task.summaries() and task.stage == "train"
    }
    wrong = [name for name in trained if losses[name] != (" at guest " in name)]
    assert trained and wrong == []


def test_every_guests_summary_says_what_protects_whom_and_on_how_many_rows(tasks):
    training = [task for task in tasks if task.names.component in OURS and task.stage != "predict"]
    of_guests = [task for task in training if task.names.role == "guest"]
    assert [str(task) for task in of_guests if not task.summaries()] == []
    lacking = [
        f"{task}: no {words} among {list(summary)}"
        for task in of_guests
        for summary in task.summaries()
        for words in FACTS[task.names.component]
        if not any(re.search(words, name) for name in summary)
    ]
    assert lacking == []


def test_every_task_logs_what_it_does_beside_what_fate_logs_of_every_task(tasks):
    silent = [str(task) for task in tasks if task.names.component in OURS and not task.own_log_lines]
    assert silent == []


def test_a_task_that_logs_nothing_of_its_own_is_found(tasks):
    """FATE's own PSI does not."""
    assert [task for task in tasks if task.names.component == "psi" and task.own_log_lines] == []


def test_no_table_after_the_flip_shows_the_true_labels_and_those_before_do(tasks):
    jobs = {task.job_id for task in tasks if task.names.component == "label_flip" and shown_flips(task) > ENOUGH_FLIPS}
    # PSI may read the tables by itself; what it read is not shown.
    jobs &= {task.job_id for task in tasks if task.names.component == "reader"}
    assert jobs
    for job in jobs:
        of_job = [task for task in tasks if task.job_id == job]
        truth = true_labels(of_job)
        before = [task for task in of_job if task.names.component in BEFORE_THE_FLIP and task.names.role == "guest"]
        # The control: the same comparison finds the labels where they are.
        assert all(shows(truth, table) for task in before for table in task.shown_tables)
        after = [task for task in of_job if task.names.component not in BEFORE_THE_FLIP]
        shown = [(task, table) for task in after for table in task.shown_tables]
        assert any(task.names.component == "label_flip" for task, _ in shown)
        assert [str(task) for task, table in shown if shows(truth, table)] == []


def test_true_labels_are_found_under_another_name_and_as_other_values_too():
    truth = pd.Series([0, 1] * 20, index=[f"loan-{row}" for row in range(40)])
    shown = pd.DataFrame({"amount": range(40), "type": "train", "grade": truth.map({0: "B", 1: "A"})})
    assert shows(truth, shown) and shows(truth, shown.sample(frac=1, random_state=1)[:30])
    one_flipped = shown.assign(grade=["A", *shown["grade"][1:]])
    assert not shows(truth, one_flipped) and not shows(truth, shown.set_axis(range(40)))


def shown_flips(task) -> float:
    """How many of the rows that the board shows are flipped, on average; nan for numbers, and at hosts, who have no summary.

    Nan for more than two classes, too: of those the few records that reader and PSI both show tell too little.
    """
    rates = [1 - summary["keep probability"] for summary in task.summaries() if summary.get("classes") == 2]
    return max(rates, default=float("nan")) * sum(map(len, task.shown_tables))


def true_labels(tasks) -> pd.Series:
    """The labels of the guest's table as its reader shows them."""
    (reader,) = (task for task in tasks if task.names.component == "reader" and task.names.role == "guest")
    (table,) = reader.shown_tables
    return table[table.attrs["label"]]


def shows(truth: pd.Series, table: pd.DataFrame) -> bool:
    """Whether a column of few values gives away the true label of every shown record that the truth knows."""
    known = table.loc[table.index.intersection(truth.index)]
    labels = truth.loc[known.index]
    return labels.nunique() > 1 and any(determines(known[name], labels) for name in known)


def determines(values: pd.Series, labels: pd.Series) -> bool:
    """Whether every value goes with one label; a column with as many values as records does so in vain."""
    return values.nunique() <= len(values) / 10 and labels.groupby(values.astype(str)).nunique().max() == 1
