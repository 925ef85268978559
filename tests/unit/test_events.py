"""Events as values: equal events have equal texts, and what is kept of a number is what was checked."""

import json
import pickle
from fractions import Fraction

import numpy as np
import pytest

from fate_dp.privacy.events import (
    REPLACE_ONE,
    Event,
    Gaussian,
    GroupedGaussian,
    InvalidEvent,
    NeighboringRelation,
    Observer,
    PoissonSampledGaussian,
    PureDP,
    Unit,
    event_from_json,
)

NAMES = "guest, host, arbiter, server, shuffler, client, model"


def release(process, slack=0.0):
    return Event(process, "record", REPLACE_ONE, "server", slack)


@pytest.mark.parametrize(
    "first, second",
    [
        (release(GroupedGaussian((1,), (2,))), release(GroupedGaussian((1.0,), (2.0,)))),
        (release(PoissonSampledGaussian(1, 1)), release(PoissonSampledGaussian(1.0, 1.0))),
        (release(PureDP(1), slack=0), release(PureDP(1), slack=-0.0)),
    ],
)
def test_equal_events_have_equal_texts_whatever_type_the_numbers_had(first, second):
    assert first == second and first.to_json() == second.to_json()


@pytest.mark.parametrize("number", [np.float32(0.5), Fraction(1, 2), np.float16(0.5)])
def test_every_kind_of_real_number_survives_the_text(number):
    for process in (GroupedGaussian((number,), (number,)), PoissonSampledGaussian(number, number)):
        event = release(process, slack=number)
        assert event_from_json(event.to_json()) == event


@pytest.mark.parametrize("number", [10**400, Fraction(1, 10**400), Fraction(10**400)])
def test_numbers_beyond_the_range_of_floats_are_refused(number):
    with pytest.raises(InvalidEvent) as refusal:
        Gaussian(number)
    assert str(refusal.value) == f"noise_multiplier must be a finite number greater than 0, got {number!r}."


@pytest.mark.parametrize("observers", [None, 3, [["server"]], [], ["server", "nobody"]])
def test_observers_that_are_not_names_are_refused(observers):
    with pytest.raises(InvalidEvent) as refusal:
        Event(PureDP(1.0), "record", REPLACE_ONE, observers)
    assert str(refusal.value) == f"observers must be one or more of {NAMES}, got {observers!r}."


@pytest.mark.parametrize("sigmas", [1.0, (), (0.0,), (Fraction(1, 10**400),)])
def test_scales_of_groups_that_are_not_positive_numbers_are_refused(sigmas):
    with pytest.raises(InvalidEvent) as refusal:
        GroupedGaussian((1.0,), sigmas)
    assert str(refusal.value) == f"sigmas must be finite numbers greater than 0, got {sigmas!r}."


def test_a_text_that_lost_a_field_is_not_charged_by_its_default():
    text = release(PureDP(1.0), slack=1e-9).to_json()
    for damaged in (text.replace(', "slack": 1e-09', ""), text.replace("PureDP", "Other"), text[:-1], "[]", '"x"'):
        assert damaged != text
        with pytest.raises(InvalidEvent, match="^The text of an event is damaged or was written by another version.$"):
            event_from_json(damaged)
    lost_classes = '{"mechanism": "RandomizedResponse", "observers": ["host"], "parameters": {"epsilon": 1.0}, ' + (
        '"relation": "replace_one", "slack": 0.0, "unit": "label"}'
    )
    with pytest.raises(InvalidEvent):
        event_from_json(lost_classes)


@pytest.mark.parametrize("word", [*NeighboringRelation, *Unit, *Observer])
def test_words_are_shown_stored_and_compared_as_their_texts(word):
    text = word.value
    assert (str(word), f"{word}", f"{word!r}", f"{word:>20}") == (text, text, repr(text), f"{text:>20}")
    assert json.dumps({word: [word]}) == json.dumps({text: [text]})
    assert word == text and hash(word) == hash(text) and {text: 1}[word] == 1
    assert pickle.loads(pickle.dumps(word)) == text


def test_an_event_keeps_members_whatever_it_was_given():
    event = Event(PureDP(1.0), "record", "replace_one", ("server", Observer.CLIENT))
    assert event.unit is Unit.RECORD and event.relation is NeighboringRelation.REPLACE_ONE
    assert event == Event(PureDP(1.0), Unit.RECORD, NeighboringRelation.REPLACE_ONE, [Observer.SERVER, "client"])
    assert event.observers == ("client", "server")
