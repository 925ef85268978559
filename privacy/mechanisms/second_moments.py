"""Record-level privacy of each party's rows in vertical training that reads them through second moments only.

Data parties p hold rows X_p (a part of every record). A linear model by least squares, or by the Taylor polynomial of
the logistic loss, reads them through the Gram matrices X_p^T X_p and the cross blocks X_p^T X_q alone. Each party adds
noise once to its own Gram matrix and to its *share* of every cross block; whatever is computed from them afterwards,
in any number of epochs, is post-processing.

**Statement.** Unit *record*: one party's part of one record; *replace-one*, with the record ids and their number
public; against the other parties, the arbiter and whoever gets the model. The noise of party p alone carries p's
guarantee: a cross block holds the other's noise, too, but the other knows that. Replacing party p's part of a record,
of norm at most r = sqrt(``moving_square``), moves p's Gram matrix and its cross blocks together by at most

    Delta_p = (2 r^2 + Q) / sqrt(2)   if Q <= 2 r^2,   else 2 r sqrt(Q),

in the norm that counts an off-diagonal entry of the symmetric Gram matrix twice; Q is the sum over the others of their
rows' largest squared norms, plus 2 for an intercept of p's own. Two rows reach it. Noise of scale sigma Delta_p on the
diagonal and the cross blocks, and of sigma Delta_p / sqrt(2) on each unordered pair off the diagonal, is one Gaussian
mechanism of noise multiplier sigma. Proofs, and what is not covered: docs/second_moments.md.

The noise is discrete Gaussian on a grid that holds the statistics exactly, and is charged as continuous noise with the
distance between the two as slack (``fate_dp.privacy.noise.rounded_noise``). Reference for the multiplier at a target:
B. Balle and Y.-X. Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, theorem 8.
"""
import math
from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple

import numpy as np

from fate_dp.privacy.accounting.analytic_gaussian import gaussian_sigma
from fate_dp.privacy.events import REPLACE_ONE, Event, Gaussian, InvalidEvent, check_relation
from fate_dp.privacy.mechanisms.bounded_rows import ROUND_UP, UNIT_BITS, RowBounds
from fate_dp.privacy.mechanisms.release import event_of
from fate_dp.privacy.noise.discrete_gaussian import discrete_gaussian
from fate_dp.privacy.noise.rounded_noise import gaussian_slack
from fate_dp.privacy.noise.stream import open_stream
from fate_dp.privacy.noise.symmetric import LARGEST_SCALE
from fate_dp.privacy.number_kinds import is_finite, is_whole

# Less would be an epsilon of more than 500,000.
LEAST_MULTIPLIER = 1e-3
# Rows on a coarser grid would lose digits that a model can feel.
LEAST_FRACTION_BITS = 12
# The sampler's table ends before 14.2 scales: what lies beyond has less than 2^-140 of the law.
LARGEST_IN_SCALES = 15
# Kept back from delta, for the slack of discrete noise.
SLACK_SHARE = 2.0**-20
INDEFINITE_PROBABILITY = 1e-3


class InvalidMoments(ValueError):
    """Parties and noise multipliers do not fit together, or noise is too large for the grid: one sentence."""


def noise_multiplier_for(epsilon, delta):
    """The noise multiplier at which one release of second moments is (epsilon, delta)-private, rounded up.

    A 2^-20 of delta is left for the slack of discrete noise: more than enough up to epsilon 20 at 30 features, and the
    accountant charges the slack that the event states in any case.

    :param epsilon: above 0, in nats.
    :param delta: strictly between 0 and 1.
    :raises InvalidEpsilon, InvalidDelta: one sentence on what is wrong.
    """
    return gaussian_sigma(epsilon, delta * (1 - SLACK_SHARE))


def replace_one_sensitivity(moving_square, others_square):
    """Largest change of (u u^T, u v^T) in the Frobenius norm between two rows u, for v fixed; some two rows reach it.

    :param moving_square: r^2, bound of |u|^2.
    :param others_square: Q, bound of |v|^2.
    """
    if others_square <= 2 * moving_square:
        return (2 * moving_square + others_square) / math.sqrt(2) * ROUND_UP
    return 2 * math.sqrt(moving_square * others_square) * ROUND_UP


@dataclass(frozen=True, eq=False)
class MomentNoise:
    """What one party adds to its moments, as Python integers in units of 2^-48; secret. Columns as in ``RowBounds``.

    :param gram: symmetric object array (columns, columns), for the party's own Gram matrix with its target's column;
        0 where the intercept meets itself, since n is public.
    :param cross: for every other party, by position, an object array (columns, columns of the other), for the party's
        share of X_p^T X_q; the row of the party's intercept is 0, since its records do not move it.
    :param event: what to charge for everything computed from the noisy moments; None without noise.
    """

    gram: np.ndarray = field(repr=False)
    cross: Dict[int, np.ndarray] = field(repr=False)
    event: Optional[Event]


@dataclass(frozen=True)
class SecondMoments:
    """The public terms under which all data parties release their second moments; every party holds the same object.

    Parties are named by their position; the guest comes first.

    :param bounds: one ``RowBounds`` per party, at least two. They bind all parties as soon as one adds noise, since
        p's sensitivity counts the length of the others' rows.
    :param noise_multipliers: sigma over Delta_p for each party, 0 for one that adds no noise and is promised nothing.
    :raises InvalidMoments: one sentence naming the field, its value and what is allowed.
    """

    bounds: Tuple[RowBounds, ...]
    noise_multipliers: Tuple[float, ...]

    def __post_init__(self):
        object.__setattr__(self, "bounds", tuple(self.bounds))
        if len(self.bounds) < 2 or not all(isinstance(bound, RowBounds) for bound in self.bounds):
            raise InvalidMoments(f"bounds is {self.bounds!r} but must hold the RowBounds of at least two parties.")
        multipliers = tuple(self.noise_multipliers)
        if not all(is_finite(value) and (value == 0 or value >= LEAST_MULTIPLIER) for value in multipliers):
            raise InvalidMoments(
                f"noise_multipliers is {multipliers!r} but must hold finite numbers, each 0 or at least "
                f"{LEAST_MULTIPLIER}."
            )
        object.__setattr__(self, "noise_multipliers", tuple(map(float, multipliers)))
        if len(multipliers) != len(self.bounds):
            raise InvalidMoments(
                f"noise_multipliers has {len(multipliers)} values but must have one per party, {len(self.bounds)}."
            )
        if self._room_bits() < LEAST_FRACTION_BITS:
            raise InvalidMoments(
                f"noise_multipliers is {multipliers!r} but must give noise of a scale of at most "
                f"{LARGEST_SCALE / 4**LEAST_FRACTION_BITS:.2g}; raise epsilon or lower the radius."
            )

    @property
    def fraction_bits(self):
        """Rows of *all* parties lie on the grid 2^-fraction_bits, at most 24 bits; the noise on its square.

        The finest grid on which noise is at most the 2^50 steps that a sampler draws. Were the noise on a coarser grid
        than the statistics, their low bits would be released as they are.
        """
        return min(UNIT_BITS, self._room_bits())

    def sensitivity(self, party, relation=REPLACE_ONE):
        """Delta_p, in the unit of squared features; rounded up.

        :raises InvalidEvent: unless the relation is replace-one: the number of records is public.
        """
        if check_relation(relation) != REPLACE_ONE:
            raise InvalidEvent(f"relation is {relation!r} but must be {REPLACE_ONE} for moments of a public count.")
        own = self._party(party)
        others = math.fsum(other.whole_square for position, other in enumerate(self.bounds) if position != party)
        return replace_one_sensitivity(own.moving_square, others + 2.0 * own.intercept)

    def sigma(self, party):
        """Scale of the party's noise on diagonal and cross blocks, in the unit of squared features."""
        return self.noise_multipliers[party] * self.sensitivity(party) * ROUND_UP

    def largest_noise(self, party):
        """No number of the party's noise exceeds this, in the unit of squared features; for bounds of integers."""
        return LARGEST_IN_SCALES * self.sigma(party)

    def largest_moment(self, records):
        """No entry of the noisy moments over ``records`` rows exceeds this in magnitude; for bounds of integers."""
        noise = sorted(self.largest_noise(party) for party in range(len(self.bounds)))
        return records * max(bound.whole_square for bound in self.bounds) + noise[-1] + noise[-2]

    def draw(self, party, observers, random=None):
        """All noise of one party, to be added once, and the event to be charged for it.

        :param observers: who sees what is computed from the noisy moments.
        :param random: a stream; None for the operating system's entropy. One that can be repeated makes the event
            ``NotPrivate``.
        :returns: ``MomentNoise``; zeros, and no event, for a party without noise.
        :raises InvalidMoments, InvalidEvent, InvalidRandomness: one sentence on what is wrong.
        """
        stream = open_stream(random)
        gram = self._gram_noise(self._party(party), self._steps(party), stream)
        crossed = [other for other in range(len(self.bounds)) if other != party]
        cross = {other: self._cross_noise(party, other, stream) for other in crossed}
        if not self.noise_multipliers[party]:
            return MomentNoise(gram, cross, None)
        process = Gaussian(self.noise_multipliers[party])
        event = event_of(
            process, stream, unit="record", relation=REPLACE_ONE, observers=observers, slack=self.slack(party)
        )
        return MomentNoise(gram, cross, event)

    def slack(self, party):
        """Total-variation distance of the party's noise from continuous noise that is rounded."""
        own = self._party(party)
        crossed = sum(other.columns for position, other in enumerate(self.bounds) if position != party)
        pairs = own.columns * (own.columns - 1) // 2
        return gaussian_slack(self._steps(party), own.moving.size * (1 + crossed)) + (
            gaussian_slack(off_diagonal(self._steps(party)), pairs)
        )

    def required_ridge(self, records, curvature):
        """Ridge, in units of H = X^T X / (curvature records), under which the noisy H is positive definite.

        With probability at least 0.999 whatever the data, from public numbers: 2 sqrt(v) (sqrt(m) + sqrt(ln 1000)) /
        (curvature records), m all weights together and v the largest variance of one noisy entry, where a cross block
        carries the noise of two parties. It holds for the ridge on *every* weight, the intercept's included.

        :param records: number n of records, public.
        :param curvature: c, 4 for the Taylor loss and 1 for least squares.
        """
        variances = sorted((self.sigma(party) ** 2 for party in range(len(self.bounds))), reverse=True)
        weights = sum(bound.weights for bound in self.bounds)
        reach = math.sqrt(weights) + math.sqrt(math.log(1 / INDEFINITE_PROBABILITY))
        return 2 * math.sqrt(variances[0] + variances[1]) * reach / (curvature * records)

    def largest_curvature(self, curvature):
        """Bound of the largest eigenvalue of H without noise: the rows' largest squared norm over ``curvature``."""
        return math.fsum(bound.radius**2 + bound.intercept for bound in self.bounds) / curvature

    def _party(self, party):
        if not is_whole(party) or not 0 <= party < len(self.bounds):
            raise InvalidMoments(f"party is {party!r} but must be a position from 0 to {len(self.bounds) - 1}.")
        return self.bounds[party]

    def _room_bits(self):
        largest = max(self.sigma(party) for party in range(len(self.bounds)))
        return math.floor((math.log2(LARGEST_SCALE) - math.log2(largest)) / 2) if largest else UNIT_BITS

    def _steps(self, party):
        """Scale of the noise in steps of its grid."""
        return math.ldexp(self.sigma(party), 2 * self.fraction_bits)

    def _gram_noise(self, own, steps, stream):
        noise = np.zeros((own.columns, own.columns), dtype=object)
        noise[own.moving, own.moving] = self._integers(steps, own.moving.size, stream)
        rows, columns = np.triu_indices(own.columns, 1)
        noise[rows, columns] = self._integers(off_diagonal(steps), rows.size, stream)
        noise[columns, rows] = noise[rows, columns]
        return noise

    def _cross_noise(self, party, other, stream):
        own = self.bounds[party]
        noise = np.zeros((own.columns, self.bounds[other].columns), dtype=object)
        noise[own.moving] = self._integers(self._steps(party), (own.moving.size, noise.shape[1]), stream)
        return noise

    def _integers(self, steps, shape, stream):
        """Discrete Gaussians of a scale in steps of the noise's grid, as Python integers in units of 2^-48."""
        if not steps:
            return np.zeros(shape, dtype=object)
        return discrete_gaussian(steps, shape, stream).astype(object) << 2 * (UNIT_BITS - self.fraction_bits)


def off_diagonal(steps):
    """The scale of noise that a symmetric matrix's norm counts twice: 1 / sqrt(2) of it, rounded up."""
    return steps / math.sqrt(2) * ROUND_UP
