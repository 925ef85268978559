"""From the parameters of a job to the terms of its rounds, and to what they promise. No FATE in here."""
import math
from dataclasses import dataclass
from typing import List, Mapping, Optional, Sequence, Tuple

from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import Event

from .adaptive import ContributionStep, calibrated_beside
from .rounds.account import OBSERVERS, calibrate_terms, collusion_events, events_of, relations_of
from .rounds.terms import SHUFFLE, RoundTerms
from .settings import SOURCE_RULE, TrainSettings
from .source_rule_terms import source_rule_event
from .step_sizes import PLAIN_CLIP

# Epsilons are sums of roundings here and there; a party recomputes what the guest has calibrated.
ROUNDING = 1 + 1e-9
POOLED = "epsilon if shuffler and server pool what they see"
PLD = "PLD (dp-accounting), privacy.accounting.total"


@dataclass(frozen=True)
class Guarantee:
    """What rounds promise one unit; epsilons in nats at ``delta``.

    :param epsilons: by relation, where there is an account under it.
    :param collusion: epsilon against shuffler and server who pool what they see, delta 0; None without a shuffler.
    """

    unit: str
    relation: str
    delta: float
    epsilons: Mapping[str, float]
    collusion: Optional[float]
    observers: Tuple[str, ...]
    accountant: str = PLD

    def to_json(self) -> dict:
        epsilons = {relation: "infinity" if math.isinf(value) else value for relation, value in self.epsilons.items()}
        return {"unit": self.unit, "relation": self.relation, "delta": self.delta, "epsilon": epsilons,
                POOLED: self.collusion, "observers": list(self.observers), "accountant": self.accountant}  # fmt: skip


def round_terms(
    settings: TrainSettings, clients: Sequence[str], dimension: int, client_records: Optional[Sequence[int]] = None
) -> RoundTerms:
    """Terms without noise, or with that of the settings; a clip that the settings leave open is 1 (`step_sizes.settled`).

    :param clients: party ids of the data parties, in their order.
    :param client_records: of each of them, for shuffle.
    :raises ValueError: one sentence on what does not go together, and what to use instead.
    """
    follows = isinstance(settings.clip, dict)
    clip = PLAIN_CLIP if settings.clip is None else settings.clip
    clips = (clip["start"],) if follows else clip if isinstance(clip, tuple) else (clip,)
    return RoundTerms(
        trust=settings.trust, unit=settings.unit, clients=len(clients), tolerated=settings.tolerated,
        rounds=settings.rounds, batch_size=settings.batch_size, records=settings.records, clips=clips,
        clip_quantile=settings.clip["quantile"] if follows else None, dimension=dimension, delta=settings.delta,
        noise_multiplier=settings.noise_multiplier, epsilon0=settings.epsilon0,
        client_records=None if client_records is None else tuple(client_records),
        client_weights=_weights(settings, clients), local_steps=settings.local_steps,
        local_learning_rate=settings.local_learning_rate, local_batch_size=settings.local_batch_size,
        upload_fraction=settings.upload_fraction,
    )  # fmt: skip


def calibrated(settings: TrainSettings, terms: RoundTerms, step: Optional[ContributionStep] = None) -> RoundTerms:
    """The terms with the noise that ``epsilon`` needs, or that was asked for.

    :raises UnreachableTarget: saying what would be in reach.
    """
    if settings.epsilon is None or settings.noise == SOURCE_RULE:
        return terms
    if step is not None:
        return calibrated_beside(settings, terms, step)
    return calibrate_terms(terms, settings.epsilon, settings.delta, settings.stated_relation)


def guarantee_of(settings: TrainSettings, terms: RoundTerms, step: Optional[ContributionStep] = None) -> Guarantee:
    """What all planned rounds promise; any party can compute it anew."""
    if settings.noise == SOURCE_RULE:
        nothing = dict.fromkeys(relations_of(terms), math.inf)
        reason = source_rule_event(settings, terms).process.reason
        return Guarantee(terms.unit, settings.stated_relation, settings.delta, nothing, None, OBSERVERS, reason)
    collusion = None
    if terms.trust == SHUFFLE:
        collusion = sum(event.process.epsilon * count for event, count in collusion_events(terms))
    epsilons = {}
    for relation in relations_of(terms):
        released = [] if step is None else [(step.event_under(relation), 1)]
        epsilons[relation] = total_epsilon([*released, *events_of(terms, relation)], settings.delta)
    return Guarantee(terms.unit, settings.stated_relation, settings.delta, epsilons, collusion, OBSERVERS)


def check_promise(settings: TrainSettings, terms: RoundTerms, guarantee: Guarantee) -> None:
    """At each data party: the noise that the guest calibrated keeps what was asked for.

    :raises ValueError: it does not.
    """
    asked, reached = settings.epsilon, guarantee.epsilons[settings.stated_relation]
    if asked is not None and settings.noise != SOURCE_RULE and reached > asked * ROUNDING:
        raise ValueError(f"The guest's noise costs epsilon {reached:g}, while the job asks for {asked:g}.")
    for name in ("noise_multiplier", "epsilon0"):
        wanted = getattr(settings, name)
        if wanted is not None and getattr(terms, name) != wanted:
            raise ValueError(f"The guest asks for {name} {getattr(terms, name)!r}, while the job says {wanted!r}.")


def charged_events(
    settings: TrainSettings, terms: RoundTerms, rounds: Optional[Sequence[int]] = None,
    step: Optional[ContributionStep] = None,
) -> List[Tuple[Event, int]]:  # fmt: skip
    """(event, count) that the ledger holds after these rounds (None: all that are planned), and ``step`` if given."""
    if settings.noise == SOURCE_RULE:
        return [(source_rule_event(settings, terms), 1)] if rounds is None or len(rounds) else []
    return [*([] if step is None else [(step.event, 1)]), *events_of(terms, settings.stated_relation, rounds)]


def _weights(settings, clients):
    if settings.client_weights is None:
        return None
    if set(settings.client_weights) != set(clients):
        raise ValueError(
            f"client_weights names the parties {', '.join(sorted(settings.client_weights))}; it must name all that hold "
            f"data: {', '.join(sorted(clients))}."
        )
    return tuple(settings.client_weights[client] for client in clients)
