"""What shows the guest joint scores is counted at the host over all jobs; what relabels is recognised in later ones."""
import json

import numpy as np
import pandas as pd
import pytest

from .scenarios import (
    ARBITER,
    GUEST,
    HOST,
    SOURCE,
    Artifact,
    Scenario,
    assert_refused,
    flip,
    frame_at,
    play,
    role_of,
    tables,
    train,
    weights,
)

ROWS = tables(rows=140, guest=3, hosts=(8,), seed=4)
TABLES = {party: table.head(100).reset_index(drop=True) for party, table in ROWS.items()}
HELD_OUT = {party: table.tail(40).reset_index(drop=True) for party, table in ROWS.items()}
NEXT_TO_TRAINING = {party: pd.concat([table.tail(39), table.head(1)], ignore_index=True) for party, table in ROWS.items()}
ALL, PAIR = (GUEST, HOST, ARBITER), (GUEST, HOST)
SWAPS = {"mode": "swap", "every": 1, "fraction": 0.05, "max_rounds": 2}


def unlabelled(tables):
    """The guest asks for scores only: true labels of training rows must not enter a table again."""
    return {**tables, GUEST: tables[GUEST].drop(columns="y")}


def start(seed):
    return {"method": "kaiming", "fill_val": 0.0, "fit_intercept": True, "random_state": seed}


def predict(ctx, earlier, tables, of, new_weights=False):
    """dp_hetero_lr's predict stage with the model of an earlier scenario, as FATE-Flow runs it: with the arbiter."""
    from fate_dp.components.dp_hetero_lr import predict as stage

    if role_of(ctx) == "arbiter":
        return stage.predict_arbiter(ctx)
    document = json.loads(json.dumps(earlier[of].value["model"]))
    if new_weights and role_of(ctx) == "host":
        document["data"]["estimator"]["param"]["coef_"][0] = [0.125]
    frame = frame_at(ctx, tables)
    if role_of(ctx) == "host":
        return stage.predict_host(ctx, document, frame)
    return {"scored": stage.predict_guest(ctx, document, frame).as_pd_df()}


def revise(ctx, earlier, labels_of, scores_of, mode="swap", fraction=0.1, rows=100, wrong_labels=False):
    """The flipback component between two trainings."""
    from fate_dp.components.common.pass_through import pass_through
    from fate_dp.components.flipback import guest

    if role_of(ctx) == "host":
        return pass_through(ctx, Artifact(frame_at(ctx, TABLES)), Artifact())
    labels = earlier[labels_of].value["table"]
    scored = earlier[scores_of].value["scored"][["sample_id", "id", "label", "predict_score"]].head(rows)
    scored = scored.rename(columns={"label": "y"}).assign(predict_score=scored["predict_score"].astype(float))
    if wrong_labels:
        scored = scored.assign(y=1 - scored["y"].astype(int))
    label_type = "float64" if labels["y"].dtype == float else "int32"
    written = Artifact()
    guest.revise_labels(
        ctx, Artifact(frame_at(ctx, {GUEST: labels}, label_type=label_type)), Artifact(frame_at(ctx, {GUEST: scored})),
        written, mode=mode, fraction=fraction,
    )  # fmt: skip
    return {"table": written.frame.as_pd_df()}


def cross_validate(ctx, earlier, tables, labels_of, n_splits, score_cap=None):
    from fate_dp.components.dp_hetero_lr import cross_validation as stage
    from fate_dp.components.dp_hetero_lr.settings import TrainSettings, cv_param, flipback

    from .scenarios import raise_score_cap

    settings = TrainSettings(epochs=2, init_param=start(5), tol=0, flipback=flipback({"mode": "none"}))
    folds = cv_param({"n_splits": n_splits})
    if role_of(ctx) == "arbiter":
        return stage.validate_arbiter(ctx, settings, folds)
    if role_of(ctx) == "host":
        if score_cap is not None:
            raise_score_cap(ctx, tables, score_cap)
        return stage.validate_host(ctx, settings, folds, frame_at(ctx, tables))
    frame = frame_at(ctx, {GUEST: earlier[labels_of].value["table"]})
    return [scored.as_pd_df() for scored in stage.validate_guest(ctx, settings, folds, frame)]


def job(home, seed, **arguments):
    arguments = {"epochs": 2, "tol": 0, "labels_of": "flip", "flipback": {"mode": "none"}, **arguments}
    return Scenario(train, {"tables": TABLES, "init_param": start(seed), **arguments}, ALL, home)


def again(function, home, parties=ALL, **arguments):
    return Scenario(function, arguments, parties, home)


HOME, ROUNDS = "scores", "rounds"
SCENARIOS = {
    "flip": again(flip, HOME, PAIR, tables=TABLES, epsilon=0.5),
    "model a": job(HOME, 1),
    "model a again": job(HOME, 1),
    "model b": job(HOME, 2),
    "model c": job(HOME, 3),
    "model c unscored": job(HOME, 3, train_scores=False),
    "held-out rows": again(predict, HOME, tables=HELD_OUT, of="model c unscored"),
    "training rows, known weights": again(predict, HOME, tables=unlabelled(TABLES), of="model b"),
    "training rows, new weights": again(predict, HOME, tables=unlabelled(TABLES), of="model c unscored"),
    "training rows with true labels": again(predict, HOME, tables=TABLES, of="model b"),
    "one training row, new weights": again(predict, HOME, tables=unlabelled(NEXT_TO_TRAINING), of="model c unscored"),
    "misaligned prediction": again(predict, HOME, tables={**HELD_OUT, HOST: HELD_OUT[HOST].head(39)}, of="model b"),
    "cross-validation beyond the cap": again(cross_validate, HOME, tables=TABLES, labels_of="flip", n_splits=5),
    "swapped": again(revise, HOME, PAIR, labels_of="flip", scores_of="model a"),
    "softened": again(revise, HOME, PAIR, labels_of="flip", scores_of="model a", mode="posterior"),
    "scores of a model of other labels": again(revise, HOME, PAIR, labels_of="flip", scores_of="model a", wrong_labels=True),
    "revised twice": again(revise, HOME, PAIR, labels_of="swapped", scores_of="model a"),
    "scores of other rows": again(revise, HOME, PAIR, labels_of="flip", scores_of="model a", rows=99),
    "second training": job(HOME, 7, labels_of="swapped", train_scores=False, flipback=SWAPS, epochs=3),
    "soft training": job(HOME, 8, labels_of="softened", train_scores=False, label_type="float64"),
    "flip for rounds": again(flip, ROUNDS, PAIR, tables=TABLES, epsilon=0.5),
    "two rounds": job(ROUNDS, 1, labels_of="flip for rounds", flipback=SWAPS, epochs=3, train_scores=False),
    "one round too many": job(
        ROUNDS, 2, labels_of="flip for rounds", flipback={**SWAPS, "max_rounds": 1}, epochs=3, train_scores=False
    ),
    "flip for folds": again(flip, "folds", PAIR, tables=TABLES, epsilon=0.5),
    "cross-validation": again(cross_validate, "folds", tables=TABLES, labels_of="flip for folds", n_splits=5, score_cap=5),
}  # fmt: skip
REFUSED = {
    "model c": "joint scores of 1 models, but host 10000 allows only 0 more",
    "training rows, new weights": "the cap is 2",
    "training rows with true labels": "",
    "scores of a model of other labels": "come from a training on other labels",
    "one training row, new weights": "the cap is 2",
    "misaligned prediction": "not the same ids in the same order",
    "cross-validation beyond the cap": "joint scores of 5 models",
    "revised twice": "went through flipback before",
    "scores of other rows": "not of the rows of input_data",
    "one round too many": "joint scores of 1 models, but host 10000 allows only 0 more",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return play(SCENARIOS, tmp_path_factory.mktemp("homes"), ALL)


def shown(runs, name) -> int:
    """Different models whose scores the host's ledger says it has shown on training rows."""
    return sum(entry["rounds"] for entry in runs[name][HOST].ledger["entries"] if entry["counted"])


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in REFUSED])
def test_the_other_jobs_are_not_refused(runs, name):
    assert {outcome.error for outcome in runs[name].values()} == {None}


@pytest.mark.parametrize("name", REFUSED)
def test_a_job_beyond_what_is_allowed_is_refused_at_every_party_before_work(runs, name):
    assert_refused(runs[name], REFUSED[name])
    for outcome in runs[name].values():
        assert {message for _, message, _ in outcome.received} <= {"preflight", "verdict"}


def test_the_default_cap_is_a_quarter_of_the_hosts_features_over_all_jobs(runs):
    assert [shown(runs, name) for name in ("model a", "model b", "model c")] == [1, 2, 2]


def test_the_same_weights_again_count_once(runs):
    np.testing.assert_array_equal(weights(runs["model a"], HOST), weights(runs["model a again"], HOST))
    assert shown(runs, "model a again") == 1
    assert shown(runs, "training rows, known weights") == 2


def test_true_labels_of_training_rows_are_not_scored_beside_the_model(runs):
    outcomes = runs["training rows with true labels"]
    assert "they are not those flips" in outcomes[GUEST].error
    assert outcomes[HOST].error.endswith("refuses to show the labels of this table; its operator can see why.")


def test_a_prediction_on_other_rows_is_noted_but_not_counted(runs):
    assert shown(runs, "held-out rows") == 2
    (noted,) = [entry for entry in runs["held-out rows"][HOST].ledger["entries"] if not entry["counted"]]
    assert noted["parameters"] == {"purpose": "prediction"} and noted["uses"] == 1


def test_predictions_are_the_joint_models(runs):
    scored = runs["held-out rows"][GUEST].value["scored"].set_index("id")
    z = sum(
        np.column_stack([table.filter(like="x"), *([np.ones(40)] if party == GUEST else [])])
        @ weights(runs["model c unscored"], party)
        for party, table in HELD_OUT.items()
    )
    expected = pd.Series(1 / (1 + np.exp(-z)), HELD_OUT[GUEST]["id"])
    np.testing.assert_allclose(scored["predict_score"].astype(float), expected[scored.index], atol=1e-6)
    assert set(scored["type"]) == {"test_set"}


def test_a_job_without_training_scores_shows_none(runs):
    assert runs["model c unscored"][GUEST].value["scored"] is None
    assert shown(runs, "model c unscored") == 2


def test_every_round_of_flipback_counts(runs):
    assert shown(runs, "two rounds") == 2
    (entry,) = runs["two rounds"][HOST].ledger["entries"]
    assert entry["parameters"] == {"purpose": "flipback"} and entry["observer"] == "guest"


def test_every_fold_of_a_cross_validation_counts(runs):
    assert shown(runs, "cross-validation") == 5
    folds = runs["cross-validation"][GUEST].value
    ids = [match_id for fold in folds for match_id in fold["id"]]
    assert sorted(ids) == sorted(TABLES[GUEST]["id"]) and {kind for fold in folds for kind in fold["type"]} == {"validate_set"}


def test_the_flipback_component_costs_nothing_and_says_so(runs):
    before, after = (runs[name][GUEST].ledger for name in ("model c unscored", "swapped"))
    assert before["spent"] == after["spent"] == 0.5
    derived = after["entries"][-1]
    assert derived["mechanism"] == "post-processing" and derived["epsilon"] == 0 and not derived["counted"]
    assert derived["source"] == SOURCE and derived["parameters"]["parent_entry_id"] == after["entries"][0]["entry_id"]


def test_the_flipback_component_swaps_the_labels_that_the_scores_doubt_most(runs):
    flipped = runs["flip"][GUEST].value["table"].set_index("id")["y"].sort_index()
    revised = runs["swapped"][GUEST].value["table"].set_index("id")["y"].sort_index()
    scores = runs["model a"][GUEST].value["scored"].set_index("id")["predict_score"].astype(float).sort_index()
    doubt = (flipped - scores).abs()
    assert set(doubt.nlargest(10).index) == set(flipped.index[flipped != revised])


def test_soft_labels_lie_between_the_classes(runs):
    labels = runs["softened"][GUEST].value["table"]["y"]
    assert ((labels > 0) & (labels < 1)).all() and labels.nunique() > 50


@pytest.mark.parametrize("name", ["second training", "soft training"])
def test_a_training_on_revised_labels_is_recognised_with_the_epsilon_of_the_flips(runs, name):
    privacy = runs[name][GUEST].value["model"]["meta"]["privacy"]
    assert privacy == {
        "epsilon": 0.5, "source": SOURCE, "unit": "label", "relation": "replace_one", "flipback before": True, "flipback": "none",
    }  # fmt: skip


def test_flipback_does_not_run_on_labels_that_went_through_it(runs):
    assert shown(runs, "second training") == 2
