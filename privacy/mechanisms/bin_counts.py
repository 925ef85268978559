"""Gaussian or Laplace noise on how many records with and without the event (label 1) lie in each bin of each column.

Unit *record*, replace-one: the ids of the records and their number are public. A column puts a record into one bin. So

- sums of labels over the bins of another party's columns: a replaced record of the label's owner may bring another label,
  which moves one sum of each of F columns by at most one, together by sqrt(F) in the l2 norm;
- counts of both classes in the bins of a party's own D columns: a replaced record leaves one of a column's counts and joins
  one, which together moves by sqrt(2 D). It moves nothing in tables of other parties but what its label does.

A party's Gaussian noise on all of that is one mechanism of the root of the sum of these squares. The noise is discrete on a
grid of 2^-28 counts, of which whole numbers are multiples, so that rounding has no share in the sensitivity; the distance
from rounded continuous noise [Canonne2020] is the event's slack.

In the l1 norm the same record moves them by F + 2 D at most. Discrete Laplace noise of that over epsilon on whole counts is
epsilon-private for all of them together, with delta 0 [Ghosh2009]; its scale grows with the number of columns, that of
Gaussian noise with its root.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..accounting.gaussian import gaussian_sigma
from ..events import REPLACE_ONE, Event, Gaussian, PureDP, event_of
from ..noise.discrete import MAX_SCALE, discrete_gaussian, discrete_laplace, discrete_laplace_slack, gaussian_slack
from ..noise.stream import Integers, Rng, Size, open_stream
from ..validation import InvalidArgument, check_epsilon, positive, whole
from .laplace import laplace_scale

FRACTION_BITS = 28
MAX_COLUMNS = 1 << 20
MAX_COUNTS = 1 << 30
# No draw exceeds 64 times its scale, so that noise in units of 2^-28 counts fits an int64.
MAX_LAPLACE_SCALE = 2.0**28
# Below, noise is 0 but for a chance of e^-1000, which no float tells from it.
MIN_SPREAD = 1e-3
# Of delta for the slack of discrete noise; more than enough for a million counts and a sigma of one.
SLACK_SHARE = 1e-2
# Above the few roundings of products and roots of floats.
ROUND_UP = 1 + 2.0**-48


@dataclass(frozen=True)
class BinCountNoise:
    """The public terms of one party's noise on counts by bin.

    ``noise_multiplier`` is sigma over the sensitivity. Noise is on counts of both classes of the party's
    ``own_columns``, and on sums of its labels in ``label_columns`` of others; ``counts`` is an upper bound on how many
    numbers get noise, on which the slack depends.
    """

    noise_multiplier: float
    own_columns: int
    label_columns: int
    counts: int

    def __post_init__(self) -> None:
        positive("noise_multiplier", self.noise_multiplier)
        _check_sizes(self.own_columns, self.label_columns, self.counts)
        if self._steps > MAX_SCALE:
            most = f"at most {self.noise_multiplier * MAX_SCALE / self._steps:.2g}, since noise is drawn up to 2^50 steps of the grid"
            raise InvalidArgument.of("noise_multiplier", self.noise_multiplier, most)

    @classmethod
    def of(cls, epsilon: float, delta: float, own_columns: int, label_columns: int, counts: int) -> "BinCountNoise":
        """Noise with which all of the party's counts are (epsilon, delta)-private together, epsilon in nats."""
        return cls(gaussian_sigma(epsilon, delta * (1 - SLACK_SHARE)), own_columns, label_columns, counts)

    @property
    def sensitivity(self) -> float:
        """l2, in counts, unit record, replace-one."""
        return math.sqrt(2 * self.own_columns + self.label_columns) * ROUND_UP

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each number, in counts."""
        return self.noise_multiplier * self.sensitivity * ROUND_UP

    def event(self, observers: Sequence[str], rng: Rng = None) -> Event:
        """What to charge, once for all numbers, before the first of them is shown; ``rng`` is that of ``draw``."""
        slack = gaussian_slack(self._steps, self.counts)
        process = Gaussian(self.noise_multiplier)
        return event_of(process, open_stream(rng), relation=REPLACE_ONE, observers=observers, slack=slack)

    def draw(self, size: Size, rng: Rng = None) -> Integers:
        """Noise for so many numbers, int64 in units of 2^-28 counts; secret. No number may get it from two draws."""
        return discrete_gaussian(self._steps, size, rng)

    @property
    def _steps(self) -> float:
        """Sigma in steps of the grid."""
        return math.ldexp(self.sigma, FRACTION_BITS)


@dataclass(frozen=True)
class LaplaceBinCountNoise:
    """The same where delta is 0: ``epsilon``, in nats, is of all of the party's counts together."""

    epsilon: float
    own_columns: int
    label_columns: int
    counts: int

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        _check_sizes(self.own_columns, self.label_columns, self.counts)
        if self.scale > MAX_LAPLACE_SCALE:
            least = self.epsilon * self.scale / MAX_LAPLACE_SCALE
            raise InvalidArgument.of("epsilon", self.epsilon, f"at least {least:.2g} for noise on so many columns")

    @property
    def sensitivity(self) -> int:
        """l1, in counts, unit record, replace-one."""
        return 2 * self.own_columns + self.label_columns

    @property
    def scale(self) -> float:
        """Scale of the noise on each number, in counts."""
        return laplace_scale(self.sensitivity, self.epsilon)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each number, in counts: of the discrete law, whose ratio is e^(-1 / scale)."""
        return 1 / (math.sqrt(2) * math.sinh(0.5 / self.scale)) if self.scale > MIN_SPREAD else 0.0

    def event(self, observers: Sequence[str], rng: Rng = None) -> Event:
        """What to charge, once for all numbers, before the first of them is shown; ``rng`` is that of ``draw``."""
        slack = self.counts * discrete_laplace_slack(self.scale)
        return event_of(PureDP(self.epsilon), open_stream(rng), relation=REPLACE_ONE, observers=observers, slack=slack)

    def draw(self, size: Size, rng: Rng = None) -> Integers:
        """Noise for so many numbers, int64 in units of 2^-28 counts, whole counts all of them; secret."""
        return discrete_laplace(self.scale, size, rng) << FRACTION_BITS


def _check_sizes(own_columns: int, label_columns: int, counts: int) -> None:
    whole("own_columns", own_columns, 0, MAX_COLUMNS)
    whole("label_columns", label_columns, 0, MAX_COLUMNS)
    whole("counts", counts, 1, MAX_COUNTS)
    if not own_columns + label_columns:
        raise InvalidArgument.of("own_columns and label_columns", (0, 0), "at least one column together")
