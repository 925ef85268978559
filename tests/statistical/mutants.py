"""Mutants: ways to break a mechanism or its account, applied from outside, each with the check that must notice.

A mutant is a function that is given pytest's ``monkeypatch``. The product has no switch for any of them.
"""

import itertools
import os
from dataclasses import replace
from functools import partial

import numpy as np

from fate_dp.privacy.accounting import accountant, losses
from fate_dp.privacy.accounting.accountant import Accountant
from fate_dp.privacy.labels import flips as label_flips
from fate_dp.privacy.mechanisms import (
    aggregates,
    clipping,
    dummy_count,
    exponential,
    gaussian,
    laplace,
    local_numbers,
    randomized_response,
    sampling,
)
from fate_dp.privacy.mechanisms import exponential as report_noisy_max
from fate_dp.privacy.noise import discrete, stream
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.statistical import audits, properties

NO_NOISE = 1000


def shown_in_few_runs(mutate, patch):
    """A leak as plain as no noise at all needs no more, and audits take time."""
    patch.setattr(audits, "RUNS", 800)
    mutate(patch)


def noise_off(module, sampler, patch):
    patch.setattr(module, sampler, lambda scale, size, rng=None: np.zeros(size, dtype=np.int64))


def noise_halved(module, sampler, patch):
    draw = getattr(module, sampler)
    patch.setattr(module, sampler, lambda scale, size, rng=None: draw(scale / 2, size, rng))


def epsilon_times(factor, module, function, position, patch):
    """For choices and flips, whose noise is an epsilon: factor 2 halves it, ``NO_NOISE`` leaves none."""
    original = getattr(module, function)

    def mutated(*arguments):
        return original(*(value * factor if place == position else value for place, value in enumerate(arguments)))

    patch.setattr(module, function, mutated)


def windows_of_epsilon_times(factor, patch):
    """Bounded numbers are drawn with more epsilon than is stated."""
    inside = local_numbers.PiecewiseLaw.inside
    patch.setattr(local_numbers.PiecewiseLaw, "inside", lambda law: inside(replace(law, epsilon=factor * law.epsilon)))


def clip_off(patch):
    patch.setattr(clipping, "_clipped_steps", lambda rows, clip, grid: np.rint(rows / grid).astype(np.int64))


def clamp_off(patch):
    def unclamped(values, lower, upper, steps):
        positions = np.rint((np.asarray(values) - lower) / (upper - lower) * steps).astype(np.int64)
        return positions, np.float64(lower), np.float64(upper)

    patch.setattr(aggregates, "positions_in_range", unclamped)


def replace_one_read_as_add_or_remove(patch):
    """Pitfall 6: the sensitivity under replace-one is taken to be one clip."""
    patch.setattr(clipping, "clips_moved", lambda relation: 1)


def parts_share_a_record(patch):
    """Sample and aggregate with parts that overlap."""
    patch.setattr(aggregates, "random_permutation", lambda count, rng: np.zeros(count, dtype=np.int64))


def flips_fresh_in_every_epoch(patch):
    """Pitfall 1: the coin is tossed anew at every call instead of being a function of the record."""
    digest, tosses = label_flips.hmac.digest, itertools.count()

    class Fresh:
        @staticmethod
        def digest(key, message, name):
            return digest(key, message + str(next(tosses)).encode(), name)

    patch.setattr(label_flips, "hmac", Fresh)


def keys_are_constant(patch):
    """Pitfall 9: every stream starts from the same seed."""
    patch.setattr(stream.os, "urandom", bytes)


def keys_are_constant_in_children(patch):
    """The same where a spawned process, which inherits no patch, sets itself up."""
    spawned = properties.spawned_processes_never_repeat
    patch.setitem(properties.PROPERTIES, spawned.__name__, partial(spawned, _constant_urandom))


def _constant_urandom():
    os.urandom = bytes


def generator_is_global(patch):
    """One generator per process, seeded once from real entropy: a fork copies its state."""
    shared = ReproducibleStream(os.urandom(32))
    patch.setattr(discrete, "open_stream", lambda rng=None: rng or shared)


def generator_is_numpys(patch):
    """numpy's global generator, which programs seed alike in all their processes."""
    patch.setattr(discrete, "discrete_gaussian", lambda sigma, size: np.rint(np.random.normal(0, sigma, size)))


def accountant_ignores_count(patch):
    """Pitfall 5, in the accountant."""
    compose = Accountant.compose
    patch.setattr(Accountant, "compose", lambda self, event, count=1: compose(self, event))


def composition_ignores_count(patch):
    """Pitfall 5, underneath: what dp-accounting's own accountant does to randomised response."""
    composed = losses.composed
    patch.setattr(accountant, "composed", lambda parts: composed([(pair, 1) for pair, _ in parts]))


def batches_of_a_shuffled_loader(patch):
    """Pitfall 2: every batch has the same size."""
    generator = np.random.default_rng(3)

    def shuffled(records, probability, rng=None):
        return np.sort(generator.permutation(records)[: round(records * probability)])

    patch.setattr(sampling, "poisson_sample", shuffled)


def batches_of_pairs(patch):
    """Sizes that vary, but records that join in pairs."""
    sample = sampling.poisson_sample

    def paired(records, probability, rng=None):
        chosen = sample(records // 2, probability, rng)
        return np.sort(np.concatenate([2 * chosen, 2 * chosen + 1]))

    patch.setattr(sampling, "poisson_sample", paired)


def one_batch_for_ever(patch):
    """The batch is drawn once and used in every step."""
    sample, drawn = sampling.poisson_sample, []

    def repeated(records, probability, rng=None):
        drawn.append(sample(records, probability, rng))
        return drawn[0]

    patch.setattr(sampling, "poisson_sample", repeated)


NOISE_ON_NUMBERS = {
    "hidden_count": (dummy_count, "discrete_laplace"),
    "geometric_counts": (laplace, "discrete_laplace"),
    "laplace_number": (laplace, "discrete_laplace"),
    "mean_of_clamped": (laplace, "discrete_laplace"),
    "mean_of_disjoint_parts": (laplace, "discrete_laplace"),
    "gaussian_sum_add_or_remove": (gaussian, "discrete_gaussian"),
    "gaussian_sum_replace_one": (gaussian, "discrete_gaussian"),
    "grouped_gaussian_sum": (gaussian, "discrete_gaussian"),
    "sampled_gaussian_sum": (gaussian, "discrete_gaussian"),
}
NOISE_OF_CHOICES = {
    "memoised_flips": (label_flips, "_keep_threshold", 0),
    "fresh_randomized_response": (randomized_response, "safe_flip_probability", 0),
    "grid_answers": (randomized_response, "safe_flip_probability", 0),
    "shuffled_messages": (randomized_response, "safe_flip_probability", 0),
    "duchi_vectors": (randomized_response, "safe_flip_probability", 0),
    "median_of_clamped": (exponential, "exponential_weights", 1),
    "exponential_choice": (exponential, "exponential_weights", 1),
    "noisy_max": (report_noisy_max, "exponential_weights", 1),
}
NOISE_OFF = {
    **{audit: partial(noise_off, *where) for audit, where in NOISE_ON_NUMBERS.items()},
    **{audit: partial(epsilon_times, NO_NOISE, *where) for audit, where in NOISE_OF_CHOICES.items()},
    "piecewise_numbers": partial(windows_of_epsilon_times, NO_NOISE),
}
NOISE_HALVED = {
    **{audit: partial(noise_halved, *where) for audit, where in NOISE_ON_NUMBERS.items()},
    **{audit: partial(epsilon_times, 2, *where) for audit, where in NOISE_OF_CHOICES.items()},
    "piecewise_numbers": partial(windows_of_epsilon_times, 2),
}
# (what is broken, how, the audit or property that must notice)
MUTANTS = [
    *(("noise off", partial(shown_in_few_runs, mutate), audit) for audit, mutate in NOISE_OFF.items()),
    *(("noise halved", mutate, audit) for audit, mutate in NOISE_HALVED.items()),
    ("noise off", partial(noise_off, gaussian, "discrete_gaussian"), "trained_model"),
    ("clip off", partial(shown_in_few_runs, clip_off), "gaussian_sum_add_or_remove"),
    ("clip off", partial(shown_in_few_runs, clip_off), "gaussian_sum_replace_one"),
    ("clip off", partial(shown_in_few_runs, clip_off), "grouped_gaussian_sum"),
    ("clip off", partial(shown_in_few_runs, clip_off), "sampled_gaussian_sum"),
    ("clip off", clip_off, "trained_model"),
    ("clamp off", partial(shown_in_few_runs, clamp_off), "mean_of_clamped"),
    ("wrong relation", replace_one_read_as_add_or_remove, "gaussian_sum_replace_one"),
    ("parts share a record", parts_share_a_record, "mean_of_disjoint_parts"),
    ("fresh flips", flips_fresh_in_every_epoch, "memoised_flips"),
    ("fixed seed", keys_are_constant, "two_calls_differ"),
    ("fixed seed", keys_are_constant, "forked_processes_never_repeat"),
    ("fixed seed", keys_are_constant_in_children, "spawned_processes_never_repeat"),
    ("global generator", generator_is_global, "forked_processes_never_repeat"),
    ("numpy's generator", generator_is_numpys, "forked_processes_never_repeat"),
    ("count ignored", accountant_ignores_count, "count_is_not_ignored"),
    ("count ignored below", composition_ignores_count, "count_is_not_ignored"),
    ("shuffled batches", batches_of_a_shuffled_loader, "batches_are_poisson"),
    ("paired records", batches_of_pairs, "batches_are_poisson"),
    ("one batch", one_batch_for_ever, "batches_are_poisson"),
]
