"""Where align hid the number of matches, what share_lr opens tells it: a party's ledger says so.

The guest sees every loss, and whoever `reveal` names the weights. All of them are exact, so that a few tell how many
of the rows stand for records. Unit: record; relation: replace-one; epsilon infinity. The line stands under a name of its
own, outside the cap: share_lr promises no record anything, and align's own messages keep their epsilon.
"""
import secrets
from dataclasses import dataclass
from typing import Optional

from fate_dp.components.common.dataset_names import columns_name
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.record_stream import ids_fingerprint
from fate_dp.privacy.events import REPLACE_ONE, Event, NotPrivate

from .rows import SharedRows
from .settings import SEES

PURPOSE = "share_lr: number of matches"
REASON = "exact losses or weights tell the number of matches that align hid"


@dataclass
class OpenedSize:
    """The line of one training; none where no size was hidden, or the other party is shown nothing."""

    ctx: object
    rows: SharedRows
    reveal: str
    release: Optional[int] = None

    def record(self) -> None:
        """Before anything is opened."""
        other = "host" if self.ctx.is_on_guest else "guest"
        if self.rows.alignment.hide_size is None or (other == "host" and other not in SEES[self.reveal]):
            return
        home, job = home_of(self.ctx), job_of(self.ctx)
        self.release = home.ledger.record(
            dataset=f"opened {columns_name(list(self.rows.alignment.own))}", cap=None, purpose=PURPOSE,
            event=Event(NotPrivate(REASON), "record", REPLACE_ONE, other), count=1,
            release_key=f"{job.task_id} {secrets.token_hex(16)}", fingerprint=ids_fingerprint(self.rows.frame),
            job_id=job.job_id, task_id=job.task_id,
        ).release_id  # fmt: skip

    def mark_released(self) -> None:
        if self.release is not None:
            home_of(self.ctx).ledger.mark_released(self.release)
