"""Entries (what is guaranteed, one line each) and releases (each use of an entry) in the ledger's database."""
import json
import math
import time
from dataclasses import asdict, dataclass

RANDOMIZED_RESPONSE = "randomized_response"
POST_PROCESSING = "post-processing"
NOT_PRIVATE = "not private"
JOINT_SCORES = "joint scores"


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: who is protected from whom, and by how much (epsilon in nats)."""

    subject: str
    mechanism: str
    unit: str
    relation: str
    observer: str
    epsilon: float
    delta: float = 0.0
    classes: int = 0
    class_labels: str = ""
    key_id: str = ""
    parent_id: int = 0
    purpose: str = ""
    counted: bool = True


IDENTITY = ("subject", "mechanism", "epsilon", "classes", "key_id", "parent_id", "purpose")


def flip_entry(source, epsilon, classes, class_labels, key_id):
    return Entry(
        subject=source,
        mechanism=RANDOMIZED_RESPONSE,
        unit="label",
        relation="replace-one",
        observer="host, arbiter, model",
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
        relation="replace-one",
        observer="host, arbiter, model",
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
        relation="replace-one",
        observer="host, arbiter, model",
        epsilon=math.inf,
        counted=False,
    )


def score_entry(dataset, purpose, counted):
    return Entry(
        subject=dataset,
        mechanism=JOINT_SCORES,
        unit="record",
        relation="replace-one",
        observer="guest",
        epsilon=math.inf,
        purpose=purpose,
        counted=counted,
    )


def find_entry(connection, entry):
    """Return the id under which an entry of the same identity is stored, or None."""
    values = asdict(entry)
    condition = " AND ".join(f"{name} = :{name}" for name in IDENTITY)
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


def add_release(connection, entry_id, *, job_id, task_id, records, fingerprint="", state="released", note=""):
    """Note one use of an entry; returns its id."""
    return connection.execute(
        "INSERT INTO release (entry_id, job_id, task_id, time, records, fingerprint, state, note)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (entry_id, job_id, task_id, time.time(), records, fingerprint, state, note),
    ).lastrowid
