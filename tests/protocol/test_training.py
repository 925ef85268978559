"""The encrypted protocols compute what plaintext gradient descent computes, whichever solver and way they are run."""

from unittest import mock

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from fate_dp.components.common.units import Units
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.protocols.optimizers import Convergence, default_optimizer
from fate_dp.crypto.shared_descent import LOSS_DEVIATION
from fate_dp.privacy.labels.flipback import Flipback, FlipbackSettings
from tests.support.plaintext import TrainingSettings, train_plaintext

from .messages import values_of
from .scenarios import (
    ARBITER,
    FURTHEST_LOSS,
    GUEST,
    HOST,
    SECOND_HOST,
    Scenario,
    features_of,
    flip,
    play,
    score_lines,
    tables,
    train,
    weights,
)

INIT = {"method": "kaiming", "fill_val": 0.0, "fit_intercept": True, "random_state": 3}
STEP = TrainSettings().score_step
SMALL = dict(tables=tables(rows=130, hosts=(4,)), public=True, init_param=INIT, tol=0, train_scores=False)
# Of any number of epochs alike; by default, more of them come with more momentum.
ALIKE = {"method": "sgd", "penalty": "l2", "alpha": 0.09, "optimizer_params": {"lr": 0.48}}
BATCHES = {**SMALL, "epochs": 3, "batch_size": 40}
FLIPPED = dict(tables=SMALL["tables"], labels_of="flip", init_param=INIT, tol=0, train_scores=False, epochs=5)
TWO_HOSTS = {**SMALL, "tables": tables(rows=150, guest=5, hosts=(4, 3), seed=1), "epochs": 4}
BOTH = (GUEST, HOST, SECOND_HOST, ARBITER)
SWAP = {"mode": "swap", "every": 2, "fraction": 0.1, "max_rounds": 1}
POSTERIOR = {"mode": "posterior", "every": 3, "max_rounds": 1}


def breast_cancer_tables() -> dict:
    data = load_breast_cancer()
    features = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    base = pd.DataFrame({"sample_id": range(426), "id": [f"p{row}" for row in range(426)]}).astype(str)
    columns = {f"x{column}": features[:426, column] for column in range(30)}
    guest = {name: columns[name] for name in list(columns)[:10]}
    host = {name: columns[name] for name in list(columns)[10:]}
    return {GUEST: base.assign(y=data.target[:426], **guest), HOST: base.assign(**host)}


def regression_tables() -> dict:
    """The small tables with targets that are numbers, standardised."""
    made = dict(SMALL["tables"])
    values = features_of(made[GUEST])[:, 0] - 0.5 * features_of(made[HOST])[:, 1] + 0.3 * made[GUEST]["y"]
    made[GUEST] = made[GUEST].assign(y=((values - values.mean()) / values.std()).round(6))
    return made


def with_word(ctx, earlier, word, **arguments):
    """Training in which the guest says this after every epoch."""
    with mock.patch.object(Convergence, "state", lambda *of_epoch: word):
        return train(ctx, earlier, **arguments)


def tables_of_any_unit() -> dict:
    """The small tables with columns in other units, off centre."""
    made = dict(SMALL["tables"])
    for party, unit, off in ((GUEST, 1e-3, 7.0), (HOST, 1e6, -40.0)):
        names = [name for name in made[party] if name.startswith("x")]
        made[party] = made[party].assign(**{name: unit * (made[party][name] + off) for name in names[1:]})
    return made


REGRESSION = regression_tables()
DEFAULTS = {**SMALL, "tables": tables_of_any_unit(), "init_param": TrainSettings().init_param, "epochs": 20}
CANCER = dict(tables=breast_cancer_tables(), public=True, init_param=INIT, tol=0, epochs=30, train_scores=True)

SCENARIOS = {
    "breast cancer": Scenario(train, CANCER),
    "any unit": Scenario(train, {**DEFAULTS, "train_scores": True, "score_cap": 4}),
    "batches": Scenario(train, BATCHES, home="batches"),
    "batches again": Scenario(train, BATCHES, home="batches"),
    "four epochs on three partitions": Scenario(
        train, {**SMALL, "optimizer": ALIKE, "epochs": 4, "partitions": 3}, home="epochs"
    ),
    "four epochs on one partition": Scenario(
        train, {**SMALL, "optimizer": ALIKE, "epochs": 4, "partitions": 1}, home="epochs"
    ),
    "two hosts": Scenario(train, TWO_HOSTS, BOTH),
    "four epochs": Scenario(train, {**SMALL, "optimizer": ALIKE, "epochs": 4, "score_cap": 4}, home="epochs"),
    "two epochs": Scenario(train, {**SMALL, "optimizer": ALIKE, "epochs": 2, "score_cap": 4}, home="epochs"),
    "two more epochs": Scenario(
        train, {**SMALL, "optimizer": ALIKE, "epochs": 2, "warm_start": "two epochs", "score_cap": 4}, home="epochs"
    ),
    "flip": Scenario(flip, dict(tables=SMALL["tables"], epsilon=0.8), (GUEST, HOST), home="flips"),
    "swap": Scenario(train, {**FLIPPED, "flipback": SWAP}, home="flips"),
    "posterior": Scenario(train, {**FLIPPED, "flipback": POSTERIOR, "score_cap": 2}, home="flips"),
    "no flipback": Scenario(train, {**FLIPPED, "flipback": {"mode": "none"}}, home="flips"),
    "adam": Scenario(
        train,
        {
            **SMALL,
            "epochs": 3,
            "learning_rate_scheduler": {"method": "step", "scheduler_params": {"step_size": 1, "gamma": 0.5}},
            "optimizer": {"method": "adam", "penalty": "l1", "alpha": 0.01, "optimizer_params": {"lr": 0.1}},
        },
    ),
    "gaussian": Scenario(
        train,
        {
            **SMALL,
            "tables": REGRESSION,
            "label_type": "float64",
            "family": "gaussian",
            "epochs": 30,
            "train_scores": True,
        },
    ),
    "exact": Scenario(train, {**SMALL, "sigmoid": "exact", "sigmoid_rounds": 2, "epochs": 9, "score_cap": 2}),
    "exact, after two epochs": Scenario(
        train,
        {
            **SMALL,
            "sigmoid": "exact",
            "sigmoid_rounds": 1,
            "epochs": 2,
            "warm_start": "two epochs",
            "train_scores": True,
            "score_cap": 4,
        },
        home="epochs",
    ),
    "exact with two hosts": Scenario(
        train,
        {**TWO_HOSTS, "sigmoid": "exact", "sigmoid_rounds": 1, "epochs": 3, "batch_size": 60, "score_cap": 2},
        BOTH,
    ),
    "exact and posterior": Scenario(
        train, {**FLIPPED, "sigmoid": "exact", "sigmoid_rounds": 1, "flipback": POSTERIOR, "score_cap": 5}, home="flips"
    ),
    "nesterov": Scenario(
        train,
        {
            **SMALL,
            "epochs": 4,
            "optimizer": {
                "method": "sgd",
                "penalty": "none",
                "alpha": 1.0,
                "optimizer_params": {"lr": 0.1, "momentum": 0.5, "nesterov": True, "weight_decay": 0.01},
            },
        },
        (GUEST, HOST),
    ),
    "per epoch": Scenario(train, {**SMALL, "optimizer": ALIKE, "epochs": 2, "solver": "per_epoch"}, home="epochs"),
    "per epoch again": Scenario(
        train, {**SMALL, "optimizer": ALIKE, "epochs": 2, "solver": "per_epoch", "partitions": 3}, home="epochs"
    ),
    "per epoch, batches": Scenario(train, {**BATCHES, "solver": "per_epoch"}, home="batches"),
    "per epoch, two hosts": Scenario(train, {**TWO_HOSTS, "solver": "per_epoch", "epochs": 1}, BOTH),
    "per epoch, swap": Scenario(train, {**FLIPPED, "flipback": SWAP, "solver": "per_epoch"}, home="flips"),
    "per epoch, one": Scenario(train, {**SMALL, "optimizer": ALIKE, "epochs": 1, "solver": "per_epoch"}, home="epochs"),
    "per epoch, one more": Scenario(
        train,
        {**SMALL, "optimizer": ALIKE, "epochs": 1, "solver": "per_epoch", "warm_start": "per epoch, one"},
        home="epochs",
    ),
    "diverging": Scenario(
        train,
        {**SMALL, "optimizer": {"method": "sgd", "penalty": "none", "alpha": 0.0, "optimizer_params": {"lr": 30.0}}},
    ),
    "converged by loss": Scenario(
        train, {**SMALL, "optimizer": ALIKE, "epochs": 4, "tol": 1e3, "score_cap": 4}, home="epochs"
    ),
    "two epochs after it converged": Scenario(
        train,
        {**SMALL, "optimizer": ALIKE, "epochs": 2, "warm_start": "converged by loss", "score_cap": 4},
        home="epochs",
    ),
    "a word that nobody knows": Scenario(with_word, {**SMALL, "word": "perhaps"}, (GUEST, HOST)),
    "converged by weights": Scenario(train, {**SMALL, "tol": 1e3, "early_stop": "weight_diff"}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    outcomes = play(SCENARIOS, tmp_path_factory.mktemp("homes"))
    refused = {
        name: {party: o.error for party, o in by_party.items() if o.error}
        for name, by_party in outcomes.items()
        if name not in ("diverging", "a word that nobody knows")
    }
    assert not any(refused.values()), refused
    return outcomes


def model(outcomes, party=GUEST):
    return outcomes[party].value["model"]


def data_parties(arguments):
    return [party for party in (GUEST, HOST, SECOND_HOST) if party in arguments["tables"]]


def start(outcomes, arguments):
    return [outcomes[party].value["start"] for party in data_parties(arguments)]


def twin(outcomes, arguments, labels=None, flipback=None):
    """Weights and losses of the plaintext twin under the same settings, on the rows in the frame's order."""
    order = [position(arguments)[match_id] for match_id in outcomes[GUEST].value["order"]]
    parts = [features_of(arguments["tables"][party])[order] for party in data_parties(arguments)]
    meta = model(outcomes)["meta"]
    settings = TrainingSettings(
        meta["optimizer_param"],
        meta["learning_rate_param"],
        arguments["epochs"],
        arguments.get("batch_size"),
        **{name: arguments[name] for name in ("family", "sigmoid", "sigmoid_rounds") if name in arguments},
    )
    labels = arguments["tables"][GUEST]["y"].to_numpy(float) if labels is None else labels
    return train_plaintext(
        parts,
        labels[order],
        settings,
        start(outcomes, arguments),
        flipback and flipback(labels[order]),
        shown=ShownScores(outcomes),
    )


class ShownScores:
    """Joint logits as the guest was shown them in a training, round by round.

    Hosts round their part by a function of the weights to the last bit and of a secret: nobody can compute it again
    elsewhere, and the order of two records with nearly equal scores hangs on it.
    """

    def __init__(self, outcomes):
        by_host = {}
        for sender, name, blocks in outcomes[GUEST].received:
            if name == "scores":
                by_host.setdefault(sender, []).append(np.concatenate([block for _, block in blocks]) * STEP)
        self._rounds = zip(*(by_host[sender] for sender in sorted(by_host)))

    def __call__(self, parts, weights):
        """Checks on the way that every host showed its scores, rounded up or down."""
        shown = next(self._rounds)
        for part, own, rounded in zip(parts[1:], weights[1:], shown, strict=True):
            assert np.abs(rounded - part @ own).max() < STEP + 1e-5
        return parts[0] @ weights[0] + sum(shown)


def position(arguments) -> dict:
    return {match_id: row for row, match_id in enumerate(arguments["tables"][GUEST]["id"])}


def assert_equal_to_twin(outcomes, arguments, result):
    for party, expected in zip(data_parties(arguments), result.weights):
        np.testing.assert_allclose(weights(outcomes, party), expected, atol=1e-6, rtol=0)
    losses, hosts = model(outcomes)["data"]["estimator"]["losses"], len(arguments["tables"]) - 1
    np.testing.assert_allclose(losses, result.losses, atol=FURTHEST_LOSS)
    assert abs(np.mean(np.subtract(losses, result.losses))) < 5 * LOSS_DEVIATION * (hosts / len(losses)) ** 0.5


def flipped_labels(runs):
    table = runs["flip"][GUEST].value["table"].set_index("id")
    return table.loc[SMALL["tables"][GUEST]["id"], "y"].to_numpy(float)


def test_weights_after_30_epochs_equal_the_plaintext_twin(runs):
    assert_equal_to_twin(runs["breast cancer"], CANCER, twin(runs["breast cancer"], CANCER))


def test_weights_after_30_epochs_equal_an_independent_gradient_descent(runs):
    outcomes = runs["breast cancer"]
    guest, host = (features_of(CANCER["tables"][party]) for party in (GUEST, HOST))
    columns, labels = np.column_stack([guest, np.ones(426), host]), CANCER["tables"][GUEST]["y"].to_numpy(float)
    optimizer = model(outcomes)["meta"]["optimizer_param"]
    rate, momentum = optimizer["optimizer_params"]["lr"], optimizer["optimizer_params"]["momentum"]
    assert optimizer["optimizer_params"]["nesterov"]
    penalised = optimizer["alpha"] * (np.arange(31) != 10)
    w, velocity = np.concatenate(start(outcomes, CANCER)), np.zeros(31)
    for _ in range(30):
        gradient = columns.T @ (columns @ w / 4 - (labels - 0.5)) / 426 + penalised * w
        velocity = momentum * velocity + gradient
        w = w - rate * (gradient + momentum * velocity)
    trained = np.concatenate([weights(outcomes, GUEST), weights(outcomes, HOST)])
    np.testing.assert_allclose(trained, w, atol=1e-6, rtol=0)
    assert np.abs(w - np.concatenate(start(outcomes, CANCER))).max() > 0.1


def test_the_prediction_table_holds_the_scores_of_the_final_model(runs):
    outcomes = runs["breast cancer"]
    scored = outcomes[GUEST].value["scored"].set_index("id").loc[CANCER["tables"][GUEST]["id"]]
    guest, host = (features_of(CANCER["tables"][party]) for party in (GUEST, HOST))
    z = np.column_stack([guest, np.ones(426)]) @ weights(outcomes, GUEST) + host @ weights(outcomes, HOST)
    np.testing.assert_allclose(scored["predict_score"].astype(float), 1 / (1 + np.exp(-z)), atol=STEP / 4 + 1e-6)
    sure = np.abs(z) > STEP
    assert (scored["predict_result"].astype(int) == (z > 0))[sure].all() and sure.mean() > 0.9
    assert set(scored["type"]) == {"train_set"}
    assert (scored["predict_result"].astype(int) == scored["label"].astype(int)).mean() > 0.95


def test_by_default_columns_of_any_unit_are_trained_in_their_own(runs):
    outcomes, made = runs["any unit"], DEFAULTS["tables"]
    parts = [features_of(made[party]) for party in (GUEST, HOST)]
    units = [Units.fitting(part.mean(axis=0), part.std(axis=0)) for part in parts]
    labels = made[GUEST]["y"].to_numpy(float)
    starts = [np.append(np.zeros(3), 4 * np.mean(labels - 0.5)), np.zeros(4)]
    settings = TrainingSettings(default_optimizer(130, 8, np.inf, epochs=20), epochs=20)
    found = train_plaintext([unit.applied(part) for unit, part in zip(units, parts)], labels, settings, starts).weights
    for party, expected in zip((GUEST, HOST), found):
        np.testing.assert_allclose(weights(outcomes, party), expected, atol=1e-6)
    params = [model(outcomes, party)["data"]["estimator"]["param"] for party in (GUEST, HOST)]
    z = sum(part @ np.ravel(param["coef_"]) + param["intercept_"] for part, param in zip(parts, params))
    scored = outcomes[GUEST].value["scored"].set_index("id").loc[made[GUEST]["id"]]
    np.testing.assert_allclose(scored["predict_score"].astype(float), 1 / (1 + np.exp(-z)), atol=STEP / 4 + 1e-6)


def test_the_model_has_the_form_of_fates_own(runs):
    for party, intercept in ((GUEST, True), (HOST, False)):
        estimator = model(runs["breast cancer"], party)["data"]["estimator"]
        assert set(estimator) >= {"param", "optimizer", "lr_scheduler", "end_epoch", "is_converged", "header"}
        assert set(estimator["param"]) == {"coef_", "intercept_", "dtype"}
        assert (estimator["param"]["intercept_"] is not None) == intercept
        assert estimator["header"] == [name for name in CANCER["tables"][party] if name.startswith("x")]
        assert estimator["end_epoch"] == 30 and not estimator["is_converged"]


def test_behind_label_flip_the_summary_says_that_labels_are_flips(runs):
    shown = runs["no flipback"][GUEST].value["summary"]
    assert (shown["privacy"], shown["labels"]) == ("none", "flips of label_flip, at their own epsilon")


def test_weights_over_mini_batches_equal_the_twin(runs):
    assert_equal_to_twin(runs["batches"], BATCHES, twin(runs["batches"], BATCHES))


def test_weights_with_two_hosts_equal_the_twin(runs):
    assert_equal_to_twin(runs["two hosts"], TWO_HOSTS, twin(runs["two hosts"], TWO_HOSTS))


def test_weights_under_another_optimiser_and_schedule_equal_the_twin(runs):
    assert_equal_to_twin(runs["adam"], SCENARIOS["adam"].arguments, twin(runs["adam"], SCENARIOS["adam"].arguments))


@pytest.mark.parametrize(
    "name",
    [
        "gaussian",
        "exact",
        "exact with two hosts",
        "nesterov",
        "four epochs",
        "four epochs on three partitions",
        "per epoch",
        "per epoch, batches",
        "per epoch, two hosts",
    ],
)
def test_weights_and_losses_equal_the_twin(runs, name):
    arguments = SCENARIOS[name].arguments
    assert_equal_to_twin(runs[name], arguments, twin(runs[name], arguments))


@pytest.mark.parametrize("name, other", [("two epochs", "per epoch"), ("batches", "per epoch, batches")])
def test_both_solvers_give_the_same_weights(runs, name, other):
    for party in (GUEST, HOST):
        np.testing.assert_allclose(weights(runs[name], party), weights(runs[other], party), atol=1e-6, rtol=0)


def test_gaussian_scores_are_the_predicted_numbers(runs):
    scored = runs["gaussian"][GUEST].value["scored"].set_index("id")
    guest, host = (REGRESSION[party].set_index("id").loc[scored.index].reset_index() for party in (GUEST, HOST))
    columns = np.column_stack([features_of(guest), np.ones(len(guest)), features_of(host)])
    joint = np.concatenate([weights(runs["gaussian"], GUEST), weights(runs["gaussian"], HOST)])
    np.testing.assert_allclose(scored["predict_score"].astype(float), columns @ joint, atol=STEP + 1e-5)
    assert np.corrcoef(scored["predict_score"].astype(float), guest["y"])[0, 1] > 0.9


def test_each_correction_of_the_sigmoid_is_counted_at_the_host(runs):
    (entry,) = score_lines(runs["exact"][HOST])
    assert entry["counted"] and entry["rounds"] == 2


def test_a_warm_start_shows_the_scores_of_its_start_as_they_were(runs):
    outcomes = runs["exact, after two epochs"]
    first, _ = [value for _, name, value in outcomes[GUEST].received if name == "scores"]
    rows = SMALL["tables"][HOST].set_index("id").loc[outcomes[GUEST].value["order"]].reset_index()
    shown = np.concatenate([block for _, block in first]) * STEP
    np.testing.assert_allclose(shown, features_of(rows) @ weights(runs["two epochs"], HOST), atol=STEP + 1e-5)


def test_a_diverging_training_ends_at_every_party_with_the_reason(runs):
    errors = {party: outcome.error for party, outcome in runs["diverging"].items()}
    assert all(error and "lower the learning rate" in error for error in errors.values()), errors


@pytest.mark.parametrize(
    "name, mode",
    [
        ("swap", SWAP),
        ("per epoch, swap", SWAP),
        ("posterior", POSTERIOR),
        ("no flipback", {"mode": "none"}),
        ("exact and posterior", POSTERIOR),
    ],
)
def test_weights_with_flipback_equal_the_twin_with_the_same_flipback(runs, name, mode):
    labels = flipped_labels(runs)
    expected = twin(
        runs[name], SCENARIOS[name].arguments, labels, lambda flipped: Flipback(FlipbackSettings(**mode), flipped, 0.8)
    )
    assert_equal_to_twin(runs[name], FLIPPED, expected)


def test_flipback_changes_the_weights(runs):
    plain = weights(runs["no flipback"], HOST)
    assert all(np.abs(weights(runs[name], HOST) - plain).max() > 1e-3 for name in ("swap", "posterior"))


@pytest.mark.parametrize(
    "first, second",
    [
        ("batches", "batches again"),
        ("four epochs", "four epochs on three partitions"),
        ("four epochs", "four epochs on one partition"),
        ("per epoch", "per epoch again"),
    ],
)
def test_training_twice_gives_bit_identical_weights_however_rows_are_spread(runs, first, second):
    for party in (GUEST, HOST):
        np.testing.assert_array_equal(weights(runs[first], party), weights(runs[second], party))


@pytest.mark.parametrize(
    "start, end, whole, distance",
    [
        ("per epoch, one", "per epoch, one more", "per epoch", 0.0),
        ("two epochs", "two more epochs", "four epochs", 1e-6),
    ],
)
def test_a_warm_start_goes_on_where_training_ended(runs, start, end, whole, distance):
    for party in (GUEST, HOST):
        np.testing.assert_allclose(weights(runs[end], party), weights(runs[whole], party), atol=distance, rtol=0)
        assert np.abs(weights(runs[start], party) - weights(runs[whole], party)).max() > 1e-3


@pytest.mark.parametrize("name, epochs", [("converged by loss", 2), ("converged by weights", 1)])
def test_all_parties_stop_in_the_epoch_that_converges(runs, name, epochs):
    for party in (GUEST, HOST):
        estimator = model(runs[name], party)["data"]["estimator"]
        assert estimator["end_epoch"] == epochs and estimator["is_converged"]
    assert model(runs[name], ARBITER)["data"] == {"epochs_run": epochs}


def test_steps_that_ran_before_the_guests_word_came_are_undone(runs):
    ended, further = runs["converged by loss"], runs["two epochs after it converged"]
    assert len(values_of(ended[GUEST].received, "loss_shares")) == 3  # One of an epoch that is undone.
    assert len(model(ended)["data"]["estimator"]["losses"]) == 2
    for party in (GUEST, HOST):
        np.testing.assert_allclose(weights(ended, party), weights(runs["two epochs"], party), atol=1e-6, rtol=0)
        np.testing.assert_allclose(weights(further, party), weights(runs["four epochs"], party), atol=1e-6, rtol=0)


def test_a_word_of_the_guest_that_nobody_knows_ends_the_training(runs):
    for outcome in runs["a word that nobody knows"].values():
        assert "The guest's decision on epoch 1 must be one that this version knows, got 'perhaps'." in outcome.error


def test_the_cross_product_trains_without_an_arbiter(runs):
    assert set(runs["nesterov"]) == {GUEST, HOST}


def test_the_hosts_ledger_counts_each_round_of_flipback(runs):
    (entry,) = score_lines(runs["swap"][HOST])
    assert entry["counted"] and entry["rounds"] == 1
    assert entry["observer"] == "guest" and entry["parameters"] == {"purpose": "flipback"}
    assert [entry["rounds"] for entry in score_lines(runs["posterior"][HOST])] == [2]


def test_the_model_says_what_the_labels_cost(runs):
    assert model(runs["swap"])["meta"]["privacy"]["epsilon"] == 0.8
    assert model(runs["four epochs"])["meta"]["privacy"]["epsilon"] == "infinity"
    (line,) = runs["four epochs"][GUEST].ledger["entries"]
    assert line["mechanism"] == "not private" and line["epsilon"] == "infinity" and not line["counted"]
    assert runs["four epochs"][GUEST].ledger["spent"] == 0
