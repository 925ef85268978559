"""Kernels of dp_homo_nn's block tables: the same key gives the same batch, other rounds others, sums are those of arrays."""

from functools import partial

import numpy as np
import pytest

from fate_dp.components.dp_homo_nn import frame_rows
from fate_dp.components.dp_homo_nn.frame_rows import ModelAt
from fate_dp.components.dp_homo_nn.models.registry import ModelSource
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec
from fate_dp.components.protocols.noisy_rounds.contribution import with_indicators

pytestmark = pytest.mark.arithmetic

SOURCE = ModelSource.of(ModelSpec("mlp", 3, 2, {"hidden": [2]}), "cross_entropy", {})
WEIGHTS = np.linspace(-1, 1, 11)
KEY = bytes(range(32))


def blocks(sizes=(30, 300, 0), seed=1):
    """(name, (features, labels)) of a partition."""
    generator = np.random.default_rng(seed)
    return [
        (name, (generator.normal(size=(size, 3)).astype(np.float32), generator.integers(0, 2, size)))
        for name, size in enumerate(sizes)
    ]


def sampled(partition, probability, label="sum 1", key=KEY, clip=0.5, scales=None, steps_of="clipped_steps"):
    return frame_rows._sum_of_sample(
        partition,
        steps_of if callable(steps_of) else partial(getattr(ModelAt(SOURCE, WEIGHTS, scales), steps_of), clip=clip),
        len(WEIGHTS) + (steps_of == "steps_with_indicators"),
        frame_rows.Coins(key, label, probability),
    )


def everything(partition):
    return tuple(np.concatenate([block[part] for _, block in partition]) for part in (0, 1))


def test_a_block_that_is_computed_again_gives_the_same_sum_and_another_round_another_one():
    first = sampled(blocks(), 0.3)
    np.testing.assert_array_equal(first, sampled(blocks(), 0.3))
    assert (first != sampled(blocks(), 0.3, label="sum 2")).any() and (
        first != sampled(blocks(), 0.3, key=bytes(32))
    ).any()


def test_the_sum_does_not_depend_on_how_blocks_lie_in_partitions():
    parts = blocks()
    np.testing.assert_array_equal(sampled(parts, 0.3), sampled(parts[:1], 0.3) + sampled(parts[1:], 0.3))


def test_with_probability_1_it_is_the_sum_over_all_rows():
    features, labels = everything(blocks())
    scales = np.linspace(0.5, 2, 11)
    for given in (None, scales):
        expected = SOURCE.gradients().clipped_sum(WEIGHTS, features, labels, 0.5, given)
        np.testing.assert_allclose(sampled(blocks(), 1.0, scales=given), expected.steps, rtol=1e-5, atol=2**16)
    rows = SOURCE.gradients().rows(WEIGHTS, features, labels)
    found = sampled(blocks(), 1.0, steps_of="steps_with_indicators")
    np.testing.assert_allclose(found, with_indicators(rows, 0.5).steps, rtol=1e-5, atol=2**16)


def test_batch_sizes_are_poissons():
    """Of 1000 rows at 0.3 the variance of the size is 210; 300 sizes, whose variance has a standard error of 17."""

    def count(features, labels):
        return np.full(len(WEIGHTS), len(labels), dtype=np.int64)

    parts = blocks(sizes=(600, 400))
    sizes = [sampled(parts, 0.3, label=f"sum {number}", steps_of=count)[0] for number in range(300)]
    assert abs(np.mean(sizes) - 300) < 5 and 125 < np.var(sizes, ddof=1) < 300


def test_chosen_rows_come_in_the_order_that_was_asked_for():
    parts, chosen = blocks(), {1: (np.array([2, 0]), np.array([7, 3])), 0: (np.array([1]), np.array([29]))}
    found = dict(zip((0, 1, 2), np.zeros((3, len(WEIGHTS)))))
    for places, rows in frame_rows._rows_of_chosen(parts, ModelAt(SOURCE, WEIGHTS), chosen):
        found.update(zip(places.tolist(), rows))
    features, labels = everything(parts)
    expected = SOURCE.gradients().rows(WEIGHTS, features[[33, 29, 37]], labels[[33, 29, 37]])
    np.testing.assert_allclose(np.stack([found[place] for place in range(3)]), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("chosen", [None, {1: (np.arange(2), np.array([0, 5]))}])
def test_plain_sums_are_those_of_the_rows(chosen):
    features, labels = everything(blocks())
    at = slice(None) if chosen is None else [30, 35]
    expected = SOURCE.gradients().rows(WEIGHTS, features[at], labels[at]).sum(axis=0)
    found = frame_rows._plain_sum(blocks(), ModelAt(SOURCE, WEIGHTS), chosen)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
