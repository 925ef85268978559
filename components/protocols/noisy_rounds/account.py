"""What rounds cost, as events of the privacy core, and the noise for a target. Epsilons are in nats.

Nothing is computed here that `privacy.accounting` does not prove: this module says which of its events a round is.

- ``secure_sum``: ``secure_sum_event`` of n clients, of which t are tolerated, with Poisson sampling.
- ``local``: ``PoissonSampledGaussian`` of the client's own message, once per noised step. The records of one client
  meet that client's noise only, so what other clients send costs them nothing.
- ``shuffle``: ``Shuffled`` once per epoch, replace-one only; and, against a shuffler that collaborates with the server,
  ``PureDP`` of one message per epoch (`collusion_events`).

An epoch of ``shuffle`` has P = ceil(records / batch_size) rounds. The record at the public place i sends in the epoch's
round i mod P; which of a client's records stands at which of its places is a permutation that the client draws anew for
every epoch and keeps (docs/proofs-dp_homo_nn.md).
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from fate_dp.privacy.accounting.accountant import make_accountant
from fate_dp.privacy.accounting.calibration import MIN_START, UnreachableTarget, calibrate, least_enough
from fate_dp.privacy.accounting.gaussian import gaussian_sigma
from fate_dp.privacy.accounting.secure_sum import SecureSum, noise_share_sigma, secure_sum_event
from fate_dp.privacy.accounting.shuffling import shuffle_epsilon
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import REPLACE_ONE, Event, PoissonSampledGaussian, PureDP, Shuffled, clips_moved
from fate_dp.privacy.noise.discrete import discrete_gaussian_slack, gaussian_slack
from fate_dp.privacy.validation import check_target, refusal

from .terms import LOCAL, MAX_MULTIPLIER, SECURE_SUM, SHUFFLE, STEPS_OF_CLIP, InvalidTerms, RoundTerms

Rounds = int | Collection[int]
"""A number of rounds, the first ones; or the numbers (from 0) of the rounds that ran."""


def rounds_per_epoch(terms: RoundTerms) -> int:
    # A quotient that rounding put just above a whole number stands for that number.
    return max(1, math.ceil(terms.records / terms.batch_size * (1 - 1e-12)))


def epochs_of(terms: RoundTerms, rounds: Rounds) -> int:
    """In how many rounds one record sends at most: of the rounds that ran, several may lie in one epoch."""
    if not isinstance(rounds, Collection):
        return -(-rounds // rounds_per_epoch(terms))
    return len({number // rounds_per_epoch(terms) for number in rounds})


def client_sizes(terms: RoundTerms) -> tuple[int, ...]:
    """Records of each client: the public numbers, or as equal ones as possible."""
    if terms.client_records is not None:
        return terms.client_records
    share, rest = divmod(terms.records, terms.clients)
    return tuple(share + (position < rest) for position in range(terms.clients))


def senders(terms: RoundTerms, position: int, round_number: int) -> np.ndarray:
    """Places, within the client at ``position``, of the records that send in a round: int64."""
    sizes, period = client_sizes(terms), rounds_per_epoch(terms)
    first = (round_number - sum(sizes[:position])) % period
    return np.arange(first, sizes[position], period, dtype=np.int64)


def scheduled_messages(terms: RoundTerms, round_number: int) -> int:
    """Messages of all clients in a round if none is missing."""
    period = rounds_per_epoch(terms)
    return len(range(round_number % period, terms.records, period))


def honest_messages(terms: RoundTerms) -> int:
    """The least number of honest messages of any round that is passed on; raises InvalidTerms when it is below 1."""
    dropping = _most_messages(terms, terms.max_dropouts - terms.colluding)
    messages = terms.records // rounds_per_epoch(terms) - dropping - _most_messages(terms, terms.colluding)
    if messages < 1:
        raise InvalidTerms(
            f"batch_size is {terms.batch_size:g}, but of so few messages in a round none may be left that is honest "
            f"once {terms.max_dropouts} of {terms.clients} clients are missing or collude; raise batch_size, or lower "
            "max_dropouts."
        )
    return messages


def min_messages(terms: RoundTerms) -> int:
    """Below so many messages a round ends at the shuffler."""
    return honest_messages(terms) + _most_messages(terms, terms.colluding)


def _most_messages(terms: RoundTerms, clients: int) -> int:
    """The most messages that so many clients send in one round together."""
    period = rounds_per_epoch(terms)
    return sum(sorted((-(-size // period) for size in client_sizes(terms)), reverse=True)[:clients])


# A clip of another size changes the grid with it, so a clip holds 2^34 to 2^35 steps. Events are stated for 2^34, where
# grid and slack weigh most: one event for all rounds, whatever their clips.

OBSERVERS = ("client", "model", "server")
MIN_STEPS_OF_CLIP = STEPS_OF_CLIP / 2
# Relative: how far below the largest epsilon0 that meets a target the one found may lie.
EPSILON0_TOLERANCE = 2e-3
MIN_EPSILON = 1e-300
# Relative: how far below the largest sampling probability that meets a client's target the one found may lie.
SAMPLING_TOLERANCE = 1e-3
MIN_SAMPLING = 1e-8


def secure_sum_of(terms: RoundTerms) -> SecureSum:
    """On the coarsest grid that a clip can have."""
    multiplier = noise_of(terms)
    share = noise_share_sigma(multiplier, MIN_STEPS_OF_CLIP, terms.clients, terms.max_dropouts)
    return SecureSum(multiplier, terms.clients, terms.max_dropouts, terms.vector_length, share, terms.colluding)


def round_event(terms: RoundTerms, relation: str) -> Event:
    """What one release of a round costs one unit, against `OBSERVERS`.

    In ``local`` with several local steps a round has ``terms.noised_steps`` of them; in ``shuffle`` a record takes part
    in one round per epoch only: ``events_of`` counts both.

    InvalidTerms or InvalidEvent refuse what has no account, ``shuffle`` under add-or-remove, too, and terms in which
    clients have something of their own, which have one account for each client (``RoundTerms.at``).
    """
    if terms.personal:
        raise InvalidTerms("Clients have noise or samples of their own: an account is that of one client's terms.")
    if terms.aggregation == SHUFFLE:
        return Event(Shuffled(noise_of(terms), honest_messages(terms)), terms.unit, relation, OBSERVERS)
    if terms.aggregation == SECURE_SUM:
        event = secure_sum_event(secure_sum_of(terms), terms.unit, relation, terms.sampling_probability, OBSERVERS)
        sampler = terms.clients * terms.vector_length * discrete_gaussian_slack(MIN_STEPS_OF_CLIP)
        return replace(event, slack=min(1.0, event.slack + sampler))
    process = PoissonSampledGaussian(terms.sampling_probability, noise_of(terms))
    slack = gaussian_slack(process.noise_multiplier * MIN_STEPS_OF_CLIP, terms.vector_length)
    return Event(process, terms.unit, relation, OBSERVERS, slack)


def events_of(terms: RoundTerms, relation: str, rounds: Rounds | None = None) -> list[tuple[Event, int]]:
    """What rounds (None: all that are planned) cost one unit, as (event, count) pairs.

    Where rounds were aborted, ``shuffle`` must be told which ones ran: a record may have sent in all of their epochs.
    """
    rounds = terms.rounds if rounds is None else rounds
    number = len(rounds) if isinstance(rounds, Collection) else rounds
    count = epochs_of(terms, rounds) if terms.aggregation == SHUFFLE else number * terms.noised_steps
    return [(round_event(terms, relation), count)] if count else []


def collusion_events(terms: RoundTerms, rounds: Rounds | None = None) -> list[tuple[Event, int]]:
    """What ``shuffle`` costs one record against the shuffler together with the server: its messages, not amplified."""
    count = epochs_of(terms, terms.rounds if rounds is None else rounds)
    return [(Event(PureDP(noise_of(terms)), terms.unit, REPLACE_ONE, ("server", "shuffler")), count)] if count else []


def epsilon_of(terms: RoundTerms, delta: float, relation: str, rounds: Rounds | None = None) -> float:
    """Epsilon (nats) of rounds at ``delta``; infinite where none is known."""
    return total_epsilon(events_of(terms, relation, rounds), delta)


def relations_of(terms: RoundTerms) -> tuple[str, ...]:
    """The relations under which the terms have an account."""
    return (REPLACE_ONE,) if terms.aggregation == SHUFFLE else ("add_or_remove", REPLACE_ONE)


def calibrate_terms(terms: RoundTerms, epsilon: float, delta: float, relation: str) -> RoundTerms:
    """The same terms, at ``delta``, with the least noise whose account for all rounds is at most ``epsilon`` (nats).

    The noise multiplier is at most 2e-5 above, an epsilon0 at most 2e-3 below, the best that the account accepts.
    UnreachableTarget says what would be in reach.
    """
    epsilon, delta = check_target(epsilon, delta)
    terms = replace(terms, delta=delta)
    if terms.aggregation == SHUFFLE:
        return terms.with_noise(epsilon0=_calibrated_epsilon0(terms, epsilon, delta, relation))
    return terms.with_noise(noise_multiplier=_calibrated_multiplier(terms, epsilon, delta, relation))


def personal_terms(terms: RoundTerms, epsilons: Sequence[float], delta: float, relation: str) -> RoundTerms:
    """The same terms with noise or samples for each client's own target, at ``delta``; ``RoundTerms.at`` has its account.

    - ``local``: every client's message has the least noise that keeps its own target.
    - ``secure_sum``: all records meet the same noise, which is that of the largest target; clients with smaller ones sample
      their records more rarely, as often as their target allows within one part in a thousand.

    UnreachableTarget or InvalidTerms refuse what has no account.
    """
    if terms.aggregation == SHUFFLE:
        raise InvalidTerms("Targets of single clients have no account in aggregation shuffle; use local or secure_sum.")
    distinct = sorted(set(epsilons))
    if terms.aggregation == LOCAL:
        noise = {each: noise_of(calibrate_terms(terms, each, delta, relation)) for each in distinct}
        own = tuple(noise[each] for each in epsilons)
        return replace(terms, delta=delta, noise_multiplier=max(own), own_noise=own)
    terms = calibrate_terms(terms, distinct[-1], delta, relation)
    sampling = {each: _calibrated_sampling(terms, each, delta, relation) for each in distinct[:-1]}
    sampling[distinct[-1]] = terms.sampling_probability
    return replace(terms, own_sampling=tuple(sampling[each] for each in epsilons))


def _calibrated_sampling(terms: RoundTerms, epsilon: float, delta: float, relation: str) -> float:
    """A probability at which the terms' noise keeps ``epsilon``; at most ``SAMPLING_TOLERANCE`` below the largest."""
    most, alone = terms.sampling_probability, epsilon_of(terms, delta, relation)

    def excess(log_rarity: float) -> float:
        batch = most / max(1.0, math.exp(log_rarity)) * terms.records
        return math.log(max(epsilon_of(replace(terms, batch_size=batch), delta, relation), MIN_EPSILON) / epsilon)

    # Epsilon is nearly proportional to the probability, so this starts near the end.
    rarest = most / MIN_SAMPLING
    rarity = least_enough(excess, min(max(1.0, alone / epsilon), rarest), rarest, SAMPLING_TOLERANCE)
    if rarity is None:
        raise UnreachableTarget(
            f"epsilon {epsilon:g} at delta {delta:g} is out of reach beside a party with a larger one, however rarely "
            "a record is sampled; ask for more, or use aggregation local."
        )
    return most / max(1.0, rarity)


def _calibrated_multiplier(terms: RoundTerms, epsilon: float, delta: float, relation: str) -> float:
    count = terms.rounds * terms.noised_steps
    unsampled = gaussian_sigma(epsilon, delta, clips_moved(relation) * math.sqrt(count))
    start = min(max(unsampled * terms.sampling_probability, min(unsampled, MIN_START)), MAX_MULTIPLIER / 2)
    # Neither scales nor clips enter an event, and checking millions of scales at every step of a search takes its time.
    bare = replace(terms, scales=None, own_clips=None)

    def event_of(multiplier: float) -> Event:
        return round_event(bare.with_noise(noise_multiplier=multiplier), relation)

    try:
        return calibrate(event_of, epsilon, delta, count, "pld", (start, MAX_MULTIPLIER))
    except UnreachableTarget as error:
        raise UnreachableTarget(_what_is_in_reach(event_of(MAX_MULTIPLIER), count, epsilon, delta)) from error


def _what_is_in_reach(event: Event, count: int, epsilon: float, delta: float) -> str:
    accountant = make_accountant("pld", event.relation)
    accountant.compose(event, count)
    least = accountant.epsilon(delta)
    reachable = f"epsilon {least:.3g} at this delta"
    if not math.isfinite(least):
        reachable = f"delta {accountant.delta(epsilon):.3g} at this epsilon"
    return (
        f"epsilon {epsilon:g} at delta {delta:g} is out of reach over {count} releases: with the most noise there is, "
        f"{MAX_MULTIPLIER:g} times the clip, {reachable} would be met. Ask for that, or for fewer rounds."
    )


def _calibrated_epsilon0(terms: RoundTerms, epsilon: float, delta: float, relation: str) -> float:
    """The largest epsilon0 within the tolerance. Epsilon grows with it, in jumps where amplification ends."""
    round_event(terms.with_noise(epsilon0=1.0), relation)
    epochs, messages = epochs_of(terms, terms.rounds), honest_messages(terms)
    bare = replace(terms, scales=None)

    def excess(log_inverse: float) -> float:
        """At least that of ``epsilon_of``, at half its time; above 0 where epsilon0 is too large."""
        epsilon0 = 1 / math.exp(log_inverse)
        if epochs == 1:
            reached = shuffle_epsilon(epsilon0, messages, delta)
        else:
            accountant = make_accountant("pld", relation)
            accountant.compose(round_event(bare.with_noise(epsilon0=epsilon0), relation), epochs)
            reached = min(accountant.epsilon(delta), epochs * epsilon0)
        return math.log(max(reached, MIN_EPSILON) / epsilon)

    # So little adds up to epsilon without any amplification; amplification ends near the second.
    enough = epsilon / epochs * (1 - 1e-9)
    many = max(2 * enough, math.log(messages / (16 * math.log(4 / delta)) + 1))
    found = least_enough(excess, 1 / many, 1e12, EPSILON0_TOLERANCE)
    return enough if found is None else max(enough, 1 / found)


def noise_of(terms: RoundTerms) -> float:
    name = "epsilon0" if terms.aggregation == SHUFFLE else "noise_multiplier"
    value = getattr(terms, name)
    if value is None:
        raise InvalidTerms(refusal(name, None, "given before a client sends anything, or calibrated for a target"))
    return value
