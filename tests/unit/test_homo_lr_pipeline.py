"""The study's job before it is submitted, and what is read from its outputs."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from examples.credit_risk import flow
from examples.credit_risk.flow import (
    TableSchema,
    check_schemas,
    losses_of,
    measures_of,
    named_weights,
    scores_of,
    table_schema,
)
from examples.credit_risk.homo_lr import FULL_BATCH, HomoLRSettings, study_pipeline
from examples.pipelines import Federation, StudyTables
from fate_dp.pipelines.jobs.flow import FlowUnavailable
from fate_dp.pipelines.jobs.job import NoOutput
from fate_dp.privacy.validation import InvalidArgument

CONF = Path(__file__).parents[2] / "conf"
TEST = TableSchema("bank/test", 10, "loan_status", ("a", "b", "c"))
TRAINING = replace(TEST, name="bank/host_1_train")


def dag(federation=Federation(), tables=StudyTables(), settings=HomoLRSettings()):
    return in_order(study_pipeline(federation, tables, settings).compile().get_dag())


def in_order(text):
    """A DAG file's content; fate_client writes tasks that another waits for, and ids of a role, in any order."""
    return with_sorted_texts(yaml.safe_load(text)["dag"])


def with_sorted_texts(content):
    if isinstance(content, dict):
        return {key: with_sorted_texts(value) for key, value in content.items()}
    if isinstance(content, list):
        items = [with_sorted_texts(item) for item in content]
        return sorted(items) if all(isinstance(item, str) for item in items) else items
    return content


def parties_of(task):
    return {party["role"]: party["party_id"] for party in task["parties"]}


def test_the_dag_file_is_the_ready_made_pipeline():
    assert in_order((CONF / "lending_club_homo_lr.yaml").read_text()) == dag()


def test_the_dag_file_holds_the_sources_parameters():
    told = in_order((CONF / "lending_club_homo_lr.yaml").read_text())["tasks"]["homo_lr_0"]["parameters"]
    assert told["optimizer"] == {"method": "rmsprop", "penalty": "l2", "alpha": 1.0, "optimizer_params": {"lr": 0.01}}
    assert told["batch_size"] == FULL_BATCH and told["init_param"] == {"method": "zeros", "fit_intercept": True}


def test_every_party_trains_on_its_own_table_and_only_the_guest_sees_test_rows():
    made = dag(Federation("1", ("2", "3", "4"), "5"), StudyTables("bank", "held_out"))
    read = {
        (party, task): told["parameters"]
        for party, tasks in made["party_tasks"].items()
        for task, told in tasks["tasks"].items()
    }
    assert read == {
        ("guest_1", "reader_0"): {"namespace": "bank", "name": "guest_1_train"},
        ("guest_1", "reader_1"): {"namespace": "bank", "name": "held_out"},
        **{(f"host_{host}", "reader_0"): {"namespace": "bank", "name": f"host_{host}_train"} for host in "234"},
    }
    for task in ("reader_1", "homo_lr_1", "evaluation_0"):
        assert parties_of(made["tasks"][task]) == {"guest": ["1"]}
    assert parties_of(made["tasks"]["reader_0"]) == {"guest": ["1"], "host": ["2", "3", "4"]}
    assert "parties" not in made["tasks"]["homo_lr_0"], "the arbiter takes part in training"


def test_the_study_of_two_institutions_has_one_host():
    made = dag(Federation(hosts=("10000",)))
    assert [party["party_id"] for party in made["parties"]] == [["9999"], ["10000"], ["10001"]]


def test_both_scores_are_evaluated_and_the_trained_model_is_the_tested_one():
    settings = HomoLRSettings(threshold=0.4, epochs=3, learning_rate=0.5, alpha=0.2, optimizer="sgd")
    tasks = dag(settings=settings)["tasks"]
    evaluated = tasks["evaluation_0"]["inputs"]["data"]["input_datas"]["task_output_artifact"]
    assert [source["producer_task"] for source in evaluated] == ["homo_lr_0", "homo_lr_1"]
    assert tasks["homo_lr_1"]["inputs"]["model"]["input_model"]["task_output_artifact"]["producer_task"] == "homo_lr_0"
    assert tasks["homo_lr_1"]["parameters"]["threshold"] == tasks["homo_lr_0"]["parameters"]["threshold"] == 0.4
    assert tasks["homo_lr_0"]["parameters"]["epochs"] == 3
    optimizer = tasks["homo_lr_0"]["parameters"]["optimizer"]
    assert (optimizer["method"], optimizer["alpha"], optimizer["optimizer_params"]) == ("sgd", 0.2, {"lr": 0.5})


@pytest.mark.parametrize(
    "parties, sentence",
    [
        ({"hosts": ()}, r"hosts must be a list of at least one party id, got \(\)\."),
        ({"hosts": "10000"}, "hosts must be a list of at least one party id, got '10000'."),
        ({"hosts": ("10000", "9999")}, "ids of the data parties must be different from each other, got .*"),
        ({"guest": 9999}, "party id of the guest must be 1 to 64 letters, digits and underscores, got 9999."),
        ({"arbiter": "a b"}, "party id of the arbiter must be 1 to 64 letters, digits and underscores, got 'a b'."),
        ({"hosts": ("",)}, "party id of the host must be 1 to 64 letters, digits and underscores, got ''."),
    ],
)
def test_a_federation_checks_its_parties(parties, sentence):
    with pytest.raises(InvalidArgument, match=f"^{sentence}$"):
        Federation(**parties)


@pytest.mark.parametrize(
    "name, value, allowed",
    [
        ("epochs", 0, "a whole number of at least 1"),
        ("epochs", True, "a whole number of at least 1"),
        ("epochs", 2.0, "a whole number of at least 1"),
        ("learning_rate", 0.0, "a number above 0"),
        ("learning_rate", float("inf"), "a number above 0"),
        ("alpha", -0.1, "a number of at least 0"),
        ("alpha", float("nan"), "a number of at least 0"),
        ("optimizer", "newton", "one of adam, rmsprop, sgd"),
        ("optimizer", ["sgd"], "one of adam, rmsprop, sgd"),
        ("tol", -1e-4, "a number of at least 0"),
        ("early_stop", "weight_diff", "one of abs, diff"),
        ("threshold", 1.0, "a number between 0 and 1"),
        ("threshold", 0, "a number between 0 and 1"),
        ("batch_size", 0, "a whole number of at least 1"),
    ],
)
def test_settings_check_themselves(name, value, allowed):
    with pytest.raises(InvalidArgument) as refusal:
        HomoLRSettings(**{name: value})
    assert str(refusal.value) == f"The HomoLR setting {name} must be {allowed}, got {value!r}."


@pytest.mark.parametrize(
    "losses, epoch", [((), None), ((0.5,), None), ((0.7, 0.6, 0.5), None), ((0.7, 0.6, 0.6), 3), ((0.7, 0.7, 0.6), 2)]
)
def test_diff_stops_after_the_first_change_below_tol(losses, epoch):
    assert HomoLRSettings(tol=0.01).stop_epoch(losses) == epoch


def test_a_change_of_exactly_tol_does_not_stop_but_a_loss_of_exactly_tol_does():
    assert HomoLRSettings(tol=0.25).stop_epoch((0.75, 0.5)) is None
    assert HomoLRSettings(tol=0.25, early_stop="abs").stop_epoch((0.75, 0.25)) == 2


@given(st.lists(st.floats(0, 5), max_size=30), st.floats(0, 1), st.sampled_from(("diff", "abs")))
def test_no_epoch_before_the_one_where_the_rule_stops_would_stop(losses, tol, rule):
    settings = HomoLRSettings(tol=tol, early_stop=rule)
    epoch = settings.stop_epoch(losses)
    kept = len(losses) if epoch is None else epoch - 1
    assert all(settings.stop_epoch(losses[:end]) is None for end in range(kept + 1))
    assert epoch is None or settings.stop_epoch(losses[:epoch]) == epoch


def test_tables_that_fit_pass():
    check_schemas(TEST, [TRAINING, replace(TRAINING, rows=20)], batch_size=20)


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"label": None}, "The table bank/host_1_train has no label; HomoLR needs every row's label at every party."),
        (
            {"features": ("a", "b")},
            "The table bank/host_1_train has 2 features and there are 3 in bank/test; HomoLR adds "
            "weights by position, so that all tables need the same columns in the same order.",
        ),
        (
            {"features": ("a", "c", "b")},
            "The table bank/host_1_train has 'c' as feature 2 and it is 'b' in bank/test; "
            "HomoLR adds weights by position, so that all tables need the same columns in the same order.",
        ),
        (
            {"rows": 21},
            "The table bank/host_1_train has 21 rows, more than the batch_size of 20; raise it, so that every "
            "epoch is one step on all rows.",
        ),
    ],
)
def test_tables_that_would_train_another_model_are_refused(change, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        check_schemas(TEST, [TRAINING, replace(TRAINING, **change)], batch_size=20)
    assert str(refusal.value) == sentence


def test_a_test_table_without_label_is_refused():
    with pytest.raises(InvalidArgument, match="^The table bank/test has no label;"):
        check_schemas(replace(TEST, label=None), [TRAINING], batch_size=20)


def model(weights):
    return {"param": {"model": {"state_dict": {"models.0.weight": [weights], "models.0.bias": [0.5]}}}}


def test_weights_get_the_names_of_the_columns():
    assert named_weights(model([1.0, 2.0]), ("a", "b")) == {"bias": 0.5, "a": 1.0, "b": 2.0}
    with pytest.raises(NoOutput, match="has 2 weights and the tables have 3 features"):
        named_weights(model([1.0, 2.0]), ("a", "b", "c"))


def test_losses_come_in_the_order_of_the_epochs():
    logged = [{"type": "loss", "data": [{"metric": 1.0 / step, "step": step}]} for step in (2, 10, 1)]
    assert losses_of([*logged, {"type": "summary", "data": {}}]) == (1.0, 0.5, 0.1)


def test_scores_are_sorted_by_id():
    table = pd.DataFrame({"id": ["b", "a"], "label": [0, 1], "predict_score": [0.2, 0.9], "type": "test_set"})
    assert scores_of(table).to_dict("list") == {"id": ["a", "b"], "label": [1, 0], "score": [0.9, 0.2]}


def test_measures_are_those_of_the_task_and_no_curves():
    curve = {"metric": "ks_table", "val": {"cuts": [0.0]}}
    data = {
        "homo_lr_0": {"train_set": [{"metric": "auc", "val": 0.9}]},
        "homo_lr_1": {"test_set": [{"metric": "auc", "val": 0.7}, [{"metric": "ks", "val": 0.3}, curve]]},
    }
    assert measures_of([{"data": data}], "homo_lr_1") == {"auc": 0.7, "ks": 0.3}


def answering(monkeypatch, response):
    tables = SimpleNamespace(table=SimpleNamespace(query=lambda **asked: response))
    monkeypatch.setattr(flow, "connect", lambda address: tables)


def test_a_table_that_is_not_there_is_told_from_a_server_that_does_not_answer(monkeypatch):
    answering(monkeypatch, {"code": 7001, "message": "No found table: name[test],namespace[bank]"})
    assert table_schema("127.0.0.1:1", "bank", "test") is None
    answering(monkeypatch, {"code": 100, "retmsg": "Connection refused."})
    with pytest.raises(FlowUnavailable) as refusal:
        table_schema("127.0.0.1:1", "bank", "test")
    assert str(refusal.value) == (
        "FATE-Flow at 127.0.0.1:1 does not tell what the table bank/test is: Connection refused."
    )


def test_numbers_of_numpy_reach_the_dag_file_as_plain_ones():
    plain = HomoLRSettings(epochs=3, alpha=0.5, threshold=0.25)
    given = HomoLRSettings(epochs=numpy.int64(3), alpha=numpy.float32(0.5), threshold=numpy.float64(0.25))
    assert dag(settings=given) == dag(settings=plain)
    assert json.dumps(asdict(given)) == json.dumps(asdict(plain))
