"""The ready-made pipelines of align and share_lr, and the DAG file in conf/."""

from pathlib import Path

import pytest
import yaml

from examples.pipelines import joined_prediction_pipeline, joined_training_pipeline
from fate_dp.pipelines.clients import ShareLR
from fate_dp.pipelines.jobs.ready import Parties, Tables, TrainingPlan

CONF = Path(__file__).parents[2] / "conf"
TABLES = Tables("fate_dp_demo", "guest_train", "host_train")


def plan(epsilon, **training):
    return TrainingPlan(Parties(), TABLES, epsilon, training=training)


def tasks_of(pipeline) -> dict:
    return yaml.safe_load(pipeline.compile().get_dag())["dag"]["tasks"]


def source_of(task, kind, name):
    (channel,) = task["inputs"][kind][name].values()
    channel = channel[0] if isinstance(channel, list) else channel
    return channel["producer_task"], channel["output_artifact_key"]


def test_the_dag_file_is_the_ready_made_pipeline():
    made = joined_training_pipeline(plan(2.0, epochs=30, train_scores=True)).compile().get_dag()
    assert yaml.safe_load((CONF / "joined_shares_lr.yaml").read_text()) == yaml.safe_load(made)


def test_without_epsilon_labels_are_public_and_without_scores_nothing_is_evaluated():
    tasks = tasks_of(joined_training_pipeline(plan(None, reveal="guest")))
    assert set(tasks) == {"reader_0", "align_0", "share_lr_0"}
    assert tasks["align_0"]["parameters"] == {"label_source": "fate_dp_demo/guest_train/y"}
    assert source_of(tasks["share_lr_0"], "model", "alignment") == ("align_0", "alignment")


def test_a_prediction_aligns_the_new_rows_and_brings_the_trained_model():
    trained = joined_training_pipeline(plan(1.0, epochs=3, train_scores=True)).compile()
    pipeline = joined_prediction_pipeline(trained, Parties(), TABLES)
    tasks = tasks_of(pipeline)
    assert set(tasks) == {"reader_0", "align_1", "share_lr_0", "evaluation_0"}
    task = tasks["share_lr_0"]
    assert source_of(task, "model", "alignment") == ("align_1", "alignment")
    assert source_of(task, "model", "input_model") == ("share_lr_0", "output_model")
    assert list(task["inputs"]["model"]["input_model"]) == ["model_warehouse"]
    assert source_of(task, "data", "test_data") == ("align_1", "output_data")


@pytest.mark.parametrize(
    "given, sentence",
    [
        ({"reveal": "everybody"}, "reveal must be one of both, guest, host, nobody, got 'everybody'."),
        ({"optimizer": {"method": "adam"}}, "optimizer.method must be one of sgd, got 'adam'."),
        ({"optimizer": {"penalty": "l1"}}, "optimizer.penalty must be"),
        ({"init_param": {"method": "random"}}, "init_param.method must be one of zeros, got 'random'."),
        ({"init_param": {"fill_val": 1.0}}, "a key of init_param must be one of"),
        ({"early_stop": "weight_diff"}, "early_stop must be one of diff, abs, got 'weight_diff'."),
        ({"early_stop": "abs", "family": "gaussian"}, "early_stop must be diff with family gaussian"),
        ({"train_scores": "yes"}, "train_scores must be true or false, got 'yes'."),
        ({"he_param": {"key_length": 1024}}, "key_length must be"),
    ],
)
def test_bad_parameters_are_refused_before_submission(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        ShareLR("share_lr_0", **given)
