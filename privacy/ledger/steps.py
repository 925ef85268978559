"""Private steps of any mechanism, charged by their events against the cap of a dataset.

A step is written, and charged, before its output is released. Its release key names the draw: a task that repeats the
same draw after a crash records the same release, which costs once.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..events import ADD_OR_REMOVE, REPLACE_ONE, Event
from ..validation import InvalidArgument, check_delta_or_zero, whole
from .database import Chapter, Database
from .datasets import called, cap_command, is_label_account
from .entries import BudgetCap, BudgetExceeded, LedgerError, Use, add_use, over_sampling_entry, step_entry, stored_event
from .labels import ROUNDING
from .totals import EVERYBODY, Charge, Charged, TotalsView, charges, seen_by, spent_by_steps, total_of

MAX_ROUNDS = 10**9
STORED = """
    SELECT r.release_id, r.state, e.subject, e.event, s.rounds, e.purpose, r.fingerprint
    FROM private_step s JOIN release r USING (release_id) JOIN entry e USING (entry_id) WHERE s.release_key = ?"""


@dataclass(frozen=True)
class PrivateStep:
    """``count`` rounds, from 1 to 10^9, of ``event`` on one dataset; see ``StepLedger.record_together``.

    ``dataset`` is a name that ``remember_dataset`` gave, or an account of labels for the unit label. ``release_key`` names the
    draw: the same key with all else the same is the same release and costs nothing more, so a caller must repeat the draw
    bit by bit or use another key. Noise from the operating system's entropy cannot be repeated: a task that starts again
    needs a new key, and is charged again, unless it kept the noisy output of the first time. Steps of one event and
    ``purpose`` are one line of the ledger.
    """

    dataset: str
    event: Event
    release_key: str
    fingerprint: str
    purpose: str = ""
    count: int = 1

    def __post_init__(self) -> None:
        for name in ("dataset", "release_key", "fingerprint", "purpose"):
            value, may_be_empty = getattr(self, name), name in ("fingerprint", "purpose")
            if not isinstance(value, str) or not (may_be_empty or value.strip()):
                raise InvalidArgument.of(name, value, "text" if may_be_empty else "non-empty text")
        if self.dataset != self.dataset.strip():
            raise InvalidArgument.of("dataset", self.dataset, "text without white space around it")
        if not isinstance(self.event, Event):
            raise InvalidArgument.of("event", self.event, "an Event")
        if (self.event.unit == "label") != is_label_account(self.dataset):
            allowed = (
                f"an account of labels, such as namespace/name/column, for the unit label alone, here {self.event.unit}"
            )
            raise InvalidArgument.of("dataset", self.dataset, allowed)
        object.__setattr__(self, "count", whole("count", self.count, 1, MAX_ROUNDS))


@dataclass(frozen=True)
class StepRelease:
    """What was written of a step; ``is_new`` is False when the release had been recorded before.

    ``is_released`` tells then whether its output was marked as written. If it was, keep that output. If not, nobody
    knows whether somebody saw it: only the very same output may follow under this key, another draw needs another key.
    """

    release_id: int
    is_new: bool
    is_released: bool


class FittingCharges:
    """What was composed in this process and fits under a cap, so that a task with many rounds composes it once.

    Composition is monotone: whoever sees some of several releases learns no more than who sees all of them. So a bound
    of charges holds for every part of them, in any order. No write to a ledger can make that untrue.
    """

    def __init__(self) -> None:
        self._found: defaultdict[BudgetCap, tuple[dict[Event, int], ...]] = defaultdict(tuple)

    def cover(self, seen: Charged, cap: BudgetCap) -> bool:
        """Whether ``seen`` is part of charges that fit under ``cap``."""
        return any(_is_part(dict(seen), other) for other in self._found[cap])

    def add(self, seen: Charged, cap: BudgetCap) -> None:
        """Remember charges that fit under ``cap``, and forget what is part of them."""
        kept = tuple(other for other in self._found[cap] if not _is_part(other, dict(seen)))
        self._found[cap] = (*kept, dict(seen))


def _is_part(charged: dict[Event, int], of: dict[Event, int]) -> bool:
    return all(of.get(event, 0) >= count for event, count in charged.items())


class StepLedger(Chapter):
    """What private steps cost, and whether they still fit under the cap of their dataset."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._fitting = FittingCharges()

    def record(self, *, cap: BudgetCap | None, job_id: str, task_id: str, **of_step: Any) -> StepRelease:
        """`record_together` of one step, whose fields are ``of_step``."""
        return self.record_together([(PrivateStep(**of_step), cap)], job_id, task_id)[0]

    def record_together(
        self, steps: Sequence[tuple[PrivateStep, BudgetCap | None]], job_id: str, task_id: str
    ) -> list[StepRelease]:
        """Record private steps, each with the cap of its dataset, before their output is released: all of them, or none.

        They are charged from then on. The total of the family's events of the same unit under replace-one, whoever saw them,
        composed with these may not exceed ``cap.epsilon`` at ``cap.delta``; see ``totals``. A cap is None for public data,
        outside any cap; an event without guarantee fits under none. Releases stay 'pending' until ``mark_released``.

        Composing may take seconds, in which other jobs must not wait for the write lock. So the caps are checked without
        it; the steps are written only if, under the lock, the charges are still part of those that were found to fit,
        else they are checked anew. Two jobs at once can thus not both take what is left of a cap.

        Raises:
            BudgetExceeded: Beyond a cap; nothing is written, as with whatever the accountant refuses.
            LedgerError: A release key names another release.
            InvalidArgument: An argument is malformed.
        """
        for _, cap in steps:
            if not isinstance(cap, (BudgetCap, type(None))):
                raise InvalidArgument.of("cap", cap, "a BudgetCap, or None for public data")
        while True:
            with self._database.writing() as connection:
                found = [_find(connection, step) for step, _ in steps]
                new = [each for each, known in zip(steps, found) if known is None]
                claims = [
                    (dataset, charges(connection, dataset), _asked(new, is_label_account(dataset)), cap)
                    for dataset, cap in dict.fromkeys((step.dataset, cap) for step, cap in new)
                    if cap is not None
                ]
                open_claims = [claim for claim in claims if not self._fits(*claim)]
                if not open_claims:
                    return [
                        known or _write(connection, step, job_id, task_id) for (step, _), known in zip(steps, found)
                    ]
            for claim in open_claims:
                self._refuse_beyond_cap(*claim)

    def check_steps(self, *, dataset: str, events: Iterable[Charge], cap: BudgetCap) -> None:
        """Refuse ``events`` that, recorded one after the other, would exceed ``cap`` for their unit.

        Nothing is written, so a task can ask before any work; another job may still come first before ``record``. As
        long as none does, recording some of ``events`` through this object composes nothing again.

        Raises:
            BudgetExceeded: They do not fit.
        """
        with self._database.reading() as connection:
            charged = charges(connection, dataset)
        self._refuse_beyond_cap(dataset, charged, tuple(events), cap)

    def spent_by_steps(self, dataset: str, delta: float) -> float:
        """What counts against the cap of a dataset at ``delta``, in nats: the total of all observers together."""
        delta = check_delta_or_zero(delta)
        with self._database.reading() as connection:
            charged = charges(connection, dataset)
        return spent_by_steps(charged, delta)

    def record_over_sampling(
        self, *, dataset: str, method: str, rows: int, synthetic_rows: int, job_id: str, task_id: str
    ) -> None:
        """Note that a table was over-sampled: epsilon infinity for the unit record from here on.

        Nothing was released, so nothing is charged until what is computed from the rows is, as ``privacy.events`` says.
        """
        whole("rows", rows, 0)
        note = f"{whole('synthetic_rows', synthetic_rows, 0)} of {rows} rows are synthetic"
        with self._database.writing() as connection:
            add_use(connection, over_sampling_entry(dataset, method), Use(job_id, task_id, rows, note=note))

    def _fits(self, _: str, charged: Charged, asked: Charged, cap: BudgetCap) -> bool:
        """Whether that is known, without composing anything."""
        return all(self._fitting.cover(seen, cap) for seen in _seen_together(charged, asked).values())

    def _refuse_beyond_cap(self, dataset: str, charged: Charged, asked: Charged, cap: BudgetCap) -> None:
        """Compose, outside any transaction, what will have been seen; what fits is remembered."""
        for view, seen in _seen_together(charged, asked).items():
            if self._fitting.cover(seen, cap):
                continue
            total = total_of(seen, cap.delta)
            if total > cap.epsilon * (1 + ROUNDING):
                spent, alone = (total_of(seen_by(each, view), cap.delta) for each in (charged, asked))
                stated = {event.relation for event, _ in asked if view.holds(event)}
                counted = (
                    "; an add-or-remove step counts for removing one and adding one" if ADD_OR_REMOVE in stated else ""
                )
                named, command = self._named(dataset)
                raise BudgetExceeded(
                    f"The {named} has spent epsilon {spent:g}, this step asks for {alone:g} (total {total:g}), and the cap "
                    f"is {cap.epsilon:g}, all at delta {cap.delta:g} (unit {view.unit}, relation {view.relation}{counted}); "
                    f"its operator changes that with `{command}`."
                )
            self._fitting.add(seen, cap)

    def _named(self, dataset: str) -> tuple[str, str]:
        """The dataset for a sentence, and the command that changes its cap."""
        with self._database.reading() as connection:
            option = "--labels EPSILON" if is_label_account(dataset) else "--epsilon EPSILON"
            return called(connection, dataset), cap_command(connection, dataset, option)


def _find(connection: sqlite3.Connection, step: PrivateStep) -> StepRelease | None:
    """The release of this key, or None; refused if it was another step."""
    row = connection.execute(STORED, (step.release_key,)).fetchone()
    if row is None:
        return None
    release_id, state, dataset, text, rounds, purpose, fingerprint = row
    stored = PrivateStep(dataset, stored_event(text), step.release_key, fingerprint, purpose, rounds)
    if stored != step:
        raise LedgerError(
            f"release_key {step.release_key!r} names another release in the ledger, of the dataset {dataset}. Give every "
            "draw a name of its own."
        )
    return StepRelease(release_id, is_new=False, is_released=state == "released")


def _write(connection: sqlite3.Connection, step: PrivateStep, job_id: str, task_id: str) -> StepRelease:
    use = Use(job_id, task_id, fingerprint=step.fingerprint, state="pending")
    _, release_id = add_use(connection, step_entry(step.dataset, step.event, step.purpose), use)
    connection.execute("INSERT INTO private_step VALUES (?, ?, ?)", (release_id, step.release_key, step.count))
    return StepRelease(release_id, is_new=True, is_released=False)


def _asked(steps: Iterable[tuple[PrivateStep, BudgetCap | None]], of_labels: bool) -> Charged:
    """Of one request, whichever dataset each step is on: these may be of one family."""
    return tuple((step.event, step.count) for step, _ in steps if (step.event.unit == "label") == of_labels)


def _seen_together(charged: Charged, asked: Charged) -> dict[TotalsView, Charged]:
    """{view: what everybody will have seen} for each unit of the steps that are asked for.

    Under replace-one every event counts, and none less than under add-or-remove.
    """
    views = {TotalsView(event.unit, REPLACE_ONE, EVERYBODY) for event, _ in asked}
    return {view: seen_by((*charged, *asked), view) for view in sorted(views)}
