"""dp_hetero_lr refuses bad input before any work, with one sentence that every party gets."""

import numpy as np
import pytest

from .scenarios import ARBITER, GUEST, HOST, Scenario, assert_refused, play, tables, train

TABLES = tables(rows=100, guest=3, hosts=(8,))
PREFLIGHT = {"preflight", "verdict"}


def changed(party, **columns):
    table = TABLES[party].copy()
    for name, value in columns.items():
        if value is None:
            table = table.drop(columns=name)
        else:
            table[name] = value(table[name]) if callable(value) else value
    return {**TABLES, party: table}


def one_row(value):
    return lambda column: column.where(column.index != 11, value)


def on(tables=TABLES, parties=(GUEST, HOST, ARBITER), public=True, **arguments):
    return Scenario(train, {"tables": tables, "public": public, "epochs": 1, **arguments}, parties)


def at_another_version(ctx, earlier, **arguments):
    """The host has another version of this plugin."""
    from unittest import mock

    from fate_dp.components.common import preflight

    if ctx.local.role != "host":
        return train(ctx, earlier, **arguments)
    with mock.patch.object(preflight, "plugin_version", lambda: "0.0.9"):
        return train(ctx, earlier, **arguments)


REFUSED = {
    "another version": (
        Scenario(at_another_version, on().arguments, (GUEST, HOST, ARBITER)),
        "host 10000 runs FATE-DP 0.0.9 and guest 9999 runs",
    ),
    "labels neither flipped nor public": (on(public=False), "training labels"),
    "constant column": (on(changed(HOST, x5=2.5)), "is constant"),
    "constant column at the guest": (on(changed(GUEST, x1=0.0)), "is constant"),
    "NaN feature": (on(changed(HOST, x4=one_row(np.nan))), "got a missing or infinite value"),
    "infinite feature": (on(changed(GUEST, x2=one_row(-np.inf))), "got a missing or infinite value"),
    "no features": (on({**TABLES, HOST: TABLES[HOST][["sample_id", "id"]]}), "no feature columns"),
    "no rows": (on({party: table.head(0) for party, table in TABLES.items()}), "no ids in common"),
    "other ids": (on(changed(HOST, id=[f"other {row}" for row in range(100)])), "not the same ids in the same order"),
    "other order": (
        on({**TABLES, HOST: TABLES[HOST].assign(id=TABLES[HOST]["id"].to_numpy()[::-1])}),
        "not the same ids in the same order",
    ),
    "fewer rows": (on({**TABLES, HOST: TABLES[HOST].head(90)}), "not the same ids in the same order"),
    "duplicate ids": (
        on({party: table.assign(id=one_row("person 0001")(table["id"])) for party, table in TABLES.items()}),
        "more than once",
    ),
    "host with label": (on(changed(HOST, y=1)), "only the guest has labels"),
    "guest without label": (on(changed(GUEST, y=None)), "no label column"),
    "one class": (on(changed(GUEST, y=1)), "of one class"),
    "labels of minus and plus one": (on(changed(GUEST, y=lambda labels: 2 * labels - 1)), "outside 0 to 1"),
    "missing label": (on(changed(GUEST, y=one_row(np.nan)), label_type="float64"), "label is missing"),
    "text labels": (
        on(changed(GUEST, y=lambda labels: labels.map({0: "no", 1: "yes"})), label_type="str"),
        "must be numeric",
    ),
    "small batches": (on(batch_size=79), "at least 80, 10 times the largest feature count"),
    "small table": (on({party: table.head(79) for party, table in TABLES.items()}), "all 79 rows"),
    "unknown parameter of the optimiser": (
        on(optimizer={"method": "sgd", "penalty": "l2", "alpha": 1.0, "optimizer_params": {"lerning_rate": 0.1}}),
        "lerning_rate",
    ),
    "missing parameter of the schedule": (
        on(learning_rate_scheduler={"method": "step", "scheduler_params": {}}),
        "step_size",
    ),
    "binary columns and scores": (
        on(changed(HOST, x5=lambda column: 1.0 * (column > 0)), train_scores=True),
        "host 10000 has columns of few values",
    ),
    "binary columns and a correction": (
        on(changed(HOST, x5=lambda column: 1.0 * (column > 0)), sigmoid="exact", sigmoid_rounds=1, epochs=4),
        "name the table in few_valued_scores of the policy",
    ),
    "binary columns in few rows": (
        on(changed(HOST, x5=lambda column: 1.0 * (column > 0))),
        "40 times all parties' features, where a host has columns of few values",
    ),
    "two guests": (on(parties=(GUEST, ("guest", "9998"), HOST, ARBITER)), "2 guests"),
    "no host": (on(parties=(GUEST, ARBITER)), "no host"),
    "no arbiter": (on(parties=(GUEST, HOST), solver="per_epoch"), "0 arbiters"),
    "too fast": (
        on(optimizer={"method": "sgd", "penalty": "l2", "alpha": 0.1, "optimizer_params": {"lr": 1e9}}),
        "lower the learning rate",
    ),
    "a rule that is not linear": (on(solver="cross_product", early_stop="weight_diff"), "early_stop is weight_diff"),
    "two arbiters": (on(parties=(GUEST, HOST, ARBITER, ("arbiter", "10003"))), "2 arbiters"),
    "too many score releases": (
        on(score_cap=0, sigmoid="exact", sigmoid_rounds=1, epochs=4),
        "host 10000 allows only 0 more",
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    scenarios = {name: scenario for name, (scenario, _) in REFUSED.items()}
    return play(scenarios, tmp_path_factory.mktemp("homes"), (GUEST, HOST, ARBITER))


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_alike_at_every_party(runs, name):
    assert_refused(runs[name], REFUSED[name][1])


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_is_sent_or_recorded_before_a_refusal(runs, name):
    for outcome in runs[name].values():
        assert {message for _, message, _ in outcome.received} <= PREFLIGHT
        assert outcome.ledger["entries"] == []


def test_a_refusal_names_the_party_whose_input_is_bad(runs):
    assert runs["constant column"][ARBITER].error.startswith("host 10000: ")
    assert runs["constant column at the guest"][HOST].error.startswith("guest 9999: ")


def test_a_column_is_named_to_its_own_party_alone(runs):
    assert "'x5'" in runs["constant column"][HOST].error and "x5" not in runs["constant column"][GUEST].error
