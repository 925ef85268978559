"""Plans: what noise a privacy target needs, what it costs in accuracy, and how many runs a budget holds.

A plan is computed from public numbers only, so planning spends nothing. Epsilons are in nats and are upper bounds;
noise is never smaller than the target needs; counts of runs are rounded down.

*Labels* (``plan_labels``): k-ary randomised response, unit *label*, *replace-one*, delta 0 (Warner 1965; Kairouz, Oh
and Viswanath 2016), memoised as ``label_flip`` does it.

*Training* (``plan_training``): Poisson-sampled sums of clipped contributions with Gaussian noise, unit *record*, under
both relations. Assumed, and not proved here: clients are honest but curious and draw real Poisson batches whose sizes
stay secret, the mean is taken with the public normaliser ``expected_batch``, and other clients see the mean only.
Numbers hold for continuous noise; what a grid adds is charged by the mechanism's event when it runs.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fate_dp.privacy.accounting.calibration import calibrate_noise_multiplier, subsampled_gaussian_epsilon
from fate_dp.privacy.accounting.secure_sum import noise_share_sigma
from fate_dp.privacy.accounting.shuffling import shuffle_composition_epsilon, shuffle_epsilon
from fate_dp.privacy.events import ADD_OR_REMOVE, RELATIONS
from fate_dp.privacy.labels import choice as label_choice
from fate_dp.privacy.ledger.policy import Policy
from fate_dp.privacy.mechanisms.randomized_response import flip_probability, keep_probability
from fate_dp.privacy.validation import DEFAULT_DELTA, InvalidArgument, is_finite, one_of, strictly_within, whole, within

# Where a budget holds more runs than this, the exact count answers no question that anybody has.
MAX_RUNS = 100
# Accountants take many seconds beyond these.
MAX_ROUNDS, MAX_ROUNDS_OF_ALL_RUNS = 10**5, 10**6
# Relative: more than the roundings of a product and a root.
MARGIN = 1e-15
# More than anybody has of anything, and still exact as a float.
MAX_COUNT = 10**15
# Beyond these no plan is meant, and accountants lose their footing.
SMALLEST, LARGEST = 1e-6, 1e6
# Privacy loss distributions cut off tails; from here on down their answers are checked by no exact one.
MIN_DELTA = 1e-12
# One record of more than anybody has; far below, accountants take minutes.
MIN_SAMPLING_PROBABILITY = 1e-12
# Bounds for shuffled messages take minutes beyond, and more messages only lower them.
MAX_MESSAGES = 10**6
# As in the ledger: sums of epsilons such as 0.1 + 0.2 must not exceed a cap of 0.3 by rounding errors alone.
ROUNDING = 1e-12
COMPARED = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Epsilons at which flips are compared with noise, beside the one that was asked for."""
OPTIONAL = ("epsilon", "noise_multiplier", "cap_epsilon")
SEEN = {
    "local": "each client's noisy message, and who sent it",
    "shuffle": "the set of noisy messages, not who sent which",
    "secure_sum": "the noisy sum only",
}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class LabelPlanRequest:
    """What is asked about flipping labels, under the names of the flags of ``fate-dp plan labels``. ``spent`` of the
    cap was spent before, None where no ledger was asked; ``delta`` is of noise in place of flips."""

    records: int
    epsilon: float
    classes: int = 2
    cap: float = Policy.default_label_cap
    prior: float | None = None
    spent: float | None = None
    columns: int | None = None
    models: int = 1
    delta: float = DEFAULT_DELTA

    @property
    def left(self) -> float:
        """What releases at a new epsilon or key can still spend."""
        return max(0.0, self.cap - (self.spent or 0.0))

    def __post_init__(self) -> None:
        check_whole("records", self.records, 1)
        _check_positive(self, "epsilon")
        check_whole("classes", self.classes, 2)
        _check_positive(self, "cap")
        if self.prior is not None:
            strictly_within("--prior", self.prior, 0, 1, "greater than 0 and less than 1")
        if self.columns is not None:
            check_whole("columns", self.columns, 1)
        check_whole("models", self.models, 1)
        strictly_within("--delta", self.delta, 0, 1, "greater than 0 and less than 1")


@dataclass(frozen=True)
class LabelChoice:
    """Flips and noise on sums of labels at one epsilon: see `fate_dp.privacy.labels.choice`. Noise has the smaller
    variance up to ``largest_size`` columns times models; ``noise_over_flips`` is the ratio at those that were asked
    for, None without."""

    epsilon: float
    variance_of_flips: float
    variance_of_noise: float
    largest_size: int
    noise_over_flips: float | None


@dataclass(frozen=True)
class LabelPlan:
    """The answer: probabilities, what they cost, and what the cap holds.

    ``posterior_if_shown`` and ``posterior_if_not_shown`` are P(true label is the class of interest) given that the
    flipped label is, or is not, that class. ``standard_error`` is that of the class share estimated from flipped
    labels; ``equivalent_records`` unflipped labels would give the same error. ``releases`` counts releases that add up
    (new epsilons or keys, each at this epsilon); repeats of the same release cost nothing.
    """

    request: LabelPlanRequest
    prior: float
    keep_probability: float
    flip_probability: float
    expected_flips: float
    posterior_if_shown: float
    posterior_if_not_shown: float
    standard_error: float
    standard_error_unflipped: float
    equivalent_records: float
    releases: int
    left_after_one: float
    choices: tuple[LabelChoice, ...]
    crossover: float | None


@dataclass(frozen=True)
class TrainingPlanRequest:
    """What is asked about training with noise, under the names of the flags of ``fate-dp plan training``.

    Exactly one of ``epsilon`` and ``noise_multiplier`` is given: sigma over the clip that the guarantee rests on (in
    ``secure_sum``, that of the sum of the clients that neither collude nor drop out). Target and budget are stated under
    ``relation``, results under both. ``max_dropouts`` is at least 1, since every client knows its own noise.
    """

    records: int
    clients: int
    rounds: int
    sampling_probability: float
    delta: float = DEFAULT_DELTA
    epsilon: float | None = None
    noise_multiplier: float | None = None
    clip: float = 1.0
    dimension: int | None = None
    relation: str = ADD_OR_REMOVE
    max_dropouts: int = 1
    cap_epsilon: float | None = None
    epsilon0: float = 1.0

    def __post_init__(self) -> None:
        for name in ("records", "max_dropouts"):
            check_whole(name, getattr(self, name), 1)
        check_whole("rounds", self.rounds, 1, largest=MAX_ROUNDS)
        check_whole("clients", self.clients, self.max_dropouts + 1, why=" (one more than --max-dropouts)")
        whole("--clients", self.clients, 1, self.records, f"at most the number of records, {self.records}")
        sampled, allowed = self.sampling_probability, f"at least {MIN_SAMPLING_PROBABILITY:g} and at most 1"
        within("--sampling-probability", sampled, MIN_SAMPLING_PROBABILITY, 1, allowed)
        if not is_finite(self.delta) or not MIN_DELTA <= self.delta < 1:
            raise InvalidArgument.of("--delta", self.delta, f"at least {MIN_DELTA:g} and less than 1")
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise InvalidArgument.of("--epsilon", self.epsilon, "given if and only if --noise-multiplier is not")
        _check_positive(self, *(name for name in OPTIONAL if getattr(self, name) is not None))
        if self.dimension is not None:
            check_whole("dimension", self.dimension, 1)
        _check_positive(self, "clip", "epsilon0")
        one_of("--relation", self.relation, RELATIONS)

    @property
    def expected_batch(self) -> float:
        """Public normaliser of a round's sum, over all clients."""
        return self.records * self.sampling_probability

    @property
    def most_runs(self) -> int:
        """A budget that holds so many runs is not counted any further."""
        return min(MAX_RUNS, MAX_ROUNDS_OF_ALL_RUNS // self.rounds)


@dataclass(frozen=True)
class TrustRow:
    """One trust model. Standard deviations are per coordinate, in the unit of the clip.

    ``epsilon_server`` and ``epsilon_client`` map each relation to an epsilon at the request's delta: against a server
    and against other clients, up to ``max_dropouts`` of them together. ``noise_to_signal`` is the expected norm of the
    noise on the mean over the largest norm of the mean at the expected batch; None without a dimension. ``runs`` fit
    the cap against the server, or more where it is the request's ``most_runs``; None without a cap.
    """

    aggregation: str
    server_sees: str
    client_sigma: float
    sum_sigma: float
    mean_sigma: float
    noise_to_signal: float | None
    epsilon_server: Mapping[Any, float]
    epsilon_client: Mapping[Any, float]
    runs: int | None


@dataclass(frozen=True)
class ShuffledPure:
    """``messages`` pure ``epsilon0``-LDP messages, shuffled, at most ``MAX_MESSAGES`` of them: epsilons of one round
    and of all; replace-one."""

    sender: str
    messages: int
    epsilon0: float
    epsilon_one_round: float
    epsilon_all_rounds: float


@dataclass(frozen=True)
class TrainingPlan:
    """The answer: the noise multiplier, a row per trust model, and what shuffling does for pure local randomisers."""

    request: TrainingPlanRequest
    noise_multiplier: float
    rows: tuple
    shuffled_pure: tuple


def plan_labels(request: LabelPlanRequest) -> LabelPlan:
    """What flipping these labels at this epsilon tells, costs, and leaves of the cap."""
    epsilon, others = request.epsilon, request.classes - 1
    prior = 1 / request.classes if request.prior is None else request.prior
    keep, flip = keep_probability(epsilon, request.classes), flip_probability(epsilon, request.classes)
    false_alarm = flip / others
    # keep - false_alarm without cancellation at small epsilon.
    signal = -math.expm1(-epsilon) * keep
    shown = prior * keep + (1 - prior) * false_alarm
    not_shown = prior * flip + (1 - prior) * (1 - false_alarm)
    spread, spread_unflipped = shown * not_shown, prior * (1 - prior)
    releases = math.floor(request.left * (1 + ROUNDING) / epsilon)
    return LabelPlan(
        request=request,
        prior=prior,
        keep_probability=keep,
        flip_probability=flip,
        expected_flips=request.records * flip,
        posterior_if_shown=prior * keep / shown,
        posterior_if_not_shown=prior * flip / not_shown,
        standard_error=math.sqrt(spread / request.records) / signal,
        standard_error_unflipped=math.sqrt(spread_unflipped / request.records),
        equivalent_records=request.records * signal**2 * spread_unflipped / spread,
        releases=releases,
        left_after_one=max(0.0, request.left - epsilon) if releases else request.left,
        choices=tuple(_choice(request, each) for each in sorted({*COMPARED, epsilon})) if request.classes == 2 else (),
        crossover=label_choice.crossover(request.records, request.columns, request.models, request.delta)
        if request.columns is not None and request.classes == 2
        else None,
    )


def _choice(request: LabelPlanRequest, epsilon: float) -> LabelChoice:
    records, columns, delta = request.records, request.columns, request.delta
    return LabelChoice(
        epsilon,
        label_choice.variance_of_flips(epsilon),
        label_choice.variance_of_noise(epsilon, delta),
        label_choice.largest_size(records, epsilon, delta),
        None if columns is None else label_choice.noise_over_flips(records, columns, request.models, epsilon, delta),
    )


def plan_training(
    request: TrainingPlanRequest, progress: Callable[[str], None] = lambda sentence: None
) -> TrainingPlan:
    """Noise, guarantees and runs of the three trust models with the same clients and the same model."""
    rate, rounds, delta = request.sampling_probability, request.rounds, request.delta

    def epsilon(multiplier: float, relation: str, runs: int = 1) -> float:
        return subsampled_gaussian_epsilon(rate, multiplier, runs * rounds, delta, relation=relation)

    progress("Searching the noise for the target")
    if request.noise_multiplier:
        multiplier = request.noise_multiplier
    else:
        assert request.epsilon is not None  # one of the two is given, as the request has checked
        multiplier = calibrate_noise_multiplier(request.epsilon, delta, rate, rounds, relation=request.relation)
    progress("Accounting the three trust models")
    others = multiplier * math.sqrt(request.clients - request.max_dropouts) * (1 - MARGIN)
    own, of_the_rest = ({each: epsilon(noise, each) for each in RELATIONS} for noise in (multiplier, others))
    progress("Counting the runs that the budget holds")
    runs, cap = None, request.cap_epsilon
    if cap is not None:
        counts = range(1, request.most_runs + 1)
        runs = bisect_right(counts, cap, key=lambda count: epsilon(multiplier, request.relation, count))
    share = noise_share_sigma(multiplier, request.clip, request.clients, request.max_dropouts)
    rows = []
    for aggregation, client_sigma, of_clients in (
        ("local", multiplier * request.clip, of_the_rest),
        ("shuffle", multiplier * request.clip, of_the_rest),
        ("secure_sum", share, own),
    ):
        sum_sigma = client_sigma * math.sqrt(request.clients)
        mean_sigma = sum_sigma / request.expected_batch
        ratio = None if request.dimension is None else mean_sigma * math.sqrt(request.dimension) / request.clip
        sigmas = client_sigma, sum_sigma, mean_sigma, ratio
        rows.append(TrustRow(aggregation, SEEN[aggregation], *sigmas, own, of_clients, runs))
    progress("Shuffling pure messages, for comparison")
    senders = {"client": request.clients, "record": max(1, math.floor(request.expected_batch))}
    shuffled = tuple(_shuffled(request, sender, min(count, MAX_MESSAGES)) for sender, count in senders.items())
    return TrainingPlan(request, multiplier, tuple(rows), shuffled)


def _shuffled(request: TrainingPlanRequest, sender: str, messages: int) -> ShuffledPure:
    epsilon0, delta = request.epsilon0, request.delta
    one = shuffle_epsilon(epsilon0, messages, delta, "any")
    every = shuffle_composition_epsilon(epsilon0, messages, request.rounds, delta, "any")
    return ShuffledPure(sender, messages, epsilon0, one, every)


def _check_positive(request: LabelPlanRequest | TrainingPlanRequest, *names: str) -> None:
    for name in names:
        allowed = f"a number from {SMALLEST:g} to {LARGEST:g}"
        within(_flag(name), getattr(request, name), SMALLEST, LARGEST, allowed)


def check_whole(name: str, value: Any, least: int, *, largest: int = MAX_COUNT, why: str = "") -> None:
    """Raise ``InvalidArgument``, naming the flag, unless ``value`` is a whole number from ``least`` to ``largest``."""
    whole(_flag(name), value, least, largest, f"a whole number from {least}{why} to {largest}")
