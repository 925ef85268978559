"""Clipped sums and bounded means move by no more than they report, and an understated sensitivity is found."""

from unittest.mock import patch

import numpy as np
import pytest

from fate_dp.components.dp_homo_gbdt import trees
from fate_dp.components.dp_homo_gbdt.boosting import GrownBatch, scores_of
from fate_dp.components.dp_homo_gbdt.growth import Growth
from fate_dp.components.dp_homo_gbdt.settings import TrainSettings
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE
from fate_dp.privacy.mechanisms import aggregates, clipping
from fate_dp.privacy.validation import InvalidArgument
from tests.support.replays import Call, Moved, neighbours, replay

ROWS = np.array([[0.1, -0.2], [3.0, 1.0], [0.0, 0.3]])


def clipped(clip=0.5):
    return Call(clipping.clip_records, (0,), (ROWS, clip))


@pytest.mark.parametrize("relation, clips", [(ADD_OR_REMOVE, 1), (REPLACE_ONE, 2)])
def test_the_worst_neighbour_that_is_tried_moves_a_clipped_sum_by_its_sensitivity(relation, clips):
    call = clipped()
    moved = replay(call, relation)
    assert not moved.refutes and moved.moved * call.result.grid == pytest.approx(0.5 * clips, rel=1e-6)
    call = Call(clipping.clip_records_by_group, (0,), (ROWS, [[0], [1]], [0.5, 1.5]))
    assert 0.99 < replay(call, relation).moved / replay(call, relation).claimed <= 1


def test_a_bounded_mean_moves_by_its_sensitivity_and_has_no_other_relation():
    call = Call(aggregates.bounded_mean, (0,), (np.array([0.2, 0.4, 0.9]), 0.0, 1.0))
    moved = replay(call, REPLACE_ONE)
    assert moved.query == "bounded_mean" and not moved.refutes and moved.moved > 0.5 * moved.claimed
    with pytest.raises(InvalidArgument, match="must be replace_one for bounded_mean"):
        replay(call, ADD_OR_REMOVE)


@pytest.mark.parametrize("understated", [1.01, 1.5, 2.0])
def test_a_sensitivity_that_is_understated_is_found(understated):
    truly = clipping.ClippedSum.sensitivity_in_steps
    call = clipped()
    with patch.object(
        clipping.ClippedSum, "sensitivity_in_steps", lambda s, relation: truly(s, relation) / understated
    ):
        found = replay(call, ADD_OR_REMOVE)
    assert found.refutes and f"{understated:.2g}" in found.sentence[:60]


def test_a_clip_that_is_off_is_found():
    off = patch.object(clipping, "_clipped_steps", lambda rows, clip, grid: np.rint(rows / grid).astype(np.int64))
    with off:
        call = clipped()
        assert replay(call, REPLACE_ONE).refutes


def test_the_gradients_of_a_training_are_replayed_with_their_labels():
    gradients = RecordGradients(build_model(ModelSpec("logistic_regression", 2, 2)))
    features, labels = ROWS.astype(np.float32), np.array([0, 1, 1])
    moved = replay(Call(gradients.clipped_sum, (1, 2), (np.zeros(3), features, labels, 0.5)), ADD_OR_REMOVE)
    assert moved.query == "clipped_sum" and 0.99 < moved.moved / moved.claimed <= 1


def test_neighbours_differ_in_one_record_only():
    labels = np.array([0, 1, 1])
    for features, other in neighbours((ROWS, labels), REPLACE_ONE):
        assert (features != ROWS).any(axis=1).sum() == 1 and np.array_equal(other, labels)
    lengths = sorted(len(features) for features, other in neighbours((ROWS, labels), ADD_OR_REMOVE))
    assert lengths == [2, 2, 2, 4, 4, 4]


FAR_ROWS = np.array([[0.1, -0.2, 0.3], [30.0, 10.0, -20.0], [0.0, 0.3, 0.1]])
KEPT_STEPS = trees.record_steps


def sums_of_trees(number):
    """What a training of trees asks of its records in a round: the second begins at the scores of the first."""
    bins = TrainSettings(records=9, epsilon=1.0).bins_of(["a", "b", "c"])
    growth = Growth(bins, np.random.default_rng(2))
    splits = [growth.draw(3, 2) for _ in range(number + 1)]
    grown = [GrownBatch(each, np.full((3, 4), 0.3)) for each in splits[:-1]]

    def sums_of_records(features, labels):
        codes = bins.codes(features)
        scores = scores_of(grown, codes)
        return trees.leaf_sums(
            splits[-1], codes, labels, scores, trees.clip_of_trees(3, number), trees.curvature_weight(number)
        )

    return Call(sums_of_records, (0, 1), (FAR_ROWS, np.array([0.0, 1.0, 1.0])))


# Under replace-one the label stays, so that a record moves from leaf to leaf: the root of two records, of two.
@pytest.mark.parametrize("relation, least", [(ADD_OR_REMOVE, 0.999), (REPLACE_ONE, 0.7)])
def test_sums_by_leaf_of_trees_move_by_what_they_report(relation, least):
    moved = max(
        (replay(sums_of_trees(number), relation) for number in range(2)), key=lambda each: each.moved / each.claimed
    )
    assert least < moved.moved / moved.claimed <= 1


def too_heavy(scores, labels, weight, bound, grid):
    """A mutant of `trees.record_steps`: curvatures count more than the bound allows, and nothing holds them."""
    return KEPT_STEPS(scores, labels, 4 * weight, 2 * bound, grid)


def centred(scores, labels, weight, bound, grid):
    """Another one: each record's gradient depends on its companions."""
    steps = KEPT_STEPS(scores, labels, weight, bound, grid)
    return steps - np.rint(steps.mean(axis=0)).astype(np.int64) * len(steps)


@pytest.mark.parametrize("mutant", [too_heavy, centred])
def test_sums_by_leaf_that_move_further_are_found(mutant):
    with patch.object(trees, "record_steps", mutant):
        assert any(replay(sums_of_trees(number), ADD_OR_REMOVE).refutes for number in range(2))


def test_what_reports_no_sensitivity_cannot_be_replayed():
    with pytest.raises(InvalidArgument, match="is no query of records that can be replayed"):
        replay(Call(len, (0,), (ROWS,)), ADD_OR_REMOVE)
    with pytest.raises(InvalidArgument, match="moved must be .*, got nan"):
        Moved("q", ADD_OR_REMOVE, 1.0, float("nan"), 1)
