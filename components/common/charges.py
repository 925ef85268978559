"""What private steps on a table cost in the party's own ledger, against the caps that its operator set.

A step is charged before what it describes leaves the party. A task with many steps asks for all of them first, so that
it is refused before any work, and the ledger holds those that ran, no fewer at any moment, and no more at the end.
"""
import secrets
from functools import cached_property
from typing import List, Tuple

from fate_dp.privacy import BudgetExceeded
from fate_dp.privacy.events import Event
from fate_dp.privacy.over_sampled import event_after_over_sampling

from .dataset_names import Dataset, columns_name, remembered_dataset
from .over_sampled import has_synthetic_rows
from .party_home import home_of, job_of
from .preflight import PrivateReason
from .record_stream import ids_fingerprint

Charged = List[Tuple[Event, int]]
CHANGED_BY_OPERATOR = "Its operator sees what is spent, and changes the cap, with `fate-dp cap`."


class Charges:
    """Charges of one task, as (event, count) pairs.

    :param frame: the table that the steps read.
    :param refusal: the sentence for the other parties where the cap does not allow the task.
    :param public_copy: the operator declared the table's data public: lines stand under a name of their own, outside
        the cap.
    """

    def __init__(self, ctx, frame, refusal: str, *, public_copy: bool = False):
        self._home, self._job, self._frame = home_of(ctx), job_of(ctx), frame
        self._refusal, self._public_copy = refusal, public_copy
        self._pending: List[int] = []
        if public_copy:
            # No budget of a private table may pay for what was told of a public one.
            name = f"public {columns_name(frame.schema.columns.to_list())}"
            self._dataset = Dataset(name, (name,))
        else:
            self._dataset = remembered_dataset(self._home, frame)
        self.dataset = self._dataset.name

    def check(self, events: Charged) -> None:
        """Refuse what does not fit under the cap in all, and write nothing.

        :raises PrivateReason: the others learn no more than the refusal.
        """
        if self._public_copy:
            return
        try:
            self._home.ledger.check_steps(dataset=self.dataset, events=self._claimed(events), cap=self._cap)
        except BudgetExceeded as error:
            raise PrivateReason(str(error), public=f"{self._refusal} {CHANGED_BY_OPERATOR}") from error

    def record(self, events: Charged, purpose: str) -> None:
        """Charge before what is described leaves; noise is never drawn twice alike, so every call is a release anew.

        :raises BudgetExceeded: another job took what was left of the cap since ``check``.
        """
        for event, count in self._claimed(events):
            release = self._home.ledger.record(
                dataset=self.dataset, event=event, count=count, cap=self._cap, purpose=purpose,
                release_key=f"{self._job.task_id} {secrets.token_hex(16)}", fingerprint=self._fingerprint,
                job_id=self._job.job_id, task_id=self._job.task_id,
            )  # fmt: skip
            self._pending.append(release.release_id)

    def mark_released(self) -> None:
        """Note that all that was charged so far has left."""
        while self._pending:
            self._home.ledger.mark_released(self._pending.pop())

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
        return None if self._public_copy else self._home.policy.dataset_cap(self.dataset, self._dataset.related)
