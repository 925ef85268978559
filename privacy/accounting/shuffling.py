"""Amplification by shuffling: the epsilon of n pure local messages of which only the shuffled set is seen.

Unit: whoever sends *one* message per round (a record or a client; the caller's event names it). Relation: replace-one.
Observer: whoever sees the shuffled messages but not who sent which; the shuffler, or whoever collaborates with it, gets
the local epsilon0 only. ``n`` counts honest messages that really arrived in the round: drop-outs and colluders reduce
it. Epsilon is in nats, and every result is an upper bound, also in floating point.

The bounds hold for *pure* epsilon0-LDP messages that all come from one randomiser with the same public parameters: that
a message of another range or grid hides anybody is not proved. Gaussian noise, and clipped and noised vectors, are not
pure LDP at any epsilon0, and are refused. A vector cut into blocks that are shuffled apart is post-processing of
shuffling whole vectors, and is accounted as that.
"""
from fate_dp.privacy import events
from fate_dp.privacy.accounting.hiding_among_clones import (
    LARGEST_AMPLIFIED,
    clones_epsilon,
    in_amplified_range,
    shuffle_closed_form,
)
from fate_dp.privacy.accounting.privacy_parameters import check_delta
from fate_dp.privacy.accounting.shuffled_randomized_response import randomized_response_epsilon
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon
from fate_dp.privacy.number_kinds import is_whole


class InvalidMessages(ValueError):
    """A number of messages or rounds is not a whole number of at least 1."""


class UnsupportedRandomizer(ValueError):
    """No bound on shuffling is known for a randomiser."""


def shuffle_epsilon(epsilon0, n, delta, randomizer="any"):
    """Epsilon (nats) at ``delta`` of one round of ``n`` shuffled ``epsilon0``-LDP messages; replace-one.

    Non-increasing in ``n``, non-decreasing in ``epsilon0`` and 1 / ``delta``, never above ``epsilon0``, and
    ``epsilon0`` for n = 1, where nothing is shuffled.

    :param randomizer: ``any`` pure local randomiser: the smaller of the numeric bound of hiding among the clones and
        its closed form (``hiding_among_clones``) where epsilon0 <= ln(n / (16 ln(4 / delta))), and unamplified outside.
        ``randomized_response``: *binary* randomised response, over the worst data set
        (``shuffled_randomized_response`` says when this is exact), without a range. With more classes take ``any``:
        their messages hide less.
    :raises InvalidEpsilon, InvalidMessages, InvalidDelta: a parameter is outside its range.
    :raises UnsupportedRandomizer: for any other randomiser, Gaussian noise above all.
    """
    epsilon0, n, delta = check_epsilon(epsilon0), _check_whole("n", n), check_delta(delta)
    bound = _bound_of(randomizer)
    if n == 1 or epsilon0 > LARGEST_AMPLIFIED:
        return epsilon0
    return bound(epsilon0, n, delta)


def shuffle_composition_epsilon(epsilon0, n, rounds, delta, randomizer="any"):
    """Epsilon (nats) at ``delta`` of ``rounds`` rounds, each as in ``shuffle_epsilon``, chosen adaptively; replace-one.

    ``n`` is the least number of honest messages in any of the rounds. The smallest of: privacy loss distributions
    (``hiding_among_clones.shuffled_profile`` says which pair is composed); the sum of the rounds at delta / rounds
    each; half of delta shared by the rounds and half spent on composing them as pure mechanisms; and the unamplified
    rounds, composed as pure mechanisms.

    Parameters and errors as in ``shuffle_epsilon``; ``rounds`` is a whole number of at least 1.
    """
    from fate_dp.privacy.accounting.pure_composition import compose_pure

    rounds, single = _check_whole("rounds", rounds), shuffle_epsilon(epsilon0, n, delta, randomizer)
    if rounds == 1:
        return single
    epsilon0, n, delta = float(epsilon0), int(n), float(delta)
    shared = shuffle_epsilon(epsilon0, n, delta / rounds, randomizer)
    halved = shuffle_epsilon(epsilon0, n, delta / 2 / rounds, randomizer)
    candidates = [
        rounds * shared,
        compose_pure([halved] * rounds, delta / 2) if halved else 0.0,
        compose_pure([epsilon0] * rounds, delta),
    ]
    if single < epsilon0:
        candidates.append(_composed_distribution_epsilon(events.Shuffled(epsilon0, n, randomizer), rounds, delta))
    # At a large delta the pure mechanisms compose to less than one round claims outside the amplified range.
    return max(single, min(candidates))


def _any_epsilon(epsilon0, n, delta):
    if not in_amplified_range(epsilon0, n, delta):
        return epsilon0
    # The search ends at the closed form, so that the smaller of the two is returned.
    highest = min(epsilon0, shuffle_closed_form(epsilon0, n, delta))
    return clones_epsilon(epsilon0, n, delta, "any", highest)


def _randomized_response_epsilon(epsilon0, n, delta):
    # The blanket's bound lies below the one for any randomiser, and so does what is searched below it.
    blanket = clones_epsilon(epsilon0, n, delta, "randomized_response", epsilon0)
    return randomized_response_epsilon(epsilon0, n, delta, blanket)


def _bound_of(randomizer):
    bounds = {"any": _any_epsilon, "randomized_response": _randomized_response_epsilon}
    if randomizer == "gaussian":
        raise UnsupportedRandomizer(
            "randomizer is 'gaussian' but must be pure local DP: bounds on shuffling say nothing about Gaussian or "
            "clipped and noised messages, so account them as local, or as secure_sum where only their sum is seen."
        )
    if not isinstance(randomizer, str) or randomizer not in bounds:
        raise UnsupportedRandomizer(f"randomizer is {randomizer!r} but must be one of {', '.join(bounds)}.")
    return bounds[randomizer]


def _composed_distribution_epsilon(process, rounds, delta):
    from fate_dp.privacy.accounting.accountant import make_accountant

    accountant = make_accountant("pld", events.REPLACE_ONE)
    accountant.compose(events.Event(process, "record", events.REPLACE_ONE, "server"), rounds)
    return accountant.epsilon(delta)


def _check_whole(name, value):
    if not is_whole(value) or value < 1:
        raise InvalidMessages(f"{name} is {value!r} but must be a whole number of at least 1.")
    return int(value)
