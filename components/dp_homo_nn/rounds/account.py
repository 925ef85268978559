"""What rounds cost, as events of the privacy core, and the noise for a target.

Nothing is computed here that ``privacy.accounting`` does not prove: this module says which of its events a round is.

- ``secure_sum``: ``secure_sum_event`` of n clients, of which t are tolerated, with Poisson sampling.
- ``local``: ``PoissonSampledGaussian`` of the client's own message, once per noised step. The records of one client
  meet that client's noise only, so what other clients send costs them nothing.
- ``shuffle``: ``Shuffled`` once per epoch (``schedule``), replace-one only; and, against a shuffler that collaborates
  with the server, ``PureDP`` of one message per epoch (``collusion_events``).

A clip of another size changes the grid with it, so a clip holds 2^34 to 2^35 steps. Events are stated for 2^34, where
grid and slack weigh most: one event for all rounds, whatever their clips. Epsilons are in nats.
"""
import math
from dataclasses import replace

from fate_dp.privacy.accounting.accountant import make_accountant
from fate_dp.privacy.accounting.analytic_gaussian import gaussian_sigma
from fate_dp.privacy.accounting.calibration import LEAST_START, UnreachableTarget, calibrate
from fate_dp.privacy.accounting.privacy_parameters import check_target
from fate_dp.privacy.accounting.secure_sum import SecureSum, noise_share_sigma, secure_sum_event
from fate_dp.privacy.accounting.shuffling import shuffle_epsilon
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import REPLACE_ONE, Event, PoissonSampledGaussian, PureDP, Shuffled, clips_moved
from fate_dp.privacy.noise.discrete_gaussian import discrete_gaussian_slack
from fate_dp.privacy.noise.rounded_noise import gaussian_slack
from fate_dp.privacy.number_kinds import is_whole

from .schedule import epochs_of, honest_messages
from .terms import LARGEST_MULTIPLIER, SECURE_SUM, SHUFFLE, STEPS_OF_CLIP, InvalidTerms

OBSERVERS = ("client", "model", "server")
LEAST_STEPS_OF_CLIP = STEPS_OF_CLIP / 2
# Relative: how far below the largest epsilon0 that meets a target the one found may lie.
EPSILON0_TOLERANCE = 2e-3
LEAST_EPSILON = 1e-300


def secure_sum_of(terms):
    """The ``SecureSum`` of the terms, whose grid is the coarsest that a clip can have."""
    multiplier = _noise_of(terms)
    share = noise_share_sigma(multiplier, LEAST_STEPS_OF_CLIP, terms.clients, terms.tolerated)
    return SecureSum(multiplier, terms.clients, terms.tolerated, terms.vector_length, share, terms.colluding)


def round_event(terms, relation, observers=OBSERVERS):
    """What one release of a round costs one unit, against ``observers``.

    In ``local`` with several local steps a round has ``terms.noised_steps`` of them; in ``shuffle`` a record takes part
    in one round per epoch only: ``events_of`` counts both.

    :raises InvalidTerms, InvalidEvent: one sentence; for ``shuffle`` under add-or-remove, too.
    """
    if terms.trust == SHUFFLE:
        return Event(Shuffled(_noise_of(terms), honest_messages(terms)), terms.unit, relation, observers)
    if terms.trust == SECURE_SUM:
        event = secure_sum_event(secure_sum_of(terms), terms.unit, relation, terms.sampling_probability, observers)
        sampler = terms.clients * terms.vector_length * discrete_gaussian_slack(LEAST_STEPS_OF_CLIP)
        return replace(event, slack=min(1.0, event.slack + sampler))
    process = PoissonSampledGaussian(terms.sampling_probability, _noise_of(terms))
    slack = gaussian_slack(process.noise_multiplier * LEAST_STEPS_OF_CLIP, terms.vector_length)
    return Event(process, terms.unit, relation, observers, slack)


def events_of(terms, relation, rounds=None, observers=OBSERVERS):
    """What rounds cost one unit: a list of (event, count) pairs.

    :param rounds: None for all that are planned; a number, for the first ones; or the numbers (from 0) of those that
        ran (``Server.rounds_run``). Where rounds were aborted, ``shuffle`` must be told which ones ran: a record may
        have sent in every epoch that one of them lies in.
    """
    rounds = terms.rounds if rounds is None else rounds
    number = rounds if is_whole(rounds) else len(rounds)
    count = epochs_of(terms, rounds) if terms.trust == SHUFFLE else number * terms.noised_steps
    return [(round_event(terms, relation, observers), count)] if count else []


def collusion_events(terms, rounds=None):
    """What ``shuffle`` costs one record against the shuffler together with the server: its messages, not amplified.

    :param rounds: as in ``events_of``.
    """
    count = epochs_of(terms, terms.rounds if rounds is None else rounds)
    return [(Event(PureDP(_noise_of(terms)), terms.unit, REPLACE_ONE, ("server", "shuffler")), count)] if count else []


def epsilon_of(terms, delta, relation, rounds=None):
    """Epsilon (nats) of rounds at ``delta``; infinite where none is known. ``rounds`` as in ``events_of``."""
    return total_epsilon(events_of(terms, relation, rounds), delta)


def relations_of(terms):
    """The relations under which the terms have an account."""
    return (REPLACE_ONE,) if terms.trust == SHUFFLE else ("add_or_remove", REPLACE_ONE)


def calibrate_terms(terms, epsilon, delta, relation):
    """The same terms, at ``delta``, with the least noise whose account for all rounds is at most ``epsilon`` (nats).

    ``epsilon_of`` of the result never exceeds the target. The noise multiplier is at most 2e-5 above, an epsilon0 at
    most 2e-3 below, the best that the account accepts.

    :raises UnreachableTarget: saying what would be in reach.
    """
    epsilon, delta = check_target(epsilon, delta)
    terms = replace(terms, delta=delta)
    if terms.trust == SHUFFLE:
        return terms.with_noise(epsilon0=_calibrated_epsilon0(terms, epsilon, delta, relation))
    return terms.with_noise(noise_multiplier=_calibrated_multiplier(terms, epsilon, delta, relation))


def _calibrated_multiplier(terms, epsilon, delta, relation):
    count = terms.rounds * terms.noised_steps
    unsampled = gaussian_sigma(epsilon, delta, clips_moved(relation) * math.sqrt(count))
    start = min(max(unsampled * terms.sampling_probability, min(unsampled, LEAST_START)), LARGEST_MULTIPLIER / 2)
    # Scales enter no event, and checking millions of them at every step of a search takes its time.
    bare = replace(terms, scales=None)

    def event_of(multiplier):
        return round_event(bare.with_noise(noise_multiplier=multiplier), relation)

    try:
        return calibrate(event_of, epsilon, delta, count, "pld", start, LARGEST_MULTIPLIER)
    except UnreachableTarget as error:
        raise UnreachableTarget(_what_is_in_reach(event_of(LARGEST_MULTIPLIER), count, epsilon, delta)) from error


def _what_is_in_reach(event, count, epsilon, delta):
    accountant = make_accountant("pld", event.relation)
    accountant.compose(event, count)
    least = accountant.epsilon(delta)
    reachable = (
        f"epsilon {least:.3g} at this delta"
        if math.isfinite(least)
        else f"delta {accountant.delta(epsilon):.3g} at this epsilon"
    )
    return (
        f"epsilon {epsilon:g} at delta {delta:g} is out of reach over {count} releases: with the most noise there is, "
        f"{event.process.noise_multiplier:g} times the clip, {reachable} would be met. Ask for that, or for fewer "
        "rounds."
    )


def _calibrated_epsilon0(terms, epsilon, delta, relation):
    """The largest epsilon0 within the tolerance, by interpolation that never gives up more than half of the interval.

    Epsilon grows with epsilon0, in jumps where amplification ends. What is returned was shown to be enough.
    """
    round_event(terms.with_noise(epsilon0=1.0), relation)
    epochs, messages = epochs_of(terms, terms.rounds), honest_messages(terms)
    bare = replace(terms, scales=None)

    def excess(log_epsilon0):
        """At least that of ``epsilon_of``, at half its time; above 0 where epsilon0 is too large."""
        epsilon0 = math.exp(log_epsilon0)
        if epochs == 1:
            reached = shuffle_epsilon(epsilon0, messages, delta)
        else:
            accountant = make_accountant("pld", relation)
            accountant.compose(round_event(bare.with_noise(epsilon0=epsilon0), relation), epochs)
            reached = min(accountant.epsilon(delta), epochs * epsilon0)
        return math.log(max(reached, LEAST_EPSILON) / epsilon)

    # So little adds up to epsilon without any amplification; amplification ends near the second.
    enough, below = math.log(epsilon / epochs * (1 - 1e-9)), -math.log(epochs + 1)
    many = max(enough + math.log(2), math.log(max(math.log(messages / (16 * math.log(4 / delta)) + 1), 1e-9)))
    while (above := excess(many)) <= 0:
        enough, below, many = many, above, many + math.log(2)
    bisecting = False
    while many - enough > EPSILON0_TOLERANCE:
        width = many - enough
        share = 0.5 if bisecting else min(max(-below / (above - below), 0.02), 0.98)
        place = enough + width * share
        value = excess(place)
        if value > 0:
            many, above = place, value
        else:
            enough, below = place, value
        bisecting = not bisecting and many - enough > width / 2
    return math.exp(enough)


def _noise_of(terms):
    name = "epsilon0" if terms.trust == SHUFFLE else "noise_multiplier"
    value = getattr(terms, name)
    if value is None:
        raise InvalidTerms(f"{name} is None but must be given, or calibrated for a target, in trust {terms.trust}.")
    return value
