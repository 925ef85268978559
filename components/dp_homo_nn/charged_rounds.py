"""Which rounds a party has been charged for, and what one more adds."""
from typing import List, Tuple

from fate_dp.privacy.events import Event

from .round_terms import charged_events
from .rounds.terms import RoundTerms
from .settings import TrainSettings


class ChargedRounds:
    """In secure_sum and local every round adds to the account; in shuffle the first one in an epoch that this party
    really sends in, wherever in the epoch that is.
    """

    def __init__(self, settings: TrainSettings, terms: RoundTerms):
        self._settings, self._terms, self._rounds = settings, terms, []

    def added_by(self, number: int) -> List[Tuple[Event, int]]:
        """(event, count) to be charged before this party sends in a round, beside what was charged before."""
        before = dict(charged_events(self._settings, self._terms, self._rounds))
        after = charged_events(self._settings, self._terms, [*self._rounds, number])
        return [(event, count - before.get(event, 0)) for event, count in after if count > before.get(event, 0)]

    def add(self, number: int) -> None:
        """Note that what a round adds was recorded."""
        self._rounds.append(number)
