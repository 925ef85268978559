"""What shows the guest joint scores is counted at the host over all jobs; what relabels is recognised in later ones."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from fate_dp.components.dp_hetero_lr.rows import Block
from fate_dp.crypto.slots import encode_features
from fate_dp.privacy.labels.flipback import are_marked
from tests.score_attacks import steps_found

from .messages import numbers
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
    score_lines,
    summary,
    tables,
    train,
    weights,
)

ROWS = tables(rows=140, guest=3, hosts=(8,), seed=4)
TABLES = {party: table.head(100).reset_index(drop=True) for party, table in ROWS.items()}
HELD_OUT = {party: table.tail(40).reset_index(drop=True) for party, table in ROWS.items()}
NEXT_TO_TRAINING = {
    party: pd.concat([table.tail(39), table.head(1)], ignore_index=True) for party, table in ROWS.items()
}
ALL, PAIR = (GUEST, HOST, ARBITER), (GUEST, HOST)
STEP = 2.0**-7
SWAPS = {"mode": "swap", "every": 1, "fraction": 0.05, "max_rounds": 2}


def unlabelled(tables):
    """The guest asks for scores only: true labels of training rows must not enter a table again."""
    return {**tables, GUEST: tables[GUEST].drop(columns="y")}


def start(seed):
    return {"method": "kaiming", "fill_val": 0.0, "fit_intercept": True, "random_state": seed}


def predict(ctx, earlier, tables, of, new_weights=False, true_labels=False):
    """dp_hetero_lr's predict stage with the model of an earlier scenario, as FATE-Flow runs it: with the arbiter."""
    from fate_dp.components.dp_hetero_lr import predict as stage
    from fate_dp.components.dp_hetero_lr.settings import PredictSettings

    if role_of(ctx) == "arbiter":
        return stage.predict_arbiter(ctx)
    document = json.loads(json.dumps(earlier[of].value["model"]))
    if new_weights and role_of(ctx) == "host":
        document["data"]["estimator"]["param"]["coef_"][0] = [0.125]
    frame, settings = frame_at(ctx, tables), PredictSettings(score_step=STEP, true_labels=true_labels)
    if role_of(ctx) == "host":
        return stage.predict_host(ctx, settings, document, frame)
    scored = stage.predict_guest(ctx, settings, document, frame)
    return {"scored": scored.as_pd_df(), "summary": summary(ctx)}


def revise(ctx, earlier, labels_of, scores_of, mode="swap", fraction=0.1, rows=100, wrong_labels=False, shift=0.0):
    """The flipback component between two trainings."""
    from fate_dp.components.common.frames import pass_through
    from fate_dp.components.flipback import guest
    from fate_dp.components.flipback.settings import Settings

    if role_of(ctx) == "host":
        return pass_through(ctx, Artifact(frame_at(ctx, TABLES)), Artifact())
    labels = earlier[labels_of].value["table"]
    scored = earlier[scores_of].value["scored"][["sample_id", "id", "label", "predict_score"]].head(rows)
    scored = scored.rename(columns={"label": "y"}).assign(predict_score=scored["predict_score"].astype(float) + shift)
    if wrong_labels:
        scored = scored.assign(y=1 - scored["y"].astype(int))
    label_type = "float64" if labels["y"].dtype == float else "int32"
    written = Artifact()
    guest.revise_labels(
        ctx,
        Settings(mode, fraction),
        Artifact(frame_at(ctx, {GUEST: labels}, label_type=label_type)),
        Artifact(frame_at(ctx, {GUEST: scored})),
        written,
    )
    return {"table": written.frame.as_pd_df()}


def cross_validate(ctx, earlier, tables, labels_of, n_splits, score_cap=None):
    from fate_dp.components.dp_hetero_lr import train as stage
    from fate_dp.components.dp_hetero_lr.settings import TrainSettings, cv_param, flipback

    from .scenarios import raise_score_cap

    settings = TrainSettings(epochs=2, init_param=start(5), tol=0, flipback=flipback({"mode": "none"}))
    folds = cv_param({"n_splits": n_splits})
    # FATE makes what holds metrics when it is first asked for; contexts made after that share it.
    assert ctx.metrics
    if role_of(ctx) == "arbiter":
        return stage.validate_arbiter(ctx, settings, folds)
    if role_of(ctx) == "host":
        if score_cap is not None:
            raise_score_cap(ctx, tables, score_cap)
        return stage.validate_host(ctx, settings, folds, frame_at(ctx, tables))
    frame = frame_at(ctx, {GUEST: earlier[labels_of].value["table"]})
    return [scored.as_pd_df() for scored in stage.validate_guest(ctx, settings, folds, frame)], summaries(ctx)


def summaries(ctx) -> list:
    return [record["data"] for record in ctx.metrics.handler.get_metrics() if record["name"] == "summary"]


def score_flips(ctx, earlier, labels_of, of, true_labels=False):
    """Predict the table with the flips of one scenario by the model of another."""
    table = earlier[labels_of].value["table"] if role_of(ctx) == "guest" else None
    return predict(ctx, earlier, {**TABLES, GUEST: table}, of, true_labels=true_labels)


def predict_without_key(ctx, earlier, **arguments):
    from fate_dp.components.common.charges import home_of

    if role_of(ctx) == "guest":
        (home_of(ctx).path / "flip.key").unlink()
    return predict(ctx, earlier, **arguments)


def job(home, seed, **arguments):
    arguments = {
        "epochs": 2,
        "tol": 0,
        "labels_of": "flip",
        "flipback": {"mode": "none"},
        "train_scores": True,
        **arguments,
    }
    return Scenario(train, {"tables": TABLES, "init_param": start(seed), **arguments}, ALL, home)


def again(function, home, parties=ALL, **arguments):
    return Scenario(function, arguments, parties, home)


def noisy_training(ctx, earlier, **arguments):
    """A training that would promise every record something, with an epsilon at every data party."""
    own = {} if role_of(ctx) == "arbiter" else {"epsilon": 1.0}
    return train(ctx, earlier, privacy="record", **own, **arguments)


def binary_columns() -> dict:
    """A host with eight standardised binary columns, of as many rows as its losses need."""
    table = tables(rows=460, guest=2, hosts=(8,), seed=6)
    chosen = np.random.default_rng(6).random((460, 8)) < [0.5, 0.3, 0.2, 0.6, 0.4, 0.15, 0.35, 0.25]
    names = table[HOST].columns[-8:]
    table[HOST][names] = (chosen - chosen.mean(axis=0)) / chosen.std(axis=0)
    return table


BINARY = binary_columns()


def consent(ctx):
    """The host's operator lets the scores of its few-valued columns be shown."""
    from fate_dp.components.common.charges import columns_name, home_of
    from fate_dp.privacy.private_files import replace_file

    if role_of(ctx) == "host":
        name = columns_name(BINARY[HOST].columns[-8:])
        replace_file(home_of(ctx).path / "policy.yaml", f"few_valued_scores: [{name!r}]\n".encode())


HOME, ROUNDS, MIXED = "scores", "rounds", "mixed"
SCENARIOS = {
    "flip": again(flip, HOME, PAIR, tables=TABLES, epsilon=0.5),
    "model a": job(HOME, 1),
    "model a again": job(HOME, 1),
    "model b": job(HOME, 2),
    "model c": job(HOME, 3),
    "model b again": job(HOME, 2),
    "model a after the cap": job(HOME, 1),
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
    "scores of a model of other labels": again(
        revise, HOME, PAIR, labels_of="flip", scores_of="model a", wrong_labels=True
    ),
    "revised twice": again(revise, HOME, PAIR, labels_of="swapped", scores_of="model a"),
    "scores of other rows": again(revise, HOME, PAIR, labels_of="flip", scores_of="model a", rows=99),
    "second training": job(HOME, 7, labels_of="swapped", train_scores=False, flipback=SWAPS, epochs=3),
    "soft training": job(HOME, 8, labels_of="softened", train_scores=False, label_type="float64"),
    "noise on revised labels": again(
        noisy_training,
        HOME,
        tables=TABLES,
        labels_of="swapped",
        init_param=start(9),
        epochs=2,
        tol=0,
        train_scores=False,
    ),
    "noise on flips": again(
        noisy_training, HOME, tables=TABLES, labels_of="flip", init_param=start(9), epochs=2, tol=0, train_scores=False
    ),
    "flip for rounds": again(flip, ROUNDS, PAIR, tables=TABLES, epsilon=0.5),
    "two rounds": job(ROUNDS, 1, labels_of="flip for rounds", flipback=SWAPS, epochs=3, train_scores=False),
    "one round too many": job(
        ROUNDS, 2, labels_of="flip for rounds", flipback={**SWAPS, "max_rounds": 1}, epochs=3, train_scores=False
    ),
    "flip at 0.5": again(flip, MIXED, PAIR, tables=TABLES, epsilon=0.5),
    "flip at 7": again(flip, MIXED, PAIR, tables=TABLES, epsilon=7.0),
    "model at 0.5": job(MIXED, 1, labels_of="flip at 0.5", train_scores=False),
    "model at 7": job(MIXED, 2, labels_of="flip at 7", train_scores=False),
    "scores of the other model": again(score_flips, MIXED, labels_of="flip at 0.5", of="model at 7"),
    "mixed labels": again(
        revise, MIXED, PAIR, labels_of="flip at 0.5", scores_of="scores of the other model", mode="posterior"
    ),
    "scores of nobody": again(
        revise, MIXED, PAIR, labels_of="flip at 0.5", scores_of="scores of the other model", shift=1e-9
    ),
    "model of mixed labels": job(MIXED, 3, labels_of="mixed labels", train_scores=False, label_type="float64"),
    "warm start on other flips": job(MIXED, 2, labels_of="flip at 0.5", warm_start="model at 7", train_scores=False),
    "held-out rows after the key is lost": again(predict_without_key, MIXED, tables=HELD_OUT, of="model at 7"),
    "rows without labels after it": again(predict, MIXED, tables=unlabelled(HELD_OUT), of="model at 7"),
    "binary columns, by consent": again(
        train,
        "consent",
        PAIR,
        tables=BINARY,
        public=True,
        epochs=2,
        init_param=start(1),
        train_scores=True,
        before=consent,
    ),
    "flip for folds": again(flip, "folds", PAIR, tables=TABLES, epsilon=0.5),
    "cross-validation": again(
        cross_validate, "folds", tables=TABLES, labels_of="flip for folds", n_splits=5, score_cap=5
    ),
}
REFUSED = {
    "training rows, new weights": "the cap is 2",
    "training rows with true labels": "",
    "scores of a model of other labels": "come from a training on other labels",
    "one training row, new weights": "the cap is 2",
    "misaligned prediction": "not the same ids in the same order",
    "cross-validation beyond the cap": "joint scores of 5 models",
    "held-out rows after the key is lost": "",
    "scores of nobody": "scores are not known to the guest's ledger",
    "revised twice": "went through flipback before",
    "scores of other rows": "not of the rows of input_data",
    "noise on revised labels": "The labels went through flipback, which computed each of them from all records",
    "one round too many": "joint scores of 1 models, but host 10000 allows only 0 more; use fewer flipback or sigmoid rounds, "
    "or ask its operator, who changes that with `fate-dp cap`.",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return play(SCENARIOS, tmp_path_factory.mktemp("homes"), ALL)


def shown(runs, name) -> int:
    """Different models whose scores the host's ledger says it has shown on training rows."""
    return sum(entry["rounds"] for entry in score_lines(runs[name][HOST]) if entry["counted"])


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


def test_without_a_release_left_the_job_trains_and_leaves_the_scores_out(runs):
    np.testing.assert_array_equal(weights(runs["model c"], HOST), weights(runs["model c unscored"], HOST))
    assert runs["model c"][GUEST].value["scored"] is None
    told = {party: runs["model c"][party].value["summary"]["joint scores of training rows"] for party in (GUEST, HOST)}
    assert told[GUEST].startswith("left out: no release is left of the table of host 10000")
    assert told[HOST].startswith("left out: 2 of at most 2 models were shown; `fate-dp cap columns:")
    assert runs["model c unscored"][GUEST].value["summary"]["joint scores of training rows"] == "not asked for"
    assert "scores" not in {message for _, message, _ in runs["model c"][GUEST].received}


def test_a_repeated_job_shows_its_scores_whatever_is_left(runs):
    """The same weights were shown before, so that nobody is charged, and the cap, which is spent, is no obstacle."""
    for name in ("model b again", "model a after the cap"):
        assert runs[name][GUEST].value["scored"] is not None and shown(runs, name) == 2
        assert runs[name][GUEST].value["summary"]["joint scores of training rows"] == "shown"


def test_the_same_weights_again_count_once(runs):
    np.testing.assert_array_equal(weights(runs["model a"], HOST), weights(runs["model a again"], HOST))
    assert shown(runs, "model a again") == 1
    assert shown(runs, "training rows, known weights") == 2


def test_true_labels_of_training_rows_are_not_scored_beside_the_model(runs):
    outcomes = runs["training rows with true labels"]
    assert "they are not those flips" in outcomes[GUEST].error
    assert outcomes[HOST].error.endswith("refuses to show the labels of this table; its operator can see why.")


def test_after_a_lost_key_labels_that_may_be_true_ones_of_released_records_are_not_scored(runs):
    assert "released under a key that is gone" in runs["held-out rows after the key is lost"][GUEST].error


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
    # The host's part is rounded to multiples of the step; the slope of the sigmoid is a quarter at most.
    np.testing.assert_allclose(scored["predict_score"].astype(float), expected[scored.index], atol=STEP / 4 + 1e-6)
    assert set(scored["type"]) == {"test_set"}


def test_a_job_without_training_scores_shows_none(runs):
    assert runs["model c unscored"][GUEST].value["scored"] is None
    assert shown(runs, "model c unscored") == 2


def test_binary_columns_are_read_off_exact_scores_and_not_off_those_that_the_guest_gets(runs):
    """Once one message showed all eight columns of every row, by default. Now a host must consent, and rounds."""
    outcomes = runs["binary columns, by consent"]
    (shown_scores,) = [value for _, name, value in outcomes[GUEST].received if name == "scores"]
    table = BINARY[HOST].set_index("id").loc[outcomes[HOST].value["order"]]
    features, trained = table[table.columns[-8:]].to_numpy(), weights(outcomes, HOST)
    exact = Block(0, encode_features(features)).scores(trained)
    received = np.array(numbers(shown_scores)) * STEP
    assert np.abs(received - exact).max() < STEP * (1 + 1e-3) and (received != exact).all()
    assert steps_found(exact, features, trained) == 8 and steps_found(received, features, trained) == 0


def test_every_round_of_flipback_counts(runs):
    assert shown(runs, "two rounds") == 2
    (entry,) = score_lines(runs["two rounds"][HOST])
    assert entry["parameters"] == {"purpose": "flipback"} and entry["observer"] == "guest"


def test_every_fold_of_a_cross_validation_counts(runs):
    assert shown(runs, "cross-validation") == 5
    told = Counter(name for _, name, _ in runs["cross-validation"][HOST].received)
    assert (told["training_rows"], told["held_out_rows"]) == (5, 5)
    folds, summaries = runs["cross-validation"][GUEST].value
    ids = [match_id for fold in folds for match_id in fold["id"]]
    assert sorted(ids) == sorted(TABLES[GUEST]["id"]) and {kind for fold in folds for kind in fold["type"]} == {
        "validate_set"
    }
    for shown_figures in summaries:
        # 20 flips at 0.5 can be too many of one class; the sentence says so then.
        told = shown_figures.get("held-out rows: figures on true labels", "")
        assert "held-out rows: AUC on flips" in shown_figures or "too rare" in told
    assert len(summaries) == 5


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
    assert are_marked(revised.to_numpy()).all()
    assert set(doubt.nlargest(10).index) == set(flipped.index[flipped != revised.round()])


def test_soft_labels_lie_between_the_classes(runs):
    labels = runs["softened"][GUEST].value["table"]["y"]
    assert ((labels > 0) & (labels < 1)).all() and labels.nunique() > 50


@pytest.mark.parametrize("name", ["second training", "soft training"])
def test_a_training_on_revised_labels_is_recognised_with_the_epsilon_of_the_flips(runs, name):
    privacy = runs[name][GUEST].value["model"]["meta"]["privacy"]
    (release,) = privacy.pop("releases")
    assert (release["source"], release["epsilon"], release["classes"], release["entry_id"]) == (SOURCE, 0.5, 2, 1)
    assert privacy == {
        "epsilon": 0.5,
        "source": SOURCE,
        "unit": "label",
        "relation": "replace_one",
        "flipback before": True,
        "flipback": "none",
    }


def test_scores_of_a_model_of_other_flips_make_their_epsilon_part_of_the_labels(runs):
    """What the flips at 7 told the model it tells the labels: 0.5 would be a fourteenth of the truth."""
    privacy = runs["model of mixed labels"][GUEST].value["model"]["meta"]["privacy"]
    assert privacy["epsilon"] == 7.5 and sorted(release["epsilon"] for release in privacy["releases"]) == [0.5, 7.0]
    derived = runs["mixed labels"][GUEST].ledger["entries"][-1]
    assert "rests on other releases, too" in derived["parameters"]["description"]
    assert "epsilon 7.5" in derived["parameters"]["description"] and derived["epsilon"] == 0


def test_a_warm_start_after_another_release_says_both(runs):
    privacy = runs["warm start on other flips"][GUEST].value["model"]["meta"]["privacy"]
    assert privacy["epsilon"] == 7.5 and privacy["source"] == SOURCE


def test_labels_of_flipback_end_the_promise_to_records_and_cost_nobody_anything(runs):
    """One replaced record of a host moves everybody's label, thousands of times what its noise is made for."""
    for party in PAIR:
        entries = runs["noise on revised labels"][party].ledger["entries"]
        assert not [entry for entry in entries if entry["mechanism"] == "Gaussian"]
        assert [entry for entry in runs["noise on flips"][party].ledger["entries"] if entry["mechanism"] == "Gaussian"]


def test_flipback_does_not_run_on_labels_that_went_through_it(runs):
    assert shown(runs, "second training") == 2
