"""Which values count as numbers: Python's and numpy's, but never a truth value, which would pass as 0 or 1."""
import math
from numbers import Integral, Real


def is_real(value):
    """Whether ``value`` is a real number; NaN and infinities are."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value):
    """Whether ``value`` is of a whole-number type."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_finite(value):
    """Whether ``value`` is a real number that a float can hold, to its precision."""
    try:
        return is_real(value) and math.isfinite(value)
    except OverflowError:
        # A whole number or a fraction beyond the range of a float.
        return False
