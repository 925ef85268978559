"""l2 norms of the rows of an array that depend on nothing but the row, to the last bit.

A library may add up the squares of a row in an order that depends on the processor, on how the array lies in memory and
on how many rows it has. Norms decide by how much a row is clipped and whether it counts as clipped, so one record would
move the contributions of others by their last bits. Here squares are whole numbers whose sum is at most 2^53 and hence
exact in any order, and everything else is done element by element.
"""
import math

import numpy as np

EXACT_BITS = 53


def row_norms(rows):
    """An upper bound of every row's l2 norm as (fraction, exponent): fraction * 2^exponent.

    In two parts because norms may lie outside what a float64 holds. It exceeds the norm by at least 2^-41 of it, which
    is room for the few roundings of whoever divides by it, and by at most 2^-32 for up to 4096 columns, 2^-20 for up to
    2^20.

    Proof: with b = ``bits`` and d columns an entry is high + low 2^(-b - 1) + rest in units of 2^(exponent - b), high and
    low whole numbers of at most 2^b, |rest| at most 2^(-b - 2). The three sums have at most d 2^(2 b) <= 2^51 in all
    partial sums, so they are exact. Rests have norm at most sqrt(d) 2^(-b - 2). Roundings err by less than 2^-41 of the
    norm, since the largest high is at least 2^(b - 1), and the last factor covers them twice.

    :param rows: float64 array (n, d) of finite numbers, d at most 2^27; private.
    :returns: float64 array (n,), 0 or at least 1/2, and int array (n,).
    """
    columns = max(1, rows.shape[1])
    bits = (EXACT_BITS - 2 - math.ceil(math.log2(columns))) // 2
    exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))[1]
    scaled = np.ldexp(rows, (bits - exponents)[:, None])
    high = np.rint(scaled)
    low = np.rint(np.ldexp(scaled - high, bits + 1))
    squares = (high * high).sum(axis=1)
    mixed = (high * low).sum(axis=1)
    remainders = (low * low).sum(axis=1)
    total = squares + np.ldexp(mixed, -bits) + np.ldexp(remainders, -2 * bits - 2)
    rest = math.sqrt(columns) * 2.0 ** (-bits - 2)
    norms = np.where(squares > 0, (np.sqrt(np.maximum(total, 0.0)) + rest) * (1 + 2.0**-40), 0.0)
    return np.ldexp(norms, -bits), exponents
