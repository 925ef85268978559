"""More than two classes: one pass over encrypted rows, a model for each class against the rest, and what that shows."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from fate_dp.components.dp_hetero_lr.model import columns_of
from fate_dp.components.protocols.optimizers import default_optimizer
from fate_dp.privacy.mechanisms.randomized_response import keep_probability
from tests.support.one_vs_rest import train_one_vs_rest
from tests.support.plaintext import TrainingSettings

from .attacks import Public, columns_readable, labels_readable, unblinded_ciphertexts, uniformity
from .messages import byte_strings, clear_beyond_public, public_moduli
from .scenarios import (
    ARBITER,
    FURTHEST_LOSS,
    GUEST,
    HOST,
    SECOND_HOST,
    KnownJob,
    Scenario,
    assert_refused,
    features_of,
    flip,
    frame_at,
    play,
    role_of,
    tables,
    train,
)
from .test_encrypted_predict import allow
from .test_score_releases import cross_validate, predict
from .watched_training import train_watched

PAIR, TRIO, EPSILON = (GUEST, HOST), (GUEST, HOST, SECOND_HOST), 2.0
FOUR, THREE = (0.0, 1.0, 2.0, 3.0), (1.0, 2.0, 4.0)
STEP = 2.0**-7


def with_classes(made: dict, classes, seed) -> dict:
    """The tables with labels that are the largest of as many random scores as there are classes."""
    columns = np.hstack([features_of(made[party]) for party in TRIO if party in made])
    scores = 2 * columns @ np.random.default_rng(seed).normal(size=(columns.shape[1], len(classes)))
    scores += np.random.default_rng(seed + 1).gumbel(size=scores.shape)
    return {**made, GUEST: made[GUEST].assign(y=np.asarray(classes)[scores.argmax(axis=1)].astype(int))}


TABLES = with_classes(tables(rows=160, guest=3, hosts=(8,), seed=6), FOUR, 1)
HELD_OUT = {
    party: table.tail(30).reset_index(drop=True).assign(id=lambda t: "new " + t["id"])
    for party, table in tables(rows=60, guest=3, hosts=(8,), seed=9).items()
}
OTHERS = with_classes(tables(rows=120, guest=2, hosts=(3, 2), seed=7), THREE, 2)
BINARY = {**TABLES, GUEST: TABLES[GUEST].assign(y=TABLES[GUEST]["y"] > 1)}
FLIPPED = dict(tables=TABLES, labels_of="flip", epochs=8)
PUBLIC = dict(
    tables=OTHERS,
    public=True,
    classes=THREE,
    epochs=4,
    batch_size=60,
    init_param={"method": "kaiming", "fill_val": 0.0, "fit_intercept": True, "random_state": 3},
)


def on(scenario=None, home=None, parties=(GUEST, HOST, ARBITER), **changed):
    return Scenario(train, {**FLIPPED, **changed}, parties, home or "flips")


def train_with_other_classes(ctx, earlier, at_host, **arguments):
    """The host's parameter lists other classes than the guest's."""
    return train(ctx, earlier, **{**arguments, **({"classes": at_host} if role_of(ctx) == "host" else {})})


def ask(ctx, earlier, asked, of, cap):
    """Encrypted scoring of rows that the guest alone has, by the model of an earlier scenario."""
    from fate_dp.components.dp_hetero_lr import predict as stage
    from fate_dp.components.dp_hetero_lr.settings import PredictSettings

    if role_of(ctx) == "arbiter":
        return stage.predict_arbiter(ctx)
    document = json.loads(json.dumps(earlier[of].value["model"]))
    if role_of(ctx) == "host":
        allow(ctx, document["data"]["estimator"]["0"]["header"], cap)
        return stage.predict_host_encrypted(ctx, PredictSettings(), document, None)
    scored = stage.predict_guest_encrypted(ctx, PredictSettings(), document, frame_at(ctx, {GUEST: asked}))
    return {"scored": scored.as_pd_df()}


def joined(made: dict) -> pd.DataFrame:
    return made[GUEST].drop(columns="y", errors="ignore").merge(made[HOST].drop(columns="sample_id"), on="id")


TRAININGS = {
    "flip": Scenario(flip, dict(tables=TABLES, epsilon=EPSILON, classes=FOUR), PAIR, "flips"),
    "four": on(train_scores=True, score_cap=20),
    "two halves, first": Scenario(train_watched, {**FLIPPED, "epochs": 4}, (GUEST, HOST, ARBITER), "flips"),
    "two halves, second": on(epochs=4, warm_start="two halves, first"),
    "binary": Scenario(train, {"tables": BINARY, "public": True, "epochs": 8}, (GUEST, HOST, ARBITER)),
    "three, two hosts": Scenario(train, PUBLIC, (*TRIO, ARBITER)),
    "predict": Scenario(
        predict,
        {"tables": {**HELD_OUT, GUEST: HELD_OUT[GUEST].drop(columns="y")}, "of": "four"},
        (GUEST, HOST, ARBITER),
        "flips",
    ),
    "folds": Scenario(
        cross_validate,
        {"tables": TABLES, "labels_of": "flip", "n_splits": 2, "score_cap": 20},
        (GUEST, HOST, ARBITER),
        "flips",
    ),
    "asked": Scenario(ask, {"asked": joined(HELD_OUT), "of": "four", "cap": 4 * 30}, (GUEST, HOST, ARBITER), "flips"),
    # A quarter of eight features is two models: fewer than four.
    "flip of few": Scenario(flip, dict(tables=TABLES, epsilon=EPSILON, classes=FOUR), PAIR, "few"),
    "scores left out": on(home="few", labels_of="flip of few", train_scores=True),
}
REFUSED = {
    "asked once more": (
        Scenario(
            ask, {"asked": joined(HELD_OUT).head(1), "of": "four", "cap": 4 * 30}, (GUEST, HOST, ARBITER), "flips"
        ),
        "score 1 rows by 4 models, 4 scores, with its weights, but it allows only 0 more",
    ),
    "other classes at all parties": (
        on(classes=(0.0, 1.0, 2.0)),
        "classes must be those of the training, [0, 1, 2, 3], got [0, 1, 2].",
    ),
    "one class missing at the host": (
        Scenario(train_with_other_classes, {**FLIPPED, "at_host": (0.0, 1.0, 2.0)}, (GUEST, HOST, ARBITER), "flips"),
        "guest 9999: classes at host 10000 must be those of the training, [0, 1, 2, 3], got [0, 1, 2].",
    ),
    "two classes and three labels": (
        Scenario(train, {**PUBLIC, "classes": (0.0, 1.0)}, (*TRIO, ARBITER), "public"),
        "A label lies outside 0 to 1",
    ),
    "three classes and another label": (
        Scenario(train, {**PUBLIC, "classes": (1.0, 2.0, 3.0)}, (*TRIO, ARBITER), "public"),
        "classes is [1, 2, 3], but a training label is 4; list all label values.",
    ),
    "a class without a label": (
        Scenario(train, {**PUBLIC, "classes": (1.0, 2.0, 3.0, 4.0)}, (*TRIO, ARBITER), "public"),
        "No training label is 3. Bring labels of each of the classes [1, 2, 3, 4].",
    ),
    "exact sigmoid": (on(sigmoid="exact"), "There are 4 classes, [0, 1, 2, 3], but sigmoid is exact; more than two"),
    "per epoch": (
        on(solver="per_epoch"),
        "but solver is per_epoch; more than two are trained with solver cross_product",
    ),
    "flipback": (on(flipback={"mode": "swap"}), "but flipback.mode is swap; more than two"),
    "folds beyond the cap": (
        Scenario(
            cross_validate, {"tables": TABLES, "labels_of": "flip of few", "n_splits": 2}, (GUEST, HOST, ARBITER), "few"
        ),
        "joint scores of 8 models, but host 10000 allows only 2 more",
    ),
    "a model of two classes": (
        on(warm_start="binary"),
        "classes must be those of warm_start_model, [0, 1], got [0, 1, 2, 3].",
    ),
    "folds, before flips are charged": (
        Scenario(
            flip,
            dict(tables=TABLES, classes=FOUR, job=KnownJob({}, "cross_validation", flip={"classes": FOUR})),
            PAIR,
            "charge",
        ),
        "joint scores of 20 models, but host 10000 allows only 2 more",
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    scenarios = {**TRAININGS, **{name: scenario for name, (scenario, _) in REFUSED.items()}}
    outcomes = play(scenarios, tmp_path_factory.mktemp("homes"))
    errors = {(name, party): o.error for name in TRAININGS for party, o in outcomes[name].items() if o.error}
    assert not errors, errors
    return outcomes


def model(runs, name, party=GUEST):
    return runs[name][party].value["model"]


def flips(runs):
    return runs["flip"][GUEST].value["table"].set_index("id")["y"].astype(float)


def twins(runs, name, made, labels, classes, epochs, batch_size=None):
    """A plaintext training for each class, on the rows in the frame's order."""
    data = [party for party in TRIO if party in made]
    order = runs[name][GUEST].value["order"]
    parts = [features_of(made[party].set_index("id").loc[order].reset_index()) for party in data]
    meta, starts = model(runs, name)["meta"], zip(*(runs[name][party].value["starts"] for party in data))
    settings = TrainingSettings(meta["optimizer_param"], meta["learning_rate_param"], epochs, batch_size)
    return train_one_vs_rest(parts, labels.loc[order], classes, settings, list(starts))


@pytest.mark.parametrize(
    "name, made, classes, epochs, batch_size",
    [("four", TABLES, FOUR, 8, None), ("three, two hosts", OTHERS, THREE, 4, 60)],
)
def test_every_class_equals_its_plaintext_twin(runs, name, made, classes, epochs, batch_size):
    labels = flips(runs) if name == "four" else made[GUEST].set_index("id")["y"]
    expected = twins(runs, name, made, labels, classes, epochs, batch_size)
    for at, party in enumerate(party for party in TRIO if party in made):
        found = columns_of(model(runs, name, party))
        assert len(found) == len(classes)
        for of_class, twin in zip(found, expected):
            np.testing.assert_allclose(of_class, twin.weights[at], atol=1e-6, rtol=0)
    losses = np.mean([twin.losses for twin in expected], axis=0)
    np.testing.assert_allclose(model(runs, name)["data"]["estimator"]["0"]["losses"], losses, atol=FURTHEST_LOSS)


def test_a_warm_start_goes_on_with_every_class(runs):
    for party in PAIR:
        ends = zip(
            columns_of(model(runs, "two halves, second", party)), columns_of(model(runs, "two halves, first", party))
        )
        for (second, first), whole in zip(ends, columns_of(model(runs, "four", party))):
            # The momentum of the default rule follows from the number of epochs, so that the halves are another training.
            assert np.abs(second - first).max() > 1e-3 and np.corrcoef(second, whole)[0, 1] > 0.9


def test_the_model_has_the_form_of_fates_one_vs_rest(runs):
    document = model(runs, "four")
    assert document["meta"]["ovr"] and document["meta"]["labels"] == [0, 1, 2, 3]
    assert list(document["data"]["estimator"]) == ["0", "1", "2", "3"]
    assert all(
        set(each["param"]) == {"coef_", "intercept_", "dtype"} for each in document["data"]["estimator"].values()
    )
    assert model(runs, "three, two hosts")["meta"]["labels"] == [1, 2, 4]
    assert not model(runs, "binary")["meta"]["ovr"]


def test_the_default_penalty_knows_how_many_classes_flips_were_among(runs):
    assert model(runs, "four")["meta"]["optimizer_param"] == default_optimizer(160, 12, EPSILON, epochs=8, classes=4)
    privacy = model(runs, "four")["meta"]["privacy"]
    assert privacy["epsilon"] == EPSILON and privacy["releases"][0]["classes"] == 4


def test_one_pass_serves_all_classes(runs):
    """As many row ciphertexts as a training of two classes, one for each row, and as many messages in each epoch."""
    for run in ("two halves, first", "binary"):
        rows = [
            data
            for party in PAIR
            for _, name, value in runs[run][party].received
            if name == "encrypted_rows"
            for data in byte_strings(value)
        ]
        assert sum(map(len, rows)) == 160 * 512
        received = Counter(name for _, name, _ in runs[run][HOST].received)
        epochs = 4 if run == "two halves, first" else 8
        assert received["hidden_weights"] == received["hidden_losses"] == epochs
        assert all(
            received[name] <= 1 for name in ("encrypted_rows", "masked_products", "masks", "products", "weight_shares")
        )


def test_a_host_sees_no_label_of_any_class(runs):
    outcomes, labels = runs["two halves, first"], flips(runs)
    order = outcomes[GUEST].value["order"]
    columns = (labels.loc[order].to_numpy()[:, None] == np.array(FOUR)).astype(float)
    everything = [message for outcome in outcomes.values() for message in outcome.received]
    notes = [outcomes[party].value["notes"] for party in PAIR]
    moduli = [modulus for kind in notes[0]["moduli"].values() for modulus in kind]
    known = Public(public_moduli(everything), moduli, [each["layout"] for each in notes if "layout" in each])
    assert columns_readable(outcomes[HOST].received, columns, known) == []
    for column in columns.T:
        assert labels_readable(outcomes[HOST].received, column, known) == []
    assert unblinded_ciphertexts(everything, known) == [] and clear_beyond_public(outcomes[HOST].received) == []


def test_what_is_opened_in_a_training_of_four_classes_is_uniform(runs):
    for party in PAIR:
        opened = runs["two halves, first"][party].value["notes"]["opened"]
        for kind in ("weights", "losses", "sums"):
            assert not opened[kind] or uniformity(opened[kind]) > 1e-7, (party, kind)
    sums = [pool for party in PAIR for pool in runs["two halves, first"][party].value["notes"]["opened"]["sums"]]
    # Of every product of the other party's columns with the encrypted ones, the four targets among them.
    assert len(sums) == (3 + 1 + 4) * 8


def test_predictions_have_fates_format_of_several_classes(runs):
    scored = runs["four"][GUEST].value["scored"].set_index("id")
    rows = {party: TABLES[party].set_index("id").loc[scored.index].reset_index() for party in PAIR}
    z = sum(
        (np.column_stack([features_of(rows[party]), np.ones(160)]) if party == GUEST else features_of(rows[party]))
        @ np.array(columns_of(model(runs, "four", party))).T
        for party in PAIR
    )
    expected = 1 / (1 + np.exp(-z))
    details = [json.loads(text.strip('"').replace("'", '"')) for text in scored["predict_detail"]]
    assert list(details[0]) == ["0", "1", "2", "3"]
    found = np.array([list(detail.values()) for detail in details])
    np.testing.assert_allclose(found, expected, atol=STEP / 4 + 1e-6)
    np.testing.assert_allclose(scored["predict_score"].astype(float), found.max(axis=1))
    assert (scored["predict_result"].astype(int) == found.argmax(axis=1)).all() and set(scored["type"]) == {"train_set"}
    assert (scored["label"].astype(int) == flips(runs).loc[scored.index]).all()
    true = TABLES[GUEST].set_index("id").loc[scored.index, "y"]
    assert (scored["predict_result"].astype(int) == true).mean() > 0.6 > keep_probability(EPSILON, 4) - 0.2


def test_held_out_rows_are_scored_alike_jointly_and_encrypted(runs):
    together, encrypted = (runs[name][GUEST].value["scored"].set_index("id") for name in ("predict", "asked"))
    encrypted = encrypted.loc[together.index]
    np.testing.assert_allclose(
        together["predict_score"].astype(float), encrypted["predict_score"].astype(float), atol=STEP / 2
    )
    assert (together["predict_result"] == encrypted["predict_result"]).mean() > 0.9


def test_scores_of_four_classes_are_four_models(runs):
    shown = [entry for entry in runs["four"][HOST].ledger["entries"] if entry["mechanism"] == "joint scores"]
    assert sum(entry["rounds"] for entry in shown) == 4
    assert runs["scores left out"][GUEST].value["scored"] is None
    assert "left out" in runs["scores left out"][GUEST].value["summary"]["joint scores of training rows"]
    assert (
        "left out: 0 of at most 2 models"
        in runs["scores left out"][HOST].value["summary"]["joint scores of training rows"]
    )


def test_figures_of_two_classes_are_left_out(runs):
    summary = runs["four"][GUEST].value["summary"]
    assert summary["training rows: figures on true labels"].startswith("none: they are for two classes")
    assert not any("AUC" in name for name in summary) and summary["classes"] == [0, 1, 2, 3]


def test_folds_train_and_score_every_class(runs):
    scored, summaries = runs["folds"][GUEST].value
    assert sum(map(len, scored)) == 160 and len(summaries) == 2
    assert {result for fold in scored for result in fold["predict_result"].astype(int)} <= set(range(4))


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_trained_is_refused_alike_at_every_party(runs, name):
    assert_refused(runs[name], REFUSED[name][1])


def test_nothing_was_charged_for_flips_that_no_fold_could_use(runs):
    assert runs["folds, before flips are charged"][GUEST].ledger["entries"] == []
