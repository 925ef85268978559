"""Draws that the invented loans are put together from."""
import numpy as np
from scipy.special import ndtr


def blend(generator, *weighted):
    """Standard normals that correlate with each (weight, factor) by its weight, where the factors are independent."""
    rest = 1 - sum(weight**2 for weight, _ in weighted)
    noise = generator.standard_normal(len(weighted[0][1]))
    return sum(weight * factor for weight, factor in weighted) + np.sqrt(rest) * noise


def choose(generator, rows, shares):
    """Codes 0, 1, ... of type int64 in proportion to ``shares``, each row on its own."""
    return cut(generator.random(rows), shares)


def choose_by(factor, shares):
    """Codes in proportion to ``shares``: the lowest values of a standard normal ``factor`` get the first code."""
    return cut(ndtr(factor), shares)


def cut(ranks, shares):
    limits = np.cumsum(list(shares), dtype=float)
    return np.searchsorted(limits[:-1] / limits[-1], ranks, side="right").astype(np.int64)


def happens(generator, rows, share):
    """True in about a ``share`` of the rows; ``share`` may be one number or one per row."""
    return generator.random(rows) < share


def shown(values, present):
    """``values`` where ``present``, missing elsewhere."""
    return np.where(present, values, missing_mark(values))


def missing_mark(values):
    """How a missing value is marked: -1 among codes and months, nan among numbers."""
    return -1 if values.dtype.kind == "i" else np.nan
