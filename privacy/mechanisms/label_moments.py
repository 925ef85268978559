"""Noise on X^T t where labels alone are private: one release from which any number of steps may train.

X are the rows of all parties, whole; t are targets that a secret label decides, each within an interval whose length is
the public ``spread``. Least squares, and logistic regression by Taylor's polynomial, read labels through X^T t only;
X^T X holds none. The party with the labels adds noise once, to X^T t or to its additive share of it.

**Guarantee.** Unit *label*: one record's label is exchanged for another one (*replace-one*), all rows stay. Against
everybody but the party with the labels, all of them together. The rows are constants of this statement: it holds for an
observer who knows every row, and it protects none of them.

**Proof.** Let one target change from t_i to t_i'. Then X^T t moves by x_i (t_i' - t_i), of l2 norm at most |x_i| spread.
Party p keeps its part of every row at a squared norm of at most ``row_squares[p]``, a public number, so |x_i|^2 is at most
their sum, in integers exactly, since rows are rounded towards zero (``second_moments.clip_rows``). Noise of the scale
multiplier times spread times the root of that sum on each entry is one Gaussian mechanism of that multiplier, by its
definition; what others know besides is a function of the rows, of the noisy X^T t, and of randomness that does not depend
on labels, such as masks. A row of one-hot columns of d features has the squared norm d exactly, a column of ones 1.

*Grid.* Products of rows and targets are multiples of 2^-2b, b = ``fraction_bits``, and so is the noise: a coarser one would
release their low bits. The discrete Gaussian is charged as a rounded continuous one, their distance being the slack.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..events import REPLACE_ONE, Event, Gaussian, Release, Unit, event_of
from ..noise.discrete import MAX_SCALE, discrete_gaussian, gaussian_slack
from ..noise.stream import Rng, open_stream
from ..validation import InvalidArgument, is_finite, positive, whole, within
from .second_moments import MAX_IN_SCALES, MIN_FRACTION_BITS, MIN_MULTIPLIER, ROUND_UP, UNIT_BITS, RowBounds

# Squared norms of rows and the spread of targets, so that sums of products stay far below what masks are made for.
MAX_SQUARE, MAX_SPREAD = 2.0**20, 32.0


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """What the party with the labels adds to X^T t, once; secret: Python integers (columns,) in units of 2^-48, and the
    event to charge for everything that is computed from the noisy X^T t."""

    values: NDArray[np.object_] = field(repr=False)
    event: Event


@dataclass(frozen=True)
class LabelMoments:
    """The public terms under which X^T t is released; every party builds the same object. See the module for the proof.

    ``row_squares`` are, of every party with columns, the largest squared l2 norm of its part of a row, a column of ones
    included; parties clip their own rows. Every target lies in an interval of length ``spread``, 1 for t = y - 1/2 and
    labels 0 and 1. ``noise_multiplier`` is sigma over the sensitivity, see ``second_moments.noise_multiplier_for``.
    InvalidArgument for an argument outside its range, or more noise than is drawn.
    """

    row_squares: tuple[float, ...]
    spread: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        given: object = self.row_squares
        squares = tuple(given) if isinstance(given, (tuple, list)) else ()
        if not squares or not all(is_finite(value) and 0 < value <= MAX_SQUARE for value in squares):
            raise InvalidArgument.of(
                "row_squares", given, f"one number per party, each greater than 0 and at most {MAX_SQUARE:g}"
            )
        object.__setattr__(self, "row_squares", tuple(map(float, squares)))
        spread = within("spread", positive("spread", self.spread), 0, MAX_SPREAD)
        object.__setattr__(self, "spread", spread)
        multiplier = within("noise_multiplier", self.noise_multiplier, MIN_MULTIPLIER, math.inf)
        object.__setattr__(self, "noise_multiplier", multiplier)
        if not self.sigma <= MAX_SCALE / 4**MIN_FRACTION_BITS:
            allowed = f"small enough for noise of a scale of at most {MAX_SCALE / 4**MIN_FRACTION_BITS:.2g}"
            raise InvalidArgument.of(
                "noise_multiplier", multiplier, allowed, "Raise epsilon or lower the norm of the rows."
            )

    @classmethod
    def of_rows(cls, bounds: Sequence[RowBounds], noise_multiplier: float) -> "LabelMoments":
        """For the bounds of all parties' rows; the target of the one that has it spreads over twice its magnitude."""
        targets = [each.target for each in bounds if each.target]
        if len(targets) != 1:
            raise InvalidArgument.of(
                "bounds", bounds, "the RowBounds of all parties, exactly one of them with a target"
            )
        return cls(tuple(each.radius**2 + each.intercept for each in bounds), 2 * targets[0], noise_multiplier)

    @property
    def sensitivity(self) -> float:
        """l2, of X^T t under replace-one of a label; rounded up, in the unit of a feature times a target."""
        return self.spread * math.sqrt(math.fsum(self.row_squares) * ROUND_UP) * ROUND_UP

    @property
    def sigma(self) -> float:
        """Scale of the noise on every entry, in the unit of a feature times a target."""
        return self.noise_multiplier * self.sensitivity * ROUND_UP

    @property
    def largest_noise(self) -> float:
        """No entry's noise exceeds this, in the unit of a feature times a target; for bounds of integers."""
        return MAX_IN_SCALES * self.sigma

    @property
    def fraction_bits(self) -> int:
        """b: rows and targets of all parties lie on the grid 2^-b, at most 24 bits, and noise on its square."""
        return min(UNIT_BITS, math.floor((math.log2(MAX_SCALE) - math.log2(self.sigma)) / 2))

    def ridge(self, columns: int) -> float:
        """A ridge for X^T X, in its unit, under which the noise costs least: sigma sqrt(columns) over the spread.

        Weights w with X^T t = X^T X w + noise of scale sigma have the posterior mean X^T X w' / (X^T X + r), r = sigma^2
        columns / (|w|^2 a) at an eigenvalue a of X^T X, if all directions of w are alike. A constant ridge of sigma
        sqrt(columns) / |w| is that of the eigenvalues near it, where it matters most. |w| is taken to be the spread: a
        model that moves a target by all of it along one column of ones. The data enter by their sizes alone.
        """
        return self.sigma * math.sqrt(columns) / self.spread

    def slack(self, columns: int) -> float:
        """Total-variation distance of the noise from continuous noise that is rounded."""
        return gaussian_slack(self._steps, columns)

    def draw(self, columns: int, observers: Sequence[str], rng: Rng = None) -> LabelNoise:
        """The noise of all ``columns`` of all parties, to be added once, with the event to be charged before it is used."""
        count, stream = whole("columns", columns, 1), open_stream(rng)
        event = event_of(
            Gaussian(self.noise_multiplier),
            stream,
            relation=REPLACE_ONE,
            observers=observers,
            unit=Unit.LABEL,
            slack=self.slack(count),
        )
        steps: NDArray[np.object_] = discrete_gaussian(self._steps, count, stream).astype(object)
        return LabelNoise(np.left_shift(steps, 2 * (UNIT_BITS - self.fraction_bits)), event)

    def release(self, sums: NDArray[np.object_], observers: Sequence[str], rng: Rng = None) -> Release:
        """X^T t of integers in units of 2^-48, shape (columns,), with noise in the same unit, as one party releases it.

        That rows and targets keep to their bounds and to the grid is what the caller says; sums off the grid of the noise
        are refused.
        """
        exact = np.asarray(sums, dtype=object)
        if exact.ndim != 1 or any(int(value) % (1 << 2 * (UNIT_BITS - self.fraction_bits)) for value in exact):
            raise InvalidArgument.of("sums", exact, "one row of whole numbers on the grid of fraction_bits")
        noise = self.draw(len(exact), observers, rng)
        return Release(exact + noise.values, noise.event)

    @property
    def _steps(self) -> float:
        """Scale of the noise in steps of its grid."""
        return math.ldexp(self.sigma, 2 * self.fraction_bits)
