"""Arithmetic in which a record's numbers depend on nothing but that record, to the last bit.

A library's matrix product, sum or exponential may round a row by its place in the block, by the block's length, by the
processor and by the number of threads. Then one record moves the contributions of all others by their last bits, which
no sensitivity covers. So nothing here rests on how a library orders its work. Three kinds of operations are used, on
float64 tensors whose first axis numbers the records:

- *One rounding, element by element*: sum, product, quotient, root, rounding to a whole number, comparison, choice. IEEE
  754 says the result of each to the bit, and torch runs each as a kernel of its own, so no two are fused.
- *Sums of whole numbers of at most 2^53.* They are exact, so their order does not matter, nor does it matter whether
  products are fused with sums. ``shorten`` rounds each record to whole numbers of ``bits_for(terms)`` bits times a power
  of two; a product of two such numbers has at most 53 - log2(terms) bits, and every partial sum of ``terms`` products at
  most 53. That is why `record_layers` may hand matrix products to whatever library there is.
- *Choices*: the largest of some numbers, an entry of a table.

Exponentials are made of these: an entry of a table times a short polynomial. The results are the same on every processor,
so that parties on different ones agree, too.
"""
import math
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

EXACT_BITS = 53
# Of units of short numbers, so that they and their inverses are ordinary numbers; below, all count as zero.
LEAST_EXPONENT = {torch.float64: -1000, torch.float32: -100}
LARGEST_EXPONENT = 1020

# The table of exp(-t) has a step of 2^-10; beyond 40 it is below 2^-57 and taken as if t were 40.
STEPS_OF_ONE = 2**10
LARGEST_ARGUMENT = 40.0


@dataclass(frozen=True, eq=False)
class Short:
    """Numbers rounded, record by record, to ``integers * unit``.

    :param integers: float64 (n, ...), whole numbers of at most 2^bits; NaNs or infinities in a record that had some.
    :param unit: float64 (n, 1, ...), a power of two per record.
    """

    integers: torch.Tensor
    unit: torch.Tensor
    bits: int

    def __len__(self):
        return len(self.integers)

    @property
    def values(self):
        """The numbers themselves, float64 (n, ...)."""
        return self.integers * self.unit

    def within(self, bits):
        """The same numbers with at most so many bits."""
        return self if self.bits <= bits else shorten(self.values, bits)


class UnsoundArithmetic(RuntimeError):
    """On this machine a record's numbers have other bits in company than alone: no sensitivity would hold."""

    def __init__(self, what):
        super().__init__(
            f"On this machine {what} of a record have other last bits beside other records, so one record would move the "
            "sum by more than its sensitivity: set MKL_CBWR=COMPATIBLE before the process starts, and report the "
            "processor and the version of torch if that does not help."
        )


@contextmanager
def one_thread():
    """A library may divide its work otherwise when it has several threads and is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def bits_for(terms):
    """Bits of short numbers of which ``terms`` products add up to at most 2^53: 26 for one or two, 20 for 4096."""
    return (EXACT_BITS - max(1, math.ceil(math.log2(max(1, terms))))) // 2


def shorten(values, bits, out=None):
    """``values`` (n, ...) as ``Short``: each record's largest number gets ``bits`` bits, the others no finer step.

    A record with a NaN or an infinity keeps one, and no other record is touched by it.

    :param out: float64 tensor for the whole numbers, ``values`` itself for instance. Then ``values`` is overwritten.
    """
    axes = tuple(range(1, values.dim()))
    if values.numel():
        largest = np.maximum(values.amax(axes, keepdim=True).numpy(), -values.amin(axes, keepdim=True).numpy())
    else:
        largest = np.zeros((len(values), *(1 for _ in axes)))
    exponents = np.clip(np.frexp(largest)[1], LEAST_EXPONENT[values.dtype] + bits, LARGEST_EXPONENT + bits) - bits
    # A power of two: the product is exact in float32, too, which is faster.
    inverse = torch.from_numpy(np.ldexp(1.0, -exponents)).to(values.dtype)
    integers = (values * inverse if out is None else values.mul_(inverse)).round_()
    if out is not None and out is not values:
        integers = out.copy_(integers)
    return Short(integers.double(), torch.from_numpy(np.ldexp(1.0, exponents)), bits)


def exact_sums(values):
    """Sums over all but the first two axes of (n, m, ...), float64 (n, m), of numbers that ``shorten`` has rounded."""
    terms = max(1, math.prod(values.shape[2:]))
    terms_last = (values.flatten(2) if values.dim() > 2 else values.unsqueeze(2)).double()
    short = shorten(terms_last, EXACT_BITS - math.ceil(math.log2(terms)))
    return short.integers.sum(2) * short.unit.squeeze(2)


def decaying_exponential(arguments):
    """exp(-t) for t >= 0, to 2^-44 relative up to t = 40 and as there beyond; a NaN counts as 40.

    :param arguments: float64 tensor t.
    """
    arguments = torch.where(arguments <= LARGEST_ARGUMENT, arguments, LARGEST_ARGUMENT).mul_(STEPS_OF_ONE)
    steps = arguments.floor()
    rest = arguments.sub_(steps).mul_(1 / STEPS_OF_ONE)
    # exp(-r) = 1 - r + r^2 / 2 - r^3 / 6: below r = 2^-10 the next term of the series is less than 2^-44.
    series = (rest * (-1 / 6)).add_(0.5).mul_(rest).sub_(1.0).mul_(rest).add_(1.0)
    return _TABLE[steps.long()].mul_(series)


def tanh(values):
    """Hyperbolic tangent, to 2^-44; a NaN gives 1 or -1, so callers drop such records themselves."""
    small = decaying_exponential(values.abs() * 2)
    return torch.copysign((1 - small).div_(small.add_(1.0)), values)


def sigmoid(values):
    """1 / (1 + exp(-v)), to 2^-44."""
    small = decaying_exponential(values.abs())
    return torch.where(values >= 0, 1.0, small) / (1 + small)


def softmax(values):
    """exp(v_j) / sum_k exp(v_k) of every row of (n, k); each numerator is rounded to a share of 2^-53 k."""
    bits = EXACT_BITS - math.ceil(math.log2(max(2, values.shape[1])))
    numerators = (decaying_exponential(values.amax(1, keepdim=True) - values) * 2.0**bits).round_()
    return numerators / numerators.sum(1, keepdim=True)


def _table():
    """exp(-i / 2^10), each rounded correctly, in whole numbers: the C library's last bits depend on the processor."""
    one, step = 2**128, 2**128
    ratio = term = one
    for order in range(1, 16):
        term = -term // (order * STEPS_OF_ONE)
        ratio += term
    entries = [1.0]
    for _ in range(int(LARGEST_ARGUMENT) * STEPS_OF_ONE):
        step = step * ratio // one
        entries.append(step / one)
    return torch.tensor(entries, dtype=torch.float64)


_TABLE = _table()
