"""A party's key, ledger and policy, what they call a table, and what private steps on it cost.

Nothing in a party's folder ever leaves the party.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from fate_dp.data_prep import SYNTHETIC_PREFIX
from fate_dp.privacy import BudgetCap, BudgetExceeded, Ledger
from fate_dp.privacy.events import Event, event_after_over_sampling
from fate_dp.privacy.ledger.policy import Policy, load_policy
from fate_dp.privacy.private_files import (
    KEY_FILE,
    LEDGER_FILE,
    POLICY_FILE,
    key_id,
    load_or_create_key,
    parties_folder,
    party_folder,
)

from .federation import Context
from .frames import DataFrame, ids_fingerprint, match_id_blocks, record_tag_stream
from .job_files import tables_of_this_task
from .preflight import PrivateReason
from .row_origin import refuse_mixed_rows

Charged = list[tuple[Event, int]]
CHANGED_BY_OPERATOR = "Its operator sees what is spent, and changes the cap, with `fate-dp cap`."
# In place of a source in tags of records whose labels nobody asks for; no declared source reads like it.
RECORDS = "records"


class JobReference(NamedTuple):
    """Which job and task a ledger line belongs to."""

    job_id: str
    task_id: str


class PartyHome:
    """The folder of one party, and what is opened in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def key(self) -> bytes:
        """The flip key, made on first use (mode 0600)."""
        return load_or_create_key(self.path / KEY_FILE)

    @property
    def key_id(self) -> str:
        """Public identifier of the key."""
        return key_id(self.key)

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.path / LEDGER_FILE)

    @property
    def policy(self) -> Policy:
        return load_policy(self.path / POLICY_FILE)


def home_of(ctx: Context) -> PartyHome:
    """The home of the party that runs this process."""
    return PartyHome(party_folder(parties_folder(), ctx.federation.local_party[1]))


def job_of(ctx: Context) -> JobReference:
    """FATE-Flow names the job in the environment and the task in the federation session."""
    return JobReference(os.environ.get("FATE_JOB_ID", "local"), ctx.federation.session_id)


def columns_name(columns: Iterable[str]) -> str:
    """A hash of the column names, the same for every upload and subset of a dataset.

    It must not come from a job parameter, since the party that submits the job is the one the count holds against.
    """
    return "columns:" + hashlib.sha256("\x00".join(sorted(columns)).encode()).hexdigest()[:16]


class Dataset(NamedTuple):
    """What the ledger calls a table, and the names of all datasets that share records with it, its own among them."""

    name: str
    related: tuple[str, ...]


def remembered_dataset(home: PartyHome, frame: DataFrame, key: str | None = None) -> Dataset:
    """Tell the ledger which records these columns are of, before anything is asked or charged.

    Leaving columns away, or taking some rows, must not open a new budget.

    Args:
        key: the task's data input that the table is; None where it has one only.
    """
    columns = frame.schema.columns.to_list()
    tags = record_tag_stream(frame, home.key, id_space(home.policy, frame.schema.match_id_name))
    name = home.ledger.remember_dataset(
        columns_name(columns), columns, records=tags, key_id=home.key_id, tables=tables_of_this_task(key)
    )
    return Dataset(name, tuple(home.ledger.related(name)))


def id_space(policy: Policy, id_column: str) -> str:
    """Within which equal match ids are one record: all tables, but for id columns that the operator named as others'."""
    return f"{RECORDS} of {id_column}" if id_column in policy.separate_ids else RECORDS


def has_synthetic_rows(frame: DataFrame) -> bool:
    """Whether any row of the table was made by over-sampling, here or before the upload.

    Over-sampled rows keep their mark, the prefix of their match ids, through every FATE component that keeps match ids,
    so that a step knows them without asking what ran before it. The ids stay in their blocks.
    """
    found = match_id_blocks(frame).mapValues(lambda ids: any(each.startswith(SYNTHETIC_PREFIX) for each in ids))
    # Not reduced: FATE reduces no table without blocks.
    return any(of_block for _, of_block in found.collect())


class Charges:
    """What the private steps of one task on ``frame`` cost in the party's own ledger, as (event, count) pairs.

    A step is charged before what it describes leaves the party. A task with many steps asks for all of them first, so
    that it is refused before any work; at no moment does the ledger hold fewer than ran, and at the end no more.

    Args:
        refusal: the sentence for the other parties where the cap does not allow the task.
        label_source: steps are on the labels alone, and charged to their source.
    """

    def __init__(self, ctx: Context, frame: DataFrame, refusal: str, *, label_source: str | None = None) -> None:
        self._home, self._job, self._frame = home_of(ctx), job_of(ctx), frame
        self._refusal, self._label_source = refusal, label_source
        self._pending: list[int] = []
        self._dataset = remembered_dataset(self._home, frame) if label_source is None else Dataset(label_source, ())
        self.dataset = self._dataset.name

    def check(self, events: Charged) -> None:
        """Refuse, by a ``PrivateReason`` that tells others the refusal alone, what exceeds the cap; write nothing.

        What the rows of the table do not bear is refused to all parties alike.
        """
        refuse_mixed_rows(labels_alone=self._label_source is not None)
        try:
            self._home.ledger.check_steps(dataset=self.dataset, events=self._claimed(events), cap=self._cap)
        except BudgetExceeded as error:
            raise PrivateReason(str(error), public=f"{self._refusal} {CHANGED_BY_OPERATOR}") from error

    def record(self, events: Charged, purpose: str) -> None:
        """Charge before what is described leaves; noise is never drawn twice alike, so every call is a release anew.

        Raises:
            BudgetExceeded: Another job took what was left of the cap since ``check``.
        """
        for event, count in self._claimed(events):
            release = self._home.ledger.record(
                dataset=self.dataset,
                event=event,
                count=count,
                cap=self._cap,
                purpose=purpose,
                release_key=f"{self._job.task_id} {secrets.token_hex(16)}",
                fingerprint=self._fingerprint,
                **self._job._asdict(),
            )
            self._pending.append(release.release_id)

    def mark_released(self) -> None:
        """Note that all that was charged so far has left."""
        while self._pending:
            self._home.ledger.mark_released(self._pending.pop())

    def _claimed(self, events: Charged) -> Charged:
        return [(event_after_over_sampling(event) if self._over_sampled else event, count) for event, count in events]

    @cached_property
    def _over_sampled(self) -> bool:
        return has_synthetic_rows(self._frame)

    @cached_property
    def _fingerprint(self) -> str:
        return ids_fingerprint(self._frame)

    @property
    def _cap(self) -> BudgetCap:
        policy = self._home.policy
        if self._label_source is not None:
            return BudgetCap(policy.label_cap(self._label_source), policy.label_delta)
        return policy.dataset_cap(self.dataset, self._dataset.related)
