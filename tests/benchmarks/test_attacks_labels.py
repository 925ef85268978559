"""Attacks on labels read all where nothing stands in the way, no more than flips allow behind them, and refuse wrong views."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import binom
from sklearn.tree import DecisionTreeClassifier

from bench.attack_methods.label_ciphertexts import RING, SHARE_SCALE, fitted_shares, guessed_labels, share_signs
from bench.attack_methods.label_gradients import labels_by_direction, labels_by_lattice, labels_by_norm, subset_of_sums
from bench.attack_methods.label_models import labels_by_completion, labels_by_leaves, labels_by_shared_leaves
from bench.attack_methods.label_scores import column_steps, column_values, columns_by_releases, labels_from_losses
from bench.attack_methods.label_views import (
    BottomView,
    GuessView,
    JointScoreView,
    LeafView,
    LossView,
    RecordGradientView,
    ScoreReleasesView,
    ShareView,
    SumView,
    require,
    share_read,
)
from fate_dp.attacks.label_ciphertexts import (
    UNDEFENDED,
    Ciphertext,
    CiphertextView,
    LabelDefence,
    fitted_residuals,
    opened_labels,
    residual_signs,
)
from fate_dp.privacy.labels.flips import flip_labels
from fate_dp.privacy.validation import InvalidArgument

N = (2**89 - 1) * (2**107 - 1)
KEY = bytes(range(32))


def coins(rows, seed=0):
    return np.random.default_rng(seed).integers(2, size=rows)


def flipped(labels, epsilon, key=KEY):
    return flip_labels([f"row {place}" for place in range(len(labels))], labels, epsilon, 2, key, "a/b/c")


def encrypted(numbers, blinding=1, exponent=-5):
    """Ciphertexts under the public N of numbers in units of 16 to the exponent; unblinded where the factor is 1."""
    units = [round(float(number) * 16**-exponent) for number in numbers]
    return tuple(Ciphertext((1 + unit * N) * pow(blinding, N, N * N) % (N * N), exponent) for unit in units)


def residual_view(labels, epochs=12, exponent=-12, start=True):
    """What a regression sends of scores of four columns that move, epoch by epoch."""
    draws = np.random.default_rng(1)
    columns = draws.normal(size=(len(labels), 4))
    weights = draws.normal(size=(epochs, 4)) * 2 * start
    messages = tuple(encrypted(0.25 * columns @ each - (labels - 0.5), exponent=exponent) for each in weights)
    return CiphertextView(modulus=N, messages=messages)


def share_view(labels, epochs):
    draws = np.random.default_rng(2)
    columns, weights = draws.normal(size=(len(labels), 3)), draws.normal(size=(epochs, 3)) * (epochs > 1)
    residuals = [(0.5 + 0.25 * columns @ each - labels) / len(labels) * SHARE_SCALE for each in weights]
    own = [draws.integers(1 << 62, size=len(labels)).tolist() for _ in weights]
    messages = [
        tuple(Ciphertext(1 + ((round(value) - share) % RING) * N, 0) for value, share in zip(values, shares))
        for values, shares in zip(residuals, own)
    ]
    return ShareView(modulus=N, messages=tuple(messages), shares=tuple(map(tuple, own)), columns=columns)


def gradient_view(labels, known=5, ones=0.5):
    """Gradients of a cut layer whose top has learnt how many labels are 1, and whose response varies by a tenth."""
    draws = np.random.default_rng(3)
    response = 1 + 0.1 * draws.normal(size=(len(labels), 6))
    places = np.arange(known)
    return RecordGradientView(gradients=(ones - labels)[:, None] * response, known=places, known_labels=labels[places])


def sum_view(labels, error=1e-9, seed=4):
    columns = np.random.default_rng(seed).normal(size=(len(labels), 4))
    halves = np.full(len(labels), 0.5)
    gradient = np.rint(columns.T @ (halves - labels) / len(labels) / error) * error
    return SumView(columns=columns, predictions=halves, gradient=gradient, error=error)


def loss_view(labels, error=1e-9, evaluations=4):
    scores = np.random.default_rng(5).normal(size=(evaluations, len(labels)))
    losses = (np.logaddexp(0, scores) - scores * labels).mean(axis=1)
    return LossView(scores=scores, losses=np.rint(losses / error) * error, error=error)


@pytest.fixture(scope="module")
def learnable():
    """Columns, probabilities and labels of a law that a model can learn."""
    draws = np.random.default_rng(6)
    columns = draws.normal(size=(1500, 4))
    priors = expit(3 * columns[:, 0] - 3 * columns[:, 1])
    return columns, priors, (draws.random(1500) < priors).astype(int)


def leaf_view(columns, given, truth, known):
    """Leaves of five trees, each on half of the records."""
    draws = np.random.default_rng(7)
    trees = []
    for _ in range(5):
        drawn = draws.random(len(given)) < 0.5
        trees.append(DecisionTreeClassifier(max_depth=3, random_state=0).fit(columns[drawn], given[drawn]))
    leaves = np.column_stack([tree.apply(columns) for tree in trees])
    return LeafView(leaves=leaves, known=np.arange(known), known_labels=truth[:known])


READERS = {
    "opened": lambda given: opened_labels(CiphertextView(modulus=N, messages=(encrypted(given),))),
    "signs": lambda given: residual_signs(residual_view(given, 1, start=False)),
    "residuals": lambda given: fitted_residuals(residual_view(given)),
    "signs of shares": lambda given: share_signs(share_view(given, 1)),
    "shares": lambda given: fitted_shares(share_view(given, 10)),
    "guesses": lambda given: guessed_labels(GuessView(sealed=tuple(bytes([x]) for x in given), guesses=(b"\0", b"\1"))),
    "direction": lambda given: labels_by_direction(gradient_view(given, 50)),
}


@pytest.mark.parametrize("name", READERS)
def test_without_flips_every_label_is_read(name):
    labels = coins(400)
    assert share_read(READERS[name](labels), labels) == 1.0


@pytest.mark.parametrize(
    "name, epsilon", [*((name, 1.0) for name in READERS), *(("opened", e) for e in (0.5, 2.0, 4.0))]
)
def test_behind_flips_the_flips_are_read_and_no_more_labels_than_their_law_has(name, epsilon):
    labels = coins(2000, seed=8)
    flips = flipped(labels, epsilon)
    found = READERS[name](flips)
    assert share_read(found, flips) == 1.0
    law = binom(len(labels), LabelDefence("flips", "Flips.", epsilon).bound(np.full(1, 0.5)))
    right = int((found == labels).sum())
    assert law.sf(right - 1) > 1e-4 and law.cdf(right) > 1e-4
    # Labels of half or twice the privacy would have been told apart.
    for other in (epsilon / 2, epsilon * 2):
        kept = flipped(labels, other) == labels
        assert min(law.sf(int(kept.sum()) - 1), law.cdf(int(kept.sum()))) < 1e-4


def test_blinded_ciphertexts_are_read_by_nothing():
    labels = coins(50)
    for message in (encrypted(labels, blinding=12345), encrypted(labels - 0.5, blinding=12345)):
        view = CiphertextView(modulus=N, messages=(message, message))
        for attack in (opened_labels, residual_signs, fitted_residuals):
            assert np.isnan(attack(view)).all()
    # One factor for all records would not blind: it is the attack on fresh ciphertexts that fails.
    assert np.isnan(guessed_labels(GuessView(sealed=(b"x", b"y"), guesses=(b"0", b"1")))).all()


def test_blinded_shares_are_read_by_nothing():
    view = share_view(coins(40), 3)
    blind = tuple(tuple(Ciphertext(c.value * pow(7, N, N * N) % (N * N), 0) for c in each) for each in view.messages)
    blinded = ShareView(modulus=N, messages=blind, shares=view.shares)
    assert np.isnan(fitted_shares(blinded)).all() and np.isnan(share_signs(blinded)).all()


def test_norms_tell_rare_labels_and_nothing_of_even_ones():
    rare = (np.random.default_rng(9).random(2000) < 0.1).astype(int)
    assert share_read(labels_by_norm(gradient_view(rare, ones=0.1), rare.mean()), rare) == 1.0
    common = 1 - rare
    assert share_read(labels_by_norm(gradient_view(common, ones=0.9), common.mean()), common) == 1.0
    even = coins(2000)
    assert abs(share_read(labels_by_norm(gradient_view(even), 0.5), even) - 0.5) < 0.06


@pytest.mark.parametrize("rows", [8, 16, 24])
def test_a_lattice_finds_labels_of_a_gradient_and_of_losses(rows):
    labels = coins(rows, seed=rows)
    assert (labels_by_lattice(sum_view(labels)) == labels).all()
    assert (labels_from_losses(loss_view(labels)) == labels).all()
    flips = flipped(labels, 1.0)
    assert (labels_by_lattice(sum_view(flips)) == flips).all()


def test_a_lattice_finds_what_the_sums_allow_and_nothing_where_none_fit():
    labels = coins(20, seed=3)
    coarse = loss_view(labels, error=2.0**-16, evaluations=1)
    found = labels_from_losses(coarse)
    assert np.isnan(found).all() or (found != labels).any()
    assert np.isnan(subset_of_sums(np.eye(3), np.array([0.0, 1.0, 0.5]), 1e-6, "A test")).all()


def test_noise_of_a_gradient_hides_single_labels_from_a_lattice():
    labels = coins(20, seed=5)
    view = sum_view(labels)
    noisy = view.gradient + np.random.default_rng(0).normal(size=4)
    found = labels_by_lattice(SumView(columns=view.columns, predictions=view.predictions, gradient=noisy, error=1e-9))
    assert np.isnan(found).all()


def test_leaves_tell_what_trees_have_learnt_and_a_trained_part_what_it_has(learnable):
    columns, priors, labels = learnable
    known = np.arange(20)
    raw = np.random.default_rng(0).normal(size=(len(labels), 4))
    bottom = BottomView(outputs=(columns @ [3, -3, 0, 0])[:, None], known=known, known_labels=labels[known])
    nothing = BottomView(outputs=raw, known=known, known_labels=labels[known])
    assert share_read(labels_by_leaves(leaf_view(columns, labels, labels, 100)), labels) > 0.8
    assert share_read(labels_by_shared_leaves(leaf_view(columns, labels, labels, 20)), labels) > 0.7
    assert share_read(labels_by_completion(bottom), labels) > 0.8
    assert share_read(labels_by_completion(nothing), labels) < 0.6


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_leaves_of_flips_name_no_more_labels_than_epsilon_allows_who_knows_their_law(learnable, epsilon):
    columns, priors, labels = learnable
    found = labels_by_leaves(leaf_view(columns, flipped(labels, epsilon), labels, 100))
    bound = LabelDefence("flips", "Flips.", epsilon).bound(priors)
    spread = math.sqrt(bound * (1 - bound) / len(labels))
    assert share_read(found, labels) < bound + 4 * spread
    # Coins that no column tells: the trees show next to nothing of single records.
    even = coins(len(labels))
    assert share_read(labels_by_leaves(leaf_view(columns, flipped(even, epsilon), even, 100)), even) < 0.6


def test_the_bound_is_that_of_the_answer_or_of_the_likelier_label():
    defence = LabelDefence("flips", "Flips.", 1.0)
    assert defence.bound(np.full(3, 0.5)) == pytest.approx(1 / (1 + math.exp(-1)))
    assert defence.bound(np.array([0.01, 0.9, 0.5])) == pytest.approx((0.99 + 0.9 + 1 / (1 + math.exp(-1))) / 3)
    assert UNDEFENDED.bound(np.full(3, 0.5)) == 1.0


@settings(max_examples=100, deadline=None)
@given(
    st.floats(0.1, 5.0),
    st.floats(0.0, 1.0),
    st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(-1.0, 1.0)), min_size=2, max_size=6),
)
def test_no_mechanism_of_epsilon_lets_anybody_name_more_labels_than_the_bound(epsilon, prior, answers):
    for_zero = np.array([weight for weight, _ in answers])
    # Ratios within e^(epsilon / 2) of each other before both laws are made to sum to 1 are within e^epsilon after it.
    for_one = for_zero * np.exp(0.5 * epsilon * np.array([exponent for _, exponent in answers]))
    for_zero, for_one = for_zero / for_zero.sum(), for_one / for_one.sum()
    assert np.abs(np.log(for_one / for_zero)).max() <= epsilon + 1e-9
    named = np.maximum(prior * for_one, (1 - prior) * for_zero).sum()
    assert named <= LabelDefence("any", "Any.", epsilon).bound(np.full(1, prior)) + 1e-9


def test_exact_scores_of_binary_columns_are_these_columns_and_rounded_ones_are_not():
    draws = np.random.default_rng(10)
    values, weights = draws.integers(0, 2, (1000, 6)), draws.integers(1 << 18, 1 << 21, 6) * 2.0**-22
    exact = JointScoreView(scores=values @ weights, step=2.0**-46)
    assert np.allclose(sorted(column_steps(exact, 6)), sorted(weights))
    found = column_values(exact, 6)
    order = np.argsort(column_steps(exact, 6))
    assert np.array_equal(found[:, order], values[:, np.argsort(weights)])
    rounded = np.floor(exact.scores / 2.0**-7 + draws.random(1000)) * 2.0**-7
    steps = column_steps(JointScoreView(scores=rounded, step=2.0**-46), 6)
    assert not any(np.isclose(step, weights, rtol=1e-5).any() for step in steps)


def release_view(columns, releases, step=0.0):
    draws = np.random.default_rng(11)
    scores = columns @ draws.normal(size=(columns.shape[1], releases))
    if step:
        scores = np.floor(scores / step + draws.random(scores.shape)) * step
    return ScoreReleasesView(scores=scores, known=np.arange(30), known_columns=columns[:30])


def test_as_many_releases_as_columns_give_the_columns_and_fewer_do_not():
    columns = np.random.default_rng(12).normal(size=(500, 4))
    assert np.allclose(columns_by_releases(release_view(columns, 4)), columns)
    # Rounded to 2^-7 they are known to about as much, times what the inverse of the weights multiplies it with.
    assert np.abs(columns_by_releases(release_view(columns, 4, 2.0**-7)) - columns).std() < 0.1
    errors = columns_by_releases(release_view(columns, 1)) - columns
    assert (errors**2).mean() > 0.5


def two_rows(**more):
    return {"gradients": np.ones((2, 1)), **more}


@pytest.mark.parametrize(
    "make, says",
    [
        (lambda: CiphertextView(modulus=1, messages=((Ciphertext(1, 0),),)), "modulus"),
        (lambda: CiphertextView(modulus=N, messages=()), "number of messages must be that of the records"),
        (lambda: CiphertextView(modulus=N, messages=((Ciphertext(1, 0),), ())), "records of messages must be"),
        (lambda: ShareView(modulus=N, messages=((Ciphertext(1, 0),),), shares=((),)), "shares must be"),
        (lambda: GuessView(sealed=(), guesses=(b"0", b"1")), "sealed must be one entry for each record"),
        (lambda: RecordGradientView(gradients=np.array([1.0, 2.0])), "gradients must be"),
        (lambda: RecordGradientView(**two_rows(known=[2], known_labels=[0])), "places from 0 to 1"),
        (lambda: RecordGradientView(**two_rows(known=[0], known_labels=[])), "number of known records must be 0"),
        (lambda: LeafView(leaves=np.ones((2, 2))), "leaves must be whole numbers"),
        (lambda: BottomView(outputs=np.ones((2, 1)), known=[0], known_labels=[0]), "at least 2"),
        (lambda: LossView(scores=np.ones((2, 3)), losses=np.ones(1), error=1.0), "losses must be"),
        (lambda: LossView(scores=np.ones((1, 3)), losses=np.ones(1), error=0.0), "error must be"),
        (lambda: JointScoreView(scores=np.ones(3), step=-1.0), "step must be .*, got -1.0"),
        (lambda: LabelDefence("x", "X.", -1.0), "epsilon must be .*, got -1.0"),
        (lambda: require(gradient_view(coins(9)), LeafView, "Reading leaves"), "reads a LeafView but was given"),
        (lambda: labels_by_lattice(sum_view(coins(65))), "at most 64 records but was given one of 65"),
        (lambda: labels_by_direction(gradient_view(coins(9), known=0)), "one known label or more"),
        (lambda: labels_by_leaves(LeafView(leaves=np.ones((3, 1), int))), "known labels of both kinds"),
        (lambda: labels_by_shared_leaves(LeafView(leaves=np.ones((3, 1), int))), "one known label or more"),
        (lambda: fitted_residuals(residual_view(coins(9), 1)), "at least 2 messages"),
        (lambda: fitted_shares(residual_view(coins(9), 2)), "reads a ShareView but was given a CiphertextView"),
        (lambda: labels_by_norm(gradient_view(coins(9)), 0.0), "ones must be .*, got 0.0"),
        (lambda: RecordGradientView(**two_rows(known=[0], known_labels=[2])), "other than 0 and 1"),
        (lambda: columns_by_releases(release_view(np.ones((50, 2)), 30)), "needs 31 known records but the view has 30"),
        (lambda: ScoreReleasesView(scores=np.ones((2, 1)), known=[2], known_columns=[[1.0]]), "places from 0 to 1"),
    ],
)
def test_what_an_attack_cannot_read_is_refused_in_one_sentence(make, says):
    with pytest.raises(InvalidArgument, match=says) as refused:
        make()
    assert str(refused.value).endswith(".") and "\n" not in str(refused.value)
