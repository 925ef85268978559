"""What hiding the number of matches costs a party, in its own ledger.

Unit: record; relation: replace-one, with the numbers of records of both parties public: one replaced record changes the
number of matches by at most 1. The other party sees it with the dummies of both, and knows its own number of them: what
is left is the number of matches with this party's dummies, see `privacy.mechanisms.dummy_count`.
"""
from fate_dp.components.common.charges import Charges
from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.mechanisms.dummy_count import dummy_count_event

from .dummies import OTHER
from .settings import HideSize

PURPOSE = "align: number of matches"
REFUSAL = "The cap that this party's operator set for private steps does not allow this noise."


class SizeCharge:
    """The charge of one alignment; nothing where the size is not hidden."""

    def __init__(self, ctx, frame, role: str, hide_size: HideSize):
        self._charges = Charges(ctx, frame, REFUSAL)
        self._event = dummy_count_event(
            hide_size.epsilon, hide_size.pool, relation=REPLACE_ONE, observers=OTHER[role]
        )

    def check(self) -> None:
        """Refuse what the cap of this party's operator does not allow."""
        self._charges.check([(self._event, 1)])

    def record(self) -> None:
        """Before anything is sent."""
        self._charges.record([(self._event, 1)], PURPOSE)

    def mark_released(self) -> None:
        self._charges.mark_released()
