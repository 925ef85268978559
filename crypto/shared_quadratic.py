"""A convex quadratic F(w) = w^T H w / 2 - b^T w + constant whose H and b are shared between the data parties.

For n records X with targets t: H = X^T X / (c n) and b = X^T t / n, with c = 4 for the Taylor loss of logistic
regression and c = 1 for linear regression. A ridge penalty is no part of H here: it is public, and `SharedDescent`
applies it.
"""
from dataclasses import dataclass
from math import sqrt

import numpy as np

SUM_FRACTION_BITS = 48
"""Sums over records of products of two features (unit 2^-24 each) come in units of 2^-48."""
HESSIAN_FRACTION_BITS = 44
WEIGHT_FRACTION_BITS = 40
GRADIENT_FRACTION_BITS = HESSIAN_FRACTION_BITS + WEIGHT_FRACTION_BITS
WEIGHT_BITS = 28
"""While they are trained, all weights together stay below 2^28 in l2 norm: see `descent_bounds`."""


@dataclass(frozen=True)
class QuadraticBounds:
    """Public numbers about H and b, from which all widths of masks and the pace of training follow.

    Attributes:
        dimension: m, number of joint weights.
        divisor: c, 4 or 1.
        mean_square_bits: every column of X has mean square at most 2^mean_square_bits.
        target_mean_square: the mean of t^2 is at most this, 1/4 for targets +-1/2.
        penalty: alpha >= 0 of the ridge penalty.
        noise: bound on the spectral norm of noise that was added to H, if any.
        linear_noise: bound on the l2 norm of noise that was added to b, if any.
        minimum: lower bound on F. Without noise losses are not negative.
    """

    dimension: int
    divisor: int
    mean_square_bits: int
    target_mean_square: float
    penalty: float = 0.0
    noise: float = 0.0
    linear_noise: float = 0.0
    minimum: float = 0.0

    def __post_init__(self):
        if self.penalty < self.noise:
            raise ValueError(
                f"The penalty alpha is {self.penalty:g} but the noise may have spectral norm {self.noise:g}; training "
                "on noised statistics needs a penalty at least as large, or the loss may have no minimum."
            )

    @property
    def curvature(self) -> float:
        """Bound on the spectral norm of H, noise included and the penalty not.

        H is positive semidefinite, so its largest eigenvalue is at most its trace, and H_jj = mean of x_j^2 / c.
        """
        return self.dimension * 2.0**self.mean_square_bits / self.divisor + self.noise

    @property
    def linear_norm(self) -> float:
        """Bound on |b|_2: |b_j| <= sqrt(mean of x_j^2, times mean of t^2) by Cauchy and Schwarz."""
        return sqrt(self.dimension * 2.0**self.mean_square_bits * self.target_mean_square) + self.linear_noise


@dataclass(frozen=True, repr=False)
class QuadraticShare:
    """One party's additive share of H (object (m, m), symmetric) and b (object (m,)): integers, unit 2^-44.

    Its blocks of cross products are uniform masks or what they hide; the own block is in clear; the rest is zero.
    """

    matrix: np.ndarray
    linear: np.ndarray

    @classmethod
    def scaled(cls, matrix_sums: np.ndarray, linear_sums: np.ndarray, rows: int, divisor: int) -> "QuadraticShare":
        """The share of H and b from that of X^T X and X^T t, integers in units of 2^-48 over ``rows`` records.

        Each party rounds its own share, so H and b are exact up to half a unit for each party.
        """
        excess = SUM_FRACTION_BITS - HESSIAN_FRACTION_BITS
        matrix = rounded_quotient(matrix_sums, divisor * rows << excess)
        return cls(matrix, rounded_quotient(linear_sums, rows << excess))

    def check(self, matrix_bits: int) -> None:
        """Refuse a share that masks of the agreed width would not hide."""
        if any(abs(entry) >> matrix_bits for entry in self.matrix.flat):
            raise ValueError(
                f"An entry of this party's share of the Hessian has more than {matrix_bits} bits; a column's mean "
                "square is larger than the parties agreed on."
            )


def share_bits(value_bits: int, rows: int, divisor: int) -> int:
    """``matrix_bits``: every entry of a `QuadraticShare` is below 2^share_bits in magnitude.

    Args:
        value_bits: of the `SlotLayout` of the cross products. Shares of its sums, in units of 2^-48, stay below
            2^(value_bits + 42).
        rows: least number of records of a batch.
        divisor: c.
    """
    shift = (divisor * rows).bit_length() - 1 + SUM_FRACTION_BITS - HESSIAN_FRACTION_BITS
    return value_bits + 42 - shift


def rounded_quotient(numbers: np.ndarray, divisor: int) -> np.ndarray:
    """Exact integers divided and rounded to the nearest integer, halves up."""
    return (2 * np.asarray(numbers, dtype=object) + divisor) // (2 * divisor)
