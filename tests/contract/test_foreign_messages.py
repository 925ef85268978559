"""Whoever carries the messages of two jobs can put none of one into the other, at whatever place."""

from contextlib import contextmanager
from unittest import mock

import pytest

from fate_dp.components.common.preflight import Refused
from fate_dp.testing.engine import Exchange

from .registry import CASES

PLAYED = {
    "dp_hetero_lr": "dp_hetero_lr / train / noise label",
    "label_flip": "label_flip / default / classes",
    "dp_scorecard": "dp_scorecard / train / record",
    "shuffler": "shuffler / default / epsilon0, three requests",
}
"""Of each component the job whose messages are tried; each is small."""


@contextmanager
def carried(replaced):
    """What is left at which place meanwhile, and the places that were looked at; some get other contents."""
    left, taken, leave, wait = {}, [], Exchange.leave, Exchange.wait

    def leaving(exchange, place, value):
        left[place] = value
        leave(exchange, place, replaced.get(place, value))

    def waiting(exchange, party, place):
        value = wait(exchange, party, place)
        taken.append(place)
        return value

    with mock.patch.object(Exchange, "leave", leaving), mock.patch.object(Exchange, "wait", waiting):
        yield left, taken


@pytest.mark.parametrize("component", PLAYED)
def test_no_message_of_another_job_is_accepted(component, tmp_path, record_property):
    (case,) = [each for each in CASES if each.name == PLAYED[component]]
    with carried({}) as (foreign, _):
        case.play(tmp_path, task="one", secret=b"one").check()
    with carried({}) as (_, places):
        case.play(tmp_path, task="two", secret=b"two").check()
    accepted, tried = [], 0
    for place in places:
        with carried({place: foreign[place]}) as (_, taken):
            played = case.play(tmp_path, task="two", secret=b"two")
        if place in taken:
            tried += 1
            error = played.errors.get(place[2])
            if not isinstance(error, Refused) or "\n" in str(error):
                accepted.append((place, error))
    record_property("foreign_messages", (len(accepted), tried))
    assert tried == len(places) > 3 and not accepted
