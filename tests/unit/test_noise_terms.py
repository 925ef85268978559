"""Terms of noise: each party checks its own part, bounds hold for what is drawn, a budget is asked for in advance."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fate_dp.components.dp_hetero_lr.agreement import JointTable, training_terms
from fate_dp.components.dp_hetero_lr.cross_product.statistics import SumShares
from fate_dp.components.dp_hetero_lr.noise import check_own_part, noise_terms
from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.protocols.shared_descent import JointColumns
from fate_dp.components.protocols.training_terms import Descent, NoiseTerms, PartyNoise
from fate_dp.privacy import BudgetExceeded, Ledger
from fate_dp.privacy.events import REPLACE_ONE, Event, Gaussian
from fate_dp.privacy.ledger.entries import BudgetCap

GUEST = {
    "kind": "adaptive",
    "features": 3,
    "radius": 2.0,
    "intercept": True,
    "target": 2.0,
    "multipliers": {"first_fit": 8.0, "training": 2.0},
}
HOST = {
    **GUEST,
    "features": 2,
    "radius": 1.0,
    "intercept": False,
    "target": 0.0,
    "multipliers": {"first_fit": 4.0, "training": 1.0},
}
ROWS, FEATURES = 400, [4, 2]
SETTINGS = TrainSettings(privacy="record", noise_spread="adaptive", train_scores=False)


def terms(guest=GUEST, host=HOST, settings=SETTINGS):
    noise = noise_terms(PartyNoise.from_wire(guest), {"host 10000": PartyNoise.from_wire(host)}, ROWS)
    return training_terms(Descent.of(settings), JointTable(ROWS, FEATURES), math.inf, noise=noise)


def check(noise, own, features=FEATURES):
    """`check_own_part` at the host, of terms as they come from the wire."""
    check_own_part(noise and NoiseTerms.from_wire(noise), own and PartyNoise.from_wire(own), 1, features)


@pytest.mark.parametrize(
    "change",
    [{"multipliers": {"first_fit": 4.0, "training": 0.5}}, {"radius": 0.5}, {"features": 3}, {"kind": "uniform"}],
)
def test_a_host_trains_only_on_what_it_said_of_itself(change):
    noise = terms().noise.to_wire()
    check(noise, HOST)
    with pytest.raises(ValueError, match="not those of this host's parameters"):
        check({**noise, "parties": [GUEST, {**HOST, **change}]}, HOST)


@pytest.mark.parametrize(
    "noise",
    [None, {"kind": "uniform"}, {"fit": "first_fit"}, {"parties": [HOST, GUEST]}, {"parties": [GUEST, HOST, HOST]}],
)
def test_other_terms_of_noise_are_refused(noise):
    with pytest.raises(ValueError, match="not those of this host's parameters"):
        check(noise and {**terms().noise.to_wire(), **noise}, HOST)
    with pytest.raises(ValueError, match="not those of this host's parameters"):
        check(terms().noise.to_wire(), None)


def test_another_number_of_features_is_refused():
    with pytest.raises(ValueError, match="other numbers of features"):
        check(terms().noise.to_wire(), HOST, [5, 2])


def test_the_ridge_is_never_below_what_noise_needs():
    given = {"method": "sgd", "penalty": "none", "alpha": 9.0, "optimizer_params": {"lr": 0.1}}
    required = terms().noise.moments.required_ridge(ROWS, 4)
    for optimizer, alpha in ((None, 1.25 * required), (given, 1.25 * required), ({**given, "penalty": "l2"}, 9.0)):
        made = terms(
            settings=TrainSettings(privacy="record", noise_spread="adaptive", train_scores=False, optimizer=optimizer)
        )
        assert made.optimizer["penalty"] == "l2" and made.optimizer["alpha"] == pytest.approx(alpha)
        made.check_ridge()
        assert made.penalties == [made.optimizer["alpha"]] * 6
    weak = replace(terms(), optimizer={**terms().optimizer, "alpha": 1.2 * required})
    with pytest.raises(ValueError, match="noise needs at least"):
        weak.check_ridge()
    first = terms().first_fit()
    assert first.optimizer["alpha"] == pytest.approx(1.25 * first.noise.moments.required_ridge(ROWS, 4))


def test_bounds_hold_for_noised_statistics():
    """For the longest rows there can be, all alike, and drawn noise."""
    made = terms()
    bounds, moments = made.bounds, made.noise.moments
    rows = np.tile([2 / math.sqrt(3)] * 3 + [1.0] + [1 / math.sqrt(2)] * 2, (ROWS, 1))
    for target in (2.0, -2.0):
        sums, linear = rows.T @ rows, rows.T @ np.full(ROWS, target)
        places = slice(0, 4), slice(4, 6)
        for own, other, position in ((*places, 0), (*places[::-1], 1)):
            noise = moments.draw(position, "model")
            columns = JointColumns((("guest", "1"), ("host", "2")), tuple(FEATURES), position)
            zeros = SumShares(np.zeros((6, 6), dtype=object), np.zeros((6, 1), dtype=object))
            share = zeros.with_noise(noise, columns)
            assert not zeros.matrix.any() and not zeros.linear.any()
            assert (share.matrix == share.matrix.T).all() and not share.matrix[other, other].any()
            count, peers = FEATURES[position], FEATURES[1 - position]
            assert (share.matrix[own, other] == noise.cross[1 - position][:count, :peers]).all()
            sums, linear = (
                sums + share.matrix.astype(float) * 2.0**-48,
                linear + share.linear[:, 0].astype(float) * 2.0**-48,
            )
        hessian, linear = sums / (4 * ROWS), linear / (4 * ROWS)
        values = np.linalg.eigvalsh(hessian)
        assert values[-1] <= bounds.curvature and np.linalg.norm(linear) <= bounds.linear_norm
        assert values[0] + bounds.penalty > 0
        ridged = hessian + bounds.penalty * np.eye(6)
        assert -linear @ np.linalg.solve(ridged, linear) / 2 >= bounds.minimum
    # Not idle: the rows reach most of the bounds.
    assert bounds.curvature - bounds.noise == pytest.approx((2.0**2 + 1 + 1) / 4)
    assert bounds.linear_norm - bounds.linear_noise == pytest.approx(math.sqrt(6) / 2)
    assert bounds.penalty == pytest.approx(1.25 * bounds.noise)


def test_the_default_step_never_overshoots():
    made = terms()
    bounds = made.bounds
    assert made.optimizer["optimizer_params"]["lr"] == pytest.approx(1 / (bounds.curvature + bounds.penalty))


def test_a_ledger_is_asked_in_advance_and_writes_nothing(tmp_path):
    ledger, cap = Ledger(tmp_path / "ledger.sqlite"), BudgetCap(1.5, 1e-5)
    event = Event(Gaussian(3.730632), "record", REPLACE_ONE, ("host", "model"))
    ledger.check_steps(dataset="columns:a", events=[(event, 1)], cap=cap)
    assert ledger.entries() == []
    with pytest.raises(BudgetExceeded, match="this step asks for 1.83"):
        ledger.check_steps(dataset="columns:a", events=[(event, 2), (event, 1)], cap=cap)
    known = {"cap": cap, "job_id": "job", "task_id": "task", "fingerprint": ""}
    ledger.record(dataset="columns:a", event=event, release_key="draw", **known)
    with pytest.raises(BudgetExceeded, match="has spent epsilon 1, this step asks for"):
        ledger.check_steps(dataset="columns:a", events=[(event, 2)], cap=cap)
    assert len(ledger.entries()) == 1
