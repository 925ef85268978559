"""Training with noise on labels alone: the model is that of the noisy X^T t, no party but the guest gets anything else of
the labels, the ledger of the label source says what it cost, and whatever would read a label again is refused."""

import math

import numpy as np
import pytest

from bench import label_noise as twin
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import REPLACE_ONE, Event, Gaussian
from fate_dp.privacy.mechanisms.label_moments import LabelMoments, LabelNoise
from fate_dp.privacy.mechanisms.second_moments import RowBounds, clip_rows, noise_multiplier_for

from .scenarios import (
    ARBITER,
    FURTHEST_LOSS,
    GUEST,
    HOST,
    SECOND_HOST,
    SOURCE,
    KnownJob,
    Scenario,
    assert_refused,
    declare,
    features_of,
    flip,
    play,
    role_of,
    tables,
    train,
    weights,
)

PREFLIGHT = {"preflight", "verdict"}
TABLES = tables(rows=150, guest=3, hosts=(4,))
TWO_HOSTS = tables(rows=150, guest=3, hosts=(4, 2), seed=1)
ALL = (GUEST, HOST, SECOND_HOST, ARBITER)
COMMON = dict(
    tables=TABLES,
    tol=0,
    privacy="label",
    epsilon=1.0,
    delta=1e-5,
    label_source=SOURCE,
    epochs=3,
    init_param={"method": "kaiming", "fill_val": 0.0, "fit_intercept": True, "random_state": 3},
)
OTHER_LABELS = {**TABLES, GUEST: TABLES[GUEST].assign(y=1 - TABLES[GUEST]["y"])}
ONE_CLASS = {**TABLES, GUEST: TABLES[GUEST].assign(y=1)}


def noisy(ctx, earlier, declared=SOURCE, cap=None, draw=None, guest=None, leak=False, **arguments):
    """``train`` with what the guest drew; ``draw`` replaces the noise that is added, as a test's or a mutant's.

    ``leak`` is the mutant in which the loss, which the guest's model tells, reads the true labels once more.
    """
    from fate_dp.components.common.charges import home_of
    from fate_dp.components.dp_hetero_lr.cross_product.protocol import Targets
    from fate_dp.privacy.ledger.policy import declare_source

    drawn, original = [], LabelMoments.draw

    def recorded(moments, columns, observers, rng=None):
        noise = original(moments, columns, observers, rng)
        drawn.append((moments, noise.values, noise.event))
        return LabelNoise(DRAWS[draw](noise.values), noise.event)

    if role_of(ctx) == "guest":
        if declared:
            declare(ctx, declared)
        if cap:
            declare_source(home_of(ctx).path / "policy.yaml", SOURCE, cap=cap)
        arguments = {**arguments, **(guest or {})}

    def constant(targets, bounds):
        return keep_constant(targets, bounds) + float(targets.columns[slice(*bounds)].mean())

    keep_constant, LabelMoments.draw = Targets.constant, recorded
    Targets.constant = constant if leak else keep_constant
    try:
        value = train(ctx, earlier, **arguments)
    finally:
        LabelMoments.draw, Targets.constant = original, keep_constant
    totals = home_of(ctx).ledger.totals(1e-5) if role_of(ctx) != "arbiter" else []
    return {**value, "drawn": drawn, "totals": totals}


DRAWS = {
    None: lambda values: values,
    "none": lambda values: values * 0,
    "same": lambda values: np.array([(3 + at) << 40 for at in range(len(values))], dtype=object),
}

TRAINED = {
    "noise": Scenario(noisy, COMMON, home="noise"),
    "again": Scenario(noisy, {**COMMON, "cap": 3.0}, home="noise"),
    "beyond the cap": Scenario(noisy, {**COMMON, "cap": 1.9}, home="noise"),
    "two hosts": Scenario(noisy, {**COMMON, "tables": TWO_HOSTS}, ALL),
    "no noise drawn": Scenario(noisy, {**COMMON, "draw": "none"}, (GUEST, HOST)),
    "much noise": Scenario(noisy, {**COMMON, "epsilon": 0.02, "clip": 1.0}, (GUEST, HOST)),
    "leak": Scenario(noisy, {**COMMON, "leak": True}, (GUEST, HOST)),
    "one class": Scenario(noisy, {**COMMON, "tables": ONE_CLASS}),
    "labels": Scenario(noisy, {**COMMON, "draw": "same"}, (GUEST, HOST)),
    "other labels": Scenario(noisy, {**COMMON, "draw": "same", "tables": OTHER_LABELS}, (GUEST, HOST)),
}
EVERYWHERE = "With privacy label, "


def on(**arguments):
    return Scenario(noisy, {**COMMON, "epochs": 1, **arguments})


REFUSED = {
    "no epsilon": (on(epsilon=None), "epsilon must be set at the guest, got None"),
    "no source": (on(label_source=None), "label_source must be set at the guest, got None"),
    "not declared": (on(declared=None), f"{SOURCE} is not declared at the guest"),
    "another column": (on(label_source="experiment/train/z", declared="experiment/train/z"), "must end with the label"),
    "public": (on(public=True), f"The guest declared {SOURCE} public"),
    "gaussian": (on(family="gaussian"), EVERYWHERE + "family must be binomial"),
    "exact sigmoid": (on(sigmoid="exact"), EVERYWHERE + "sigmoid must be taylor, got 'exact'"),
    "flipback": (on(flipback={"mode": "swap"}), EVERYWHERE + "flipback.mode must be none, got 'swap'"),
    "scores of training rows": (on(train_scores=True), EVERYWHERE + "train_scores must be false"),
    "batches": (on(batch_size=50), EVERYWHERE + "batch_size must be None, got 50"),
    "per_epoch": (on(solver="per_epoch"), "these settings need solver per_epoch"),
    "three classes": (on(classes=[0, 1, 2]), "but privacy is label"),
    "disagreement": (
        on(guest={"privacy": "record", "public": True}),
        "must be record with noise_spread uniform, as at the guest, got label.",
    ),
    "too much noise": (on(epsilon=0.001), "sums over 150 records are masked up to 38400"),
    "synthetic rows": (
        on(
            tables={
                party: table.assign(id=table["id"].replace("person 0007", "synthetic-0"))
                for party, table in TABLES.items()
            }
        ),
        "no epsilon",
    ),
    "label outside": (
        on(tables={**TABLES, GUEST: TABLES[GUEST].assign(y=TABLES[GUEST]["y"] * 2)}),
        "A label is neither 0 nor 1",
    ),
}
OF_LABELS = {"synthetic rows", "label outside"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    refused = {f"refused {name}": scenario for name, (scenario, _) in REFUSED.items()}
    return play({**TRAINED, **refused}, tmp_path_factory.mktemp("homes"))


def parties_of(name):
    return [party for party in (GUEST, HOST, SECOND_HOST) if party in TRAINED[name].arguments["tables"]]


def model_of(runs, name, party=GUEST):
    return runs[name][party].value["model"]


def noised_moments(runs, name, added=True):
    """H and b of the joint model, from clipped rows, true labels and the noise that the guest drew."""
    arguments = TRAINED[name].arguments
    ((moments, values, _),) = runs[name][GUEST].value["drawn"]
    rows = []
    for party in parties_of(name):
        features = np.rint(features_of(arguments["tables"][party]) * 2.0**24) * 2.0**-24
        width = features.shape[1]
        bounds = RowBounds(width, arguments.get("clip", math.sqrt(width)))
        rows.append(clip_rows(features, np.ones(width), bounds, moments.fraction_bits))
        if party == GUEST:
            rows.append(np.full((len(features), 1), 2**24))
    joint = np.hstack(rows).astype(object)
    target = np.where(arguments["tables"][GUEST]["y"].to_numpy() == 1, 2, -2).astype(object) << 24
    linear = joint.T @ target + (DRAWS[arguments.get("draw")](values) if added else 0)
    scale = 2.0**-48 / (4 * len(joint))
    return (joint.T @ joint).astype(float) * scale, linear.astype(float) * scale


def joint_weights(runs, name):
    return np.concatenate([weights(runs[name], party) for party in parties_of(name)])


def descended(runs, name, added=True):
    hessian, linear = noised_moments(runs, name, added)
    optimizer = model_of(runs, name)["meta"]["optimizer_param"]
    hessian = hessian + optimizer["alpha"] * np.eye(len(linear))
    w, losses = np.concatenate([runs[name][party].value["start"] for party in parties_of(name)]), []
    velocity = np.zeros_like(w)
    for _ in range(TRAINED[name].arguments["epochs"]):
        losses.append(w @ hessian @ w / 2 - linear @ w + math.log(2))
        velocity = optimizer["optimizer_params"]["momentum"] * velocity + hessian @ w - linear
        w = w - optimizer["optimizer_params"]["lr"] * velocity
    return w, losses


def test_all_trainings_ended(runs):
    errors = {
        (name, party): outcome.error
        for name in TRAINED
        if name != "beyond the cap"
        for party, outcome in runs[name].items()
        if outcome.error
    }
    assert not errors


@pytest.mark.parametrize("name", ["noise", "again", "two hosts", "much noise", "one class"])
def test_the_model_is_that_of_true_sums_with_noise_and_of_nothing_else(runs, name):
    expected, losses = descended(runs, name)
    np.testing.assert_allclose(joint_weights(runs, name), expected, atol=1e-6, rtol=0)
    np.testing.assert_allclose(model_of(runs, name)["data"]["estimator"]["losses"], losses, atol=FURTHEST_LOSS)
    without, _ = descended(runs, name, added=False)
    assert np.abs(expected - without).max() > 1e-3


def test_a_mutant_whose_losses_read_true_labels_is_noticed(runs):
    _, losses = descended(runs, "leak")
    assert not np.allclose(model_of(runs, "leak")["data"]["estimator"]["losses"], losses, atol=1e-3)


def of_run(runs, name):
    hessian, linear = noised_moments(runs, name, added=False)
    return hessian + model_of(runs, name)["meta"]["optimizer_param"]["alpha"] * np.eye(len(linear)), linear


def test_with_the_same_sums_after_noise_nobody_else_could_tell_the_labels(runs):
    """With noise fixed, models differ by what labels say; the noise of a run covers a label's part in it."""
    first, second = (of_run(runs, name)[1] for name in ("labels", "other labels"))
    assert np.abs(first - second).max() > 0.01
    moments, values, _ = runs["noise"][GUEST].value["drawn"][0]
    features = np.hstack([features_of(TABLES[GUEST]), np.ones((150, 1)), features_of(TABLES[HOST])])
    bounded = np.minimum(np.linalg.norm(features, axis=1), math.sqrt(3 + 1 + 4))
    assert 4 * bounded.max() <= moments.sensitivity
    assert moments.sigma == pytest.approx(noise_multiplier_for(1.0, 1e-5) * 4 * math.sqrt(8))
    assert len(values) == 8


def test_much_noise_leaves_a_model_that_says_nothing_of_the_labels(runs):
    def correct(name):
        table = TRAINED[name].arguments["tables"]
        columns = [features_of(table[GUEST]), np.ones((150, 1)), features_of(table[HOST])]
        return np.mean((np.hstack(columns) @ joint_weights(runs, name) > 0) == (table[GUEST]["y"] == 1))

    assert correct("no noise drawn") > 0.8
    # The ridge of so much noise leaves nothing of the sums. What was drawn may be small by chance: once in 2,000 runs.
    ((moments, values, _),) = runs["much noise"][GUEST].value["drawn"]
    signal = np.linalg.norm(noised_moments(runs, "much noise", added=False)[1]) * 4 * 150
    assert moments.sigma * math.sqrt(len(values)) > 10 * signal


def test_the_label_source_pays_before_a_message_depends_on_labels(runs):
    entries = [entry for entry in runs["noise"][GUEST].ledger["entries"] if entry["mechanism"] == "Gaussian"]
    (entry,) = entries
    assert entry["source"] == SOURCE and entry["unit"] == "label" and entry["pending"] == 0
    event = Event(Gaussian(noise_multiplier_for(1.0, 1e-5)), "label", REPLACE_ONE, "host")
    for name, count in (("noise", 1), ("again", 2)):
        totals = {line["observer"]: line for line in runs[name][GUEST].value["totals"] if line["dataset"] == SOURCE}
        assert set(totals) == {"host", "arbiter", "model", "everybody"}
        assert totals["host"]["epsilon"] == pytest.approx(total_epsilon([(event, count)], 1e-5), rel=1e-6)
    for party in (HOST, ARBITER):
        assert not [entry for entry in runs["noise"][party].ledger["entries"] if entry["mechanism"] == "Gaussian"]


def test_beyond_the_cap_nothing_is_sent_or_charged(runs):
    outcomes = runs["beyond the cap"]
    assert "The label source" in outcomes[GUEST].error and "--labels EPSILON" in outcomes[GUEST].error
    for party in (HOST, ARBITER):
        assert "The cap that the guest's operator set for these labels" in outcomes[party].error
        assert "has spent" not in outcomes[party].error
        assert {message for _, message, _ in outcomes[party].received} <= PREFLIGHT
    assert outcomes[GUEST].ledger == runs["again"][GUEST].ledger


def test_labels_of_one_class_are_trained_on_as_any_others(runs):
    """A refusal would tell the others about labels."""
    assert all(not outcome.error for outcome in runs["one class"].values())


def test_hosts_get_messages_of_one_form_whatever_the_labels_are(runs):
    def forms(name):
        return [(sender, message) for sender, message, _ in runs[name][HOST].received]

    assert forms("labels") == forms("other labels")


def test_the_model_says_what_noise_it_was_trained_with(runs):
    model = model_of(runs, "noise")["meta"]
    privacy = model["privacy"]
    assert (privacy["epsilon"], privacy["delta"], privacy["unit"], privacy["source"]) == (1.0, 1e-5, "label", SOURCE)
    assert privacy["releases"] == [
        {"source": SOURCE, "epsilon": 1.0, "classes": 0, "key_id": "", "entry_id": 0, "delta": 1e-5}
    ]
    assert model["noise"]["kind"] == "label" and model["noise"]["unit"] == "label"
    assert model_of(runs, "noise", HOST)["meta"]["noise"]["epsilon"] == "infinity"
    ((moments, _, _),) = runs["noise"][GUEST].value["drawn"]
    assert model["optimizer_param"]["alpha"] >= moments.sigma * math.sqrt(8) / 4 / (4 * 150) * (1 - 1e-9)
    summary = runs["noise"][GUEST].value["summary"]
    assert summary["epsilon of the labels (nats, unit label, replace-one)"] == 1.0
    assert summary["delta of the labels"] == 1e-5 and summary["flip probability"] == "none: noise on sums"
    assert summary["features and labels have differential privacy (unit record)"] == "no"


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_break_the_promise_is_refused_at_every_party(runs, name):
    outcomes = runs[f"refused {name}"]
    if name in OF_LABELS:
        assert all(outcome.error for outcome in outcomes.values())
        told = {outcomes[party].error for party in (HOST, ARBITER)}
        assert len(told) == 1 and "its operator" in told.pop().lower()
        if name != "synthetic rows":
            assert REFUSED[name][1] in outcomes[GUEST].error
    else:
        assert_refused(outcomes, REFUSED[name][1])
    for outcome in outcomes.values():
        assert {message for _, message, _ in outcome.received} <= PREFLIGHT
        assert not [entry for entry in outcome.ledger["entries"] if entry["mechanism"] == "Gaussian"]


def test_flips_before_it_are_refused_by_label_flip_before_they_are_charged(tmp_path):
    job = KnownJob({"privacy": "label", "epsilon": 1.0, "label_source": SOURCE})
    outcomes = play({"flip": Scenario(flip, {"tables": TABLES, "job": job}, (GUEST, HOST))}, tmp_path)["flip"]
    assert_refused(outcomes, "privacy is label, which protects true labels, but flip flips them")
    assert outcomes[GUEST].ledger["entries"] == []


@pytest.mark.parametrize("name", ["noise", "much noise"])
def test_the_benchmarks_plaintext_twin_is_the_protocol(runs, name):
    arguments, table = TRAINED[name].arguments, TABLES
    radius = arguments.get("clip")
    terms = twin.noise_terms((3, 4), [radius or math.sqrt(3), radius or math.sqrt(4)], arguments["epsilon"])
    rows, targets = twin.clipped_rows(
        [features_of(table[GUEST]), features_of(table[HOST])], table[GUEST]["y"].to_numpy(float), terms
    )
    ((moments, values, _),) = runs[name][GUEST].value["drawn"]
    assert terms.on_labels == moments
    start = np.concatenate([runs[name][party].value["start"] for party in (GUEST, HOST)])
    optimizer = model_of(runs, name)["meta"]["optimizer_param"]
    found = twin.noisy_weights((rows.T @ rows, rows.T @ targets), terms, 150, values, start=start, epochs=3)
    np.testing.assert_allclose(found, joint_weights(runs, name), atol=1e-6)
    assert optimizer["alpha"] >= terms.least_ridge(150) * (1 - 1e-9)
