"""The thesis' own rule, ``noise: source_rule``, for one job: its settings and its line in the ledger. No FATE in here."""
from fate_dp.privacy.events import Event

from .relevance.source_rule import SourceRule
from .rounds.account import OBSERVERS
from .rounds.terms import RoundTerms
from .settings import TrainSettings


def rule_of(settings: TrainSettings, terms: RoundTerms) -> SourceRule:
    """The rule with the expected batch of one party; ``epsilon`` is what the source claims."""
    own_batch = max(1, int(terms.batch_size / terms.clients))
    return SourceRule(settings.epsilon, settings.adaptive["f"], settings.adaptive["p"], own_batch)


def source_rule_event(settings: TrainSettings, terms: RoundTerms) -> Event:
    """What a training is in the ledger: ``NotPrivate``, once, however many rounds it has."""
    return rule_of(settings, terms).event(OBSERVERS, relation=settings.stated_relation)
