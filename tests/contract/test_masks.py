"""What hides a client's vector is fresh: with the same draws and other entropy the server opens the same of other messages."""

import numpy as np
import pytest

from fate_dp.privacy.noise.stream import KEY_BYTES
from fate_dp.testing import StreamOpened

from .cases import ARBITER, GUEST, messages_of
from .clauses import _draws_by_place
from .registry import CASES


@pytest.mark.parametrize("name", ["dp_homo_gbdt / train / secure_sum", "dp_homo_nn / train / secure_sum"])
def test_the_same_sums_come_in_other_messages(name, tmp_path):
    (case,) = [each for each in CASES if each.name == name]
    draws = {place: iter(results) for place, results in _draws_by_place(case.base).items()}
    again = case.play(tmp_path, secret=b"another", redraw=lambda draw: next(draws[draw.party, draw.law])).check()
    first, second = case.left(case.base), case.left(again)
    assert first and all(np.array_equal(first[each], second[each]) for each in first)
    bodies = [
        [each.value for each in messages_of(played) if (each.name, each.receiver) == ("message", ARBITER)]
        for played in (case.base, again)
    ]
    assert bodies[0] and not set(bodies[0]) & set(bodies[1])


def test_what_masks_records_is_a_secret_of_the_task(tmp_path):
    (case,) = [each for each in CASES if each.name == "align / default / sizes told"]
    again = case.play(tmp_path, secret=b"another").check()
    start = b"fate-dp align masks "
    keys = [
        {
            each.label[len(start) :][:KEY_BYTES]
            for each in played.timeline.of(StreamOpened)
            if each.label.startswith(start)
        }
        for played in (case.base, again)
    ]
    assert len(keys[0]) == len(keys[1]) == len(case.parties) and not keys[0] & keys[1]


def test_secret_draws_of_over_sampling_differ(tmp_path):
    (case,) = [each for each in CASES if each.name == "smote / train / categories kept"]
    again = case.play(tmp_path, secret=b"another").check()
    first, second = (played.values[GUEST]["train_output_data"] for played in (case.base, again))
    assert len(first) == len(second) and not first["x0"].equals(second["x0"])
