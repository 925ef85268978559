"""Gaussian mechanisms: noise follows what the clipped sum reports, and the event says what was really added."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy.events import (
    ADD_OR_REMOVE,
    REPEATABLE,
    REPLACE_ONE,
    Gaussian,
    GroupedGaussian,
    InvalidEvent,
    NotPrivate,
    PoissonSampledGaussian,
)
from fate_dp.privacy.mechanisms import gaussian
from fate_dp.privacy.mechanisms.clipping import clip_records, clip_records_by_group
from fate_dp.privacy.mechanisms.gaussian import gaussian_mechanism, grouped_gaussian_mechanism
from fate_dp.privacy.noise.stream import ReproducibleStream, SystemStream
from fate_dp.privacy.validation import InvalidArgument

BATCH = np.array([[3.0, 4.0], [0.0, 0.5], [math.nan, 0.0]])
WHOM = {"relation": ADD_OR_REMOVE, "observers": "server"}
multipliers = st.floats(1e-3, 1e4)
clips = st.floats(1e-6, 1e6)


def without_noise(monkeypatch):
    """Replace the sampler by zeros; returns the list of scales that it is asked for."""
    scales = []

    def zeros(sigma, size, rng):
        scales.append(sigma)
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(gaussian, "discrete_gaussian", zeros)
    return scales


@given(multipliers, clips, st.integers(1, 20), st.sampled_from([ADD_OR_REMOVE, REPLACE_ONE]))
def test_noise_is_never_below_the_multiplier_times_the_reported_sensitivity(multiplier, clip, dimension, relation):
    clipped = clip_records(np.ones((2, dimension)), clip)
    with pytest.MonkeyPatch.context() as patch:
        scales = without_noise(patch)
        event = gaussian_mechanism(clipped, multiplier, relation=relation, observers="model").event
    (sigma,) = scales
    needed = Fraction(multiplier) * Fraction(clipped.sensitivity_in_steps(relation))
    assert needed <= Fraction(sigma) <= needed * (1 + Fraction(1, 10**12))
    assert event.process == Gaussian(multiplier) and event.relation == relation


@given(multipliers, clips, st.sampled_from([ADD_OR_REMOVE, REPLACE_ONE]))
def test_with_sampling_the_multiplier_is_over_the_clip_whatever_the_relation(multiplier, clip, relation):
    clipped = clip_records(np.ones((2, 3)), clip)
    with pytest.MonkeyPatch.context() as patch:
        scales = without_noise(patch)
        event = gaussian_mechanism(
            clipped, multiplier, relation=relation, observers="model", sampling_probability=0.01
        ).event
    assert math.isclose(scales[0] * clipped.grid, multiplier * clip, rel_tol=1e-8)
    assert scales[0] * clipped.grid >= multiplier * clip
    assert event.process == PoissonSampledGaussian(0.01, multiplier)


def test_without_its_noise_the_release_is_the_clipped_sum(monkeypatch):
    without_noise(monkeypatch)
    clipped = clip_records(BATCH, 1.0)
    release = gaussian_mechanism(clipped, 1.0, **WHOM)
    assert np.array_equal(release.value, clipped.value)
    assert np.allclose(release.value, [0.6, 1.3])


def test_the_event_says_whom_it_protects_from_whom_and_what_the_grid_costs():
    event = gaussian_mechanism(clip_records(BATCH, 1.0), 2.0, relation=REPLACE_ONE, observers=["server", "host"]).event
    assert (event.unit, event.relation, event.observers) == ("record", REPLACE_ONE, ("host", "server"))
    assert 0 < event.slack < 1e-20
    many = gaussian_mechanism(clip_records(np.zeros((1, 2000)), 1.0), 2.0, unit="client", **WHOM).event
    assert many.unit == "client" and event.slack * 100 < many.slack < 1e-17


def test_an_empty_batch_is_released_with_the_same_noise():
    empty, full = (clip_records(rows, 1.0) for rows in (np.empty((0, 2)), BATCH))
    releases = [gaussian_mechanism(clipped, 1.0, rng=ReproducibleStream(7), **WHOM) for clipped in (empty, full)]
    assert np.allclose(releases[1].value - releases[0].value, full.value)


@pytest.mark.parametrize("sampling_probability", [None, 0.5])
def test_noise_that_can_be_repeated_is_not_private(sampling_probability):
    flat, grouped = clip_records(BATCH, 1.0), clip_records_by_group(BATCH, [[0], [1]], [1.0, 1.0])
    options = {"rng": ReproducibleStream(1), "sampling_probability": sampling_probability, **WHOM}
    assert gaussian_mechanism(flat, 1.0, **options).event.process == NotPrivate(REPEATABLE)
    assert grouped_gaussian_mechanism(grouped, [1.0, 1.0], **options).event.process == NotPrivate(REPEATABLE)


def test_the_operating_system_s_entropy_is_the_default_and_never_repeats():
    clipped = clip_records(BATCH, 1.0)
    np.random.seed(1)
    first = gaussian_mechanism(clipped, 1.0, **WHOM)
    np.random.seed(1)
    second = gaussian_mechanism(clipped, 1.0, rng=SystemStream(), **WHOM)
    assert first.event == second.event and isinstance(first.event.process, Gaussian)
    assert not (first.value == second.value).any()


def test_a_release_is_scaled_by_a_public_number_at_no_further_cost():
    release = gaussian_mechanism(clip_records(BATCH, 1.0), 1.0, **WHOM)
    mean = release.scaled(1 / 256)
    assert np.array_equal(mean.value, release.value / 256) and mean.event is release.event
    assert np.array_equal(release.scaled([1.0, 0.0]).value, release.value * [1.0, 0.0])


@pytest.mark.parametrize("relation, moved", [(ADD_OR_REMOVE, 1), (REPLACE_ONE, 2)])
def test_groups_report_their_own_sensitivities(relation, moved):
    clipped = clip_records_by_group(np.ones((5, 4)), [[0], [1], [2], [3]], [1.0] * 4)
    event = grouped_gaussian_mechanism(clipped, [4.0] * 4, relation=relation, observers="server").event
    assert event.process == GroupedGaussian(clipped.sensitivity(relation), (4.0,) * 4)
    assert np.allclose(event.process.sensitivities, moved)


def test_sampled_groups_are_one_gaussian_of_multiplier_one_over_mu():
    clipped = clip_records_by_group(np.ones((5, 4)), [[0], [1], [2], [3]], [1.0] * 4)
    process = grouped_gaussian_mechanism(clipped, [4.0] * 4, sampling_probability=0.1, **WHOM).event.process
    # privacy.md and goldens.md: four groups of (C 1, sigma 4) have mu 0.5.
    assert math.isclose(process.noise_multiplier, 2.0, rel_tol=1e-6) and process.noise_multiplier < 2.0
    assert process.sampling_probability == 0.1


@settings(max_examples=25)
@given(st.lists(st.tuples(clips, st.floats(1e-2, 1e2)), min_size=1, max_size=6))
def test_the_multiplier_of_groups_is_rounded_down(levels):
    groups, levels_of_groups = [[group] for group in range(len(levels))], [clip for clip, _ in levels]
    clipped = clip_records_by_group(np.ones((1, len(levels))), groups, levels_of_groups)
    sigmas = [clip * ratio for clip, ratio in levels]
    event = grouped_gaussian_mechanism(clipped, sigmas, sampling_probability=1.0, **WHOM).event
    pairs = zip(clipped.sensitivity(ADD_OR_REMOVE), sigmas)
    mu_squared = sum((Fraction(sensitivity) / Fraction(sigma)) ** 2 for sensitivity, sigma in pairs)
    assert 1 - Fraction(1, 10**12) <= Fraction(event.process.noise_multiplier) ** 2 * mu_squared <= 1


def test_each_group_gets_noise_of_its_own_scale(monkeypatch):
    scales = without_noise(monkeypatch)
    clipped = clip_records_by_group(np.ones((2, 2, 2)), [[0, 3], [1, 2]], [0.5, 8.0])
    release = grouped_gaussian_mechanism(clipped, [3.0, 5.0], **WHOM)
    assert [scale * part.grid for scale, part in zip(scales, clipped.sums)] == [3.0, 5.0]
    assert np.array_equal(release.value, clipped.value) and release.value.shape == (2, 2)


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, True, "1", None])
def test_a_multiplier_or_sigma_out_of_range_is_refused(bad):
    with pytest.raises(InvalidArgument) as refusal:
        gaussian_mechanism(clip_records(BATCH, 1.0), bad, **WHOM)
    assert str(refusal.value) == f"noise_multiplier must be a finite number greater than 0, got {bad!r}."
    with pytest.raises(InvalidArgument, match="^sigma must be "):
        grouped_gaussian_mechanism(clip_records_by_group(BATCH, [[0, 1]], [1.0]), [bad], **WHOM)


def test_other_refusals():
    clipped, grouped = clip_records(BATCH, 1.0), clip_records_by_group(BATCH, [[0], [1]], [1.0, 1.0])
    with pytest.raises(InvalidArgument) as refusal:
        grouped_gaussian_mechanism(grouped, [1.0], **WHOM)
    assert str(refusal.value) == "number of sigmas must be 2, one per group, got 1."
    with pytest.raises(InvalidArgument, match=r"^noise_multiplier must be at most \d+\S*, since.*, got 1000000.0"):
        gaussian_mechanism(clipped, 1e6, **WHOM)
    with pytest.raises(InvalidArgument, match=r"^sigma must be at most 6.6e\+04, since noise.*, got 1000000.0"):
        grouped_gaussian_mechanism(grouped, [1.0, 1e6], **WHOM)
    with pytest.raises(InvalidEvent):
        gaussian_mechanism(clipped, 1.0, relation="both", observers="server")
    with pytest.raises(InvalidEvent):
        gaussian_mechanism(clipped, 1.0, relation=REPLACE_ONE, observers="nobody")
    with pytest.raises(InvalidEvent):
        gaussian_mechanism(clipped, 1.0, sampling_probability=0.0, **WHOM)
    with pytest.raises(TypeError):
        gaussian_mechanism(clipped, 1.0)
