"""What an event that is stated under one neighbouring relation costs under the other.

*From add-or-remove to replace-one.* Replacing a record is removing one and adding one, so whoever is protected under
add-or-remove is protected under replace-one, at a price (group privacy of two; Dwork and Roth, "The algorithmic
foundations of differential privacy", 2014, theorem 2.2; for Renyi and hockey-stick divergences of one mechanism exactly):

* a query moves by at most twice its sensitivity: noise of the same scale is half as many multiples of it (``Gaussian``,
  ``Laplace``, ``GroupedGaussian``);
* a Poisson-sampled clipped sum is the same process, whose noise is in units of the clip under either relation; its
  accountants know that the sum moves by up to two clips;
* pure and bounded-range mechanisms compose over the two steps to twice their epsilon.

*From replace-one to add-or-remove* nothing follows in general: a release may say how many records there are, which no
two neighbours under replace-one differ in, and tell by it whether a record takes part. Only for a Poisson-sampled clipped
sum the process itself says what is needed: nobody sees a number of records, and a record that is removed takes at most one
clip along. Everything else that is stated under replace-one has no add-or-remove guarantee, and no event stands for it.

The slack of an event is a distance to the process on the same data, so it is the same under both relations.
"""
from dataclasses import replace
from typing import Optional

from fate_dp.privacy import events
from fate_dp.privacy.events import REPLACE_ONE, Event

TOO_LARGE = "an epsilon too large to be doubled"


def under(event: Event, relation: str) -> Optional[Event]:
    """The event as it counts under ``relation``; None where it has no guarantee there.

    :raises InvalidEvent: for another relation than the two.
    """
    if events.check_relation(relation) == event.relation:
        return event
    process = _replaced(event.process) if relation == REPLACE_ONE else _added_or_removed(event.process)
    return None if process is None else replace(event, process=process, relation=relation)


def _replaced(process):
    try:
        return OF_TWO_STEPS[type(process)](process)
    except events.InvalidEvent:
        # Twice as much is more than a float can hold.
        return events.NotPrivate(TOO_LARGE)


def _added_or_removed(process):
    return process if isinstance(process, STATED_UNDER_BOTH) else None


def _with_half_the_noise(process):
    return replace(process, noise_multiplier=process.noise_multiplier / 2)


def _with_twice_the_epsilon(process):
    return replace(process, epsilon=2 * process.epsilon)


def _with_twice_the_sensitivities(process):
    return replace(process, sensitivities=tuple(2 * change for change in process.sensitivities))


def _same(process):
    return process


STATED_UNDER_BOTH = (events.PoissonSampledGaussian, events.NotPrivate)
# All that can be stated under add-or-remove.
OF_TWO_STEPS = {
    events.PureDP: _with_twice_the_epsilon,
    events.ExponentialMechanism: _with_twice_the_epsilon,
    events.Laplace: _with_half_the_noise,
    events.Gaussian: _with_half_the_noise,
    events.GroupedGaussian: _with_twice_the_sensitivities,
    events.PoissonSampledGaussian: _same,
    events.NotPrivate: _same,
}
