"""Private steps of any mechanism, charged by their events against the cap of a dataset; functions on an open ledger.

A step is written, and charged, before its output is released. Its release key names the draw: a task that repeats the
same draw after a crash records the same release, which costs once.
"""
from dataclasses import dataclass

from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE, Event
from fate_dp.privacy.ledger.database import transaction
from fate_dp.privacy.ledger.entry import add_release, find_or_add_entry, step_entry, stored_event
from fate_dp.privacy.ledger.errors import BudgetExceeded, ReleaseKeyReused
from fate_dp.privacy.ledger.label_memo import ROUNDING
from fate_dp.privacy.ledger.table_names import called, cap_command
from fate_dp.privacy.ledger.totals import charges, largest_total, seen_by
from fate_dp.privacy.number_kinds import is_whole
from fate_dp.privacy.policy import is_source

MOST_ROUNDS = 10**9
# The option of the command that changes the cap.
EPSILON = "--epsilon EPSILON"
STORED = """
    SELECT r.release_id, r.state, e.subject, e.event, s.rounds, e.purpose, r.fingerprint
    FROM private_step s JOIN release r USING (release_id) JOIN entry e USING (entry_id) WHERE s.release_key = ?"""


class InvalidStep(ValueError):
    """A private step is not described as the ledger needs it."""


@dataclass(frozen=True)
class PrivateStep:
    """``count`` rounds of ``event`` on one dataset; see ``Ledger.record``."""

    dataset: str
    event: Event
    count: int
    release_key: str
    fingerprint: str
    purpose: str

    def __post_init__(self):
        for name in ("dataset", "release_key"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name).strip():
                raise InvalidStep(f"{name} is {getattr(self, name)!r} but must be non-empty text.")
        if self.dataset != self.dataset.strip():
            raise InvalidStep(f"dataset is {self.dataset!r} but must have no white space around it.")
        for name in ("fingerprint", "purpose"):
            if not isinstance(getattr(self, name), str):
                raise InvalidStep(f"{name} is {getattr(self, name)!r} but must be text.")
        if not isinstance(self.event, Event):
            raise InvalidStep(f"event is {self.event!r} but must be an Event.")
        if self.event.unit == "label" and not is_source(self.dataset):
            raise InvalidStep(
                f"dataset is {self.dataset!r} but must read namespace/name/column for the unit label, as flips do."
            )
        if not is_whole(self.count) or not 1 <= self.count <= MOST_ROUNDS:
            raise InvalidStep(f"count is {self.count!r} but must be a whole number from 1 to {MOST_ROUNDS}.")
        object.__setattr__(self, "count", int(self.count))


@dataclass(frozen=True)
class StepRelease:
    """What ``Ledger.record`` wrote; ``is_new`` is False when the release had been recorded before.

    ``is_released`` tells then whether its output was marked as written. If it was, keep that output. If not, nobody
    knows whether somebody saw it: only the very same output may follow under this key, another draw needs another key.
    """

    release_id: int
    is_new: bool
    is_released: bool


def record(connection, step, cap, job_id, task_id, fitting):
    """Record one release as pending, or refuse and write nothing; see ``Ledger.record``.

    Composing may take seconds, in which other jobs must not wait for the write lock. So the cap is checked without it;
    the step is written only if, under the lock, the charges are still part of those that were found to fit, else they
    are checked anew. Two jobs at once can thus not both take what is left of a cap.

    :param fitting: ``FittingCharges``, to which all that is found to fit is added.
    """
    asked = ((step.event, step.count),)
    while True:
        with transaction(connection):
            known = _find(connection, step)
            if known is not None:
                return known
            charged = charges(connection, step.dataset)
            if cap is None or all(fitting.cover(seen, cap) for seen in _seen_together(charged, asked).values()):
                return StepRelease(_add(connection, step, job_id, task_id), is_new=True, is_released=False)
        _refuse_beyond_cap(connection, charged, step.dataset, asked, cap, fitting)


def check(connection, dataset, events, cap, fitting):
    """Refuse (event, count) pairs beyond the cap; see ``Ledger.check_steps``."""
    with transaction(connection, "DEFERRED"):
        charged = charges(connection, dataset)
    _refuse_beyond_cap(connection, charged, dataset, tuple(events), cap, fitting)


def _add(connection, step, job_id, task_id):
    entry_id = find_or_add_entry(connection, step_entry(step.dataset, step.event, step.purpose))
    release_id = add_release(
        connection,
        entry_id,
        job_id=job_id,
        task_id=task_id,
        records=0,
        fingerprint=step.fingerprint,
        state="pending",
    )
    connection.execute("INSERT INTO private_step VALUES (?, ?, ?)", (release_id, step.release_key, step.count))
    return release_id


def _find(connection, step):
    """The release of this key, or None; refused if it was another step."""
    row = connection.execute(STORED, (step.release_key,)).fetchone()
    if row is None:
        return None
    release_id, state, dataset, text, rounds, purpose, fingerprint = row
    stored = PrivateStep(dataset, stored_event(text), rounds, step.release_key, fingerprint, purpose)
    if stored != step:
        raise ReleaseKeyReused(
            f"release_key is {step.release_key!r} but the ledger holds another release of that name, of the dataset "
            f"{dataset}; every draw needs a name of its own."
        )
    return StepRelease(release_id, is_new=False, is_released=state == "released")


def _seen_together(charged, asked):
    """{(unit, replace-one, observer): what it will have seen} of all who see a step that is asked for.

    Under replace-one every event counts, and none less than under add-or-remove.
    """
    together = {(*alternative, *asked) for alternative in charged}
    views = {(event.unit, REPLACE_ONE, observer) for event, _ in asked for observer in event.observers}
    return {view: seen_by(together, *view) for view in sorted(views)}


def _refuse_beyond_cap(connection, charged, dataset, asked, cap, fitting):
    for view, seen in _seen_together(charged, asked).items():
        if fitting.cover(seen, cap):
            continue
        total = largest_total(seen, cap.delta)
        if total > cap.epsilon * (1 + ROUNDING):
            unit, relation, observer = view
            stated = {event.relation for event, _ in asked if event.unit == unit and observer in event.observers}
            counted = "; an add-or-remove step counts for removing one and adding one" if ADD_OR_REMOVE in stated else ""
            spent = largest_total(seen_by(charged, *view), cap.delta)
            alone = largest_total(seen_by({asked}, *view), cap.delta)
            raise BudgetExceeded(
                f"The {called(connection, dataset)} has spent epsilon {spent:g} against the {observer}, this step asks for "
                f"{alone:g} (total {total:g}), and the cap is {cap.epsilon:g}, all at delta {cap.delta:g} (unit "
                f"{unit}, relation {relation}{counted}); its operator changes that with "
                f"`{cap_command(connection, dataset, EPSILON)}`."
            )
        fitting.add(seen, cap)
