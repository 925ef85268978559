"""Uniform integers and coins: exact at their boundaries, with a stream that plays chosen words."""

from fractions import Fraction

import numpy as np
import pytest
from scripted_stream import Script

from fate_dp.privacy.noise.stream import (
    ReproducibleStream,
    bernoulli,
    bernoulli_of_fraction,
    uniform_below,
    uniform_integer_below,
)
from fate_dp.privacy.validation import InvalidArgument

TOP = 2**64 - 1


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 2**32 + 1, 2**62 - 1, 2**63 - 1, 2**63])
def test_words_in_the_incomplete_last_multiple_are_rejected(bound):
    complete = 2**64 // bound * bound
    script = Script(0, bound - 1, complete - 1, *([complete, TOP] if complete <= TOP else [0, bound - 1]), 0, 0)
    drawn = uniform_below(bound, 5, script)
    assert drawn.dtype == np.int64
    assert drawn.tolist() == [0, bound - 1, bound - 1, 0, 0 if complete <= TOP else bound - 1]
    assert len(script.left) == (0 if complete <= TOP else 2)


def test_every_residue_is_equally_frequent():
    """Of the words that are kept, the first and the last run of residues are complete."""
    assert uniform_below(6, 12, Script(*range(12))).tolist() == [*range(6)] * 2
    last = 2**64 // 6 * 6
    assert uniform_below(6, 6, Script(*range(last - 6, last))).tolist() == [*range(6)]


def test_big_bounds_are_drawn_by_bits_and_rejection():
    # 65 bits: a word's highest bit, then the 64 bits of the next word above it. The first pair gives the bound itself.
    bound = 2**64 + 2**62
    assert uniform_integer_below(bound, Script(0, 2**63 + 2**61, 2**63, 2**63)) == 2**64 + 1
    assert uniform_integer_below(1, Script()) == 0
    assert uniform_integer_below(4, Script(3 << 62)) == 3


@pytest.mark.parametrize("probability", [0.5, 0.1, 0.75, 2.0**-64, 1 - 2.0**-53])
def test_a_coin_compares_its_word_with_the_probability(probability):
    scaled = Fraction(probability) * 2**64
    threshold, rest = int(scaled), scaled % 1
    assert rest == 0
    words = [0, threshold - 1, TOP if threshold <= TOP else 0]
    assert bernoulli(probability, 3, Script(*words)).tolist() == [True, True, False]
    # A tie with a probability that 64 bits hold is never a success and needs no further word.
    assert bernoulli(probability, 1, Script(threshold)).tolist() == [False]


def test_a_tie_of_a_coin_is_decided_by_further_words():
    probability = 2.0**-66 * 3
    assert bernoulli(probability, 2, Script(1, 0, 2 << 62)).tolist() == [False, True]
    assert bernoulli(probability, 1, Script(0, 3 << 62)).tolist() == [False]


def test_certain_and_impossible_coins():
    assert bernoulli(1.0, 3, Script(TOP, TOP, 0)).all() and bernoulli(1, (2, 2)).shape == (2, 2)
    assert not bernoulli(0.0, 3, Script(0, 0, TOP)).any()
    assert not bernoulli(5e-324, 1000).any()


def test_a_coin_of_a_fraction_is_exact():
    assert [bernoulli_of_fraction(Fraction(1, 4), Script(top << 62)) for top in range(4)] == [True, False, False, False]


def test_shapes():
    stream = ReproducibleStream(1)
    assert uniform_below(5, 0, stream).shape == (0,) and uniform_below(5, (2, 0, 3), stream).shape == (2, 0, 3)
    assert uniform_below(5, (), stream).shape == () and uniform_below(5, np.int64(3), stream).shape == (3,)


@pytest.mark.parametrize("bound", [0, -1, 1.0, True, 2**63 + 1, None])
def test_bounds_outside_the_range_are_refused(bound):
    with pytest.raises(InvalidArgument) as error:
        uniform_below(bound, 1)
    assert str(error.value) == f"bound must be a whole number from 1 to 2^63, got {bound!r}."


def test_a_big_bound_of_0_is_refused():
    with pytest.raises(InvalidArgument) as error:
        uniform_integer_below(0)
    assert str(error.value) == "bound must be a whole number of at least 1, got 0."


@pytest.mark.parametrize("size", [-1, 1.0, True, (2, -1), "3", None])
def test_sizes_that_are_no_shape_are_refused(size):
    with pytest.raises(InvalidArgument) as error:
        uniform_below(2, size)
    assert str(error.value) == (f"size must be a whole number of at least 0, or a tuple of such numbers, got {size!r}.")


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan"), True, "0.5", None])
def test_probabilities_outside_0_to_1_are_refused(probability):
    with pytest.raises(InvalidArgument) as error:
        bernoulli(probability, 1)
    assert str(error.value) == f"probability must be a number from 0 to 1, got {probability!r}."
