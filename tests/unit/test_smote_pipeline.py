"""Jobs that would split, test on, or flip the labels of over-sampled rows are refused before they are submitted."""

import pytest
import yaml
from fate_client.pipeline import FateFlowPipeline
from fate_client.pipeline.components.fate import DataSplit, Evaluation, FeatureScale, HeteroSecureBoost, HomoLR, Reader

from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.pipelines.clients import LabelFlip, Smote
from fate_dp.pipelines.jobs import job
from fate_dp.pipelines.jobs.job import JobFailed, check_over_sampling


def pipeline_of(*tasks):
    return FateFlowPipeline().set_parties(guest="9999", host=["10000"], arbiter="10002").add_tasks(list(tasks))


def dag_of(*tasks) -> dict:
    return yaml.safe_load(pipeline_of(*tasks).compile().get_dag())


def reader(name="reader"):
    task = Reader(name)
    task.guest.task_parameters(namespace="bank", name="loans")
    task.hosts[0].task_parameters(namespace="bank", name="loans")
    return task


def over_sampler(data, name="balance"):
    return Smote(name, train_data=data, dataset="bank/loans")


def refusal(*tasks) -> str:
    with pytest.raises(JobFailed) as refused:
        check_over_sampling(dag_of(*tasks))
    assert refused.value.job_id is None
    return str(refused.value)


def started():
    first = reader()
    smote = over_sampler(first.outputs["output_data"])
    return first, smote, smote.outputs["train_output_data"]


def test_splitting_first_and_over_sampling_the_training_rows_is_fine():
    first = reader()
    split = DataSplit("split", input_data=first.outputs["output_data"])
    smote = over_sampler(split.outputs["train_output_data"])
    scale = FeatureScale("scale", train_data=smote.outputs["train_output_data"])
    scale_test = FeatureScale(
        "scale_test", test_data=split.outputs["test_output_data"], input_model=scale.outputs["output_model"]
    )
    model = HomoLR(
        "model", train_data=scale.outputs["train_output_data"], validate_data=split.outputs["validate_output_data"]
    )
    score = Evaluation("score", input_datas=[model.outputs["train_output_data"]])
    later = HomoLR("later", test_data=scale_test.outputs["test_output_data"], input_model=model.outputs["output_model"])
    check_over_sampling(dag_of(first, split, smote, scale, scale_test, model, score, later))


def test_smote_before_the_split_is_refused():
    first, smote, rows = started()
    assert refusal(first, smote, DataSplit("split", input_data=rows)) == (
        "Task split would split rows that balance has over-sampled; put data_split before smote."
    )


def test_run_job_refuses_it_before_anything_is_submitted(monkeypatch):
    first, smote, rows = started()
    # Nothing of the client may be used: an object has no `job`.
    monkeypatch.setattr(job, "connect", lambda address: object())
    with pytest.raises(JobFailed, match="put data_split before smote"):
        job.run_job(pipeline_of(first, smote, DataSplit("split", input_data=rows)), FlowAddress("127.0.0.1", 9))


def test_it_is_refused_through_other_tasks_and_in_any_order_of_the_pipeline():
    first, smote, rows = started()
    scale = FeatureScale("scale", train_data=rows)
    split = DataSplit("split", input_data=scale.outputs["train_output_data"])
    assert refusal(split, scale, smote, first).startswith("Task split would split rows that balance has over-sampled")


def test_the_second_of_two_over_samplers_counts_too():
    first = reader()
    other = reader("other")
    smote = over_sampler(first.outputs["output_data"])
    second = over_sampler(other.outputs["output_data"], "second")
    split = DataSplit("split", input_data=second.outputs["train_output_data"])
    assert "that second has over-sampled" in refusal(first, other, smote, second, split)


@pytest.mark.parametrize(
    "task, sentence",
    [
        (
            lambda real, rows: HomoLR("model", train_data=real, validate_data=rows),
            "Task model takes rows that balance has over-sampled as validate_data; models are tested on real rows only.",
        ),
        (
            lambda real, rows: HeteroSecureBoost("trees", train_data=real, validate_data=rows),
            "Task trees takes rows that balance has over-sampled as validate_data; models are tested on real rows only.",
        ),
        (
            lambda real, rows: LabelFlip("flip", input_data=rows, epsilon=1.0, label_source="bank/loans/y"),
            "Task flip would flip labels after balance has made rows from the true ones; put label_flip before smote.",
        ),
        (
            lambda real, rows: over_sampler(rows, "again"),
            "Task again would over-sample rows that balance has over-sampled; one of the two is enough.",
        ),
    ],
)
def test_other_uses_of_synthetic_rows_are_refused(task, sentence):
    first, smote, rows = started()
    assert refusal(first, smote, task(first.outputs["output_data"], rows)) == sentence


def test_test_data_and_folds_of_over_sampled_rows_are_refused():
    def tasks(key):
        channel = {"producer_task": "balance", "output_artifact_key": "train_output_data"}
        inputs = {"data": {key: {"task_output_artifact": [{**channel, "producer_task": "reader"}, channel]}}}
        return {
            "dag": {
                "tasks": {
                    "model": {"component_ref": "dp_hetero_lr", "inputs": inputs},
                    "balance": {"component_ref": "smote"},
                    "reader": {"component_ref": "reader"},
                }
            }
        }

    check_over_sampling(tasks("train_data"))
    for key, words in (
        ("test_data", "as test_data; models are tested on real rows"),
        ("cv_data", "would cross-validate"),
    ):
        with pytest.raises(JobFailed, match=words):
            check_over_sampling(tasks(key))


def test_deploying_the_model_leaves_smote_out():
    first, smote, rows = started()
    model = HomoLR("model", train_data=rows)
    pipeline = pipeline_of(first, smote, model).compile()
    pipeline.deploy([model])
    deployed = pipeline.get_deployed_pipeline()
    assert list(deployed.tasks) == ["model"]
    new = reader("new")
    deployed.model.test_data = new.outputs["output_data"]
    check_over_sampling(dag_of(new, deployed))
