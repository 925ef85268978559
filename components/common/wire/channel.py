"""Messages between the parties of one task, over any of FATE's federations, without FATE's unpickler.

Everything that one party sends another goes through a single queue, numbered: a receiver takes the next message of that
party, whatever it is, and keeps what it did not wait for. So a party that cannot go on tells all the others as their
next message, and none of them waits for one that never comes.

A message is `codec`'s form of (what it is, namespace, name), then that of its value; above FATE's limit for messages it is
cut into slices, each with a first byte that says whether more follow. The first slices say which message it is: unless the
component that runs has one of that name, and the message is no longer than its kind allows, no more is taken in. Tables
travel as FATE's tables, partition by partition, with keys and values in the same form (`tables`); their message holds what
a receiver must know of them.

The first slice each way is a greeting (`peers`). It goes out as the channel is made, and is waited for when a party first
has to do with its sender: one that never comes holds up nobody else. All later slices are sealed for this run of this task,
sender, receiver and place, rows of tables for their message. Only a party that stops before it has read a greeting says so
openly, at once, and its receiver takes that as slice 1 alone: whoever carries messages can make a task fail anyway.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

from cryptography.exceptions import InvalidTag
from fate.arch.computing.api import KVTable
from fate.arch.context import Context
from fate.arch.context._parties import Parties, Party

from fate_dp.crypto.message_seals import OVERHEAD_BYTES, SealKey

from ..federation import PartyId, id_of, name_of, others, own_party, party_name
from ..peers import Meeting
from ..preflight import Refusal, Refused
from ..progress import counted
from . import codec, tables
from .kinds import AnyKind, Int, Messages, Rows, Text, Tuple, kind_of

logger = logging.getLogger(__name__)

QUEUE = "fate_dp"
MAX_BYTES = 1 << 32
"""Of one message, tables apart, and of all that one party sent before it was asked for, with `KEPT_BYTES` for each."""
KEPT_BYTES = 1000
MAX_LETTERS = 2000
"""Of a sentence that another party says."""
VALUE, TABLE, STOP = 0, 1, 2
HEADER = Tuple((Int(8), Text(1000), Text(100)))
SENTENCE = Text(4 * MAX_LETTERS)
_LAST, _MORE, _OPEN = b".", b"+", b"!"
"""Other ones than FATE's own messages begin with, so that none of those is waited for to be complete."""
_MIN_SLICE = 1024
FOREIGN = "it was changed on the way, or is of another task, sender, receiver or place"


class MalformedMessage(Refusal):
    """What another party sent is no message of ours; one sentence that names the message and the sender."""

    def __init__(self, name: str, sender: tuple, reason: str) -> None:
        super().__init__(f"The message {name!r} from {name_of(sender)} cannot be read: {reason}.")


class Stopped(Refusal):
    """Another party cannot go on; the message is the sentence that it gave."""


@dataclass(frozen=True)
class _Message:
    """One that arrived: what it is, where it belongs, and its bytes, of which those of its value begin at ``start``.

    ``number`` is that of its first slice.
    """

    what: int
    namespace: str
    name: str
    kind: AnyKind | Rows
    start: int
    data: bytes = b""
    number: int = 0

    @property
    def size(self) -> int:
        return len(self.data) + KEPT_BYTES


@dataclass
class _Line:
    """What this party shares with one other: its own greeting and, once the other's is read, the keys for either way; how
    many slices went either way, and what arrived too early."""

    greeting: bytes
    keys: tuple[SealKey, SealKey] | None = None
    sent: int = 0
    received: int = 0
    kept: dict[tuple[str, str], _Message] = field(default_factory=dict)
    kept_bytes: int = 0
    stopped: str | None = None


class Channel:
    """All messages of one task at one party, those of the component that runs; contexts of sub-namespaces share it."""

    def __init__(self, ctx: Any, messages: Messages) -> None:
        self._federation, self._messages = ctx.federation, messages
        self._name = party_name(ctx)
        self._meeting = Meeting(self._federation.session_id, own_party(ctx))
        self._lines = {party: _Line(self._meeting.greeting(party)) for party in map(id_of, others(ctx))}
        self._slice_bytes = max(_MIN_SLICE, self._federation.get_default_max_message_size()) - 1 - OVERHEAD_BYTES
        self._last_read = "before the first message"
        for party, line in self._lines.items():
            self._push_slice(party, line, line.greeting)

    def send(self, parties: Iterable[PartyId], namespace: str, name: str, value: object) -> None:
        """Send a value, or a table, to each of ``parties``; NotPlain where no message of this name is like it."""
        kind = kind_of(self._messages, name)
        if kind is None or isinstance(value, KVTable) is not isinstance(kind, Rows):
            raise codec.NotPlain(f"The message {name!r} cannot be sent: the component does not declare it so.")
        what = TABLE if isinstance(kind, Rows) else VALUE
        try:
            content = codec.encode(tables.facts_of(value) if what == TABLE else value)
            if len(content) > _content(kind).size:
                raise codec.NotPlain(
                    f"it has {len(content)} bytes, and no message of this name may have more than {_content(kind).size}"
                )
        except codec.NotPlain as error:
            raise codec.NotPlain(f"The message {name!r} cannot be sent: {error}") from None
        message = codec.encode((what, namespace, name)) + content
        for party in [(role, number) for role, number in parties]:
            key, _ = self._keys(party)
            if what == TABLE:
                rows = tables.sealed(value, key.of_table(self._lines[party].sent))
                self._federation.push_table(rows, name=name, tag=namespace, parties=[party])
            self._push(party, message)

    def receive(self, party: PartyId, namespace: str, name: str) -> Any:
        """The value, or the table, that ``party`` sent under this name; waits for it.

        Raises MalformedMessage where what arrived meanwhile is none of our messages, Stopped where that party cannot go on.
        """
        party = party[0], party[1]
        line = self._lines[party]
        while (namespace, name) not in line.kept:
            if line.stopped is not None:
                raise Stopped(line.stopped)
            self._keep_next(party, line, name)
        message = line.kept.pop((namespace, name))
        line.kept_bytes -= message.size
        self._last_read = f"after the message {name!r} from {name_of(party)}"
        try:
            return self._value(party, message)
        except codec.Malformed as error:
            raise MalformedMessage(name, party, str(error)) from None

    def stop(self, error: Exception) -> str:
        """Tell all others that this party cannot go on, and return the sentence that they get.

        They read a `Refusal`, also of a message: any other error may speak of this party's data.
        """
        failed = f"The task failed {self._last_read} ({type(error).__name__}); see that party's log."
        told = error if isinstance(error, Refusal) else failed
        sentence = str(error) if isinstance(error, Stopped) else f"{self._name}: {told}"
        message = codec.encode((STOP, "", "")) + codec.encode(sentence[:MAX_LETTERS])
        for party, line in self._lines.items():
            if line.stopped is None:
                try:
                    if line.keys is None:
                        self._push_slice(party, line, _OPEN + message)
                    else:
                        self._push(party, message)
                except Exception:
                    logger.exception("%s could not be told that this party stops", name_of(party))
        return sentence

    def _value(self, party: PartyId, message: _Message) -> Any:
        kind, data = message.kind, message.data
        if not isinstance(kind, Rows):
            return codec.decode(data, kind, message.start)
        facts = codec.decode(data, tables.FACTS, message.start)
        where, (_, key) = (message.name, message.namespace, [party]), self._keys(party)
        pull = lambda meta: self._federation.pull_table(*where, [meta])[0]
        return tables.received(facts, kind, key.of_table(message.number), pull)

    def _keys(self, party: PartyId) -> tuple[SealKey, SealKey]:
        """For what goes to a party, and for what comes from it; waits for its greeting."""
        line = self._lines[party]
        if line.keys is None:
            try:
                line.keys = self._meeting.keys(party, line.greeting, self._pull_slice(party, line))
            except codec.Malformed as error:
                raise MalformedMessage("greeting", party, str(error)) from None
        return line.keys

    def _push(self, party: PartyId, message: bytes) -> None:
        line, (key, _) = self._lines[party], self._keys(party)
        starts = range(0, len(message), self._slice_bytes)
        for start in starts:
            mark, part = _LAST if start == starts[-1] else _MORE, message[start : start + self._slice_bytes]
            self._push_slice(party, line, mark + key.seal(line.sent, mark, part))

    def _push_slice(self, party: PartyId, line: _Line, part: bytes) -> None:
        line.sent += 1  # First: whatever becomes of the slice, its number is used.
        self._federation.push_bytes(part, name=QUEUE, tag=str(line.sent - 1), parties=[party])

    def _keep_next(self, party: PartyId, line: _Line, name: str) -> None:
        """Take in the next message of a party, while this one waits for the one called ``name``."""
        try:
            message = self._pull(party, line)
            if message.what == STOP:
                said = codec.decode(message.data, SENTENCE, message.start)
                if len(said) > MAX_LETTERS or not said.isprintable():
                    raise codec.Malformed("it says that its sender stops, but not in one sentence")
                line.stopped = said
                return
            if (message.namespace, message.name) in line.kept:
                raise codec.Malformed("another message with its name waits to be read")
            if line.kept_bytes + message.size > MAX_BYTES:
                raise codec.Malformed(f"more than {MAX_BYTES} bytes of messages wait to be read")
        except codec.Malformed as error:
            raise MalformedMessage(name, party, str(error)) from None
        line.kept[message.namespace, message.name] = message
        line.kept_bytes += message.size

    def _pull(self, party: PartyId, line: _Line) -> _Message:
        """The next message of a party; raises Malformed as soon as it is clear that it is not one of ours."""
        parts, size, mark, message, most = [], 0, _MORE, None, MAX_BYTES
        while mark == _MORE:
            mark, part = self._part(party, line)
            parts.append(part)
            size += len(part)
            if message is None and (mark != _MORE or size > HEADER.size):
                message = self._headed(b"".join(parts))
                most = message.start + min(_content(message.kind).size, MAX_BYTES)
            if size > most:
                raise codec.Malformed(f"it has more than the {most} bytes that a message of its name can have")
        assert message is not None, "The last slice was read."
        if mark == _OPEN and message.what != STOP:
            raise codec.Malformed("it is not sealed")
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        return replace(message, data=data, number=line.received - len(parts))

    def _part(self, party: PartyId, line: _Line) -> tuple[bytes, bytes]:
        """Mark and content of a party's next slice; raises Malformed where it is none that belongs there."""
        (_, key), number = self._keys(party), line.received
        part = self._pull_slice(party, line)
        mark = part[:1]
        if mark == _OPEN and number == 1:
            return mark, part[1:]
        if mark not in (_LAST, _MORE):
            raise codec.Malformed("it does not begin as a message does")
        if mark == _MORE and len(part) < _MIN_SLICE:
            raise codec.Malformed("it comes in slices that are too small")
        try:
            return mark, key.open(number, mark, part[1:])
        except InvalidTag:
            raise codec.Malformed(FOREIGN) from None

    def _pull_slice(self, party: PartyId, line: _Line) -> bytes:
        line.received += 1
        part = self._federation.pull_bytes(name=QUEUE, tag=str(line.received - 1), parties=[party])[0]
        if not isinstance(part, bytes):
            raise codec.Malformed("it is not made of bytes")
        return part

    def _headed(self, data: bytes) -> _Message:
        """The message that begins with ``data``, without its bytes."""
        (what, namespace, name), start = codec.decode_first(data, HEADER)
        if what == STOP:
            return _Message(what, namespace, name, SENTENCE, start)
        kind = kind_of(self._messages, name)
        if kind is None or what != (TABLE if isinstance(kind, Rows) else VALUE):
            raise codec.Malformed("this component has no such message")
        return _Message(what, namespace, name, kind, start)


def _content(kind: AnyKind | Rows) -> AnyKind:
    """What follows the header of a message."""
    return tables.FACTS if isinstance(kind, Rows) else kind


class PlainParty(Party):
    """FATE's object of another party of the task, with messages of `Channel`."""

    def put(self, name: str, value: object) -> None:
        self._ctx.channel.send([self.party], self.namespace.federation_tag, name, value)

    def get(self, name: str) -> Any:
        return self._ctx.channel.receive(self.party, self.namespace.federation_tag, name)


class PlainParties(Parties):
    """Several of them."""

    def __getitem__(self, key: int) -> PlainParty:
        rank, party = self.parties[key]
        return PlainParty(self._ctx, self.federation, self.computing, party, rank, self.namespace)

    def __iter__(self) -> Iterator[PlainParty]:
        return (self[at] for at in range(len(self)))

    def put(self, name: str, value: object) -> None:
        parties = [party for _, party in self.parties]
        self._ctx.channel.send(parties, self.namespace.federation_tag, name, value)

    def get(self, name: str) -> list:
        return [party.get(name) for party in self]


class PlainContext(Context):
    """A context, and all those of its sub-namespaces, whose parties exchange plain values alone."""

    def __init__(self, ctx: Context, channel: Channel, namespace: object = None) -> None:
        super().__init__(
            device=ctx._device,
            computing=ctx._computing,
            federation=ctx._federation,
            metrics_handler=ctx._metrics_handler,
            namespace=namespace or ctx._namespace,
            cipher=ctx._cipher,
        )
        self.channel = channel

    def with_namespace(self, namespace: object) -> "PlainContext":
        return PlainContext(self, self.channel, namespace)

    def ctxs_range(self, steps: int) -> "Iterator[tuple[int, PlainContext]]":
        return counted(super().ctxs_range(steps), steps, self._namespace.name)

    def ctxs_zip(self, items: Iterable) -> "Iterator[tuple[PlainContext, Any]]":
        found = super().ctxs_zip(items)
        return counted(found, len(items), self._namespace.name) if isinstance(items, Sized) else found

    def _get_parties(self, role: object = None) -> PlainParties:
        found = super()._get_parties(role)
        return PlainParties(self, found.federation, found.computing, found.parties, found.namespace)


def with_plain_messages(messages: Messages) -> Callable[[Callable], Callable]:
    """A decorator of a component's function, where FATE's executor enters it: it gets the context of `plain_messages`.

    ``messages`` are those that the component declares, and all that its parties can send each other.
    """

    def decorated(stage: Callable) -> Callable:
        @wraps(stage)
        def called(ctx: Context, *args: object, **kwargs: object) -> Any:
            with plain_messages(ctx, messages) as plain:
                return stage(plain, *args, **kwargs)

        called.messages = messages  # type: ignore[attr-defined]
        return called

    return decorated


@contextmanager
def plain_messages(ctx: object, messages: Messages) -> Iterator[PlainContext]:
    """A context whose messages are these plain values; if this party fails in it, all others learn that, and stop.

    A refusal of `preflight.agree` is known to all already. Within such a context it is the same one again.

    Raises:
        Refused: what another party sent could not be read, or another party stopped; the same sentence everywhere.
    """
    if isinstance(ctx, PlainContext):
        yield ctx
        return
    plain = PlainContext(ctx, Channel(ctx, messages))
    try:
        yield plain
    except Refused:
        raise
    except (MalformedMessage, Stopped) as error:
        raise Refused(plain.channel.stop(error)) from error
    except Exception as error:
        plain.channel.stop(error)
        raise
