"""Arithmetic of many digits whose results return to floats on the side that is safe."""
import math


def high_precision(bits):
    """An mpmath context of its own with ``bits`` bits of precision: no thread can change another's."""
    import mpmath

    context = mpmath.MPContext()
    context.prec = int(bits)
    return context


def float_above(value):
    """The smallest float that is not less than the mpmath number ``value``; infinity beyond the range of floats."""
    nearest = float(value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def float_below(value):
    """The largest float that is not greater than the mpmath number ``value``."""
    nearest = float(value)
    return nearest if nearest <= value else math.nextafter(nearest, -math.inf)
