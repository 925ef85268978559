"""What the benchmark of label privacy prints is what it measured, under the names that its figures have."""

import math

import numpy as np
import pytest

from bench.label_dp import EPSILONS, SIGMOIDS, figures, flip_labels, load_split, optimizer_of, summarise, train
from fate_dp.privacy.labels.flipback import Flipback, FlipbackSettings


def study():
    """Two splits of two repeats; accuracies that tell epsilon, sigmoid and flipback apart."""

    def trained(epsilon, sigmoid, split, repeat):
        plain = 0.5 + 0.001 * EPSILONS.index(epsilon) + 0.01 * SIGMOIDS.index(sigmoid) + 0.1 * split + 0.2 * repeat
        return plain, plain + 0.0001, "swap"

    return {
        (epsilon, sigmoid): [[trained(epsilon, sigmoid, split, repeat) for repeat in (0, 1)] for split in (0, 1)]
        for epsilon in EPSILONS
        for sigmoid in SIGMOIDS
    }


def test_figures_are_means_under_their_names():
    named = figures(summarise(study()))
    assert len(named) == 5 * len(EPSILONS)
    for position, epsilon in enumerate(("0.25", "0.5", "1", "2", "4", "inf")):
        taylor, exact = 0.65 + 0.001 * position, 0.66 + 0.001 * position
        assert named[f"plain_accuracy_eps_{epsilon}"] == pytest.approx(taylor)
        assert named[f"taylor_accuracy_eps_{epsilon}"] == pytest.approx(taylor + 0.0001)
        assert named[f"exact_plain_accuracy_eps_{epsilon}"] == pytest.approx(exact)
        assert named[f"exact_accuracy_eps_{epsilon}"] == pytest.approx(exact + 0.0001)
        ruled = "exact" if epsilon in ("2", "4", "inf") else "taylor"
        assert named[f"accuracy_eps_{epsilon}"] == named[f"{ruled}_accuracy_eps_{epsilon}"]


def test_gains_and_errors_are_over_splits():
    row = next(row for row in summarise(study()) if (row["epsilon"], row["sigmoid"]) == (1.0, "exact"))
    assert row["gain"] == pytest.approx((0.0001, 0), abs=1e-12)
    assert row["over_taylor"] == pytest.approx((0.01, 0), abs=1e-12)
    assert row["plain"] == pytest.approx((0.662, 0.05))
    assert row["modes"] == "swap 4"


@pytest.mark.parametrize("epsilon, taylor, exact", [(1, "swap", "swap"), (2, "none", "swap"), (4, "none", "none")])
def test_swaps_pay_up_to_a_larger_epsilon_with_the_exact_sigmoid(epsilon, taylor, exact):
    flipped = np.tile([0.0, 1.0], 50)
    modes = [Flipback(FlipbackSettings(), flipped, epsilon, sigmoid=sigmoid).mode for sigmoid in SIGMOIDS]
    assert modes == [taylor, exact]


def test_exact_training_fits_the_labels_closer_than_taylors():
    split = load_split(1000)
    labels, losses = flip_labels(split, math.inf), []
    for sigmoid in SIGMOIDS:
        optimizer = optimizer_of(len(labels), math.inf, "exact")
        result = train(split, labels, optimizer, sigmoid=sigmoid)
        z = sum(part @ own for part, own in zip(split.train_parts, result.weights))
        losses.append(np.mean(np.logaddexp(0, z) - labels * z))
    assert losses[1] < 0.8 * losses[0]
