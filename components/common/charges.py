"""A party's key, ledger and policy, what they call a table, and what private steps on it cost.

Nothing in a party's folder ever leaves the party.
"""

import hashlib
import os
import secrets
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from fate_dp.data_prep import SYNTHETIC_PREFIX
from fate_dp.privacy import BudgetCap, BudgetExceeded, Ledger
from fate_dp.privacy.events import Event, Unit, event_after_over_sampling
from fate_dp.privacy.labels.flipback import are_marked
from fate_dp.privacy.labels.flips import PartyKey
from fate_dp.privacy.ledger.datasets import LABELS, label_account
from fate_dp.privacy.ledger.ledger import party_key
from fate_dp.privacy.ledger.policy import RECORDS, Policy, load_policy
from fate_dp.privacy.ledger.steps import PrivateStep
from fate_dp.privacy.private_files import LEDGER_FILE, POLICY_FILE, key_id, parties_folder, party_folder

from .federation import Context, others
from .frames import DataFrame, ids_fingerprint, label_blocks, match_id_blocks, record_tag_stream
from .job_files import origin_of_this_task, tables_of_this_task
from .preflight import PrivateReason
from .row_origin import refuse_mixed_rows, refuse_shown_labels

Charged = list[tuple[Event, int]]
CHANGED_BY_OPERATOR = "Its operator sees what is spent, and changes the cap, with `fate-dp cap`."


class JobReference(NamedTuple):
    """Which job and task a ledger line belongs to."""

    job_id: str
    task_id: str


class PartyHome:
    """The folder of one party, and what is opened in it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def key(self) -> PartyKey:
        """The flip key, made on first use (mode 0600)."""
        return party_key(self.path)

    @property
    def key_id(self) -> str:
        return key_id(self.key)

    @cached_property
    def ledger(self) -> Ledger:
        return Ledger(self.path / LEDGER_FILE)

    @property
    def policy(self) -> Policy:
        return load_policy(self.path / POLICY_FILE)


def home_of(ctx: Context) -> PartyHome:
    return PartyHome(party_folder(parties_folder(), ctx.federation.local_party[1]))


def job_of(ctx: Context) -> JobReference:
    """FATE-Flow names the job in the environment and the task in the federation session."""
    return JobReference(os.environ.get("FATE_JOB_ID", "local"), ctx.federation.session_id)


def observers_of(ctx: Context) -> tuple[str, ...]:
    """Roles of all but this party, and whoever gets its model."""
    return tuple(sorted({party.role for party in others(ctx)} | {"model"}))


def columns_name(columns: Iterable[str]) -> str:
    """A hash of the column names, the same for every upload and subset of a dataset.

    It must not come from a job parameter, since the party that submits the job is the one the count holds against.
    """
    return "columns:" + hashlib.sha256("\x00".join(sorted(columns)).encode()).hexdigest()[:16]


class Dataset(NamedTuple):
    """What the ledger calls a table, and the names of all datasets that share records with it, its own among them."""

    name: str
    related: tuple[str, ...]


def remembered_dataset(home: PartyHome, frame: DataFrame, key: str | None = None, labels: str | None = None) -> Dataset:
    """Tell the ledger which records these columns are of, before anything is asked or charged.

    Leaving columns away, or taking some rows, must not open a new budget. ``key`` is the task's data input that the table
    is, None where it has one only; ``labels`` as ``Ledger.remember_dataset`` takes them.
    """
    columns = frame.schema.columns.to_list()
    tags = chain.from_iterable(record_tag_stream(frame, home.key, space) for space in record_spaces(home, key))
    name = home.ledger.remember_dataset(
        columns_name(columns), columns, records=tags, key_id=home.key_id, tables=tables_of_this_task(key), labels=labels
    )
    return Dataset(name, tuple(home.ledger.related(name)))


def record_spaces(home: PartyHome, key: str | None = None) -> tuple[str, ...]:
    """Within which equal match ids are one record: a name for each population that the rows may be of, for tags.

    ``key`` is the task's data input that the rows came by; None for all of its inputs.
    """
    return spaces_of(home.policy.populations_of(origin_of_this_task(key)))


def spaces_of(populations: Iterable[str]) -> tuple[str, ...]:
    """The names for tags of these populations; that of the default one is as it always was, so that ledgers stay valid."""
    return tuple(name if name == RECORDS else f"{RECORDS} of {name}" for name in sorted(populations))


def has_synthetic_rows(frame: DataFrame) -> bool:
    """Whether any row of the table was made by over-sampling, here or before the upload.

    Over-sampled rows keep their mark, the prefix of their match ids, through every FATE component that keeps match ids,
    so that a step knows them without asking what ran before it. The ids stay in their blocks.
    """
    found = match_id_blocks(frame).mapValues(lambda ids: any(each.startswith(SYNTHETIC_PREFIX) for each in ids))
    # Not reduced: FATE reduces no table without blocks.
    return any(of_block for _, of_block in found.collect())


def refuse_derived_labels(frame: DataFrame) -> None:
    """Flipback computes every label from the features of all records, at all parties: one replaced record moves others.

    Clipping and noise bound what one record contributes, which then is not what it changes. So no step may promise
    anything to a record, or to a party, where a single label is such a one.
    """
    # Not reduced: FATE reduces no table without blocks.
    found = label_blocks(frame).mapValues(lambda labels: bool(are_marked(labels).any()))
    if any(of_block for _, of_block in found.collect()):
        raise ValueError(
            "The labels went through flipback, which computed each of them from all records of an earlier training, so "
            "noise protects no record here; use the labels as label_flip released them, or train without noise."
        )


class Charges:
    """What the private steps of one task on ``frame`` cost in the party's own ledger, as (event, count) pairs.

    A step is charged before what it describes leaves the party. A task with many steps asks for all of them first, so
    that it is refused before any work; at no moment does the ledger hold fewer than ran, and at the end no more. Where the
    cap does not allow the task, the other parties get ``refusal``.

    A step on labels is charged to their declared source, ``label_source``. One that protects records, or clients, is
    charged to the table, and with ``reads_labels`` to its labels as well: whoever replaces a label replaces a part of a
    record.
    """

    def __init__(
        self,
        ctx: Context,
        frame: DataFrame,
        refusal: str,
        *,
        label_source: str | None = None,
        reads_labels: bool = True,
    ) -> None:
        self._home, self._job, self._frame = home_of(ctx), job_of(ctx), frame
        self._refusal, self._pending = refusal, list[int]()
        self._reads_labels, labels = reads_labels, None
        if frame.schema.label_name is not None and (reads_labels or label_source is not None):
            refuse_derived_labels(frame)
            labels = label_source or LABELS
        self._dataset = remembered_dataset(self._home, frame, labels=labels)
        self.dataset = self._dataset.name
        self._labels = None if labels is None else label_account(labels, self.dataset)

    def check(self, events: Charged) -> None:
        """Refuse, by a ``PrivateReason`` that tells others the refusal alone, what exceeds a cap; write nothing.

        What the rows of the table do not bear is refused to all parties alike.
        """
        refuse_mixed_rows(labels_alone=all(event.unit == Unit.LABEL for event, _ in events))
        if self._labels is not None:
            refuse_shown_labels(self._home.policy.job_check)
        claimed = self._claimed(events)
        for account in dict.fromkeys(name for name, _, _ in claimed):
            of_account = [(event, count) for name, event, count in claimed if name == account]
            try:
                self._home.ledger.check_steps(dataset=account, events=of_account, cap=self._cap(account))
            except BudgetExceeded as error:
                raise PrivateReason(str(error), public=f"{self._refusal} {CHANGED_BY_OPERATOR}") from error

    def record(self, events: Charged, purpose: str) -> None:
        """Charge before what is described leaves; noise is never drawn twice alike, so every call is a release anew.

        BudgetExceeded where another job took what was left of the cap since ``check``.
        """
        steps = []
        for account, event, count in self._claimed(events):
            key = f"{self._job.task_id} {secrets.token_hex(16)}"
            steps.append(
                (PrivateStep(account, event, key, self._fingerprint, purpose, count=count), self._cap(account))
            )
        self._pending += [each.release_id for each in self._home.ledger.record_together(steps, *self._job)]

    def mark_released(self) -> None:
        """Note that all that was charged so far has left."""
        if self._pending:
            self._home.ledger.mark_released(*self._pending)
            self._pending.clear()

    def _claimed(self, events: Charged) -> list[tuple[str, Event, int]]:
        """(account, event, count) of every line that the events are charged as."""
        found = []
        for asked, count in events:
            # Before the unit changes: what over-sampling leaves to a client, it leaves to the labels in its data.
            event = event_after_over_sampling(asked) if self._over_sampled else asked
            if event.unit != Unit.LABEL:
                found.append((self.dataset, event, count))
            if self._labels is not None and (self._reads_labels or event.unit == Unit.LABEL):
                found.append((self._labels, replace(event, unit=Unit.LABEL), count))
        return found

    @cached_property
    def _over_sampled(self) -> bool:
        return has_synthetic_rows(self._frame)

    @cached_property
    def _fingerprint(self) -> str:
        return ids_fingerprint(self._frame)

    def _cap(self, account: str) -> BudgetCap:
        policy = self._home.policy
        if account == self._labels:
            return label_cap(self._home, account)
        return policy.dataset_cap(account, self._dataset.related)


def label_cap(home: PartyHome, account: str) -> BudgetCap:
    """What labels may spend in all, of every source that counts together with this account.

    Where nobody declared a source, it is what the table may spend: steps that protect its records protect its labels.
    """
    policy, related = home.policy, home.ledger.related(account)
    if account.startswith(LABELS) and not policy.has_label_cap(related):
        table = account.removeprefix(LABELS)
        return policy.dataset_cap(table, home.ledger.related(table))
    return BudgetCap(policy.label_cap(account, related), policy.label_delta)
