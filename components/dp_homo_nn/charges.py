"""What training costs in a party's own ledger: a line for every kind of release, and every round that ran.

All planned rounds are asked for before the first one, and each is charged, against the cap once more, before anything of
it leaves the party. So the ledger holds the rounds that ran, no fewer at any moment, and no more at the end.
"""
import secrets
from functools import cached_property
from typing import List, Tuple

from fate_dp.components.common.over_sampled import has_synthetic_rows
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import PrivateReason
from fate_dp.components.common.record_stream import ids_fingerprint
from fate_dp.components.dp_hetero_lr.score_release import columns_name
from fate_dp.privacy import BudgetExceeded
from fate_dp.privacy.events import Event
from fate_dp.privacy.over_sampled import event_after_over_sampling

Charged = List[Tuple[Event, int]]


class RoundCharges:
    """Charges of one training against the cap that the party's operator allows for the table's columns.

    :raises PrivateReason: from ``check``; the others learn that the cap does not allow the training.
    """

    def __init__(self, ctx, frame):
        self._home, self._job, self._frame = home_of(ctx), job_of(ctx), frame
        columns = frame.schema.columns.to_list()
        self.dataset = columns_name(columns)
        # Tables that share a column count together: dropping one must not open a new budget.
        self._home.ledger.remember_dataset(self.dataset, columns)

    def check(self, events: Charged) -> None:
        """Refuse what does not fit under the cap in all, and write nothing."""
        try:
            self._home.ledger.check_steps(dataset=self.dataset, events=self._claimed(events), cap=self._cap)
        except BudgetExceeded as error:
            raise PrivateReason(
                str(error), public="The cap that this party's operator set for private steps does not allow this training."
            ) from error

    def record(self, events: Charged, purpose: str) -> List[int]:
        """Charge (event, count) pairs before what they describe leaves; returns the releases to be marked then.

        Noise is never drawn twice alike, so every call is a release of its own.

        :raises BudgetExceeded: another job took what was left of the cap since ``check``.
        """
        return [
            self._home.ledger.record(
                dataset=self.dataset, event=event, count=count, cap=self._cap, purpose=purpose,
                release_key=f"{self._job.task_id} {secrets.token_hex(16)}", fingerprint=self._fingerprint,
                job_id=self._job.job_id, task_id=self._job.task_id,
            ).release_id
            for event, count in self._claimed(events)
        ]  # fmt: skip

    def mark_released(self, releases: List[int]) -> None:
        """Note that what was charged left the party."""
        for release_id in releases:
            self._home.ledger.mark_released(release_id)

    def _claimed(self, events):
        if not self._over_sampled:
            return list(events)
        return [(event_after_over_sampling(event), count) for event, count in events]

    @cached_property
    def _over_sampled(self) -> bool:
        return has_synthetic_rows(self._frame)

    @cached_property
    def _fingerprint(self) -> str:
        return ids_fingerprint(self._frame)

    @property
    def _cap(self):
        return self._home.policy.dataset_cap(self.dataset)
