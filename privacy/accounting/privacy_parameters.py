"""The ranges of epsilon, delta and scales that every accountant accepts, and what is said when one is outside."""
from fate_dp.privacy.mechanisms.randomized_response import InvalidEpsilon, check_epsilon
from fate_dp.privacy.number_kinds import is_finite


class InvalidDelta(ValueError):
    """Delta is not a probability that the statement at hand allows."""


class InvalidScale(ValueError):
    """A noise scale, a sensitivity or another size is not a finite number greater than 0."""


def check_delta(delta):
    """Return ``delta`` as a float; raise ``InvalidDelta`` unless it is a number strictly between 0 and 1."""
    if not (is_finite(delta) and 0 < delta < 1):
        raise InvalidDelta(f"delta is {delta!r} but must be a number greater than 0 and less than 1.")
    return float(delta)


def check_delta_or_zero(delta):
    """Return ``delta`` as a float; raise ``InvalidDelta`` unless it is a number from 0 to less than 1."""
    if not (is_finite(delta) and 0 <= delta < 1):
        raise InvalidDelta(f"delta is {delta!r} but must be a number of at least 0 and less than 1.")
    return float(delta)


def check_epsilon_or_zero(epsilon):
    """Return ``epsilon`` (nats) as a float; raise ``InvalidEpsilon`` unless it is a finite number of at least 0."""
    if not (is_finite(epsilon) and epsilon >= 0):
        raise InvalidEpsilon(f"epsilon is {epsilon!r} but must be a finite number of at least 0 (in nats).")
    return float(epsilon)


def check_target(epsilon, delta):
    """Return a target (epsilon > 0, 0 < delta < 1) as floats.

    :raises InvalidEpsilon, InvalidDelta: outside those ranges.
    """
    return check_epsilon(epsilon), check_delta(delta)


def check_scale(name, value):
    """Return ``value`` as a float; raise ``InvalidScale``, naming the field, unless it is finite and greater than 0."""
    if not (is_finite(value) and value > 0):
        raise InvalidScale(f"{name} is {value!r} but must be a finite number greater than 0.")
    return float(value)
