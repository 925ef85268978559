"""What a party's noise costs in its own ledger."""
import secrets
from typing import List, Tuple

from fate_dp.components.common.over_sampled import record_event
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import PrivateReason
from fate_dp.components.common.record_stream import ids_fingerprint
from fate_dp.privacy import BudgetExceeded
from fate_dp.privacy.events import Event

from ..score_release import columns_name


class Charges:
    """Charges of one training against the cap that the party's operator allows for the table's columns."""

    def __init__(self, ctx, frame):
        self._home, self._job, self._frame = home_of(ctx), job_of(ctx), frame
        columns = frame.schema.columns.to_list()
        self.dataset = columns_name(columns)
        # Tables that share a column count together: dropping one must not open a new budget.
        self._home.ledger.remember_dataset(self.dataset, columns)
        self._releases: List[int] = []

    def check(self, events: List[Event]) -> None:
        """Refuse events that do not fit under the cap, and write nothing."""
        try:
            asked = [(record_event(self._frame, event), 1) for event in events]
            self._home.ledger.check_steps(dataset=self.dataset, events=asked, cap=self._cap)
        except BudgetExceeded as error:
            raise PrivateReason(
                str(error), public="The cap that this party's operator set for private steps does not allow this noise."
            ) from error

    def record(self, events: List[Tuple[str, Event]]) -> None:
        """Charge (purpose, event) pairs; noise is never drawn twice alike, so every run is a release of its own."""
        fingerprint = ids_fingerprint(self._frame)
        for purpose, event in events:
            release = self._home.ledger.record(
                dataset=self.dataset, event=record_event(self._frame, event), cap=self._cap, purpose=purpose,
                release_key=f"{self._job.task_id} {secrets.token_hex(16)}", fingerprint=fingerprint,
                job_id=self._job.job_id, task_id=self._job.task_id,
            )  # fmt: skip
            self._releases.append(release.release_id)

    def mark_released(self) -> None:
        """Note that what was charged has been used."""
        for release_id in self._releases:
            self._home.ledger.mark_released(release_id)

    @property
    def _cap(self):
        return self._home.policy.dataset_cap(self.dataset)
