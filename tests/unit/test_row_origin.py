"""A step that promises something refuses rows that this party's tasks before it made of other records, or of labels."""

import json
import sys

import pytest
import yaml

from fate_dp.components.common.preflight import Refusal
from fate_dp.components.common.row_origin import labels_were_flipped, refuse_mixed_rows, refuse_shown_labels
from fate_dp.components.disclosure.declaration import FLIPPED, catalogue, disclosure_of
from fate_dp.components.disclosure.reading import stages_declared
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.report.guarantees import component_names

JOB = "202611230123559378900"
READER = ("reader", {"namespace": "bank", "name": "loans"})


class Job:
    """A job's files at one party, as FATE-Flow lays them; ``task`` runs in this process."""

    def __init__(self, folder, tasks, sources=(), task="step", stage="default"):
        self.party = folder / "jobs" / JOB / "guest" / "9999"
        sources = dict(sources)
        for name, (component, parameters, *producers) in {**tasks, task: ("label_count", {}, *tasks.pop(task))}.items():
            channels = [{"producer_task": each, "output_artifact_key": "output_data"} for each in producers]
            self.write(name, "preprocess", component, parameters, stage, channels)
            source = sources.get(name)
            made = {"input_data": [{"metadata": {"source": source}}]} if source else {}
            self.write(name, "task", component, parameters, stage, made)
        self.arguments = ["fate", "--config", str(self.party / task / "0" / "input" / "task_parameters.yaml")]

    def submitted(self, tasks, **parties):
        """The job's DAG, which FATE-Flow keeps where the job was submitted."""
        named = [{"role": role, "party_id": [party]} for role, party in parties.items()]
        made = {
            name: {
                "component_ref": component,
                "parameters": parameters,
                "inputs": {
                    "data": {
                        "input_data": {
                            "task_output_artifact": [
                                {"producer_task": each, "output_artifact_key": "output_data"} for each in producers
                            ]
                        }
                    }
                },
            }
            for name, (component, parameters, *producers) in tasks.items()
        }
        (self.party.parents[1] / "dag.yaml").write_text(yaml.safe_dump({"dag": {"parties": named, "tasks": made}}))

    def write(self, name, kind, component, parameters, stage, inputs):
        folder = self.party / name / "0" / "input"
        folder.mkdir(parents=True, exist_ok=True)
        if kind == "preprocess":
            # A union reads its tables under one name, every other task each under its own.
            united = {"input_data": inputs} if component == "union" else {}
            each = {"input_data" if number == 0 else f"more_{number}": [one] for number, one in enumerate(inputs)}
            inputs = {"data": (united or each) if inputs else None}
        content = {"component": component, "parameters": parameters, "stage": stage, "input_artifacts": inputs}
        (folder / f"{kind}_parameters.yaml").write_text(yaml.safe_dump(content))

    def add_inputs(self, name, inputs):
        path = self.party / name / "0" / "input" / "preprocess_parameters.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "input_artifacts": inputs}))


def behind(*tasks, **more):
    """A reader, then these (component, parameters) one behind the other, then the step."""
    found, last = {"reader_0": READER}, "reader_0"
    for number, (component, parameters) in enumerate(tasks):
        name = f"{component}_{number}"
        found[name] = (component, parameters, last)
        last = name
    return {**found, **more, "step": (last,)}


SPLIT = {"train_size": 0.8}
UNITED = {"reader_0": READER, "reader_1": READER}
SOUND = {
    "uploaded": behind(),
    "matched": behind(("psi", {})),
    "split by ids": behind(("keyed_split", {"salt": "a"})),
    "public bins": behind(("psi", {}), ("dp_binning", {"privacy": "record"})),
    "columns that the job lists": behind(("hetero_feature_selection", {"method": ["manual"]})),
    "binned for a report alone": behind(("hetero_feature_binning", {})),
    "united": {**UNITED, "union_0": ("union", {}, "reader_0", "reader_1"), "step": ("union_0",)},
    "another task's mixing": {**behind(), "scale": ("feature_scale", {}, "reader_0")},
}
MIXED = {
    "split": (behind(("data_split", SPLIT)), "data_split_0 (data_split)", "Put keyed_split in its place"),
    "sampled": (behind(("sample", {"frac": 0.5})), "sample_0 (sample)", "Put keyed_split"),
    "far behind": (behind(("sample", {"n": 5}), ("psi", {})), "sample_0 (sample)", "Put keyed_split"),
    "scaled": (behind(("feature_scale", {})), "feature_scale_0 (feature_scale)", "public units"),
    "binned": (
        behind(("hetero_feature_binning", {"transform_method": "bin_idx"})),
        "hetero_feature_binning_0 (hetero_feature_binning)",
        "Use dp_binning with public cut points",
    ),
    "the second of two tables": (
        {**UNITED, "data_split_0": ("data_split", SPLIT, "reader_1"), "step": ("reader_0", "data_split_0")},
        "data_split_0 (data_split)",
        "Put keyed_split",
    ),
    "one branch of a union": (
        {
            **UNITED,
            "data_split_0": ("data_split", SPLIT, "reader_1"),
            "union_0": ("union", {}, "reader_0", "data_split_0"),
            "step": ("union_0",),
        },
        "data_split_0 (data_split)",
        "Put keyed_split",
    ),
}
READ_LABELS = {
    "split by label": (behind(("data_split", {**SPLIT, "stratified": True})), "data_split_0"),
    "sampled by label": (behind(("sample", {"frac": {0: 0.5, 1: 1.0}})), "sample_0"),
    "selected by labels": (behind(("hetero_feature_selection", {"method": ["iv"]})), "hetero_feature_selection_0"),
    "weights of evidence": (
        behind(("hetero_feature_binning", {"transform_method": "woe"})),
        "hetero_feature_binning_0",
    ),
    "over-sampled": (behind(("smote", {})), "smote_0"),
    "flipped back": (behind(("label_flip", {}), ("flipback", {})), "flipback_1"),
    "scores": (behind(("dp_homo_nn", {})), "dp_homo_nn_0"),
    "nobody knows": (behind(("their_own", {})), "their_own_0 (their_own)"),
}


@pytest.fixture
def job(tmp_path, monkeypatch):
    def lay(tasks, **more):
        laid = Job(tmp_path, dict(tasks), **more)
        monkeypatch.setattr(sys, "argv", laid.arguments)
        return laid

    return lay


@pytest.mark.parametrize("labels_alone", [False, True])
@pytest.mark.parametrize("tasks", SOUND.values(), ids=SOUND)
def test_rows_that_depend_on_one_uploaded_row_bear_every_promise(job, tasks, labels_alone):
    job(tasks)
    refuse_mixed_rows(labels_alone)


@pytest.mark.parametrize("tasks, named, cure", MIXED.values(), ids=MIXED)
def test_rows_that_depend_on_other_records_bear_a_promise_for_labels_alone(job, tasks, named, cure):
    job(tasks)
    with pytest.raises(Refusal) as refused:
        refuse_mixed_rows(labels_alone=False)
    assert str(refused.value).startswith(
        f"The rows of step must each depend on one uploaded row alone, got those of {named}"
    )
    assert cure in str(refused.value)
    refuse_mixed_rows(labels_alone=True)


@pytest.mark.parametrize("labels_alone", [False, True])
@pytest.mark.parametrize("tasks, named", READ_LABELS.values(), ids=READ_LABELS)
def test_rows_that_depend_on_labels_bear_no_promise(job, tasks, named, labels_alone):
    job(tasks)
    with pytest.raises(Refusal, match="The rows of step must .*, got those of") as refused:
        refuse_mixed_rows(labels_alone)
    assert named in str(refused.value)


EARLIER = {"task_id": "202611220000000000000_data_split_0", "task_name": "data_split_0", "component": "data_split"}
UPLOADED = {
    "task_id": "202611220000000000000_transformer_0",
    "task_name": "transformer_0",
    "component": "dataframe_transformer",
}
OURS = {"task_id": f"{JOB}_psi_0", "task_name": "psi_0", "component": "psi"}


def test_a_table_that_an_earlier_job_wrote_is_refused_wherever_it_enters(job, tmp_path):
    job(behind(("psi", {})), sources={"psi_0": UPLOADED, "step": OURS})
    refuse_mixed_rows(labels_alone=False)
    for task in ("psi_0", "step"):
        job(behind(("psi", {})), sources={task: EARLIER}, task="step")
        with pytest.raises(Refusal, match=r"got a table that task data_split_0 \(data_split\) of an earlier job wrote"):
            row_origin_anew(labels_alone=True)


def test_a_task_that_the_job_inherits_is_one_of_an_earlier_job(job):
    job({**behind(), "step": ("inherited_0",)})
    with pytest.raises(Refusal, match="task inherited_0 of an earlier job"):
        refuse_mixed_rows(labels_alone=False)


@pytest.mark.parametrize("model_id, method, told", [(None, "manual", False), (None, "iv", True), (JOB, "manual", True)])
def test_a_prediction_mixes_rows_as_the_training_of_its_model_did_and_that_of_another_job_may_have(
    job, model_id, method, told
):
    laid = job(behind(select=("hetero_feature_selection", {"method": [method]}, "reader_0")) | {"step": ("selected",)})
    model = {"producer_task": "select", "output_artifact_key": "train_output_model", "model_id": model_id}
    data = {"producer_task": "reader_0", "output_artifact_key": "output_data"}
    laid.write("selected", "preprocess", "hetero_feature_selection", {}, "predict", [])
    laid.add_inputs("selected", {"data": {"test_data": data}, "model": {"input_model": model}})
    if told:
        with pytest.raises(Refusal, match=r"got those of selected \(hetero_feature_selection\), which reads labels"):
            refuse_mixed_rows(labels_alone=True)
    else:
        refuse_mixed_rows(labels_alone=True)


def row_origin_anew(labels_alone):
    """What a task asks once: this process plays several jobs in one folder."""
    from fate_dp.components.common import row_origin

    row_origin._refusal.cache_clear()
    refuse_mixed_rows(labels_alone)


FLIPS = ("label_flip", {"epsilon": 1.0}, "reader_0")
LABELS = {
    "flips": (behind(("label_flip", {})), True),
    "flips, then rows of them": (behind(("label_flip", {}), ("data_split", SPLIT)), True),
    "flipped back": (behind(("label_flip", {}), ("flipback", {})), True),
    "true ones": (behind(("psi", {})), False),
    "rows before any flips": ({**behind(), "flip": FLIPS}, False),
    "flips in one branch of a union": (
        {**UNITED, "flip": FLIPS, "union_0": ("union", {}, "flip", "reader_1"), "step": ("union_0",)},
        False,
    ),
    "flips in both": (
        {
            **UNITED,
            "flip": FLIPS,
            "other": ("label_flip", {}, "reader_1"),
            "union_0": ("union", {}, "flip", "other"),
            "step": ("union_0",),
        },
        True,
    ),
    "an inherited table beside flips": (
        {**UNITED, "flip": FLIPS, "union_0": ("union", {}, "flip", "inherited_0"), "step": ("union_0",)},
        False,
    ),
}


@pytest.mark.parametrize("tasks, flipped", LABELS.values(), ids=LABELS)
def test_labels_are_flips_where_every_way_to_them_leads_through_label_flip(job, tasks, flipped):
    job(tasks)
    assert labels_were_flipped() is flipped


def test_a_process_that_fate_flow_did_not_start_refuses_nothing(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pytest"])
    refuse_mixed_rows(labels_alone=False)
    assert labels_were_flipped()


def dag(tmp_path, between, component, **parameters):
    """A file with a job: a reader, this task and one that promises something."""

    def task(component, parameters, *producers):
        stage, declared = next(iter(stages_declared(component).items()))
        outputs = stages_declared(between[0]).values()
        made = {"before": next(key for each in outputs for key in each["outputs"]["data"]), "reader_0": "output_data"}
        channels = [{"producer_task": each, "output_artifact_key": made[each]} for each in producers]
        inputs = (
            {"data": {next(iter(declared["inputs"]["data"])): {"task_output_artifact": channels}}} if channels else {}
        )
        return {"component_ref": component, "parameters": parameters, "inputs": inputs, "stage": stage}

    tasks = {
        "reader_0": task(*READER),
        "before": task(*between, "reader_0"),
        "step": task(component, parameters, "before"),
    }
    parties = [{"role": "guest", "party_id": ["9999"]}, {"role": "host", "party_id": ["10000"]}]
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({"dag": {"parties": parties, "stage": "train", "tasks": tasks}}))
    return str(path)


@pytest.mark.parametrize(
    "between, component, parameters, refused",
    [
        (("data_split", {"hetero_sync": False}), "dp_homo_nn", {}, True),
        (("keyed_split", {"salt": "a"}), "dp_homo_nn", {}, False),
        (("data_split", {"hetero_sync": False}), "dp_hetero_lr", {"privacy": "record"}, True),
        (("data_split", {"hetero_sync": False}), "dp_hetero_lr", {"privacy": "label"}, False),
        (("data_split", {"hetero_sync": False}), "label_flip", {}, False),
        (("smote", {}), "label_flip", {}, True),
        (("data_split", {"hetero_sync": False}), "dp_binning", {"bins_epsilon": 1.0, "woe": False}, True),
        (("data_split", {"hetero_sync": False}), "dp_binning", {"woe": False}, False),
    ],
)
def test_check_says_which_step_would_refuse_the_job(tmp_path, capsys, between, component, parameters, refused):
    status = main(["check", dag(tmp_path, between, component, **parameters), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [sentence.partition(" must")[0] for sentence in told["refused"]] == ["The rows of step"] * refused
    assert (status, told["status"]) == (1, 1) if refused else not told["refused"]


def test_every_component_says_what_its_rows_depend_on():
    own = [disclosure_of(name) for name in component_names()]
    assert all(found is not None for found in own)
    # Nobody but label_flip writes flips, so the walk knows them by their component.
    assert [each.component for each in own if any(out.labels == FLIPPED for out in each.outputs)] == ["label_flip"]
    for name in (*component_names(), *catalogue()):
        for how in disclosure_of(name).rows:
            assert how.instead[0].islower() and not how.instead.endswith("."), how


def test_labels_that_another_task_shows_are_protected_by_no_step(job):
    tasks = {
        "reader_0": READER,
        "hetero_feature_binning_0": ("hetero_feature_binning", {}, "reader_0"),
        "step": ("dp_scorecard", {"privacy": "label", "epsilon": 1.0}, "reader_0"),
    }
    laid = job(behind())
    refuse_shown_labels("refuse")
    laid.submitted(tasks, guest="9999", host="10000")
    with pytest.raises(Refusal, match="can read every true label"):
        refuse_shown_labels("refuse")
    refuse_shown_labels("off")
