"""Entries (what is guaranteed, one line each) and releases (each use of an entry) in the ledger's database."""
import json
import math
import time
from dataclasses import asdict, dataclass
from typing import Optional

from fate_dp.privacy.events import (
    OBSERVERS,
    REPLACE_ONE,
    Event,
    InvalidEvent,
    NotPrivate,
    PureDP,
    RandomizedResponse,
    event_from_json,
)
from fate_dp.privacy.ledger.errors import LedgerUnavailable, UnknownRelease

RANDOMIZED_RESPONSE = "randomized_response"
PIECEWISE = "piecewise"
POST_PROCESSING = "post-processing"
NOT_PRIVATE = "not private"
JOINT_SCORES = "joint scores"
OVER_SAMPLING = "over-sampling"


LABEL_DRAWS = f"('{RANDOMIZED_RESPONSE}', '{PIECEWISE}')"
"""For SQL: memoised draws of labels, of classes and of numbers."""
LABEL_OBSERVERS = ("arbiter", "host", "model")
SCORE_EVENT = Event(NotPrivate("joint scores show the guest X_h w_h"), "record", REPLACE_ONE, ("guest",))


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: who is protected from whom, and by how much.

    ``event`` is the text of the event that the line's releases are charged as, empty where nothing is charged. An
    entry whose epsilon (nats) is None is a private step: its epsilon and delta are computed from the event.
    """

    subject: str
    mechanism: str
    unit: str
    relation: str
    observer: str
    epsilon: Optional[float]
    delta: Optional[float] = 0.0
    classes: int = 0
    class_labels: str = ""
    key_id: str = ""
    parent_id: int = 0
    purpose: str = ""
    counted: bool = True
    event: str = ""


IDENTITY = ("subject", "mechanism", "epsilon", "classes", "key_id", "parent_id", "purpose")
IDENTITY_OF_STEP = ("subject", "epsilon", "event", "purpose")


def flip_event(epsilon, classes):
    """What one record's memoised flip is charged as."""
    return Event(RandomizedResponse(epsilon, classes), "label", REPLACE_ONE, LABEL_OBSERVERS)


def flip_entry(source, epsilon, classes, class_labels, key_id):
    return _draw_entry(RANDOMIZED_RESPONSE, flip_event(epsilon, classes), source, epsilon, classes, class_labels, key_id)


def number_entry(source, epsilon, points, bounds, key_id):
    """The bounds of the numbers stand where the classes of flips do: they must stay the same, too."""
    event = Event(PureDP(epsilon), "label", REPLACE_ONE, LABEL_OBSERVERS)
    return _draw_entry(PIECEWISE, event, source, epsilon, points, bounds, key_id)


def bounds_of(mechanism, class_labels):
    """(low, high) of an entry of noisy numbers, None for one of classes."""
    return tuple(map(float, json.loads(class_labels))) if mechanism == PIECEWISE else None


def _draw_entry(mechanism, event, source, epsilon, classes, class_labels, key_id):
    return _entry_of(
        event,
        subject=source,
        mechanism=mechanism,
        epsilon=epsilon,
        classes=classes,
        class_labels=json.dumps(list(class_labels)) if class_labels else "",
        key_id=key_id,
    )


def derived_entry(parent_id, parent, description):
    return Entry(
        subject=parent.subject,
        mechanism=POST_PROCESSING,
        unit="label",
        relation=REPLACE_ONE,
        observer=", ".join(LABEL_OBSERVERS),
        epsilon=0.0,
        classes=parent.classes,
        key_id=parent.key_id,
        parent_id=parent_id,
        purpose=description,
        counted=False,
    )


def not_private_entry(source):
    return Entry(
        subject=source,
        mechanism=NOT_PRIVATE,
        unit="label",
        relation=REPLACE_ONE,
        observer=", ".join(LABEL_OBSERVERS),
        epsilon=math.inf,
        counted=False,
    )


def score_entry(dataset, purpose, counted):
    return _entry_of(
        SCORE_EVENT, subject=dataset, mechanism=JOINT_SCORES, epsilon=math.inf, purpose=purpose, counted=counted
    )


def over_sampling_entry(dataset, method):
    """Nothing is released by it, hence no event; the line says what later releases can no longer promise."""
    return Entry(
        subject=dataset,
        mechanism=OVER_SAMPLING,
        unit="record",
        relation=REPLACE_ONE,
        observer=", ".join(sorted(OBSERVERS)),
        epsilon=math.inf,
        purpose=method,
        counted=False,
    )


def step_entry(dataset, event, purpose):
    return _entry_of(event, subject=dataset, mechanism=event.mechanism, epsilon=None, delta=None, purpose=purpose)


def stored_event(text):
    """The event that an entry holds as text; what this program cannot read, it cannot charge either."""
    try:
        return event_from_json(text)
    except InvalidEvent as error:
        raise LedgerUnavailable("The ledger holds an event that is damaged or of a newer version.") from error


def find_entry(connection, entry):
    """Return the id under which an entry of the same identity is stored, or None."""
    values = asdict(entry)
    names = IDENTITY_OF_STEP if entry.epsilon is None else IDENTITY
    condition = " AND ".join(f"{name} IS :{name}" for name in names)
    row = connection.execute(f"SELECT entry_id FROM entry WHERE {condition}", values).fetchone()
    return row and row[0]


def find_or_add_entry(connection, entry):
    """Return the id of the one stored entry of this identity, adding it on first use."""
    entry_id = find_entry(connection, entry)
    if entry_id is not None:
        return entry_id
    values = asdict(entry)
    marks = ", ".join(f":{name}" for name in values)
    return connection.execute(f"INSERT INTO entry ({', '.join(values)}) VALUES ({marks})", values).lastrowid


def read_entry(connection, entry_id):
    """Return the stored entry, or None."""
    names = list(Entry.__dataclass_fields__)
    row = connection.execute(f"SELECT {', '.join(names)} FROM entry WHERE entry_id = ?", (entry_id,)).fetchone()
    return row and Entry(**dict(zip(names, row)))


def classes_of(connection, entry_id):
    """The declared classes of an entry of flips, as texts in order; none where it was written without them."""
    return json.loads(read_entry(connection, entry_id).class_labels or "[]")


def add_release(connection, entry_id, *, job_id, task_id, records, fingerprint="", state="released", note=""):
    """Note one use of an entry; returns its id."""
    return connection.execute(
        "INSERT INTO release (entry_id, job_id, task_id, time, records, fingerprint, state, note)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (entry_id, job_id, task_id, time.time(), records, fingerprint, state, note),
    ).lastrowid


def mark_released(connection, release_id):
    """Note that the output of a pending release was written; see ``Ledger.mark_released``."""
    changed = connection.execute("UPDATE release SET state = 'released' WHERE release_id = ?", (release_id,))
    if changed.rowcount != 1:
        raise UnknownRelease(f"release_id is {release_id!r} but the ledger holds no such release.")


def _entry_of(event, **content):
    return Entry(
        unit=event.unit,
        relation=event.relation,
        observer=", ".join(event.observers),
        event=event.to_json(),
        **content,
    )
