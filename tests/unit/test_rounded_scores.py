"""What a host shows of its scores: rounded without bias, the same for whoever asks again, too coarse to solve columns."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chisquare
from share_lr_tables import LocalTable

from fate_dp.components.dp_hetero_lr.rows import Block, has_few_values, shows_few_values
from fate_dp.components.dp_hetero_lr.scores import decoded_scores, rounded_scores
from fate_dp.components.dp_hetero_lr.settings import TrainSettings, score_step
from fate_dp.components.protocols.optimizers import corrected_target
from fate_dp.crypto.slots import encode_features
from fate_dp.privacy.labels.flipback import Flipback, FlipbackSettings
from fate_dp.privacy.ledger.policy import Policy
from tests.score_attacks import steps_found

KEY, STEP = bytes(range(32)), TrainSettings().score_step


def rounded(features, weights, key=KEY, step=STEP, sizes=None):
    """Rounded scores in their order, of rows in blocks of these sizes."""
    ends = np.cumsum([0, *(sizes or [len(features)])])
    blocks = [
        (at, Block(int(first), encode_features(features[first:last])))
        for at, (first, last) in enumerate(zip(ends, ends[1:]))
    ]
    made = rounded_scores(LocalTable(blocks), np.asarray(weights), key, step).collect()
    return np.concatenate([decoded_scores(part, len(part), step) for _, part in sorted(made)])


def standardised(columns):
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


@pytest.fixture(scope="module")
def table():
    generator = np.random.default_rng(5)
    return generator.normal(size=(20_000, 6)), np.rint(generator.normal(size=6) * 2.0**22) / 2.0**22


def test_scores_are_multiples_of_the_step_on_either_side_and_right_on_average(table):
    features, weights = table
    exact, shown = features @ weights, rounded(features, weights)
    assert STEP == 2.0**-7 and (shown / STEP == np.rint(shown / STEP)).all()
    assert np.abs(shown - exact).max() < STEP * (1 + 1e-3)
    # Of the error's variance, f (1 - f) steps^2 for a fraction f, the mean is a sixth.
    error = (shown - exact) / STEP
    assert abs(error.mean()) < 5 * np.sqrt(1 / 6 / len(error))
    assert abs(error.var() - 1 / 6) < 0.01
    # Rounding to the nearest would have a twelfth, and always down a mean of one half.
    upwards = np.floor(exact / STEP) * STEP < shown - STEP / 2
    fraction = exact / STEP % 1
    found = [upwards[(low <= fraction) & (fraction < low + 0.25)].mean() for low in (0, 0.25, 0.5, 0.75)]
    np.testing.assert_allclose(found, [0.125, 0.375, 0.625, 0.875], atol=0.04)


def test_draws_are_uniform_and_differ_between_keys_and_weights(table):
    features, weights = table
    from fate_dp.components.dp_hetero_lr.scores import _draws

    draws = _draws(encode_features(features), KEY)
    assert draws.min() >= 0 and draws.max() < 1
    assert chisquare(np.histogram(draws, bins=32, range=(0, 1))[0]).pvalue > 1e-6
    assert (rounded(features, weights) != rounded(features, weights, key=bytes(32))).mean() > 0.2
    # A step of whole units leaves all fractions as they are.
    higher = np.column_stack([features, np.ones(len(features))])
    at_zero, at_one = (rounded(higher, [*weights, intercept]) for intercept in (0.0, 1.0))
    assert (at_zero + 1 != at_one).mean() > 0.2


def test_asking_again_shows_nothing_more_whatever_the_blocks_and_the_table(table):
    features, weights = table[0][:200], table[1]
    once = rounded(features, weights)
    np.testing.assert_array_equal(once, rounded(features, weights, sizes=[7, 93, 100]))
    order = np.random.default_rng(1).permutation(200)[:120]
    np.testing.assert_array_equal(once[order], rounded(features[order], weights))


@pytest.mark.parametrize(
    "wrong", [[1, 2], np.zeros(3), np.zeros(4, dtype=np.int64), b"scores", np.zeros((3, 1), dtype=np.int16)]
)
def test_what_is_no_column_of_integers_is_refused(wrong):
    with pytest.raises(ValueError, match="something else than 3 rounded scores"):
        decoded_scores(wrong, 3, STEP)


@pytest.mark.parametrize("value", [0, -0.25, 2.0**-9, 0.125, 0.01, 1, True, "x", None, float("nan")])
def test_a_step_must_be_a_power_of_two_within_its_range(value):
    with pytest.raises(ValueError, match="score_step"):
        score_step(value)
    assert [score_step(2.0**-power) for power in (4, 8)] == [2.0**-4, 2.0**-8]


def test_the_steps_of_binary_columns_are_read_off_exact_scores_and_not_off_rounded_ones():
    """From exact scores, as they were once, all eight steps, so all eight columns of all rows; from rounded ones no step."""
    generator = np.random.default_rng(1)
    shares = np.array([0.5, 0.3, 0.2, 0.6, 0.4, 0.15, 0.35, 0.25])
    features = standardised((generator.random((1000, 8)) < shares).astype(float))
    weights = np.rint(generator.normal(size=8) * 0.4 * 2.0**22) / 2.0**22
    exact = Block(0, encode_features(features)).scores(weights)
    assert steps_found(exact, features, weights) == 8
    assert steps_found(rounded(features, weights), features, weights) == 0
    # And the host would not have shown them at all.
    assert has_few_values(LocalTable([(0, Block(0, encode_features(features)))]), 1000)


@pytest.mark.parametrize(
    "columns, few",
    [
        (lambda generator, n: generator.normal(size=(n, 3)), False),
        (lambda generator, n: generator.integers(0, 19, (n, 1)) + 0.0, True),
        (lambda generator, n: np.column_stack([generator.normal(size=n), generator.integers(0, 2, n)]), True),
        (lambda generator, n: np.column_stack([generator.normal(size=n), generator.integers(0, 25, n)]), False),
        (lambda generator, n: generator.integers(0, 50, (n, 1)) + 0.0, True),
        (lambda generator, n: np.repeat(generator.normal(size=(n // 5, 3)), 5, axis=0), True),
    ],
)
def test_few_values_are_less_than_20_in_a_column_or_less_than_a_quarter_of_different_rows(columns, few):
    features = encode_features(columns(np.random.default_rng(2), 400))
    for edges in ([0, 400], [0, 30, 31, 400]):
        blocks = [(at, Block(first, features[first:last])) for at, (first, last) in enumerate(zip(edges, edges[1:]))]
        assert has_few_values(LocalTable(blocks), 400) == few


def test_a_short_table_needs_as_many_values_as_rows():
    features = encode_features(np.random.default_rng(3).normal(size=(12, 2)))
    assert not has_few_values(LocalTable([(0, Block(0, features))]), 12)


def test_the_operator_may_consent():
    rows = LocalTable([(0, Block(0, encode_features(np.tile([[0.0], [1.0]], (20, 1)))))])
    for named, related, shown in (
        ({"columns:a"}, (), False),
        (set(), (), True),
        ({"columns:b"}, (), True),
        ({"columns:a"}, ("columns:a", "columns:whole"), True),
        ({"columns:a", "columns:whole"}, ("columns:whole",), False),
    ):
        ledger = SimpleNamespace(related=lambda dataset, related=related: related)
        home = SimpleNamespace(policy=Policy(few_valued_scores=frozenset(named)), ledger=ledger)
        assert shows_few_values(home, "columns:a", rows, 40) == shown


@pytest.mark.parametrize("mode", ["posterior", "swap"])
def test_flipback_does_not_feel_the_rounding(mode):
    """On the same scores, exact and rounded: as many labels right, and no soft label further off than the rounding."""
    generator = np.random.default_rng(7)
    features, weights = generator.normal(size=(4000, 6)), generator.normal(size=6)
    true = (features @ weights + generator.logistic(size=4000) > 0).astype(float)
    flipped = np.where(generator.random(4000) < 1 / (1 + np.e), 1 - true, true)
    revised = []
    for scores in (features @ weights, rounded(features, weights)):
        flipback = Flipback(FlipbackSettings(mode=mode, fraction=0.05), flipped, 1.0)
        revised.append(flipback.relabel(flipped, 1 / (1 + np.exp(-scores))))
    exact, shown = revised
    assert abs(np.abs(exact - true).mean() - np.abs(shown - true).mean()) < 1e-3
    if mode == "posterior":
        assert np.abs(exact - shown).max() < STEP
    else:
        assert (exact != shown).mean() < 2e-3


def test_the_exact_sigmoid_does_not_feel_the_rounding():
    """The target's products with the features, which training reads, move by less than a thousandth of their noise."""
    generator = np.random.default_rng(8)
    features, weights = generator.normal(size=(4000, 6)), generator.normal(size=6)
    labels = (features @ weights + generator.logistic(size=4000) > 0).astype(float)
    exact, shown = (corrected_target(labels, scores) for scores in (features @ weights, rounded(features, weights)))
    moved = np.abs(features.T @ (exact - shown)).max()
    assert moved < 1e-2 * np.linalg.norm(features.T @ exact) / np.sqrt(4000) and np.abs(exact - shown).max() < STEP / 2
