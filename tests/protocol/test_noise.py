"""Training with noise: the model is that of the noised statistics, each party's ledger says what it cost, and whatever
would read the rows again is refused."""

import math

import numpy as np
import pytest

from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.adaptive_scales import AdaptiveBudget
from fate_dp.privacy.events import REPLACE_ONE, Event, Gaussian, PureDP
from fate_dp.privacy.mechanisms.second_moments import (
    RowBounds,
    SecondMoments,
    clip_rows,
    clip_target,
    noise_multiplier_for,
    unit_scales,
)

from .scenarios import (
    ARBITER,
    FURTHEST_LOSS,
    GUEST,
    HOST,
    SECOND_HOST,
    Scenario,
    assert_refused,
    features_of,
    frame_at,
    play,
    role_of,
    tables,
    train,
    weights,
)

PREFLIGHT = {"preflight", "verdict"}
TABLES = tables(rows=150, guest=3, hosts=(4,))
TWO_HOSTS = tables(rows=150, guest=3, hosts=(4, 2), seed=1)
BOTH = (GUEST, HOST, SECOND_HOST, ARBITER)
EPSILONS = {GUEST: {"epsilon": 1.0, "delta": 1e-5}, HOST: {"epsilon": 2.0, "delta": 1e-6}}
INIT = {"method": "kaiming", "fill_val": 0.0, "fit_intercept": True, "random_state": 3}
COMMON = dict(
    tables=TABLES,
    public=True,
    tol=0,
    train_scores=False,
    privacy="record",
    epochs=2,
    by_party=EPSILONS,
    init_param=INIT,
)
DESCENT = {"method": "sgd", "penalty": "l2", "alpha": 8.0, "optimizer_params": {"lr": 0.11}}
WIDE = {party: {"epsilon": 20.0, "clip": 16.0} for party in (GUEST, HOST)}


def noisy(ctx, earlier, by_party, cap=None, zero=False, **arguments):
    """``train`` with parameters of each party; also what it drew, its scales and the totals of its ledger."""
    from fate_dp.components.common.charges import columns_name, home_of
    from fate_dp.components.dp_hetero_lr import noise as own_noise
    from fate_dp.privacy.private_files import replace_file

    me, drawn, found = tuple(ctx.federation.local_party), [], []
    draw, scales = SecondMoments.draw, own_noise.adaptive_scales

    def recorded(moments, *given):
        noise = draw(moments, *given)
        if zero:
            noise.gram[:] = 0
            for block in noise.cross.values():
                block[:] = 0
        drawn.append((moments, noise.gram, noise.cross))
        return noise

    def kept(contributions):
        found.append(scales(contributions))
        return found[-1]

    frame = frame_at(ctx, arguments["tables"])
    name = None if frame is None else columns_name(frame.schema.columns)
    if cap and me in cap:
        replace_file(home_of(ctx).path / "policy.yaml", f"dataset_caps:\n  {name!r}: {{epsilon: {cap[me]}}}\n".encode())
    SecondMoments.draw, own_noise.adaptive_scales = recorded, kept
    try:
        value = train(ctx, earlier, **{**arguments, **by_party.get(me, {})})
    finally:
        SecondMoments.draw, own_noise.adaptive_scales = draw, scales
    summary = {"dataset": name, "drawn": drawn, "scales": found}
    if frame is not None:
        summary["totals_of_all"] = home_of(ctx).ledger.totals(1e-5)
        summary["totals"] = {
            line["observer"]: line
            for line in summary["totals_of_all"]
            if line["dataset"] == name and line["observer"] != "everybody"
        }
    return {**value, **summary}


def folds(ctx, earlier, tables, **settings):
    """The cross-validation stage under these settings."""
    from fate_dp.components.dp_hetero_lr import train as stage
    from fate_dp.components.dp_hetero_lr.settings import TrainSettings, cv_param

    settings, frame = TrainSettings(**settings), frame_at(ctx, tables)
    if role_of(ctx) == "guest":
        list(stage.validate_guest(ctx, settings, cv_param({}), frame))
    elif role_of(ctx) == "host":
        stage.validate_host(ctx, settings, cv_param({}), frame)
    else:
        stage.validate_arbiter(ctx, settings, cv_param({}))


def renamed() -> dict:
    """The same records, of which the host brings columns that have none of the old names, and one fewer."""
    host = TABLES[HOST].drop(columns=TABLES[HOST].columns[-1])
    return {**TABLES, HOST: host.rename(columns=lambda name: name.replace("x", "z"))}


def with_other_ids() -> dict:
    """Unrelated records in tables that have the same columns."""
    return {party: table.assign(id="other " + table["id"]) for party, table in TABLES.items()}


BEYOND = ("beyond the cap", "other columns beyond the cap")
TRAINED = {
    "uniform": Scenario(noisy, COMMON, home="uniform"),
    "uniform again": Scenario(noisy, {**COMMON, "cap": {HOST: 3.2}}, home="uniform"),
    "beyond the cap": Scenario(noisy, {**COMMON, "cap": {HOST: 3.2}}, home="uniform"),
    "other columns beyond the cap": Scenario(noisy, {**COMMON, "tables": renamed()}, home="uniform"),
    "other records": Scenario(noisy, {**COMMON, "tables": with_other_ids()}, home="uniform"),
    "no noise drawn": Scenario(
        noisy,
        {**COMMON, "by_party": WIDE, "zero": True, "epochs": 8, "optimizer": DESCENT, "cap": {GUEST: 99.0, HOST: 99.0}},
        (GUEST, HOST),
    ),
    "host without noise": Scenario(
        noisy, {**COMMON, "by_party": {GUEST: {"epsilon": 4.0}, HOST: {"clip": 0.75}}}, (GUEST, HOST)
    ),
    "adaptive": Scenario(
        noisy,
        {
            **COMMON,
            "tables": TWO_HOSTS,
            "privacy": "record",
            "noise_spread": "adaptive",
            "by_party": {GUEST: {"epsilon": 3.0, "delta": 1e-5}, HOST: {"epsilon": 4.0, "delta": 1e-5}},
        },
        BOTH,
    ),
}


def on(parties=(GUEST, HOST, ARBITER), by_party=EPSILONS, **arguments):
    return Scenario(noisy, {**COMMON, "epochs": 1, "by_party": by_party, **arguments}, parties)


def at(party, **settings):
    return {**EPSILONS, party: {**EPSILONS[party], **settings}}


EVERYWHERE = "With privacy record, "
REFUSED = {
    "per_epoch": (on(solver="per_epoch"), EVERYWHERE + "these settings need solver per_epoch"),
    "adam": (
        on(optimizer={"method": "adam", "penalty": "l2", "alpha": 1.0, "optimizer_params": {"lr": 0.1}}),
        "need solver per_epoch",
    ),
    "exact sigmoid": (on(sigmoid="exact"), EVERYWHERE + "sigmoid must be taylor, got 'exact'"),
    "gaussian": (on(family="gaussian"), EVERYWHERE + "family must be binomial"),
    "flipback": (on(flipback={"mode": "swap"}), EVERYWHERE + "flipback.mode must be none, got 'swap'"),
    "scores of training rows": (on(train_scores=True), EVERYWHERE + "train_scores must be false"),
    "batches": (on(batch_size=50), EVERYWHERE + "batch_size must be None, got 50"),
    "warm start": (on(warm_start="uniform"), EVERYWHERE + "warm_start_model is given"),
    "nobody's epsilon": (on(by_party={}), "privacy is record, but no party sets epsilon"),
    "host disagrees": (
        on(by_party=at(HOST, privacy="record", noise_spread="adaptive")),
        "privacy at host 10000 must be record with noise_spread uniform, as at the guest, got record with noise_spread "
        "adaptive.",
    ),
    "guest without": (
        on(by_party=at(GUEST, privacy="none", epsilon=None)),
        "privacy at host 10000 must be none, as at the guest, got record with noise_spread uniform.",
    ),
    "epsilon without noise": (on(privacy="none"), "but privacy is none, which protects no record"),
    "too much noise": (on(by_party=at(GUEST, epsilon=0.005)), "and sums over 150 records are masked up to 38400"),
    "synthetic rows": (
        on(
            tables={
                party: table.assign(id=table["id"].where(table.index != 7, "synthetic-0"))
                for party, table in TABLES.items()
            }
        ),
        "does not allow this noise",
    ),
    "cap of the sum": (
        on(
            privacy="record",
            noise_spread="adaptive",
            by_party=at(HOST, privacy="record", noise_spread="adaptive"),
            cap={HOST: 1.9},
        ),
        "The cap that",
    ),
    "folds": (
        Scenario(folds, {"tables": TABLES, "privacy": "record"}),
        "privacy is record, but cross-validation reads the rows again",
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return play(
        {**TRAINED, **{f"refused {name}": scenario for name, (scenario, _) in REFUSED.items()}},
        tmp_path_factory.mktemp("homes"),
    )


def parties_of(name):
    return [party for party in (GUEST, HOST, SECOND_HOST) if party in TRAINED[name].arguments["tables"]]


def bounds_of(name):
    """Public bounds, from the parameters alone."""
    arguments, bounds = TRAINED[name].arguments, []
    for party in parties_of(name):
        features = features_of(arguments["tables"][party]).shape[1]
        radius = arguments["by_party"].get(party, {}).get("clip", math.sqrt(features))
        bounds.append(RowBounds(features, radius, party == GUEST, 2.0 if party == GUEST else 0.0))
    return bounds


def noised_moments(runs, name, fit=-1):
    """H and b of the joint model, from clipped rows and the noise that every party drew."""
    tables, parties, bounds = TRAINED[name].arguments["tables"], parties_of(name), bounds_of(name)
    drawn = [runs[name][party].value["drawn"][fit] for party in parties]
    bits, rows = drawn[0][0].fraction_bits, []
    for party, own in zip(parties, bounds):
        features = np.rint(features_of(tables[party]) * 2.0**24) * 2.0**-24
        columns = [clip_rows(features, scales_of(runs, name, party, fit), own, bits)]
        if party == GUEST:
            labels = tables[GUEST]["y"].to_numpy(float)
            columns += [np.full((len(features), 1), 2**24), clip_target(4 * (labels - 0.5), own, bits)[:, None]]
        rows.append(np.hstack(columns).astype(object))
    joint, ends = np.hstack(rows), np.cumsum([0, *(own.columns for own in bounds)])
    sums, places = joint.T @ joint, [slice(a, b) for a, b in zip(ends, ends[1:])]
    for place, (_, gram, cross) in zip(places, drawn):
        sums[place, place] += gram
        for other, block in cross.items():
            sums[place, places[other]] += block
            sums[places[other], place] += block.T
    target = bounds[0].weights
    kept = [column for column in range(len(sums)) if column != target]
    noisy_sums = sums.astype(float) * 2.0**-48 / (4 * len(joint))
    return noisy_sums[np.ix_(kept, kept)], noisy_sums[kept, target]


def scales_of(runs, name, party, fit):
    found = runs[name][party].value["scales"]
    features = features_of(TRAINED[name].arguments["tables"][party]).shape[1]
    return found[0] if found and fit == -1 else np.ones(features)


def model_of(runs, name, party=GUEST):
    return runs[name][party].value["model"]


def joint_weights(runs, name):
    """In the space in which the model was trained."""
    parts = []
    for party in parties_of(name):
        own, scales = weights(runs[name], party), scales_of(runs, name, party, -1)
        parts.append(own * np.append(scales, np.ones(len(own) - len(scales))))
    return np.concatenate(parts)


def descended(runs, name):
    """Weights and losses of gradient descent on the noised moments, from the parties' own starts."""
    hessian, linear = noised_moments(runs, name)
    optimizer = model_of(runs, name)["meta"]["optimizer_param"]
    hessian = hessian + optimizer["alpha"] * np.eye(len(linear))
    w, losses = np.concatenate([runs[name][party].value["start"] for party in parties_of(name)]), []
    velocity = np.zeros_like(w)
    for _ in range(TRAINED[name].arguments["epochs"]):
        losses.append(w @ hessian @ w / 2 - linear @ w + math.log(2))
        velocity = optimizer["optimizer_params"].get("momentum", 0.0) * velocity + hessian @ w - linear
        w = w - optimizer["optimizer_params"]["lr"] * velocity
    return w, losses


def test_all_trainings_ended(runs):
    errors = {
        (name, party): outcome.error
        for name in TRAINED
        if name not in BEYOND
        for party, outcome in runs[name].items()
        if outcome.error
    }
    assert not errors


@pytest.mark.parametrize("name", ["uniform", "uniform again", "host without noise", "adaptive"])
def test_the_model_is_that_of_the_noised_statistics(runs, name):
    expected, losses = descended(runs, name)
    np.testing.assert_allclose(joint_weights(runs, name), expected, atol=1e-6, rtol=0)
    np.testing.assert_allclose(model_of(runs, name)["data"]["estimator"]["losses"], losses, atol=FURTHEST_LOSS)
    start = np.concatenate([runs[name][party].value["start"] for party in parties_of(name)])
    assert np.abs(expected - start).max() > 0.01


def test_without_drawn_noise_and_clip_it_is_the_plaintext_minimum(runs):
    columns = [features_of(TABLES[GUEST]), np.ones((150, 1)), features_of(TABLES[HOST])]
    rows, labels = np.hstack(columns), TABLES[GUEST]["y"].to_numpy(float)
    assert max(np.linalg.norm(features_of(table), axis=1).max() for table in TABLES.values()) < 16
    minimum = np.linalg.solve(rows.T @ rows / 600 + 8.0 * np.eye(8), rows.T @ (labels - 0.5) / 150)
    np.testing.assert_allclose(joint_weights(runs, "no noise drawn"), minimum, atol=1e-6, rtol=0)


def normalised_noise(runs, epsilons):
    """All drawn numbers over the scale that epsilon asks for, by the analytic Gaussian mechanism."""
    numbers = []
    multipliers = [noise_multiplier_for(*epsilons[party]) for party in (GUEST, HOST)]
    moments = SecondMoments(bounds_of("uniform"), multipliers)
    for name in ("uniform", "uniform again", "other records"):
        for position, party in enumerate((GUEST, HOST)):
            _, gram, cross = runs[name][party].value["drawn"][0]
            (block,), sigma, size = cross.values(), moments.sigma(position), len(gram)
            pairs = gram[np.triu_indices(size, 1)] * math.sqrt(2)
            numbers += [float(value) / sigma * 2.0**-48 for value in (*np.diag(gram), *pairs, *block.ravel()) if value]
    return np.array(numbers)


def has_the_promised_variance(numbers):
    # A mean of 180 squares of normal numbers leaves these bounds once in 10^8 runs, and four times or a quarter of it
    # lies within them as rarely.
    return len(numbers) == 180 and 0.5 < np.mean(numbers**2) < 2.0


def test_noise_has_the_scale_that_was_promised(runs):
    numbers = normalised_noise(runs, {GUEST: (1.0, 1e-5), HOST: (2.0, 1e-6)})
    assert has_the_promised_variance(numbers)
    assert not has_the_promised_variance(numbers / 2) and not has_the_promised_variance(0 * numbers)
    assert not has_the_promised_variance(numbers * 2)


def steps(outcome):
    return [entry for entry in outcome.ledger["entries"] if entry["mechanism"] in ("Gaussian", "PureDP")]


def test_each_party_charges_its_own_noise_in_its_own_ledger(runs):
    for party, epsilon, delta, observers in ((GUEST, 1.0, 1e-5, "host"), (HOST, 2.0, 1e-6, "guest")):
        (entry,) = steps(runs["uniform"][party])
        assert (entry["unit"], entry["relation"], entry["rounds"]) == ("record", REPLACE_ONE, 1)
        assert {observers, "arbiter", "model"} <= set(entry["observer"].split(", "))
        assert total_epsilon([(gaussian(epsilon, delta), 1)], delta) == pytest.approx(epsilon, rel=1e-4)
        assert runs["uniform"][party].value["totals"]["model"]["epsilon"] == pytest.approx(
            total_epsilon([(gaussian(epsilon, delta), 1)], 1e-5), rel=1e-6
        )
        assert runs["uniform again"][party].value["totals"]["model"]["epsilon"] == pytest.approx(
            total_epsilon([(gaussian(epsilon, delta), 2)], 1e-5), rel=1e-6
        )


def gaussian(epsilon, delta):
    return Event(Gaussian(noise_multiplier_for(epsilon, delta)), "record", REPLACE_ONE, "model")


@pytest.mark.parametrize("name", BEYOND)
def test_a_run_beyond_the_cap_is_refused_before_any_message_and_costs_nobody_anything(runs, name):
    """The cap that was set for some columns holds for all columns of these records."""
    outcomes = runs[name]
    assert "has spent epsilon" in outcomes[HOST].error and "has spent" not in outcomes[GUEST].error
    assert all(outcome.error.startswith("host 10000: The ") for outcome in outcomes.values())
    for party, outcome in outcomes.items():
        assert {message for _, message, _ in outcome.received} <= PREFLIGHT
        assert outcome.ledger == runs["uniform again"][party].ledger


def test_unrelated_tables_of_the_same_columns_have_a_budget_each(runs):
    """FATE's example tables share names of columns; only records make them one."""
    spent = [line for line in runs["other records"][HOST].value["totals_of_all"] if line["observer"] == "model"]
    assert [line["dataset"].partition("#")[2] for line in spent] == ["", "2"]
    assert spent[1]["epsilon"] == pytest.approx(total_epsilon([(gaussian(2.0, 1e-6), 1)], 1e-5), rel=1e-6)


def test_a_party_without_noise_is_promised_nothing_and_is_clipped(runs):
    outcomes = runs["host without noise"]
    # Of its losses there is a count, and no guarantee.
    assert steps(outcomes[HOST]) == [] and outcomes[HOST].value["totals"].keys() <= {"guest"}
    assert model_of(runs, "host without noise", HOST)["meta"]["noise"]["epsilon"] == "infinity"
    assert model_of(runs, "host without noise")["meta"]["noise"]["epsilon"] == 4.0
    _, gram, cross = outcomes[HOST].value["drawn"][0]
    assert not gram.any() and not cross[0].any()
    # That its rows were shortened shows in the moments that the model belongs to.
    features = features_of(TABLES[HOST])
    shortened = clip_rows(features, unit_scales(RowBounds(4, 0.75)), RowBounds(4, 0.75)) * 2.0**-24
    assert np.linalg.norm(shortened, axis=1).max() <= 0.75 < np.linalg.norm(features, axis=1).max()
    hessian, _ = noised_moments(runs, "host without noise")
    np.testing.assert_allclose(hessian[4:, 4:], shortened.T @ shortened / 600, atol=1e-5)


def test_adaptive_noise_charges_contributions_and_two_fits(runs):
    for party, epsilon in ((GUEST, 3.0), (HOST, 4.0)):
        budget, entries = AdaptiveBudget(epsilon, 1e-5), steps(runs["adaptive"][party])
        assert sorted(entry["mechanism"] for entry in entries) == ["Gaussian", "Gaussian", "PureDP"]
        charged = [Event(PureDP(budget.contribution_epsilon), "record", REPLACE_ONE, "model")]
        charged += [
            Event(Gaussian(multiplier), "record", REPLACE_ONE, "model")
            for multiplier in (budget.first_fit_multiplier, budget.training_multiplier)
        ]
        total = runs["adaptive"][party].value["totals"]["model"]["epsilon"]
        assert total == pytest.approx(total_epsilon([(event, 1) for event in charged], 1e-5), rel=1e-6)
        assert total <= epsilon
        (scales,) = runs["adaptive"][party].value["scales"]
        assert np.exp(np.log(scales).mean()) == pytest.approx(1.0) and np.ptp(scales) > 0
        first, training = runs["adaptive"][party].value["drawn"]
        assert (first[1] != training[1]).sum() >= first[1].size - 1
    assert runs["adaptive"][SECOND_HOST].value["scales"] == [] and steps(runs["adaptive"][SECOND_HOST]) == []


def test_every_release_is_marked_as_written(runs):
    for name in ("uniform", "adaptive"):
        for party in (GUEST, HOST):
            assert all(entry["pending"] == 0 for entry in steps(runs[name][party])), steps(runs[name][party])


def test_the_model_says_what_noise_it_was_trained_with(runs):
    noise = model_of(runs, "uniform", HOST)["meta"]["noise"]
    assert noise == {
        "kind": "uniform",
        "epsilon": 2.0,
        "delta": 1e-6,
        "radius": 2.0,
        "unit": "record",
        "relation": REPLACE_ONE,
        "observers": ["arbiter", "guest", "model"],
    }
    optimizer = model_of(runs, "uniform")["meta"]["optimizer_param"]
    moments = runs["uniform"][GUEST].value["drawn"][0][0]
    assert optimizer["alpha"] == pytest.approx(1.25 * moments.required_ridge(150, 4))
    assert model_of(runs, "uniform")["meta"]["privacy"]["flipback"] == "none"


def test_the_network_sees_nothing_of_how_large_the_columns_are(runs):
    (facts,) = [
        value["facts"]
        for sender, name, value in runs["uniform"][GUEST].received
        if name == "preflight" and sender.startswith("host")
    ]
    assert facts["mean_square_bits"] == 0 and facts["noise"]["radius"] == 2.0


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_break_the_promise_is_refused_alike_at_every_party(runs, name):
    outcomes = runs[f"refused {name}"]
    if "cap" in name or name == "synthetic rows":
        assert all(REFUSED[name][1] in outcomes[party].error for party in outcomes if party not in (HOST, GUEST))
        assert all(outcome.error for outcome in outcomes.values())
    else:
        assert_refused(outcomes, REFUSED[name][1])
    for outcome in outcomes.values():
        assert {message for _, message, _ in outcome.received} <= PREFLIGHT
        assert outcome.ledger["entries"] == []
