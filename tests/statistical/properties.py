"""Properties that no audit can see: functions that raise ``AssertionError`` when a property does not hold."""

import math
import multiprocessing
import random

import numpy as np

from fate_dp.privacy.accounting.accountant import make_accountant
from fate_dp.privacy.events import (
    ADD_OR_REMOVE,
    REPLACE_ONE,
    Event,
    ExponentialMechanism,
    PoissonSampledGaussian,
    RandomizedResponse,
)
from fate_dp.privacy.mechanisms import sampling
from fate_dp.privacy.noise import discrete
from fate_dp.privacy.noise.stream import ReproducibleStream

LIMIT = 5.0
DELTA = 1e-5
# (epsilon of one flip, number of fresh flips, exact epsilon at DELTA), from the golden values.
FRESH_FLIPS = [(1.0, 10, 9.9997706345), (0.5, 20, 9.8594110241)]
COUNTED = [
    ("pld", Event(RandomizedResponse(1.0), "label", REPLACE_ONE, "host")),
    ("rdp", Event(RandomizedResponse(1.0), "label", REPLACE_ONE, "host")),
    ("pld", Event(ExponentialMechanism(0.5), "record", REPLACE_ONE, "host")),
    ("rdp", Event(ExponentialMechanism(0.5), "record", REPLACE_ONE, "host")),
    ("rdp", Event(PoissonSampledGaussian(0.05, 1.2), "record", ADD_OR_REMOVE, "model")),
]
WIDE = 2.0**40


def draw_wide():
    """Four numbers so wide that two independent draws agree in one place with probability below 1e-10."""
    return discrete.discrete_gaussian(WIDE, 4).tolist()


def two_calls_differ():
    assert not set(draw_wide()) & set(draw_wide())


def forked_processes_never_repeat(prepare=None):
    _processes_never_repeat("fork", prepare)


def spawned_processes_never_repeat(prepare=None):
    _processes_never_repeat("spawn", prepare)


def _processes_never_repeat(method, prepare):
    """:param prepare: what a mutant does first in each child; a spawned one inherits no patch."""
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    children = [context.Process(target=_draw_into, args=(queue, prepare)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(600)
        if child.exitcode != 0:
            raise RuntimeError(f"A child ended with exit code {child.exitcode}.")
    draws = [*queue.get(), *queue.get(), *draw_wide()]
    assert len(set(draws)) == len(draws)


def _draw_into(queue, prepare):
    # Equal seeds of the global generators must not make two processes agree.
    random.seed(1)
    np.random.seed(1)
    if prepare:
        prepare()
    queue.put(draw_wide())


def count_is_not_ignored():
    """The count law, and what one count is worth at least: ten fresh flips never cost less than their exact epsilon."""
    for kind, event in COUNTED:
        at_once, one_by_one, once = (make_accountant(kind, event.relation) for _ in range(3))
        at_once.compose(event, 12)
        for _ in range(12):
            one_by_one.compose(event)
        once.compose(event)
        assert math.isclose(at_once.epsilon(DELTA), one_by_one.epsilon(DELTA), rel_tol=1e-9)
        assert at_once.epsilon(DELTA) > 1.1 * once.epsilon(DELTA)
    for epsilon, count, exact in FRESH_FLIPS:
        accountant = make_accountant("pld", REPLACE_ONE)
        accountant.compose(Event(RandomizedResponse(epsilon), "label", REPLACE_ONE, "host"), count)
        assert exact * (1 - 1e-9) <= accountant.epsilon(DELTA) <= count * epsilon * (1 + 1e-6)


def batches_are_poisson():
    """Sizes have the binomial mean and variance, and whether one record is in says nothing about its neighbour."""
    records, probability, batches = 200, 0.1, 2000
    stream = ReproducibleStream(17)
    members = np.zeros((batches, records))
    for batch in members:
        batch[sampling.poisson_sample(records, probability, stream)] = 1
    sizes, variance = members.sum(axis=1), records * probability * (1 - probability)
    assert abs(sizes.mean() - records * probability) < LIMIT * math.sqrt(variance / batches)
    assert abs(sizes.var(ddof=1) / variance - 1) < LIMIT * math.sqrt(2 / (batches - 1))
    spread = probability * (1 - probability)
    centred = members - probability
    for neighbour in (np.roll(centred, 1, axis=1), np.roll(centred, 1, axis=0)):
        assert abs((centred * neighbour).sum()) < LIMIT * spread * math.sqrt(centred.size)


PROPERTIES = {
    check.__name__: check
    for check in (
        two_calls_differ,
        forked_processes_never_repeat,
        spawned_processes_never_repeat,
        count_is_not_ignored,
        batches_are_poisson,
    )
}
