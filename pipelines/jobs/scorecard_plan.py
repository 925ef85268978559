"""What a scorecard, or binned counts, cost, and how loud their noise is: known from public numbers before anything is spent.

`fate-dp plan scorecard`, `plan binning` and `try scorecard --dry-run` show it. The standard error of a weight of evidence (WOE) is to
first order, in a bin of average size, and of what is released: a ridge draws both the weight and its error towards zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fate_dp.components.dp_binning.own_columns import quantile_charges
from fate_dp.components.dp_binning.settings import LAPLACE
from fate_dp.components.dp_scorecard.settings import TrainSettings
from fate_dp.components.protocols.bin_rules import QuantileBins
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import REPLACE_ONE, Event, Gaussian, Unit
from fate_dp.privacy.mechanisms.bin_counts import BinCountNoise, LaplaceBinCountNoise
from fate_dp.privacy.mechanisms.contingency_tables import TARGET, BinnedRows, ContingencyTables
from fate_dp.privacy.mechanisms.second_moments import noise_multiplier_for
from fate_dp.privacy.validation import DEFAULT_DELTA, InvalidArgument, check_delta, check_epsilon, positive, whole

MAX_FOLDS = 5
BINS_SHARE = 0.4
"""Of a party's epsilon, for quantiles: a scorecard's noise, which composes with them, grows by 6 percent."""
MOST_NOISE = 0.15
"""Of the records of an average bin: folds must leave the noise of each training below it."""
CLEAR_ERROR = 0.1
"""Standard error of a WOE that is called clear."""
STEPS, CLOSE = 12, 0.996
OBSERVERS = ("host", "model")


@dataclass(frozen=True)
class CardRequest:
    """What is asked, in public numbers.

    ``epsilon`` and ``delta`` are of each party's part of a record, nats, replace-one, for bins, card and folds
    together. Columns have so many ``bins`` on average, those of ``guest_quantiles`` and ``host_quantiles`` at private
    quantiles. ``folds`` are trainings with noise of their own; ``event_share`` of the label 1 is for standard errors.
    """

    records: int
    guest_columns: int
    host_columns: int
    epsilon: float
    delta: float = DEFAULT_DELTA
    bins: int = 6
    folds: int = 0
    guest_quantiles: tuple[int, ...] = ()
    host_quantiles: tuple[int, ...] = ()
    event_share: float = 0.2

    def __post_init__(self) -> None:
        for name, least in (("records", 1), ("guest_columns", 1), ("host_columns", 1), ("bins", 2), ("folds", 0)):
            whole(name, getattr(self, name), least)
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if not 0 < positive("event_share", self.event_share) < 1:
            raise InvalidArgument.of("event_share", self.event_share, "a number between 0 and 1")

    def tables(self, *multipliers: float) -> ContingencyTables:
        """The public terms of one training."""
        guest, host = (
            BinnedRows((self.bins,) * n, not at) for at, n in enumerate((self.guest_columns, self.host_columns))
        )
        return ContingencyTables((guest, host), multipliers)


@dataclass(frozen=True)
class CellNoise:
    """One party's part of the answer.

    Attributes:
        bins_epsilon: of its quantiles; 0 without.
        epsilon: that the party sets, in a scorecard for the card and for each fold.
        noise_of_records, noise_of_events: standard deviations in a bin of its columns, in records.
        error_of_woe, error_of_points: standard errors in a bin of average size.
        clear_from: records from which on the former is at most ``CLEAR_ERROR``.
    """

    party: str
    bins_epsilon: float
    epsilon: float
    noise_of_records: float
    noise_of_events: float
    error_of_woe: float
    error_of_points: float
    clear_from: int


@dataclass(frozen=True)
class CardPlan:
    """The answer, of guest and host."""

    request: CardRequest
    rows: tuple[CellNoise, CellNoise]


Variances = tuple[float, float, float]
"""Of noise on both classes of a bin: of each alone, of what one has at the expense of the other, of what both have."""


def plan_of(request: CardRequest, epsilons: Sequence[tuple[float, float]], noise: Sequence[Variances]) -> CardPlan:
    """The plan of guest and host, who have (bins_epsilon, epsilon) and noise of these variances."""
    rows, share, factor = [], request.event_share, TrainSettings().scale.factor
    for party, (bins, epsilon), (alone, against, both) in zip(("guest", "host"), epsilons, noise):
        one, other = (request.bins / (request.records * each) for each in (share, 1 - share))
        error = math.sqrt(alone * (one**2 + other**2) + against * (one + other) ** 2 + both * (one - other) ** 2)
        of_records, of_events = math.sqrt(2 * alone + 4 * both), math.sqrt(alone + against + both)
        clear = math.ceil(request.records * error / CLEAR_ERROR)
        rows.append(CellNoise(party, bins, epsilon, of_records, of_events, error, factor * error, clear))
    return CardPlan(request, (rows[0], rows[1]))


def plan_scorecard(request: CardRequest) -> CardPlan:
    """Epsilon of each training that leaves the total at what is asked, and the noise that it gives."""
    cut = (request.guest_quantiles, request.host_quantiles)
    bins = [BINS_SHARE * request.epsilon if each else 0.0 for each in cut]
    epsilons = [epsilon_of_each(request, at, each) for at, each in enumerate(bins)]
    tables = request.tables(*(noise_multiplier_for(each, request.delta) for each in epsilons))
    guest, host = (tables.sigma(at) ** 2 for at in (0, 1))
    # A sum of targets has half the variance within the guest's tables, and both parties' noise in those with a host.
    targets = [each / TARGET**2 / 4 for each in (guest / 2, guest + host)]
    return plan_of(request, list(zip(bins, epsilons)), [(0.0, targets[0], guest / 4), (0.0, targets[1], host / 4)])


def charges_of(request: CardRequest, at: int, bins_epsilon: float, epsilon: float) -> list[tuple[Event, int]]:
    """What the ledger of guest (0) or host (1) will be charged for bins, card and folds."""
    cut = (request.guest_quantiles, request.host_quantiles)[at]
    rules = {str(number): QuantileBins(None, bins) for number, bins in enumerate(cut)}
    multiplier = noise_multiplier_for(epsilon, request.delta)
    slack = request.tables(multiplier, multiplier).slack(at)
    trained = Event(Gaussian(multiplier), Unit.RECORD, REPLACE_ONE, OBSERVERS, slack)
    return [*quantile_charges(rules, bins_epsilon or None, OBSERVERS), (trained, 1 + request.folds)]


def epsilon_of_each(request: CardRequest, at: int, bins_epsilon: float) -> float:
    """The largest epsilon of one training with which bins, card and folds of the party together keep to what is asked."""
    each = request.epsilon / math.sqrt(1 + request.folds)
    for _ in range(STEPS):
        # Four digits, rounded down, so that the number that a person reads is the one that is charged.
        unit = 10.0 ** (3 - math.floor(math.log10(each)))
        each = math.floor(each * unit) / unit
        total = total_epsilon(charges_of(request, at, bins_epsilon, each), request.delta)
        if CLOSE * request.epsilon <= total <= request.epsilon:
            return each
        each *= (1 + CLOSE) / 2 * request.epsilon / total
    raise InvalidArgument.of("epsilon", request.epsilon, "one that noise can be found for", "Raise it.")


def folds_that_fit(request: CardRequest, most: int) -> int:
    """How many folds of at most ``most`` leave the noise below ``MOST_NOISE`` of an average bin; 0 for less than two."""
    alone = plan_scorecard(replace(request, folds=0, guest_quantiles=(), host_quantiles=()))
    loudest = max(row.noise_of_records for row in alone.rows) * request.bins / request.records
    fitting = min(most, math.floor((MOST_NOISE / loudest) ** 2) - 1)
    return fitting if fitting >= 2 else 0


def plan_binning(request: CardRequest, noise: str, privacy: str) -> CardPlan:
    """The noise of dp_binning's counts at the same epsilon for every party; with privacy label at the guest alone."""

    def variance(own: int, labels: int) -> float:
        counts = 2 * request.bins * (request.guest_columns + request.host_columns)
        if noise == LAPLACE:
            return LaplaceBinCountNoise(request.epsilon, own, labels, counts).sigma ** 2
        return BinCountNoise.of(request.epsilon, request.delta, own, labels, counts).sigma ** 2

    epsilons = [(0.0, request.epsilon)] * 2
    if privacy == Unit.LABEL:
        return plan_of(request, epsilons, [(0.0, 0.0, 0.0), (0.0, variance(0, request.host_columns), 0.0)])
    guest, host = variance(request.guest_columns, request.host_columns), variance(request.host_columns, 0)
    return plan_of(request, epsilons, [(guest, 0.0, 0.0), (host, guest, 0.0)])
