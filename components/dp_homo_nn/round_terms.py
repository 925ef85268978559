"""Learning rate and clip where a job names neither: from public numbers, after the noise is calibrated. No FATE in here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import Event
from fate_dp.privacy.mechanisms.local_numbers import duchi_norm

from ..common.federation import Document
from ..common.preflight import Refusal
from ..common.vocabulary import UNIFORM
from ..protocols.noisy_rounds import account
from ..protocols.noisy_rounds.account import OBSERVERS
from ..protocols.noisy_rounds.party_tables import ROUNDING, Guarantee
from ..protocols.noisy_rounds.terms import RECORD, SECURE_SUM, SHUFFLE, RoundTerms
from .adaptive import ContributionStep, calibrated_beside
from .settings import OPTIMIZER_KEYS, TrainSettings

MOMENTUM = 0.9
BY_PARTY = "epsilon by party"
# Beyond a clip of the largest norm there is nothing to clip; far below it all gradients have the same length.
MAX_SHARE, MIN_SHARE = 1.0, 0.1
# Noise of the mean of all rounds, over the clip, times the number of directions; with more, the clip is lower.
BEARABLE_NOISE = 1 / 30
PLAIN_CLIP = 1.0


def noise_of_mean(terms: RoundTerms) -> float:
    """Standard deviation of one coordinate of a round's noisy mean, over the clip, with all clients present."""
    if terms.aggregation == SHUFFLE:
        # An answer has this norm in a random direction.
        return duchi_norm(terms.dimension, 1.0, account.noise_of(terms)) / math.sqrt(terms.dimension * terms.batch_size)
    if terms.own_noise is not None:
        own = [terms.message_weight(place) * noise for place, noise in enumerate(terms.own_noise)]
        return math.hypot(*own) / terms.expected_units
    missing = terms.max_dropouts if terms.aggregation == SECURE_SUM else terms.clients - 1
    return account.noise_of(terms) * math.sqrt(terms.clients / (terms.clients - missing)) / terms.expected_units


def settled(settings: TrainSettings, terms: RoundTerms) -> tuple[TrainSettings, RoundTerms]:
    """Settings and terms with optimiser and clip, the job's own where it names them; the same at every party.

    For logistic regression on standardised features, without a schedule or scales of its own, trained by records:

    - clip = c sqrt(m + 1) for m features: gradients of the loss of a record are at most as long as the record, whose
      squared norm is m + 1 on average, so that with c = 1 little is clipped and the weights go where they go without.
      Noise is in units of the clip. That of the mean over all T rounds, s / sqrt(T) for rounds of noise s, must stay small in
      all m + 1 directions together: c = sqrt(T) / (30 (m + 1) s), between 0.1 and 1. The less c, the more say have records
      that the model gets nearly right, and the more the weights are drawn away from where they go without a clip.
    - learning rate = 1 / L with L = (m + 1) / 4: the loss of m features of mean square 1 curves by L at most, so that gradient
      descent at this rate does not overshoot, with Nesterov's momentum of 0.9. With more than two classes it curves by 2 L
      where all columns are one and two classes are left, by less where more are in doubt, as at the start.
    - 50 rounds with all records (`settings.ROUNDS`).

    Chosen on Adult, Lending Club's loans and breast cancer, of 450 to 24,000 records, at epsilon 0.5 to 8; not on the
    figures that README reports. What a clip does to the weights has no guarantee, and costs none: the noise is in units
    of the clip. A job that names a clip gets this learning rate; one that names an optimiser, and all other models, a
    clip of 1, and plain gradient descent at 0.1 where they name none.
    """
    if settings.clip is not None and settings.optimizer is not None:
        return settings, terms
    linear = settings.model["name"] == "logistic_regression" and terms.unit == RECORD and terms.aggregation != SHUFFLE
    if not linear or settings.noise_spread != UNIFORM or terms.local_steps > 1:
        clip = PLAIN_CLIP if settings.clip is None else settings.clip
        return replace(settings, optimizer=settings.optimizer or dict(OPTIMIZER_KEYS), clip=clip), terms
    if settings.optimizer is not None:
        return replace(settings, clip=PLAIN_CLIP), terms
    outputs = settings.classes if settings.classes > 2 else 1
    inputs = terms.dimension // outputs
    chosen = {"lr": 4 / inputs, "momentum": MOMENTUM, "nesterov": True}
    settings = replace(settings, optimizer={**OPTIMIZER_KEYS, "optimizer_params": chosen})
    if settings.clip is not None:
        return settings, terms
    clip = _clip(terms, inputs, settings.step_factor)
    return replace(settings, clip=clip), replace(terms, clips=(clip,))


def _clip(terms: RoundTerms, inputs: int, step_factor: float) -> float:
    noise = noise_of_mean(terms) * step_factor / math.sqrt(terms.rounds)
    share = min(MAX_SHARE, max(MIN_SHARE, BEARABLE_NOISE / (noise * inputs)))
    # Of few digits: parties compute it on different machines, and people read it.
    return float(f"{share * math.sqrt(inputs):.3g}")


SAME: tuple[str, ...] = ("aggregation", "rounds", "batch_size", "records", "delta", "noise_multiplier", "epsilon0")
SAME += ("max_dropouts", "local_steps", "local_learning_rate", "local_batch_size", "upload_fraction")
"""Parameters of the job that are fields of the terms as they are."""


def round_terms(
    settings: TrainSettings, clients: Sequence[str], dimension: int, client_records: Sequence[int] | None = None
) -> RoundTerms:
    """Terms without noise, or with that of the settings; a clip that the settings leave open is 1 (`settled`).

    ``clients`` are the party ids of the data parties, in their order, ``client_records`` of each of them, for shuffle.
    """
    clip, quantile = PLAIN_CLIP if settings.clip is None else settings.clip, None
    if isinstance(clip, Mapping):
        clip, quantile = clip["start"], clip["quantile"]
    clips = clip if isinstance(clip, tuple) else (clip,)
    return RoundTerms(
        own_clips=own_clips(settings, clients),
        clients=len(clients),
        clips=clips,
        clip_quantile=quantile,
        dimension=dimension,
        client_records=None if client_records is None else tuple(client_records),
        client_weights=_weights(settings, clients),
        unit=settings.privacy,
        **{name: getattr(settings, name) for name in SAME},
    )


def calibrated(
    settings: TrainSettings, terms: RoundTerms, step: ContributionStep | None = None, clients: Sequence[str] = ()
) -> RoundTerms:
    """The terms with the noise that ``epsilon`` needs, or that was asked for; UnreachableTarget says what is in reach.

    ``clients`` are needed where parties have targets of their own.
    """
    if settings.party_epsilons is not None:
        return account.personal_terms(terms, targets_of(settings, clients), settings.delta, settings.stated_relation)
    if settings.epsilon is None:
        return terms
    if step is not None:
        return calibrated_beside(settings, terms, step)
    return account.calibrate_terms(terms, settings.epsilon, settings.delta, settings.stated_relation)


def targets_of(settings: TrainSettings, clients: Sequence[str]) -> list[float]:
    """Epsilon of each data party: its own, or the job's."""
    own, others = settings.party_epsilons or {}, settings.epsilon
    _check_parties("party_epsilons", own, clients)
    assert others is not None
    return [own.get(client, others) for client in clients]


def own_clips(settings: TrainSettings, clients: Sequence[str]) -> tuple[float | None, ...] | None:
    """Clip of each data party that has one of its own, None for the others; None where nobody has."""
    if settings.party_clips is None:
        return None
    _check_parties("party_clips", settings.party_clips, clients)
    return tuple(settings.party_clips.get(client) for client in clients)


def own_epsilons(
    settings: TrainSettings, terms: RoundTerms, clients: Sequence[str]
) -> dict[str, dict[str, float]] | None:
    """{party id: {relation: epsilon of its own rounds}}; None where all parties have the same."""
    if settings.party_epsilons is None:
        return None
    found: dict[RoundTerms, dict[str, float]] = {}
    for position in range(len(clients)):
        own = terms.at(position)
        if own not in found:
            found[own] = {str(name): epsilon for name, epsilon in guarantee_of(settings, own).epsilons.items()}
    return {client: found[terms.at(position)] for position, client in enumerate(clients)}


def loudest(settings: TrainSettings, terms: RoundTerms, clients: Sequence[str]) -> RoundTerms:
    """The terms that cost their party the most, which are those that all are told of; the terms where all have the same."""
    if not terms.personal:
        return terms
    if settings.party_epsilons is None:
        # Clips of their own leave the account alone.
        return terms.at(0)
    targets = targets_of(settings, clients)
    return terms.at(targets.index(max(targets)))


def guarantee_of(settings: TrainSettings, terms: RoundTerms, step: ContributionStep | None = None) -> Guarantee:
    """What all planned rounds promise; any party can compute it anew. Of a party with terms of its own these are given."""
    collusion = None
    if terms.aggregation == SHUFFLE:
        collusion = sum(account.noise_of(terms) * count for _, count in account.collusion_events(terms))
    epsilons = {}
    for relation in account.relations_of(terms):
        released = [] if step is None else [(step.event_under(relation), 1)]
        epsilons[relation] = total_epsilon([*released, *account.events_of(terms, relation)], settings.delta)
    return Guarantee(terms.unit, settings.stated_relation, settings.delta, epsilons, collusion, OBSERVERS)


def promise_of(
    settings: TrainSettings, terms: RoundTerms, step: ContributionStep | None, clients: Sequence[str]
) -> Document:
    """What everybody is told: the guarantee, and where parties have terms of their own the largest, and each party's beside it."""
    promise = guarantee_of(settings, loudest(settings, terms, clients), step).to_json()
    own = own_epsilons(settings, terms, clients)
    return promise if own is None else {**promise, BY_PARTY: own}


def check_promise(settings: TrainSettings, terms: RoundTerms, guarantee: Guarantee, party: str) -> None:
    """At each data party: refuse noise of the guest that does not keep what was asked for."""
    asked = (settings.party_epsilons or {}).get(party, settings.epsilon)
    reached = guarantee.epsilons[settings.stated_relation]
    if asked is not None and reached > asked * ROUNDING:
        raise Refusal(f"The guest's noise costs epsilon {reached:g}, while the job asks for {asked:g}.")
    for name in ("noise_multiplier", "epsilon0"):
        wanted = getattr(settings, name)
        if wanted is not None and getattr(terms, name) != wanted:
            raise Refusal(f"The guest asks for {name} {getattr(terms, name)!r}, while the job says {wanted!r}.")


def charged_events(
    settings: TrainSettings,
    terms: RoundTerms,
    rounds: Sequence[int] | None = None,
    step: ContributionStep | None = None,
) -> list[tuple[Event, int]]:
    """(event, count) that the ledger holds after these rounds (None: all that are planned), and ``step`` if given."""
    return [*([] if step is None else [(step.event, 1)]), *account.events_of(terms, settings.stated_relation, rounds)]


def _check_parties(name: str, given: Mapping[str, float], clients: Sequence[str]) -> None:
    unknown = sorted(set(given) - set(clients))
    if unknown:
        raise Refusal(f"{name} names party {unknown[0]}; the parties with data are {', '.join(sorted(clients))}.")


def _weights(settings: TrainSettings, clients: Sequence[str]) -> tuple[float, ...] | None:
    if settings.client_weights is None:
        return None
    if set(settings.client_weights) != set(clients):
        named, wanted = sorted(settings.client_weights), f"all that hold data, {', '.join(sorted(clients))}"
        raise Refusal.of("parties of client_weights", named, wanted)
    return tuple(settings.client_weights[client] for client in clients)


class ChargedRounds:
    """Every round adds to the account; in shuffle the first one only in an epoch that this party really sends in."""

    def __init__(self, settings: TrainSettings, terms: RoundTerms) -> None:
        self._settings, self._terms = settings, terms
        self._rounds: list[int] = []

    def added_by(self, number: int) -> list[tuple[Event, int]]:
        """(event, count) to be charged before this party sends in a round, beside what was charged before."""
        before = dict(charged_events(self._settings, self._terms, self._rounds))
        after = charged_events(self._settings, self._terms, [*self._rounds, number])
        return [(event, count - before.get(event, 0)) for event, count in after if count > before.get(event, 0)]

    def add(self, number: int) -> None:
        """Note that what a round adds was recorded."""
        self._rounds.append(number)
