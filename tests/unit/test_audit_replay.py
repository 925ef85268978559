"""Recorded calls and their replays: nothing is recorded unless asked, and an understated sensitivity is found."""

from unittest.mock import patch

import numpy as np
import pytest

from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec
from fate_dp.privacy.auditing.replay import Moved, neighbours, replay, replay_all
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE
from fate_dp.privacy.mechanisms import aggregates, clipping
from fate_dp.privacy.recorded import Call, recorded, recording
from fate_dp.privacy.validation import InvalidArgument

ROWS = np.array([[0.1, -0.2], [3.0, 1.0], [0.0, 0.3]])


def calls_of(function, most=10):
    with recording(most) as recorder:
        function()
    return recorder


def test_a_query_gives_the_same_whether_it_is_recorded_or_not():
    plain = clipping.clip_records(ROWS, 0.5)
    (call,) = calls_of(lambda: clipping.clip_records(ROWS, 0.5)).calls
    assert np.array_equal(call.result.steps, plain.steps) and call.records[0] is ROWS and call.arguments[1:] == (0.5,)


def test_nothing_is_recorded_outside_and_not_more_than_is_wanted_inside():
    clipping.clip_records(ROWS, 0.5)
    recorder = calls_of(lambda: [clipping.clip_records(ROWS, clip) for clip in (0.1, 0.2, 0.3)], most=2)
    clipping.clip_records(ROWS, 0.5)
    assert recorder.seen == 3 and [call.arguments[1] for call in recorder.calls] == [0.1, 0.2]


def test_a_call_shows_no_private_value_in_its_text():
    (call,) = calls_of(lambda: clipping.clip_records(ROWS, 0.5)).calls
    assert "array" not in repr(call) and "0.2" not in repr(call)


def test_an_inner_recording_takes_its_own_calls_and_leaves_the_outer_one_its():
    with recording() as outer:
        inner = calls_of(lambda: clipping.clip_records(ROWS, 0.5))
        clipping.clip_records(ROWS, 0.25)
    assert len(inner.calls) == len(outer.calls) == 1


@pytest.mark.parametrize("relation, clips", [(ADD_OR_REMOVE, 1), (REPLACE_ONE, 2)])
def test_the_worst_neighbour_that_is_tried_moves_a_clipped_sum_by_its_sensitivity(relation, clips):
    (call,) = calls_of(lambda: clipping.clip_records(ROWS, 0.5)).calls
    moved = replay(call, relation)
    assert not moved.refutes and moved.moved * call.result.grid == pytest.approx(0.5 * clips, rel=1e-6)
    (call,) = calls_of(lambda: clipping.clip_records_by_group(ROWS, [[0], [1]], [0.5, 1.5])).calls
    assert 0.99 < replay(call, relation).moved / replay(call, relation).claimed <= 1


def test_a_bounded_mean_moves_by_its_sensitivity_and_has_no_other_relation():
    (call,) = calls_of(lambda: aggregates.private_mean([0.2, 0.4, 0.9], 0.0, 1.0, 1.0, observers="host")).calls
    moved = replay(call, REPLACE_ONE)
    assert moved.query == "bounded_mean" and not moved.refutes and moved.moved > 0.5 * moved.claimed
    with pytest.raises(InvalidArgument, match="must be replace_one for bounded_mean"):
        replay(call, ADD_OR_REMOVE)


@pytest.mark.parametrize("understated", [1.01, 1.5, 2.0])
def test_a_sensitivity_that_is_understated_is_found(understated):
    truly = clipping.ClippedSum.sensitivity_in_steps
    (call,) = calls_of(lambda: clipping.clip_records(ROWS, 0.5)).calls
    with patch.object(
        clipping.ClippedSum, "sensitivity_in_steps", lambda s, relation: truly(s, relation) / understated
    ):
        (found,) = replay_all([call], ADD_OR_REMOVE)
    assert found.refutes and f"{understated:.2g}" in found.sentence[:60]


def test_a_clip_that_is_off_is_found():
    off = patch.object(clipping, "_clipped_steps", lambda rows, clip, grid: np.rint(rows / grid).astype(np.int64))
    with off:
        (call,) = calls_of(lambda: clipping.clip_records(ROWS, 0.5)).calls
        assert replay(call, REPLACE_ONE).refutes


def test_the_gradients_of_a_training_are_replayed_with_their_labels():
    gradients = RecordGradients(build_model(ModelSpec("logistic_regression", 2, 2)))
    features, labels = ROWS.astype(np.float32), np.array([0, 1, 1])
    recorder = calls_of(lambda: gradients.clipped_sum(np.zeros(3), features, labels, 0.5))
    moved = replay(recorder.calls[0], ADD_OR_REMOVE)
    assert moved.query == "clipped_sum" and 0.99 < moved.moved / moved.claimed <= 1


def test_neighbours_differ_in_one_record_only():
    labels = np.array([0, 1, 1])
    for features, other in neighbours((ROWS, labels), REPLACE_ONE):
        assert (features != ROWS).any(axis=1).sum() == 1 and np.array_equal(other, labels)
    lengths = sorted(len(features) for features, other in neighbours((ROWS, labels), ADD_OR_REMOVE))
    assert lengths == [2, 2, 2, 4, 4, 4]


def test_calls_on_no_records_are_passed_over_and_others_are_refused():
    assert replay_all(calls_of(lambda: clipping.clip_records(ROWS[:0], 0.5)).calls, ADD_OR_REMOVE) == ()
    strange = recorded(0)(lambda rows: 7)
    (call,) = calls_of(lambda: strange(ROWS)).calls
    with pytest.raises(InvalidArgument, match="is no query of records that can be replayed"):
        replay(call, ADD_OR_REMOVE)
    assert isinstance(call, Call)
    with pytest.raises(InvalidArgument, match="moved is nan"):
        Moved("q", ADD_OR_REMOVE, 1.0, float("nan"), 1)
