"""Rows of one party with an l2 norm that is bounded by public numbers, as integers on a grid.

A party of vertical training holds a part of every record: its features, and at the guest an intercept (a column of
ones) and a target. Features are divided by public scales and clipped to the radius, the target to its own bound, and
both are rounded *towards zero* to the grid. Rounding that way never makes a row longer, so the bounds hold exactly for
the integers, and no sensitivity has a term for the grid.

Unit of all integers: 2^-24, that of ``dp_hetero_lr``'s tables. The grid may be coarser, see ``SecondMoments``.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..accounting.gaussian import gaussian_sigma
from ..events import REPLACE_ONE, Event, Gaussian, InvalidEvent, check_relation, event_of
from ..noise.discrete import MAX_SCALE, discrete_gaussian, gaussian_slack
from ..noise.stream import Floats, Integers, Rng, Size, Stream, open_stream
from ..validation import InvalidArgument, is_finite, refusal, whole, within
from .clipping import row_norms

UNIT_BITS = 24
# Below the largest, no column's mean square can exceed 2^8, which the encrypted product needs: so it never refuses
# because of the data. Above the smallest, rows keep 20 bits.
MIN_RADIUS, MAX_BOUND = 1 / 16, 16.0
MAX_FEATURES = 2**20
# Above the few roundings of sums, products and roots of floats.
ROUND_UP = 1 + 2.0**-48


@dataclass(frozen=True)
class RowBounds:
    """Public bounds of one party's rows. The columns are its features, then the intercept, then the target.

    Args:
        radius: largest l2 norm of the features of one row, after division by the scales; from 1/16 to 16.
        intercept: whether a column of ones follows, which is the same for every record.
        target: largest magnitude of the target, at most 16; 0 at a party without one.
    """

    features: int
    radius: float
    intercept: bool = False
    target: float = 0.0

    def __post_init__(self) -> None:
        whole("features", self.features, 1, MAX_FEATURES)
        room = f"from {MIN_RADIUS:g} to {MAX_BOUND:g}, where larger units of the features make rows shorter"
        within("radius", self.radius, MIN_RADIUS, MAX_BOUND, room)
        if not isinstance(self.intercept, bool):
            raise InvalidArgument.of("intercept", self.intercept, "True or False")
        within("target", self.target, 0, MAX_BOUND, f"from 0 to {MAX_BOUND:g}")

    @property
    def weights(self) -> int:
        """Number of weights of the party: one per feature, and one of the intercept."""
        return self.features + self.intercept

    @property
    def columns(self) -> int:
        """Number of columns, the target included."""
        return self.weights + (self.target > 0)

    @property
    def moving(self) -> Integers:
        """Positions of the columns that replacing a record can change: all but the intercept's."""
        return np.delete(np.arange(self.columns), self.features if self.intercept else [])

    @property
    def moving_square(self) -> float:
        """Bound of the squared norm of what a record decides: features and target; rounded up."""
        return (self.radius**2 + self.target**2) * ROUND_UP

    @property
    def whole_square(self) -> float:
        """Bound of the squared norm of a whole row, the intercept's 1 included; rounded up."""
        return (self.radius**2 + self.target**2 + self.intercept) * ROUND_UP


def clip_rows(features: ArrayLike, scales: ArrayLike, bounds: RowBounds, fraction_bits: int = UNIT_BITS) -> Integers:
    """Features divided by their scales, each row clipped to the radius, as integers on the grid.

    A kernel for one block of rows: a row's result depends on that row and on public numbers only. Of private
    ``features`` (n, m) a row with a NaN or an infinity becomes zero. ``scales`` are m positive numbers, public (or
    released). The grid is 2^-fraction_bits, at most 24 bits, as of ``SecondMoments``. Returns int64 (n, m), unit
    2^-24, multiples of 2^(24 - fraction_bits); every exact l2 norm is at most the radius.
    """
    features = np.asarray(features)
    if features.ndim != 2 or features.shape[1] != bounds.features or features.dtype.kind not in "fiu":
        raise InvalidArgument.of("features", features, f"real numbers in {bounds.features} columns")
    with np.errstate(over="ignore", invalid="ignore"):
        rows = features.astype(np.float64) / check_scales(scales, bounds)
    rows[~np.isfinite(rows).all(axis=1)] = 0.0
    return _on_grid(_shortened(rows, bounds.radius), fraction_bits)


def clip_target(values: ArrayLike, bounds: RowBounds, fraction_bits: int = UNIT_BITS) -> Integers:
    """Targets (n,) clamped to magnitude ``bounds.target``, int64 on the grid, unit 2^-24; NaN and infinity give 0.

    For labels y from 0 to 1 the target is c (y - 1/2) with c = 4 of the Taylor loss, at most 2: docs/second_moments.md.
    """
    values = np.asarray(values)
    if not bounds.target:
        raise InvalidArgument("The bounds state no target for this party, so no values may be given.")
    if values.ndim != 1 or values.dtype.kind not in "fiu":
        raise InvalidArgument.of("targets", values, "one number per row")
    values = np.where(np.isfinite(values), values, 0.0).astype(np.float64)
    return _on_grid(np.clip(values, -bounds.target, bounds.target), fraction_bits)


def check_scales(scales: ArrayLike, bounds: RowBounds) -> Floats:
    """Scales as a float64 array; raise ``InvalidArgument`` unless there is a positive finite one for every feature."""
    scales = np.asarray(scales, dtype=np.float64)
    if scales.shape != (bounds.features,) or not (np.isfinite(scales) & (scales > 0)).all():
        raise InvalidArgument.of("scales", scales, f"{bounds.features} finite numbers greater than 0, one per feature")
    return scales


def _shortened(rows: Floats, radius: float) -> Floats:
    """Rows of norm at most the radius, also in floating point, each a function of its row alone.

    ``row_norms`` bounds every norm with room for the roundings behind it.
    """
    norms, exponents = (part[:, None] for part in row_norms(rows))
    with np.errstate(over="ignore"):
        is_long = norms > np.ldexp(radius, -exponents)
    factors = np.divide(radius, norms, out=np.zeros_like(norms), where=is_long)
    return np.where(is_long, np.ldexp(rows, -exponents) * factors, rows)


def _on_grid(values: Floats, fraction_bits: int) -> Integers:
    """Rounded towards zero to multiples of 2^-fraction_bits, as integers in units of 2^-24."""
    steps = np.trunc(np.ldexp(values, fraction_bits)).astype(np.int64)
    units: Integers = steps << (UNIT_BITS - fraction_bits)
    return units


def unit_scales(bounds: RowBounds) -> Floats:
    """Scales of one for every feature: ``noise_spread: uniform``."""
    return np.ones(bounds.features)


def typical_radius(features: int) -> float:
    """sqrt(features), at most 16: the norm of a row of features whose public units are their typical spreads."""
    return min(math.sqrt(features), MAX_BOUND)


# Less would be an epsilon of more than 500,000.
MIN_MULTIPLIER = 1e-3
# Rows on a coarser grid would lose digits that a model can feel.
MIN_FRACTION_BITS = 12
# The sampler's table ends before 14.2 scales: what lies beyond has less than 2^-140 of the law.
MAX_IN_SCALES = 15
# Kept back from delta, for the slack of discrete noise.
SLACK_SHARE = 2.0**-20
INDEFINITE_PROBABILITY = 1e-3


def noise_multiplier_for(epsilon: float, delta: float) -> float:
    """The noise multiplier at which one release of second moments is (epsilon, delta)-private, rounded up.

    A 2^-20 of delta is left for the slack of discrete noise: more than enough up to epsilon 20 at 30 features, and the
    accountant charges the slack that the event states in any case.
    """
    return gaussian_sigma(epsilon, delta * (1 - SLACK_SHARE))


def replace_one_sensitivity(moving_square: float, others_square: float) -> float:
    """Largest change of (u u^T, u v^T) in the Frobenius norm between two rows u, for v fixed; some two rows reach it.

    ``moving_square`` r^2 bounds |u|^2, ``others_square`` Q bounds |v|^2.
    """
    if others_square <= 2 * moving_square:
        return (2 * moving_square + others_square) / math.sqrt(2) * ROUND_UP
    return 2 * math.sqrt(moving_square * others_square) * ROUND_UP


@dataclass(frozen=True, eq=False)
class MomentNoise:
    """What one party adds to its moments, as Python integers in units of 2^-48; secret. Columns as in ``RowBounds``.

    ``gram``, symmetric (columns, columns), is for the party's own Gram matrix with its target's column; 0 where the
    intercept meets itself, since n is public. ``cross`` is, for every other party by position, (columns, columns of the
    other), for the party's share of X_p^T X_q; the row of the party's intercept is 0, since its records do not move it.
    Charge ``event`` for everything computed from the noisy moments; None without noise.
    """

    gram: NDArray[np.object_] = field(repr=False)
    cross: dict[int, NDArray[np.object_]] = field(repr=False)
    event: Event | None


@dataclass(frozen=True)
class SecondMoments:
    """The public terms under which all data parties release their second moments; every party holds the same object.

    Each party adds noise once to its own Gram matrix and to its *share* of every cross block; what is computed from
    them afterwards is post-processing. Unit *record*: one party's part of one record; *replace-one*, with the record
    ids and their number public; against the other parties, the arbiter and whoever gets the model. Replacing a part of
    norm at most r moves p's moments by at most Delta_p = (2 r^2 + Q) / sqrt(2) if Q <= 2 r^2, else 2 r sqrt(Q), Q the
    sum over the others of their rows' largest squared norms, plus 2 for an intercept of p's own. Proofs:
    docs/second_moments.md. Parties are named by their position; the guest comes first.

    Args:
        bounds: one ``RowBounds`` per party, at least two. They bind all parties as soon as one adds noise, since p's
            sensitivity counts the length of the others' rows.
        noise_multipliers: sigma over Delta_p for each party, 0 for one that adds no noise and is promised nothing.
    """

    bounds: tuple[RowBounds, ...]
    noise_multipliers: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", tuple(self.bounds))
        if len(self.bounds) < 2 or not all(isinstance(bound, RowBounds) for bound in self.bounds):
            raise InvalidArgument.of("bounds", self.bounds, "the RowBounds of at least two parties")
        multipliers = tuple(self.noise_multipliers)
        if not all(is_finite(value) and (value == 0 or value >= MIN_MULTIPLIER) for value in multipliers):
            allowed = f"finite numbers, each 0 or at least {MIN_MULTIPLIER}"
            raise InvalidArgument.of("noise_multipliers", multipliers, allowed)
        object.__setattr__(self, "noise_multipliers", tuple(map(float, multipliers)))
        if len(multipliers) != len(self.bounds):
            wanted = f"{len(self.bounds)}, one per party"
            raise InvalidArgument.of("number of noise_multipliers", len(multipliers), wanted)
        if self._room_bits() < MIN_FRACTION_BITS:
            allowed = f"small enough for noise of a scale of at most {MAX_SCALE / 4**MIN_FRACTION_BITS:.2g}"
            raise InvalidArgument.of("noise_multipliers", multipliers, allowed, "Raise epsilon or lower the radius.")

    @property
    def fraction_bits(self) -> int:
        """Rows of *all* parties lie on the grid 2^-fraction_bits, at most 24 bits; the noise on its square.

        The finest grid on which noise is at most the 2^50 steps that a sampler draws. Were the noise on a coarser grid
        than the statistics, their low bits would be released as they are.
        """
        return min(UNIT_BITS, self._room_bits())

    def sensitivity(self, party: int, relation: str = REPLACE_ONE) -> float:
        """Delta_p, in the unit of squared features, rounded up; under replace-one only, since n is public."""
        if check_relation(relation) != REPLACE_ONE:
            raise InvalidEvent(refusal("relation", relation, f"{REPLACE_ONE} for moments of a public count"))
        own = self._party(party)
        others = math.fsum(other.whole_square for position, other in enumerate(self.bounds) if position != party)
        return replace_one_sensitivity(own.moving_square, others + 2.0 * own.intercept)

    def sigma(self, party: int) -> float:
        """Scale of the party's noise on diagonal and cross blocks, in the unit of squared features."""
        return self.noise_multipliers[party] * self.sensitivity(party) * ROUND_UP

    def largest_noise(self, party: int) -> float:
        """No number of the party's noise exceeds this, in the unit of squared features; for bounds of integers."""
        return MAX_IN_SCALES * self.sigma(party)

    def draw(self, party: int, observers: Sequence[str], rng: Rng = None) -> MomentNoise:
        """All noise of one party, to be added once, and the event to be charged; zeros and None without noise."""
        stream = open_stream(rng)
        gram = self._gram_noise(self._party(party), self._steps(party), stream)
        crossed = [other for other in range(len(self.bounds)) if other != party]
        cross = {other: self._cross_noise(party, other, stream) for other in crossed}
        if not self.noise_multipliers[party]:
            return MomentNoise(gram, cross, None)
        process = Gaussian(self.noise_multipliers[party])
        event = event_of(process, stream, relation=REPLACE_ONE, observers=observers, slack=self.slack(party))
        return MomentNoise(gram, cross, event)

    def slack(self, party: int) -> float:
        """Total-variation distance of the party's noise from continuous noise that is rounded."""
        own = self._party(party)
        crossed = sum(other.columns for position, other in enumerate(self.bounds) if position != party)
        pairs = own.columns * (own.columns - 1) // 2
        return gaussian_slack(self._steps(party), own.moving.size * (1 + crossed)) + (
            gaussian_slack(off_diagonal(self._steps(party)), pairs)
        )

    def required_ridge(self, records: int, curvature: float) -> float:
        """Ridge, in units of H = X^T X / (curvature records), under which the noisy H is positive definite.

        With probability at least 0.999 whatever the data, from public numbers: 2 sqrt(v) (sqrt(m) + sqrt(ln 1000)) /
        (curvature records), m all weights together and v the largest variance of one noisy entry, where a cross block
        carries the noise of two parties. It holds for the ridge on *every* weight, the intercept's included.
        ``curvature`` c is 4 for the Taylor loss and 1 for least squares.
        """
        weights = sum(bound.weights for bound in self.bounds)
        return definite_ridge(map(self.sigma, range(len(self.bounds))), weights) / (curvature * records)

    def largest_curvature(self, curvature: float) -> float:
        """Bound of the largest eigenvalue of H without noise: the rows' largest squared norm over ``curvature``."""
        return math.fsum(bound.radius**2 + bound.intercept for bound in self.bounds) / curvature

    def _party(self, party: int) -> RowBounds:
        last = len(self.bounds) - 1
        return self.bounds[whole("party", party, 0, last, f"a position from 0 to {last}")]

    def _room_bits(self) -> int:
        largest = max(self.sigma(party) for party in range(len(self.bounds)))
        return math.floor((math.log2(MAX_SCALE) - math.log2(largest)) / 2) if largest else UNIT_BITS

    def _steps(self, party: int) -> float:
        """Scale of the noise in steps of its grid."""
        return math.ldexp(self.sigma(party), 2 * self.fraction_bits)

    def _gram_noise(self, own: RowBounds, steps: float, stream: Stream) -> NDArray[np.object_]:
        noise = np.zeros((own.columns, own.columns), dtype=object)
        noise[own.moving, own.moving] = self._integers(steps, own.moving.size, stream)
        rows, columns = np.triu_indices(own.columns, 1)
        noise[rows, columns] = self._integers(off_diagonal(steps), rows.size, stream)
        noise[columns, rows] = noise[rows, columns]
        return noise

    def _cross_noise(self, party: int, other: int, stream: Stream) -> NDArray[np.object_]:
        own = self.bounds[party]
        noise = np.zeros((own.columns, self.bounds[other].columns), dtype=object)
        noise[own.moving] = self._integers(self._steps(party), (own.moving.size, noise.shape[1]), stream)
        return noise

    def _integers(self, steps: float, shape: Size, stream: Stream) -> NDArray[np.object_]:
        """Discrete Gaussians of a scale in steps of the noise's grid, as Python integers in units of 2^-48."""
        if not steps:
            return np.zeros(shape, dtype=object)
        noise: NDArray[np.object_] = discrete_gaussian(steps, shape, stream).astype(object)
        return np.left_shift(noise, 2 * (UNIT_BITS - self.fraction_bits))


def definite_ridge(sigmas: Iterable[float], weights: int) -> float:
    """2 sqrt(v) (sqrt(m) + sqrt(ln 1000)), m the weights, v the variance of an entry with the noise of the loudest two."""
    first, second = sorted((sigma**2 for sigma in sigmas), reverse=True)[:2]
    return 2 * math.sqrt(first + second) * (math.sqrt(weights) + math.sqrt(math.log(1 / INDEFINITE_PROBABILITY)))


def off_diagonal(steps: float) -> float:
    """The scale of noise that a symmetric matrix's norm counts twice: 1 / sqrt(2) of it, rounded up."""
    return steps / math.sqrt(2) * ROUND_UP
