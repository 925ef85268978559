"""Why a ledger refuses, its lines (entries: what is guaranteed) and each use of a line (releases)."""

import json
import math
import sqlite3
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from .. import events
from ..events import OBSERVERS, REPLACE_ONE, Event, InvalidEvent
from ..validation import check_delta_or_zero, check_epsilon


class LedgerError(ValueError):
    """Base of the ledger's refusals: one sentence that names no record and no label; nothing was written."""


class BudgetExceeded(LedgerError):
    """The release would take the total epsilon of a label source or a dataset beyond its cap."""


class CorrectedLabel(LedgerError):
    """A label was changed after its release; ``public``, what other parties are told, keeps that from them."""

    public = "The guest's ledger refuses these labels; the guest's operator can see why."


class LedgerUnavailable(LedgerError):
    """The ledger file cannot be read or written, is damaged, locked, or of a newer version than this program."""


@dataclass(frozen=True)
class BudgetCap:
    """Largest total ``epsilon`` (nats) at ``delta`` that all observers together may learn of a family, per unit.

    Raises:
        InvalidArgument: Epsilon is not finite and greater than 0, or delta not from 0 to less than 1.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta_or_zero(self.delta))

    def smaller(self, other: "BudgetCap") -> "BudgetCap":
        """What keeps both: the smaller epsilon at the smaller delta."""
        return BudgetCap(min(self.epsilon, other.epsilon), min(self.delta, other.delta))


RANDOMIZED_RESPONSE = "randomized_response"
PIECEWISE = "piecewise"
POST_PROCESSING = "post-processing"
NOT_PRIVATE = "not private"
JOINT_SCORES, LOSSES = "joint scores", "losses of trainings"
OVER_SAMPLING = "over-sampling"
RECORDERS = RECORDED_VIEW, RECORDED_CALLS = "recorded view", "recorded calls"

LABEL_DRAWS = f"('{RANDOMIZED_RESPONSE}', '{PIECEWISE}')"
"""For SQL: memoised draws of labels, of classes and of numbers."""
LABEL_OBSERVERS = ("arbiter", "host", "model")
SCORE_EVENT = Event(events.NotPrivate("joint scores show the guest X_h w_h"), "record", REPLACE_ONE, ("guest",))
COUNTED_EVENTS = {
    JOINT_SCORES: SCORE_EVENT,
    LOSSES: Event(events.NotPrivate("losses are functions of all records"), "record", REPLACE_ONE, ("guest",)),
}
"""What has no guarantee, and is counted up to a cap instead."""
COUNTED_USES = f"""
    SELECT e.mechanism, e.subject, r.fingerprint FROM release r JOIN entry e USING (entry_id)
    WHERE e.counted AND e.mechanism IN {tuple(COUNTED_EVENTS)} AND {{chosen}}"""
"""For SQL: what counts up to a cap of uses ``chosen``; the same fingerprint counts once for all datasets of a family."""


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: who is protected from whom, and by how much.

    ``event`` is the text of the event that the line's releases are charged as, empty where nothing is charged. An
    entry whose epsilon (nats) is None is a private step: its epsilon and delta are computed from the event. The
    defaults are those of a use of labels without any guarantee.
    """

    subject: str
    mechanism: str
    unit: str = "label"
    relation: str = REPLACE_ONE
    observer: str = ", ".join(LABEL_OBSERVERS)
    epsilon: float | None = math.inf
    delta: float | None = 0.0
    classes: int = 0
    class_labels: str = ""
    key_id: str = ""
    parent_id: int = 0
    purpose: str = ""
    counted: bool = True
    event: str = ""


IDENTITY = ("subject", "mechanism", "epsilon", "classes", "key_id", "parent_id", "purpose")
IDENTITY_OF_STEP = ("subject", "epsilon", "event", "purpose")


@dataclass(frozen=True)
class Use:
    """One use of an entry by a task of a job."""

    job_id: str
    task_id: str
    records: int = 0
    fingerprint: str = ""
    state: str = "released"
    note: str = ""


def flip_event(epsilon: float, classes: int) -> Event:
    """What one record's memoised flip is charged as."""
    return Event(events.RandomizedResponse(epsilon, classes), "label", REPLACE_ONE, LABEL_OBSERVERS)


def draw_entry(
    source: str,
    epsilon: float,
    classes: int,
    key_id: str,
    class_labels: Iterable[str] = (),
    bounds: tuple[float, float] | None = None,
) -> Entry:
    """The line of the flips, or the noisy numbers within ``bounds``, of a source at one epsilon (nats) under one key.

    The bounds of the numbers stand where the classes of flips do: they must stay the same, too.
    """
    mechanism, event, declared = RANDOMIZED_RESPONSE, flip_event(epsilon, classes), list[Any](class_labels)
    if bounds is not None:
        event = Event(events.PureDP(epsilon), "label", REPLACE_ONE, LABEL_OBSERVERS)
        mechanism, declared = PIECEWISE, list(bounds)
    texts = json.dumps(declared) if declared else ""
    return _charged(event, source, mechanism, epsilon=epsilon, classes=classes, class_labels=texts, key_id=key_id)


def bounds_of(mechanism: str, class_labels: str) -> tuple[float, float] | None:
    """(low, high) of an entry of noisy numbers, None for one of classes."""
    if mechanism != PIECEWISE:
        return None
    low, high = map(float, json.loads(class_labels))
    return low, high


def derived_entry(parent_id: int, parent: Entry, description: str) -> Entry:
    """The line of labels that were computed from released ones, at no further cost."""
    kept: dict[str, Any] = {"classes": parent.classes, "key_id": parent.key_id, "parent_id": parent_id}
    return Entry(parent.subject, POST_PROCESSING, epsilon=0.0, **kept, purpose=description, counted=False)


def counted_entry(mechanism: str, dataset: str, purpose: str, counted: bool = True) -> Entry:
    """The line of joint scores, of which only those of training records count, or of losses."""
    return _charged(COUNTED_EVENTS[mechanism], dataset, mechanism, purpose=purpose, counted=counted)


def over_sampling_entry(dataset: str, method: str) -> Entry:
    """Nothing is released by it, hence no event; the line says what later releases can no longer promise."""
    observer = ", ".join(sorted(OBSERVERS))
    return Entry(dataset, OVER_SAMPLING, "record", observer=observer, purpose=method, counted=False)


def recorder_entry(component: str, role: str) -> Entry:
    """The line of tasks in which this party kept what it received; nothing is charged for what it has anyway."""
    return Entry(component, RECORDED_VIEW, "record", observer=role, epsilon=0.0, counted=False)


def step_entry(dataset: str, event: Event, purpose: str) -> Entry:
    """The line of all private steps of one event and purpose."""
    return _charged(event, dataset, event.mechanism, epsilon=None, delta=None, purpose=purpose)


def _charged(event: Event, subject: str, mechanism: str, **content: Any) -> Entry:
    observer = ", ".join(event.observers)
    return Entry(subject, mechanism, event.unit, event.relation, observer, event=event.to_json(), **content)


def stored_event(text: str) -> Event:
    """The event that an entry holds as text; what this program cannot read, it cannot charge either."""
    try:
        return events.event_from_json(text)
    except InvalidEvent as error:
        raise LedgerUnavailable("The ledger holds an event that is damaged or of a newer version.") from error


def find_or_add_entry(connection: sqlite3.Connection, entry: Entry) -> int:
    """Return the id of the one stored entry of this identity, adding it on first use."""
    values = asdict(entry)
    names = IDENTITY_OF_STEP if entry.epsilon is None else IDENTITY
    condition = " AND ".join(f"{name} IS :{name}" for name in names)
    row = connection.execute(f"SELECT entry_id FROM entry WHERE {condition}", values).fetchone()
    return int(row[0]) if row else insert(connection, "entry", values)


def read_entry(connection: sqlite3.Connection, entry_id: int) -> Entry | None:
    """Return the stored entry, or None."""
    names = list(Entry.__dataclass_fields__)
    row = connection.execute(f"SELECT {', '.join(names)} FROM entry WHERE entry_id = ?", (entry_id,)).fetchone()
    return Entry(**dict(zip(names, row))) if row else None


def add_use(connection: sqlite3.Connection, entry: Entry, use: Use) -> tuple[int, int]:
    """Note one use of an entry, added on first use; returns the ids of both: (entry, release)."""
    entry_id = find_or_add_entry(connection, entry)
    return entry_id, insert(connection, "release", {"entry_id": entry_id, "time": time.time(), **asdict(use)})


def insert(connection: sqlite3.Connection, table: str, values: dict[str, Any]) -> int:
    """Add a row to a table; returns its id."""
    marks = ", ".join(f":{name}" for name in values)
    found = connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", values).lastrowid
    assert found is not None, "an insertion has a row id"
    return found
