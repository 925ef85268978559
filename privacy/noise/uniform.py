"""Exact uniform integers and exact coins from a stream of random words.

Nothing here rounds: given ideal words, every integer has exactly the stated probability, and a coin comes up with
exactly the probability that its float stands for. Running times depend on the values drawn; no protection against
timing is claimed.
"""
import math
from fractions import Fraction

import numpy as np

from fate_dp.privacy.noise.stream import WORD_BITS, open_stream
from fate_dp.privacy.number_kinds import is_real, is_whole

LARGEST_VECTOR_BOUND = 2**63


class InvalidRange(ValueError):
    """The number of values to choose from is outside its range."""


class InvalidSize(ValueError):
    """The shape of the wanted array is not made of whole numbers of at least 0."""


class InvalidProbability(ValueError):
    """A probability is not a number from 0 to 1."""


def check_size(size):
    """Return ``size`` as a tuple of ints; raise ``InvalidSize`` unless it is one or several whole numbers, none < 0."""
    shape = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not all(is_whole(length) and length >= 0 for length in shape):
        raise InvalidSize(f"size is {size!r} but must be a whole number of at least 0, or a tuple of such numbers.")
    return tuple(map(int, shape))


def uniform_below(bound, size, random=None):
    """Independent uniform integers from 0 to ``bound`` - 1 as an int64 array.

    A word is kept if it lies below the largest multiple of ``bound`` that 64 bits hold, and reduced modulo ``bound``.

    :param bound: number of values, from 1 to 2^63.
    :param size: length, or tuple of lengths, of the array.
    :param random: a stream; None for the operating system's entropy.
    :raises InvalidRange, InvalidSize, InvalidRandomness: one sentence on what is wrong.
    """
    bound, shape, stream = _check_bound(bound, LARGEST_VECTOR_BOUND), check_size(size), open_stream(random)
    count = math.prod(shape)
    kept = np.empty(0, dtype=np.uint64)
    last = np.uint64(2**WORD_BITS - 2**WORD_BITS % bound - 1)
    while len(kept) < count:
        words = stream.words(count - len(kept))
        kept = np.concatenate([kept, words[words <= last]])
    return (kept % np.uint64(bound)).astype(np.int64).reshape(shape)


def uniform_integer_below(bound, random=None):
    """One uniform Python integer from 0 to ``bound`` - 1, for a bound of any length.

    :raises InvalidRange, InvalidRandomness: one sentence on what is wrong.
    """
    bound, stream = _check_bound(bound, math.inf), open_stream(random)
    while True:
        value = stream.integer((bound - 1).bit_length())
        if value < bound:
            return value


def bernoulli(probability, size, random=None):
    """Independent coins as a bool array, each True with exactly the probability that the float stands for.

    The word of a coin is compared with the first 64 binary digits of the probability; only a tie, of chance 2^-64,
    needs further words.

    :param probability: one number from 0 to 1 for all coins.
    :param size: length, or tuple of lengths, of the array.
    :param random: a stream; None for the operating system's entropy.
    :raises InvalidProbability, InvalidSize, InvalidRandomness: one sentence on what is wrong.
    """
    shape, stream = check_size(size), open_stream(random)
    scaled = Fraction(check_probability(probability)) * 2**WORD_BITS
    threshold, rest = divmod(scaled, 1)
    words = stream.words(math.prod(shape))
    if threshold == 2**WORD_BITS:
        return np.ones(shape, dtype=bool)
    coins = words < np.uint64(threshold)
    for position in np.flatnonzero(words == np.uint64(threshold)):
        coins[position] = bernoulli_of_fraction(rest, stream)
    return coins.reshape(shape)


def bernoulli_of_fraction(probability, random=None):
    """One coin that is True with exactly the probability of a ``Fraction`` from 0 to 1."""
    return uniform_integer_below(probability.denominator, random) < probability.numerator


def check_probability(probability):
    """Return ``probability`` as a float; raise ``InvalidProbability`` unless it is a number from 0 to 1."""
    if not is_real(probability) or not 0 <= probability <= 1:
        raise InvalidProbability(f"probability is {probability!r} but must be a number from 0 to 1.")
    return float(probability)


def _check_bound(bound, largest):
    if not is_whole(bound) or not 1 <= bound <= largest:
        limit = "of at least 1" if largest == math.inf else f"from 1 to 2^{int(math.log2(largest))}"
        raise InvalidRange(f"bound is {bound!r} but must be a whole number {limit}.")
    return int(bound)
