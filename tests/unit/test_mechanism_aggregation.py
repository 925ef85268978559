"""Sample and aggregate, and the private median: one record touches one answer, and nothing else leaks."""

import math

import numpy as np
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.privacy.events import REPLACE_ONE, ExponentialMechanism, Laplace, NotPrivate, PureDP
from fate_dp.privacy.mechanisms import aggregates as module
from fate_dp.privacy.mechanisms.aggregates import (
    CANDIDATES,
    RANK_SENSITIVITY,
    private_mean,
    private_median,
    rank_scores,
    sample_and_aggregate,
)
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

positions = st.lists(st.integers(0, CANDIDATES - 1), min_size=1, max_size=30)
MIDDLE = 0.5


def answers_of(monkeypatch, data, estimator, seed=1, **options):
    """The parts' answers that would be aggregated, and the arguments of the aggregation."""
    seen = {}

    def recorded(answers, lower, upper, epsilon, **others):
        seen.update(answers=answers, lower=lower, upper=upper, epsilon=epsilon, **others)

    monkeypatch.setitem(module.AGGREGATES, "mean", recorded)
    options = {"lower": 0.0, "upper": 1.0, "epsilon": 1.0, **options}
    sample_and_aggregate(data, estimator, observers="model", rng=ReproducibleStream(seed), **options)
    return seen


@pytest.mark.parametrize("as_list", [False, True])
def test_every_record_lies_in_exactly_one_part_and_parts_are_even(monkeypatch, as_list):
    data = list(range(103)) if as_list else np.arange(103)
    parts = []
    answers_of(monkeypatch, data, lambda records: parts.append(list(records)) or 0.0, parts=10)
    assert sorted(record for part in parts for record in part) == list(range(103))
    assert sorted(map(len, parts)) == [10] * 7 + [11] * 3
    assert parts[0] != list(range(11))


@pytest.mark.parametrize("changed", [0, 17, 99])
def test_replacing_one_record_changes_one_answer(monkeypatch, changed):
    data = np.random.default_rng(1).uniform(size=100)
    other = data.copy()
    other[changed] = 1e300
    first, second = (answers_of(monkeypatch, rows, np.mean, parts=20)["answers"] for rows in (data, other))
    assert (first != second).sum() == 1


def failing(records):
    raise RuntimeError(f"secret {records[0]}")


@pytest.mark.parametrize(
    "estimator",
    [
        failing,
        lambda records: math.nan,
        lambda records: np.inf,
        lambda records: [0.1, 0.2],
        lambda records: None,
        lambda records: "text",
        lambda records: 1j,
        lambda records: object(),
        lambda records: 1 / (records[0] - records[0]),
    ],
)
def test_a_part_that_fails_counts_as_the_middle(monkeypatch, estimator, capfd, recwarn):
    seen = answers_of(monkeypatch, np.arange(50.0), estimator, parts=5)
    released = private_mean(seen["answers"], 0, 1, 100.0, observers="model", rng=ReproducibleStream(2)).value
    assert abs(released - MIDDLE) < 0.05
    assert capfd.readouterr() == ("", "") and not list(recwarn)


def test_a_number_in_an_array_of_one_is_a_number(monkeypatch):
    seen = answers_of(monkeypatch, np.full(20, 0.75), lambda records: records[:1], parts=4)
    assert seen["answers"].tolist() == [0.75] * 4


def test_vectors_are_estimated_too_and_failing_parts_have_their_shape(monkeypatch):
    def sometimes(records):
        return [records.mean(), records.std()] if 0 not in records else failing(records)

    seen = answers_of(monkeypatch, np.arange(40.0), sometimes, parts=8, lower=[0, 0], upper=[40, 10])
    assert seen["answers"].shape == (8, 2)
    assert sum((row == [20.0, 5.0]).all() for row in seen["answers"]) == 1


@pytest.mark.parametrize("aggregate, process", [("mean", Laplace(0.5)), ("median", ExponentialMechanism(2.0))])
def test_the_event_of_a_number(aggregate, process):
    options = dict(parts=50, epsilon=2.0, lower=0, upper=1, aggregate=aggregate, observers=["host", "model"])
    release = sample_and_aggregate(np.full(1000, 0.25), np.mean, unit="client", **options)
    assert release.event.process == process
    event = release.event
    assert (event.unit, event.relation, event.observers) == ("client", REPLACE_ONE, ("host", "model"))
    assert abs(release.value - 0.25) < 0.5
    assert isinstance(release.value, float)


@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_the_event_of_a_vector_is_pure(aggregate):
    def both(records):
        return [np.mean(records), np.median(records)]

    release = sample_and_aggregate(
        np.full(100, 0.25), both, parts=20, epsilon=2.0, lower=[0, 0], upper=1, aggregate=aggregate, observers="model"
    )
    assert release.event.process == PureDP(2.0) and release.value.shape == (2,)


def test_a_repeatable_stream_is_not_private():
    options = dict(parts=5, epsilon=1.0, lower=0, upper=1, observers="model", rng=ReproducibleStream(1))
    for aggregate in ("mean", "median"):
        event = sample_and_aggregate(np.ones(10), np.mean, aggregate=aggregate, **options).event
        assert isinstance(event.process, NotPrivate)


@pytest.mark.parametrize("parts", [0, -1, 11, 2.0, True, None])
def test_the_number_of_parts_must_fit_the_records(parts):
    with pytest.raises(InvalidArgument) as refusal:
        sample_and_aggregate(np.ones(10), np.mean, parts=parts, epsilon=1.0, lower=0, upper=1, observers="model")
    assert str(refusal.value) == f"parts must be a whole number from 1 to the 10 records, got {parts!r}."


def test_other_refusals():
    options = dict(parts=5, epsilon=1.0, observers="model")
    with pytest.raises(InvalidArgument) as refusal:
        sample_and_aggregate(np.ones(10), np.mean, lower=0, upper=1, aggregate="mode", **options)
    assert str(refusal.value) == "aggregate must be one of mean, median, got 'mode'."
    with pytest.raises(InvalidArgument):
        sample_and_aggregate(np.ones(10), np.mean, lower=1, upper=0, **options)
    with pytest.raises(InvalidArgument):
        sample_and_aggregate(np.ones(10), np.mean, lower=[0, 0], upper=[1, 1, 1], **options)


@given(positions, st.integers(0, CANDIDATES - 1), st.integers(0, 29))
def test_replacing_a_value_moves_every_score_by_at_most_the_rank_sensitivity(values, other, position):
    changed = list(values)
    changed[position % len(values)] = other
    assert np.abs(rank_scores(np.array(values)) - rank_scores(np.array(changed))).max() <= RANK_SENSITIVITY


def test_a_score_can_need_all_of_the_rank_sensitivity():
    first, second = rank_scores(np.array([0, 0, 0])), rank_scores(np.array([0, 0, 1024]))
    assert np.abs(first - second).max() == RANK_SENSITIVITY


@given(positions)
def test_exactly_the_medians_have_score_zero(values):
    scores = rank_scores(np.array(values))
    low, high = sorted(values)[(len(values) - 1) // 2], sorted(values)[len(values) // 2]
    assert np.array_equal(np.flatnonzero(scores == 0), np.arange(low, high + 1))


def test_the_median_is_near_the_true_one_and_on_the_candidates():
    values = np.random.default_rng(3).normal(5.0, 1.0, size=2000)
    median = private_median(values, 0.0, 10.0, 1.0, observers="model").value
    assert abs(median - 5.0) < 0.5
    assert math.isclose(median * 102.4, round(median * 102.4), rel_tol=1e-12)


def test_epsilon_is_shared_by_the_coordinates_of_a_median(monkeypatch):
    shares = []
    monkeypatch.setattr(
        "fate_dp.privacy.mechanisms.aggregates.exponential_mechanism",
        lambda scores, epsilon, sensitivity, rng: shares.append(epsilon) or 0,
    )
    private_median(np.zeros((5, 3)), -1.0, 1.0, 0.1, observers="model")
    assert len(shares) == 3 and math.fsum(shares) <= 0.1 and math.isclose(sum(shares), 0.1, rel_tol=1e-12)


def test_a_buffer_that_an_estimator_reuses_does_not_spread_one_part_to_all(monkeypatch):
    buffer = np.zeros(1)

    def reusing(records):
        buffer[0] = np.mean(records)
        return buffer

    data = np.zeros(20)
    data[0] = 1.0
    answers = answers_of(monkeypatch, data, reusing, parts=20, lower=[0.0], upper=[1.0])["answers"]
    assert answers.sum() == 1.0


def test_an_estimator_that_ends_the_program_counts_as_the_middle(monkeypatch):
    def ending(records):
        raise SystemExit(f"secret {records[0]}")

    assert (answers_of(monkeypatch, np.ones(4), ending, parts=2)["answers"] == MIDDLE).all()


@pytest.mark.parametrize("data", [{0: 1.0, 1: 2.0}, "abc", np.array(3.0), None, pandas.DataFrame([[1, 2], [3, 4]])])
def test_data_that_are_not_handed_out_by_record_are_refused(monkeypatch, data):
    """A table indexed by its columns would give every part a value of every record."""
    with pytest.raises(InvalidArgument) as refusal:
        answers_of(monkeypatch, data, len, parts=1)
    assert str(refusal.value) == (
        "type of data must be an array, whose first axis is the records, or a list of records, "
        f"got {type(data).__name__!r}."
    )


@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_a_range_of_no_numbers_is_refused(aggregate):
    with pytest.raises(ValueError, match=r"shape \(2, 0\)"):
        sample_and_aggregate(
            np.ones(4), np.mean, parts=2, epsilon=1.0, lower=[], upper=[], aggregate=aggregate, observers="model"
        )
