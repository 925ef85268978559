"""Privacy loss distributions: the losses of one release on a grid, and of all releases together, rounded up.

Each release becomes a distribution of losses on a grid by connecting the dots of its privacy profile (Doroshenko,
Ghazi, Kamath, Kumar and Manurangsi, PETS 2022, algorithm 1), which never lowers a delta. The distributions are convolved
by a Fourier transform. Its rounding is small beside the largest mass, not beside the tails that a delta is made of, so
every mass is first multiplied by e^(tilt * loss), which moves the bulk to where the answer lies. What the rounding can
still amount to is bounded and added. Losses are in nats. Proofs: docs/proofs-privacy.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..noise.stream import Floats
from .privacy_profiles import Pair, PrivacyProfile, smallest_epsilon

GRID_POINTS = 2**17
SINGLE_POINTS = 2**15
COARSE_POINTS = 2**11
MOST_POINTS = 2**22
# The composed loss is taken to spread over this many standard deviations when the width of the grid is chosen.
DEVIATIONS = 24
# In nats, per release: on a finer grid the rounding of deltas near 1 would make the masses of all releases together
# exceed 1 by far.
MIN_INTERVAL = 1e-14
# In nats; losses that would need a wider grid get no finite epsilon.
WIDEST_INTERVAL = 1.0

UNIT_ROUNDOFF = 2.0**-53
# Relative, of the probabilities whose difference a profile is; the unit tests measure up to 2^-44.9 against 60 digits.
PROFILE_ERROR = 2.0**-43
# Relative error in l2 of a fast Fourier transform, per factor of two of its length (Higham, "Accuracy and stability of
# numerical algorithms", 2nd edition, theorem 24.2, with roots of unity rounded to nearest), rounded up.
TRANSFORM_ERROR = 8 * UNIT_ROUNDOFF
# Of (1 + z)^n, in units of n |z|, where the largest power is 1: a logarithm, a product, an exponential, a sine.
POWER_ERROR = 16 * UNIT_ROUNDOFF
# What the errors of single factors make of each other, for all lengths up to `MOST_POINTS`.
GROWTH = 1.01
# Losses that are less likely than e^-LOG_TAIL in all are taken to be infinite.
LOG_TAIL = 80.0
# In units of one over the largest loss of a release.
LEAST_TILT, LARGEST_TILT = 1e-6, 1e4
TILTS_PER_E = 8
# Masses of a release while a tilt is sought.
ROUGH_POINTS = 2**11
# Of a float, and minus that of the smallest one.
LARGEST_LOGARITHM = 709.0
LEAST_LOGARITHM = 745.0
# Relative: more than the rounding of the few operations that sum up two tails, or that turn a bound into an epsilon.
LAST_BITS = 1e-12
# More than the rounding of a product of two numbers.
ROUND_UP = 1 + 8 * UNIT_ROUNDOFF
# So that every delta has a logarithm.
LEAST_DELTA = 1e-300


Moments: TypeAlias = Callable[[float], float]
"""The logarithm of the mean of e^(tilt * loss), exact or roughly, at a tilt."""


class Tilting(NamedTuple):
    """Masses at ``places``, in intervals of the grid, by their ``logarithms``."""

    places: Floats
    logarithms: Floats

    @classmethod
    def of(cls, places: Floats, masses: Floats) -> "Tilting":
        with np.errstate(divide="ignore"):
            return cls(places, np.log(masses))

    def by(self, tilt: float) -> tuple[float, Floats]:
        """(ln M, masses times e^(tilt * place) but for a factor), M their sum without it, ``tilt`` per interval."""
        exponents = self.logarithms + tilt * self.places
        largest = exponents.max()
        masses = np.exp(np.subtract(exponents, largest, out=exponents), out=exponents)
        return float(largest + math.log(masses.sum())), masses


@dataclass(frozen=True)
class Losses:
    """One release: ``masses`` at ``first``, ``first + 1``, ... intervals of the grid, and that of an infinite loss.

    They are upper bounds; by rounding they may exceed 1 together.
    """

    first: int
    masses: Floats
    infinite: float

    @property
    def last(self) -> int:
        """Place of the largest finite loss."""
        return self.first + len(self.masses) - 1

    @cached_property
    def places(self) -> Floats:
        """Of the masses."""
        return np.arange(self.first, self.last + 1.0)

    @cached_property
    def exact(self) -> Tilting:
        """Of all masses."""
        return Tilting.of(self.places, self.masses)

    @cached_property
    def rough(self) -> Tilting:
        """Of neighbours together, at their mean, but for those around the largest mass, which many releases add up.

        No bound of anything: it shows which tilt is worth a transform.
        """
        size, peak = len(self.masses), int(self.masses.argmax())
        near = np.arange(max(0, peak - ROUGH_POINTS // 2), min(size, peak + ROUGH_POINTS // 2))
        starts = np.union1d(np.arange(0, size, 1 + size // ROUGH_POINTS), near)
        masses, moments = (np.add.reduceat(each, starts) for each in (self.masses, self.masses * self.places))
        return Tilting.of(moments / np.maximum(masses, LEAST_DELTA), masses)


def connect_dots(profile: PrivacyProfile, interval: float) -> Losses:
    """The distribution on the grid whose own profile joins the profile's dots by lines that are straight in e^epsilon."""
    first, last = math.floor(profile.lowest / interval), math.ceil(profile.highest / interval)
    deltas = np.clip(profile.delta(np.arange(first, last + 1) * interval), 0, 1)
    deltas = _falling(deltas)
    # A delta is the difference P - e^epsilon Q, both right to a few bits. What it falls by from the left bounds e^epsilon Q.
    second = np.append(1, -np.diff(deltas) / -math.expm1(-interval))
    deltas = _falling(np.where(deltas > 0, np.minimum(deltas + PROFILE_ERROR * (deltas + second), 1), 0))
    falls = -np.diff(deltas)
    from_left = np.append(1 - deltas[0], falls / -math.expm1(-interval))
    to_right = np.append(falls / math.expm1(interval), 0)
    # Each is rounded a few times before they cancel; more mass only raises a delta.
    masses = np.maximum(from_left - to_right + 4 * UNIT_ROUNDOFF * (from_left + to_right), 0)
    return Losses(first, masses, float(deltas[-1]))


def _falling(deltas: Floats) -> Floats:
    """A profile never grows; where rounding says otherwise the larger value is the safe one."""
    return np.maximum.accumulate(deltas[::-1])[::-1]


def composed(parts: Sequence[tuple[Pair, int]]) -> "list[Composition]":
    """The loss of all releases, each with its profiles and count, in any order: one for each side of their pairs.

    None at all where no grid holds the losses.
    """
    interval = _grid_interval(parts)
    if not interval <= WIDEST_INTERVAL:
        return []
    found = []
    for side in range(max(len(pair) for pair, _ in parts)):
        releases = [(connect_dots(pair[side % len(pair)], interval), count) for pair, count in parts]
        found.append(Composition(releases, interval))
    return found


def _grid_interval(parts: Sequence[tuple[Pair, int]]) -> float:
    """Width of the loss grid: fine, but coarser where the composed loss is wide or many different releases meet."""
    widest = max(profile.highest - profile.lowest for pair, _ in parts for profile in pair)
    if not widest <= WIDEST_INTERVAL * SINGLE_POINTS:
        return math.inf
    largest = sum(count * max(profile.highest - profile.lowest for profile in pair) for pair, count in parts)
    variance = sum(count * max(map(_mean_square, pair)) for pair, count in parts)
    spread = min(largest, DEVIATIONS * math.sqrt(variance))
    interval = max(spread / GRID_POINTS, widest / SINGLE_POINTS) * math.sqrt(len(parts))
    least = MIN_INTERVAL * sum(count for _, count in parts)
    if interval <= least:
        return least
    # Randomised response loses nothing to the grid when its two losses lie on it.
    largest_loss = max(profile.highest for pair, _ in parts for profile in pair)
    return largest_loss / math.ceil(largest_loss / interval) if largest_loss > interval else interval


def _mean_square(profile: PrivacyProfile) -> float:
    interval = (profile.highest - profile.lowest) / COARSE_POINTS
    losses = connect_dots(profile, interval)
    return _product(losses.masses, np.square(losses.places)) * interval**2


@dataclass(frozen=True)
class _Tilted:
    """Composed masses times e^(tilt * loss) / e^log_moment, from the place ``first`` on.

    Each is off by a factor within 1 +- ``relative_error``, and then by errors whose l2 norm is at most ``error``. A
    window that is ``cut`` leaves out more than hardly anything below ``first``.
    """

    log_moment: float
    first: int
    cut: bool
    masses: Floats
    relative_error: float
    error: float


class Composition:
    """The loss of all releases together, on a grid of ``interval`` nats."""

    def __init__(self, releases: Sequence[tuple[Losses, int]], interval: float) -> None:
        self._releases, self._interval = releases, interval
        self._lowest = sum(count * one.first for one, count in releases) * interval
        self._highest = sum(count * one.last for one, count in releases) * interval * ROUND_UP
        finite = sum(count * math.log1p(-min(one.infinite, 1 - UNIT_ROUNDOFF)) for one, count in releases)
        self._infinite = -math.expm1(finite) * (1 + LAST_BITS)
        # Two: that of the first guess of an epsilon, and that of the next.
        self._tilted = lru_cache(maxsize=2)(self._convolved)

    def delta(self, epsilon: float) -> float:
        """Upper bound of delta at ``epsilon``."""
        return self._delta(epsilon, self._tilt_for(epsilon))

    def quick_delta(self, epsilon: float) -> float:
        """Upper bound of delta by Markov's inequality, without a transform; twice that, more than its rounding."""
        tilt = self._tilt_for(epsilon)
        return max(LEAST_DELTA, self._infinite + 2 * math.exp(min(0.0, self._log_moment(tilt) - tilt * epsilon)))

    def epsilon(self, delta: float) -> float:
        """Upper bound of the smallest epsilon at ``delta``, infinite where none is known."""
        finite = delta - self._infinite
        if finite <= 0:
            return math.inf

        def markov(log_moment: Moments, tilt: float) -> float:
            return (log_moment(tilt) - math.log(finite)) / tilt

        tilt = self._smallest(markov)
        # Markov's inequality for e^(tilt * loss) vouches for it.
        highest = min(max(0.0, markov(self._log_moment, tilt)), self._highest) * (1 + LAST_BITS)
        first = smallest_epsilon(partial(self._delta, tilt=tilt), delta, highest)
        nearer = self._tilt_for(first)
        return first if nearer == tilt else smallest_epsilon(partial(self._delta, tilt=nearer), delta, first)

    def _delta(self, epsilon: float, tilt: float) -> float:
        if epsilon >= self._highest:
            return max(LEAST_DELTA, self._infinite)
        tilted = self._tilted(tilt)
        markov = tilted.log_moment - tilt * epsilon
        if markov > LARGEST_LOGARITHM:
            return 1.0
        first = math.floor(epsilon / self._interval) - tilted.first
        if first < 0 and tilted.cut:
            # Losses between epsilon and the window are counted at its upper end, where they weigh less.
            return min(1.0, max(LEAST_DELTA, self._infinite + math.exp(min(markov, 0)) * (1 + tilted.relative_error)))
        # Losses above the window, below it, and those that weigh less than e^-LOG_TAIL here: each that share of the bound.
        first = max(0, first)
        after = first + math.ceil(LOG_TAIL / tilt / self._interval) + 2
        masses = tilted.masses[first:after]
        losses = np.arange(tilted.first + first, tilted.first + first + len(masses)) * self._interval
        weights = -np.expm1(np.minimum(epsilon - losses * ROUND_UP, 0)) * np.exp(tilted.log_moment - tilt * losses)
        finite = max(0.0, _product(weights, masses)) + _norm(weights) * tilted.error
        finite += 3 * math.exp(markov - LOG_TAIL)
        return min(1.0, max(LEAST_DELTA, self._infinite + finite * (1 + tilted.relative_error)))

    def _convolved(self, tilt: float) -> _Tilted:
        log_moment = self._log_moment(tilt)
        lowest, points, cut = self._window(tilt, log_moment)
        length_error = TRANSFORM_ERROR * math.log2(points)
        logarithm = np.zeros(points // 2 + 1, dtype=complex)
        first, error, exponents = 0, 0.0, 0.0
        for one, count in self._releases:
            masses = one.exact.by(tilt * self._interval)[1]
            masses /= masses.sum()
            # From the largest mass on, less the distribution that has all mass there: of many small losses hardly
            # anything is left, so that its transform's rounding is small, too.
            centre = int(masses.argmax())
            places = (np.arange(len(masses)) - centre) % points
            rest: Floats = np.bincount(places, masses, points).astype(np.float64, copy=False)
            rest[0] = 0
            rest[0] = -rest.sum()
            logarithm += count * _log1p(np.fft.rfft(rest))
            first += count * (one.first + centre)
            error += count * (length_error + POWER_ERROR) * _norm(rest)
            exponents += count * (LEAST_LOGARITHM + tilt * self._interval * max(abs(one.first), abs(one.last)))
        # The transform goes round in a circle: what lies outside of the window comes in at its other end.
        masses = np.roll(np.fft.irfft(np.exp(logarithm), points), (first - lowest) % points)
        error = GROWTH * (error + (length_error + POWER_ERROR) * _norm(masses))
        relative_error = 8 * UNIT_ROUNDOFF * (exponents + abs(log_moment) + points)
        return _Tilted(log_moment, lowest, cut, masses, relative_error, error)

    def _window(self, tilt: float, log_moment: float) -> tuple[int, int, bool]:
        """First place, and number of places, outside of which the tilted loss lies hardly ever, by Markov's inequality.

        And whether they are too many, so that the lowest are left out.
        """

        def above(moments: Moments, more: float) -> float:
            return (moments(tilt + more) - log_moment + LOG_TAIL) / more

        def below(moments: Moments, less: float) -> float:
            return (moments(tilt - less) - log_moment + LOG_TAIL) / less

        top = min(self._highest, above(self._log_moment, self._smallest(above)))
        bottom = max(self._lowest, -below(self._log_moment, self._smallest(below)))
        first, last = math.floor(bottom / self._interval), math.ceil(top / self._interval)
        points = min(MOST_POINTS, 2 ** math.ceil(math.log2(max(2, last - first + 1))))
        return max(first, last - points + 1), points, last - points + 1 > first

    def _log_moment(self, tilt: float, exact: bool = True) -> float:
        """Logarithm of the mean of e^(tilt * loss), over finite losses."""
        kinds = ((one.exact if exact else one.rough, count) for one, count in self._releases)
        return sum(count * kind.by(tilt * self._interval)[0] for kind, count in kinds)

    def _tilt_for(self, epsilon: float) -> float:
        """The tilt that moves the mean of the loss to ``epsilon``, if that is above its mean."""
        return self._smallest(lambda log_moment, tilt: log_moment(tilt) - tilt * epsilon)

    def _smallest(self, bound: Callable[[Moments, float], float]) -> float:
        """About the tilt at which ``bound``, which falls and then rises, is least; at any other it is a bound as well.

        From tilts that move hardly any mass to those that leave hardly any below the largest loss. They are e^(k /
        TILTS_PER_E) for whole k, so that a transform serves all that is asked nearby.
        """
        largest = max(abs(place) for one, _ in self._releases for place in (one.first, one.last, 1)) * self._interval
        least, most = (round(math.log(tilt / largest) * TILTS_PER_E) for tilt in (LEAST_TILT, LARGEST_TILT))

        def at(k: int) -> float:
            return bound(partial(self._log_moment, exact=False), math.exp(k / TILTS_PER_E))

        while least < most:
            middle = (least + most) // 2
            least, most = (least, middle) if at(middle) <= at(middle + 1) else (middle + 1, most)
        return math.exp(least / TILTS_PER_E)


def _product(left: Floats, right: Floats) -> float:
    """Of two vectors, not by BLAS, whose threads cost more than these sums."""
    return float(np.einsum("i,i", left, right))


def _norm(numbers: Floats) -> float:
    return math.sqrt(_product(numbers, numbers))


def _log1p(numbers: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """ln(1 + z) of complex numbers, without the rounding of 1 + z where z is small."""
    real, imaginary = numbers.real, numbers.imag
    small = np.abs(numbers) < 0.5
    with np.errstate(divide="ignore"):
        far = np.log(np.hypot(1 + real, imaginary))
    near = np.log1p(np.where(small, 2 * real + real**2 + imaginary**2, 0)) / 2
    found: NDArray[np.complex128] = np.where(small, near, far) + 1j * np.arctan2(imaginary, 1 + real)
    return found
