"""What share_lr makes of settings, sums, weights and scores, without a network."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.components.protocols import training_terms
from fate_dp.components.protocols.training_terms import Descent, Pace
from fate_dp.components.share_lr.agreement import one_batch_terms
from fate_dp.components.share_lr.model import JoinedModel
from fate_dp.components.share_lr.scoring import (
    KEPT_BITS,
    kept_share,
    leading_bits,
    limbs_of,
    opened_scores,
    score_modulus,
)
from fate_dp.components.share_lr.settings import SEES, ShareSettings
from fate_dp.components.share_lr.training import Progress, quadratic_sums
from fate_dp.crypto.joined_records import SHARE_BITS

UNIT = 2**22
WEIGHTS = st.lists(st.integers(-(2**KEPT_BITS) + 1, 2**KEPT_BITS - 1), min_size=3, max_size=3)


def objects(numbers) -> np.ndarray:
    made = np.empty(len(numbers), dtype=object)
    made[:] = numbers
    return made


def model_of(weights, reveal="both", fit_intercept=True):
    return JoinedModel(("guest_x0", "host_x0"), ("age",), "binomial", fit_intercept, reveal, "run", "origin", weights)


def written(model) -> dict:
    progress = Progress(3, True, [0.7, 0.6, 0.5])
    return json.loads(json.dumps(model.to_json(ShareSettings(), {"method": "sgd"}, progress, None)))


@given(WEIGHTS, st.sampled_from(["both", "nobody"]))
def test_a_model_is_read_as_it_was_written(weights, reveal):
    read = JoinedModel.from_json(written(model_of(objects(weights), reveal)))
    assert read.weights.tolist() == weights
    assert (read.header, read.own_columns, read.reveal) == (("guest_x0", "host_x0"), ("age",), reveal)
    assert (read.run, read.origin) == ("run", "origin")
    assert read.factors == ["guest_x0", "host_x0", "membership"]


def test_a_model_has_fates_format_where_it_is_opened_and_no_weight_where_not():
    estimator = written(model_of(objects([UNIT, -UNIT // 2, 3 * UNIT])))["data"]["estimator"]
    assert estimator["header"] == ["guest_x0", "age"]
    assert estimator["param"] == {"coef_": [[1.0], [-0.5]], "intercept_": [3.0], "dtype": "float64"}
    for model in (model_of(None, "host"), model_of(objects([5, 6, 7]), "nobody")):
        assert written(model)["data"]["estimator"]["param"] is None
    assert JoinedModel.from_json(written(model_of(None, "host"))).weights is None


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["data"].pop("estimator"),
        lambda document: document["meta"].update(reveal="everybody"),
        lambda document: document["data"]["estimator"].update(public_header=["guest_x0"]),
        lambda document: document["data"]["estimator"]["param"].update(coef_=[[1.0], [1e12]]),
        lambda document: document["data"]["estimator"]["param"].update(coef_=[[1.0], [float("nan")]]),
    ],
)
def test_a_model_that_share_lr_did_not_write_is_refused(change):
    document = written(model_of(objects([1, 2, 3])))
    change(document)
    with pytest.raises(ValueError, match="input_model"):
        JoinedModel.from_json(document)


@given(WEIGHTS, st.integers(-(2**125), 2**125))
def test_kept_shares_add_up_to_the_weights_and_are_narrow(weights, mask):
    exact = objects([weight << 18 for weight in weights])
    guest, host = kept_share([mask] * 3, True), kept_share((exact - mask).tolist(), False)
    modulus = 1 << KEPT_BITS + 42
    errors = [(total - weight) % modulus for total, weight in zip(guest + host, weights)]
    assert all(min(error, modulus - error) <= 1 for error in errors)
    assert all(abs(share) <= 2**92 for share in [*guest, *host])


@given(st.lists(st.integers(-(2**92) + 1, 2**92 - 1), min_size=1, max_size=4))
def test_limbs_of_weights_fit_as_factors_and_add_up(weights):
    high, low = limbs_of(objects(weights)).T
    assert ((high << 50) + low).tolist() == weights
    assert all(abs(limb) < 2**SHARE_BITS for limb in [*high, *low])


@given(st.integers(-3 * 2**74, 3 * 2**74), st.integers(-(2**200), 2**200))
def test_scores_are_opened_to_twelve_bits_whatever_the_shares(score, mask):
    modulus = score_modulus(3)
    sent = leading_bits(objects([mask]), modulus)
    (opened,) = opened_scores(objects([score - mask]), sent, modulus)
    units = int(opened * 2**12)
    assert 0 <= sent[0] < modulus
    assert units == opened * 2**12 and -(2**30) <= (units << 30) - score <= 2**30


@given(st.integers(0, 2**73), st.integers(-(2**200), 2**200), st.lists(st.integers(0, 2**30 - 1), max_size=9))
def test_scores_within_a_unit_open_to_two_numbers_at_most(score, own, within):
    modulus = score_modulus(3)
    received = leading_bits(objects([score + more - own for more in within]), modulus)
    assert len(set(opened_scores(objects([own] * len(within)), received, modulus))) <= 2


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
@pytest.mark.parametrize("intercept", [True, False])
def test_sums_of_the_target_follow_from_those_of_label_and_membership(family, intercept):
    generator = np.random.default_rng(1)
    membership = np.array([2, 2, 2, 0, 2])
    rows = np.column_stack([generator.integers(-9, 9, (5, 2)) * membership[:, None], membership, [2, 0, 2, 0, 2]])
    design = rows[:, :3] if intercept else rows[:, :2]
    target = rows[:, 3] - rows[:, 2] / 2 if family == "binomial" else rows[:, 3]
    matrix, linear = quadratic_sums((rows.T @ rows).astype(object), design.shape[1], family)
    assert (matrix == design.T @ design).all() and (linear == design.T @ target).all()


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
@pytest.mark.parametrize("rows, features", [(400, 31), (30_000, 41), (1_000_000, 21)])
def test_the_default_optimiser_may_train_for_the_default_number_of_epochs(family, rows, features):
    """The bound on mean squares is the public 2^8, so that more momentum would exceed the bounds on weights."""
    settings = ShareSettings(family=family).with_optimizer(rows, features, float("inf"))
    terms = one_batch_terms(rows, features, settings.optimizer, Descent.of(settings))
    assert terms.pace(terms.learning_rates()).together == 1
    assert len(terms.learning_rates()) == settings.epochs == 100


@pytest.mark.parametrize(
    "allowed, pace", [(1, Pace(1, False)), (2, Pace(1, False)), (3, Pace(1, True)), (9, Pace(1, True))]
)
def test_steps_run_before_the_guests_word_only_where_the_bounds_allow_for_them(monkeypatch, allowed, pace):
    monkeypatch.setattr(training_terms, "steps_allowed", lambda *given: allowed)
    settings = ShareSettings().with_optimizer(400, 31, float("inf"))
    terms = one_batch_terms(400, 31, settings.optimizer, Descent.of(settings))
    assert terms.pace(terms.learning_rates()) == pace
    batches = tuple((first, first + 4) for first in range(0, 400, 4))
    together = {1: 1, 2: 2, 3: 1, 9: 7}[allowed]
    assert replace(terms, batches=batches).pace(terms.learning_rates()) == Pace(together, pace.lags)


def test_an_optimiser_that_is_given_is_taken_as_it_is():
    given = {"method": "sgd", "penalty": "l2", "alpha": 0.1, "optimizer_params": {"lr": 0.1}}
    assert ShareSettings(optimizer=given).with_optimizer(100, 3, 1.0).optimizer == given


def test_every_word_of_reveal_says_who_sees_the_weights():
    assert SEES == {"both": ("guest", "host"), "guest": ("guest",), "host": ("host",), "nobody": ()}
