"""What one party received in one task of a job, as its recorder kept it: the file, and what an attack finds in it.

A view is written by `deploy.recorder` at the party whose operator switched that on, in ``views/JOB/TASK.ROLE.view`` of the
party's home (mode 0600). It holds plain values alone, in the form in which our own messages travel
(`components.common.wire.codec`), so that reading a view can run nothing. FATE's own objects are kept as numbers: tensors as
arrays, vectors of encrypted numbers as `Ciphertexts`, a public key as ``{"n": n}``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fate_dp.components.common.wire import codec
from fate_dp.components.common.wire.kinds import own_value, own_values
from fate_dp.privacy.private_files import VIEWS_FOLDER, AnyPath, party_folder, party_ids
from fate_dp.privacy.validation import InvalidArgument

FORMAT, VERSION = "fate-dp view", 1
SUFFIX = ".view"
PLAIN, CIPHERTEXTS, LEFT_OUT = "plain", "ciphertexts", "left out"


@dataclass(frozen=True, eq=False)
class Ciphertexts:
    """Paillier ciphertexts ``values`` (m,), dtype object, modulo the square of the public ``n``, each of a number that
    counts times 16 to its exponent, int32 (m,)."""

    n: int
    values: NDArray[Any] = field(repr=False)
    exponents: NDArray[np.int32] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Message:
    """One message that the party received.

    ``sender`` is a role and an id, such as ``guest-9999``, and ``tag`` says where in the task the message belongs. Where
    ``content`` is not kept, ``left_out`` says why; ``size`` counts its bytes in the file.
    """

    sender: str
    name: str
    tag: str
    content: Any = field(repr=False)
    left_out: str = ""
    size: int = 0

    def to_bytes(self) -> bytes:
        """The message as it stands in a file; raises `codec.NotPlain` where its content is no plain value."""
        kind, content = PLAIN, self.content
        if self.left_out:
            kind, content = LEFT_OUT, self.left_out
        elif isinstance(content, Ciphertexts):
            kind, content = CIPHERTEXTS, (content.n, content.values, content.exponents)
        return codec.encode((self.sender, self.name, self.tag, kind, content))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Message":
        """The message of `to_bytes`; raises `codec.Malformed`, ValueError or TypeError for anything else."""
        sender, name, tag, kind, content = own_value(data)
        if kind == LEFT_OUT:
            return cls(sender, name, tag, None, content, len(data))
        if kind == CIPHERTEXTS:
            content = Ciphertexts(*content)
        return cls(sender, name, tag, content, "", len(data))


@dataclass(frozen=True)
class Task:
    """Which task of which job a view is of, and what the party knew of it before the first message.

    ``parameters`` are JSON, and so is ``plan``: the job's DAG as far as the party knew it, empty where it knew none.
    """

    job: str
    name: str
    component: str
    stage: str
    role: str
    party: str
    parameters: str = "{}"
    plan: str = ""

    @property
    def file_name(self) -> str:
        return f"{self.name}.{self.role}{SUFFIX}"


@dataclass(frozen=True, eq=False)
class RecordedView:
    """What one party received in one task; ``tables`` are ids of rows that it read itself, ``problems`` whole sentences."""

    task: Task
    messages: tuple[Message, ...] = ()
    tables: tuple[tuple[str, ...], ...] = ()
    problems: tuple[str, ...] = ()
    finished: bool = True

    def named(self, name: str) -> list[Any]:
        """What the kept messages of one name said, in order."""
        return [message.content for message in self.messages if message.name == name and not message.left_out]

    def ids_of(self, rows: int) -> tuple[str, ...]:
        """Ids of the party's own table of so many rows; raises InvalidArgument where it read none."""
        found = next((ids for ids in self.tables if len(ids) == rows), None)
        if found is None:
            raise InvalidArgument(
                f"The view of {self.task.name} tells of {rows} rows, but the party read no table of that many there."
            )
        return found


def to_bytes(view: RecordedView, messages: Sequence[bytes] | None = None) -> bytes:
    """The file of a view; ``messages`` stand for the view's own, already as `Message.to_bytes` gives them."""
    kept = [message.to_bytes() for message in view.messages] if messages is None else list(messages)
    task = {item.name: getattr(view.task, item.name) for item in fields(Task)}
    tables, problems = [list(ids) for ids in view.tables], list(view.problems)
    return codec.encode((FORMAT, VERSION)) + codec.encode((task, kept, tables, problems, view.finished))


def read_view(path: AnyPath) -> RecordedView:
    """The view in a file; raises InvalidArgument, one sentence, where it holds none or one of another version."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgument(f"The view {path} cannot be read: {error.strerror}.") from error
    try:
        heading, rest = own_values(data)
        name, version = heading
        is_view = name == FORMAT
    except (codec.Malformed, ValueError, TypeError):
        is_view = False
    if not is_view:
        raise InvalidArgument(f"{path} is no view that a recorder wrote.")
    if version != VERSION:
        raise InvalidArgument(f"{path} is a view of version {version} but this program reads version {VERSION}.")
    try:
        task, kept, tables, problems, finished = own_value(rest)
        messages = tuple(map(Message.from_bytes, kept))
        return RecordedView(Task(**task), messages, tuple(map(tuple, tables)), tuple(problems), finished)
    except (codec.Malformed, ValueError, TypeError) as error:
        raise InvalidArgument(f"The view {path} is damaged.") from error


def views_of(parties: AnyPath, job: str | None = None, party: str | None = None) -> list[Path]:
    """Files of all views of the parties in a folder, of one job or one party if these are named, oldest job first."""
    ids = party_ids(parties) if party is None else [party]
    found = [
        path for each in ids for path in (party_folder(parties, each) / VIEWS_FOLDER).glob(f"{job or '*'}/*{SUFFIX}")
    ]
    return sorted(found, key=lambda path: (path.parent.name, path.parents[2].name, path.name))
