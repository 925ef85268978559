"""What follows label_flip is checked before it charges: from the job's plan, and from what FATE-Flow keeps of a job."""

import random
import sys

import pytest
import yaml

from fate_dp.components.common.job_files import JobFiles, JobPlan, origin_of_this_task, tables_of_this_task
from fate_dp.components.label_flip.chain import check_plan, refusal_of_plan, trainings_on
from fate_dp.pipelines.clients import DPHeteroLR, LabelFlip
from fate_dp.pipelines.jobs import job
from fate_dp.pipelines.jobs.flow import FlowUnavailable
from fate_dp.pipelines.jobs.job import JobFailed, check_chain, run_job
from fate_dp.pipelines.jobs.ready import Parties, Tables, joined_tables
from fate_dp.privacy.validation import InvalidArgument

SOURCE = "bank/loans/y"
# One change of a sound chain each, and a part of the sentence that names it.
BREAKS = {
    "three classes, one a fraction": (
        "flip",
        {"classes": [0, 0.5, 2]},
        "classes must be whole numbers below 2^31 where there are more than two",
    ),
    "numbers": ("flip", {"bounds": [0, 1]}, "family binomial trains on labels 0 and 1, but flip has bounds"),
    "minus and plus one": ("flip", {"classes": [-1, 1]}, "family binomial trains on labels 0 and 1"),
    "short key": ("model", {"he_param": {"key_length": 1024}}, "he_param.key_length"),
    "no such family": ("model", {"family": "poisson"}, "family must be one of"),
    "gaussian by epochs": (
        "model",
        {"family": "gaussian", "solver": "per_epoch"},
        "family gaussian needs solver cross_product",
    ),
    "rule that is not linear": (
        "model",
        {"solver": "cross_product", "early_stop": "weight_diff"},
        "early_stop is weight_diff",
    ),
    "another source": (
        "model",
        {"label_source": "bank/others/y"},
        "label_source is bank/others/y, but flip flips the labels of",
    ),
    "no epochs": ("model", {"epochs": 0}, "epochs must be a whole number at least 1, got 0."),
    "noise and scores": (
        "model",
        {"privacy": "record", "train_scores": True},
        "With privacy record, train_scores must be false",
    ),
    "two arbiters": ("arbiters", ["1", "2"], "names 2 arbiters; this task needs at most one"),
    "no host": ("hosts", [], "names no host"),
}
HARMLESS = [{}, {"epochs": 50}, {"tol": 0}, {"train_scores": True}, {"flipback": {"mode": "none"}}, {"batch_size": 400}]


def plan_of(flip=None, model=None, arbiters=("10001",), hosts=("10000",), between=(), stage=None) -> JobPlan:
    def reads(task, key):
        return {"data": {key: {"task_output_artifact": {"producer_task": task, "output_artifact_key": "output_data"}}}}

    tasks = {
        "flip": {"component_ref": "label_flip", "parameters": {"epsilon": 2.0, "label_source": SOURCE, **(flip or {})}}
    }
    last = "flip"
    for name in between:
        tasks[name] = {"component_ref": name, "inputs": reads(last, "input_data")}
        last = name
    key = "cv_data" if stage == "cross_validation" else "train_data"
    tasks["model"] = {
        "component_ref": "dp_hetero_lr",
        "parameters": model or {},
        "inputs": reads(last, key),
        "stage": stage,
    }
    parties = {"guest": ["9999"], "host": hosts, "arbiter": arbiters}
    return JobPlan(
        {
            "stage": "train",
            "tasks": tasks,
            "parties": [{"role": role, "party_id": list(ids)} for role, ids in parties.items()],
        }
    )


def broken(name, **others) -> JobPlan:
    where, change, _ = BREAKS[name]
    given = {**others, where: {**(others.get(where) or {}), **change} if isinstance(change, dict) else change}
    return plan_of(**given)


@pytest.mark.parametrize("name", BREAKS)
def test_an_impossible_chain_is_refused_by_one_sentence(name):
    sentence = refusal_of_plan(broken(name))
    assert BREAKS[name][2] in sentence and "\n" not in sentence
    assert sentence.endswith(" So model could not train on these flips, and nothing was charged.")
    with pytest.raises(InvalidArgument):
        check_plan(broken(name), "flip")


def test_seeded_chains_with_steps_in_between_are_refused_iff_they_are_broken():
    seeded = random.Random(20)
    for _ in range(200):
        between = seeded.sample(["feature_scale", "hetero_feature_selection", "flipback"], seeded.randrange(4))
        others = {"between": between, "model": seeded.choice(HARMLESS)}
        assert refusal_of_plan(plan_of(**others)) is None
        assert refusal_of_plan(broken(seeded.choice(list(BREAKS)), **others)) is not None


def test_folds_are_checked_like_a_training():
    assert refusal_of_plan(plan_of(stage="cross_validation")) is None
    assert "privacy is record, but cross-validation reads" in refusal_of_plan(
        plan_of(model={"privacy": "record"}, stage="cross_validation")
    )


def test_regression_takes_any_classes_and_other_components_none_of_these_rules():
    assert refusal_of_plan(plan_of(flip={"classes": [0, 1, 2]}, model={"family": "gaussian"})) is None
    plan = plan_of(flip={"classes": [0, 1, 2]})
    plan.dag["tasks"]["model"]["component_ref"] = "coordinated_lr"
    assert trainings_on(plan, plan.task("flip")) == [] and refusal_of_plan(plan) is None


MORE = {"classes": [3, 0, 1, 2]}
TRAINED_ON_TWO = {
    "sigmoid": (
        {"sigmoid": "exact"},
        "There are 4 classes, [0, 1, 2, 3], but sigmoid is exact; more than two are trained with",
    ),
    "solver": ({"solver": "per_epoch"}, "but solver is per_epoch"),
    "optimizer": ({"optimizer": {"method": "adam"}}, "but optimizer.method is adam"),
    "flipback": ({"flipback": {"mode": "posterior"}}, "but flipback.mode is posterior"),
    "noise": ({"privacy": "record"}, "but privacy is record"),
    "other classes": ({"classes": [0, 1, 2]}, "classes must be those of the training, [0, 1, 2, 3], got [0, 1, 2]."),
    "two classes": ({"classes": [0, 1]}, "classes must be those of the training, [0, 1, 2, 3], got [0, 1]."),
    "numbers": (
        {"family": "gaussian", "classes": [0, 1, 2]},
        "classes must be left out with family gaussian, which fits numbers, got [0, 1, 2].",
    ),
}


@pytest.mark.parametrize(
    "model", [{}, {"classes": [0, 1, 2, 3]}, {"flipback": {"mode": "auto"}}, {"train_scores": True}]
)
def test_more_than_two_classes_pass_where_the_training_takes_them(model):
    for stage in ("train", "cross_validation"):
        assert refusal_of_plan(plan_of(flip=MORE, model=model, stage=stage)) is None


@pytest.mark.parametrize("name", TRAINED_ON_TWO)
def test_more_than_two_classes_are_refused_with_what_knows_two(name):
    model, sentence = TRAINED_ON_TWO[name]
    found = refusal_of_plan(plan_of(flip=MORE, model=model))
    assert sentence in found and found.endswith(" So model could not train on these flips, and nothing was charged.")


@pytest.mark.parametrize(
    "component, parameters, used",
    [
        ("flipback", {}, "revise"),
        ("share_lr", {}, "train on"),
        ("share_lr", {"family": "gaussian"}, None),
        ("dp_binning", {}, "count"),
        ("dp_binning", {"privacy": "label", "epsilon": 1.0}, None),
    ],
)
def test_components_of_two_classes_are_refused_before_flips_are_charged(component, parameters, used):
    plan = plan_of(flip=MORE, between=["align"])
    plan.dag["tasks"]["model"] |= {"component_ref": component, "parameters": parameters}
    expected = (
        f"{component} works on two classes, but the flips have the classes [0.0, 1.0, 2.0, 3.0]. So model could not {used} "
        "these flips, and nothing was charged."
    )
    assert refusal_of_plan(plan) == (expected if used else None)
    plan.dag["tasks"]["flip"]["parameters"].pop("classes")
    assert refusal_of_plan(plan) is None


def pipeline(**flip):
    from fate_client.pipeline import FateFlowPipeline

    reader, psi = joined_tables(Parties(), Tables("bank", "loans", "payments"))
    flips = LabelFlip("flip", epsilon=2.0, label_source=SOURCE, input_data=psi.outputs["output_data"], **flip)
    model = DPHeteroLR("model", train_data=flips.outputs["output_data"])
    return (
        FateFlowPipeline()
        .set_parties(guest="9999", host=["10000"], arbiter="10001")
        .add_tasks([reader, psi, flips, model])
    )


class Recorded:
    """A client that notes what is submitted, and refuses it."""

    def __init__(self):
        self.submitted, self.job = [], self

    def submit(self, dag_schema):
        self.submitted.append(dag_schema)
        return {"code": 1, "message": "full"}


def test_run_job_refuses_before_it_submits_and_takes_an_address_as_text(monkeypatch):
    client = Recorded()
    monkeypatch.setattr(
        job, "connect", lambda address, **_: client if (address.host, address.port) == ("127.0.0.1", 9380) else None
    )
    with pytest.raises(JobFailed, match="the flips have the classes .*So model could not train on these flips"):
        run_job(pipeline(classes=[-1, 1]), "127.0.0.1:9380")
    assert client.submitted == []
    with pytest.raises(JobFailed, match="FATE-Flow at 127.0.0.1:9380 refused the job"):
        run_job(pipeline(), "127.0.0.1:9380")
    check_chain(client.submitted[0])
    with pytest.raises(FlowUnavailable, match="^address '127.0.0.1' is not an address; give HOST:PORT"):
        run_job(pipeline(), "127.0.0.1")


# --- what FATE-Flow keeps of a job ---


@pytest.fixture
def task(tmp_path, monkeypatch):
    """A training behind label_flip, psi and a reader, as FATE-Flow lays its files; the reader ran twice."""
    party = tmp_path / "jobs" / "202611230123559378900" / "host" / "10000"

    def write(name, component, version="0", parameters=None, **producers):
        folder = party / name / version / "input"
        folder.mkdir(parents=True)
        inputs = {
            key: {"producer_task": producer, "output_artifact_key": "output_data"}
            for key, producer in producers.items()
        }
        content = {
            "component": component,
            "parameters": parameters or {},
            "input_artifacts": {"data": inputs, "model": None},
            "conf": {"federation": {"metadata": {"parties": {"parties": [{"role": "host", "partyid": "10000"}]}}}},
        }
        (folder / "preprocess_parameters.yaml").write_text(yaml.safe_dump(content))
        (folder / "task_parameters.yaml").write_text("{}")
        return folder / "task_parameters.yaml"

    write("reader_0", "reader", parameters={"namespace": "bank", "name": "typo"})
    write("reader_0", "reader", "1", parameters={"namespace": "bank", "name": "payments"})
    write("reader_1", "reader", parameters={"namespace": "bank", "name": "held_out"})
    write("psi_0", "psi", input_data="reader_0")
    write("flip", "label_flip", input_data="psi_0")
    (party.parents[1] / "dag.yaml").write_text(yaml.safe_dump({"dag": plan_of().dag, "schema_version": "2.2.0"}))
    path = write("model", "dp_hetero_lr", train_data="flip", validate_data="reader_1")
    monkeypatch.setattr(sys, "argv", ["fate", "component", "execute", "--config", str(path), "--other", "x"])
    return path


def test_a_task_finds_the_tables_behind_it(task):
    assert JobFiles.of_this_task().task == "model"
    assert tables_of_this_task("train_data") == ("bank/payments",)
    assert tables_of_this_task("validate_data") == ("bank/held_out",)
    assert tables_of_this_task() == ("bank/held_out", "bank/payments") and tables_of_this_task("test_data") == ()
    assert origin_of_this_task("train_data") == ("bank/payments",) and origin_of_this_task("test_data") is None


@pytest.mark.parametrize(
    "channel, tables",
    [
        ({"namespace": "bank", "name": "payments"}, ("bank/payments",)),
        ({"namespace": "bank", "name": "payments", "job_id": "1"}, ()),
        ({"namespace": "bank", "name": "payments", "producer_task": "reader_0"}, ()),
        ({"namespace": "bank"}, ()),
        ({"dataset_id": "7"}, ()),
    ],
)
def test_a_stored_table_that_a_task_reads_without_a_reader_is_named(task, channel, tables):
    """As psi does in a job without one; what an earlier job wrote has no name here."""
    path = task.parents[3] / "psi_0" / "0" / "input" / "preprocess_parameters.yaml"
    content = yaml.safe_load(path.read_text())
    content["input_artifacts"]["data"]["input_data"] = {
        **dict.fromkeys(("producer_task", "output_artifact_key", "job_id")),
        **channel,
    }
    path.write_text(yaml.safe_dump(content))
    assert tables_of_this_task("train_data") == tables and origin_of_this_task("train_data") == (tables or None)
    assert {"psi_0", "flip"} <= set(JobFiles(task).so_far().dag["tasks"])


def test_elsewhere_a_party_knows_what_it_has_run_so_far(task):
    plan = JobFiles(task).so_far()
    assert {name: plan.task(name).component for name in plan.dag["tasks"]} == {
        "reader_0": "reader",
        "reader_1": "reader",
        "psi_0": "psi",
        "flip": "label_flip",
        "model": "dp_hetero_lr",
    }
    assert plan.reads_directly("flip", "psi_0", ("input_data",)) and plan.receivers("reader_1") == [
        ("model", "validate_data")
    ]
    assert plan.parties("host") == ["10000"]


def test_the_plan_is_known_where_the_job_was_submitted(task):
    assert JobFiles(task).plan().dag == plan_of().dag
    (task.parents[5] / "dag.yaml").unlink()
    assert JobFiles(task).plan() is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[",
        "- 1",
        "input_artifacts: {data: {a: 1, b: [1, {producer_task: 7}]}}",
        "input_artifacts: {data: {a: {producer_task: ../../../secret}}}",
    ],
)
def test_files_that_say_nothing_name_nothing(task, content):
    (task.parent / "preprocess_parameters.yaml").write_text(content)
    assert tables_of_this_task() == () and origin_of_this_task() is None


def test_a_process_that_fate_flow_did_not_start_knows_nothing(monkeypatch, tmp_path):
    for arguments in (
        ["pytest"],
        ["pytest", "--config"],
        ["pytest", "--config", str(tmp_path / "task_parameters.yaml")],
    ):
        monkeypatch.setattr(sys, "argv", arguments)
        assert JobFiles.of_this_task() is None and tables_of_this_task() == ()
