"""Messages between the parties of one task, over any of FATE's federations, without FATE's unpickler.

Everything that one party sends another goes through a single queue, numbered: a receiver takes the next message of that
party, whatever it is, and keeps what it did not wait for. So a party that cannot go on tells all the others as their
next message, and none of them waits for one that never comes.

A message is `codec`'s form of (kind, namespace, name), then that of its value; above FATE's limit for messages it is cut
into slices, each with a first byte that says whether more follow. Tables travel as FATE's tables, partition by partition,
with keys and values in the same form (`tables`); their message holds what a receiver must know of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from fate.arch.computing.api import KVTable
from fate.arch.context import Context
from fate.arch.context._parties import Parties, Party

from ...protocols.federation import PartyId, name_of, others, party_name
from ...protocols.preflight import Refused
from . import codec, tables
from .codec import is_one_of, kinds_of, rows_of

logger = logging.getLogger(__name__)

QUEUE = "fate_dp"
MAX_BYTES = 1 << 32
"""Of one message, tables apart, and of all that one party sent before it was asked for."""
MAX_LETTERS = 2000
"""Of a sentence that another party says."""
VALUE, TABLE, STOP = 0, 1, 2
_LAST, _MORE = b".", b"+"
"""Other ones than FATE's own messages begin with, so that none of those is waited for to be complete."""
_MIN_SLICE = 1024


class MalformedMessage(ValueError):
    """What another party sent is no message of ours; one sentence that names the message and the sender."""

    def __init__(self, name: str, sender: tuple, reason: str) -> None:
        super().__init__(f"The message {name!r} from {name_of(sender)} cannot be read: {reason}.")


class Stopped(ValueError):
    """Another party cannot go on; the message is the sentence that it gave."""


@dataclass
class _Line:
    """What this party shares with one other: how many slices went either way, and what arrived too early."""

    sent: int = 0
    received: int = 0
    kept: dict[tuple[str, str], tuple[int, bytes]] = field(default_factory=dict)
    kept_bytes: int = 0
    stopped: str | None = None


class Channel:
    """All messages of one task at one party; contexts of sub-namespaces share it.

    ``kinds`` gives the kinds of values under a name, None for a name that no message has.
    """

    def __init__(self, ctx: Any, kinds: Callable[[str], tuple | None] = kinds_of) -> None:
        self._federation, self._kinds = ctx.federation, kinds
        self._name = party_name(ctx)
        self._lines = {tuple(party.party): _Line() for party in others(ctx)}
        self._slice_bytes = max(_MIN_SLICE, self._federation.get_default_max_message_size()) - 1
        self._last_read = "before the first message"

    def send(self, parties: Iterable[PartyId], namespace: str, name: str, value: Any) -> None:
        """Send a plain value, or a table of such, to each of ``parties``; NotPlain where it is neither, or has no name."""
        if self._kinds(name) is None:
            raise codec.NotPlain(f"The message {name!r} cannot be sent: `codec.KINDS` does not say what it is.")
        parties = [(role, number) for role, number in parties]
        kind = TABLE if isinstance(value, KVTable) else VALUE
        if kind == TABLE:
            plain, value = tables.encoded(value), tables.facts_of(value)
            self._federation.push_table(plain, name=name, tag=namespace, parties=parties)
        try:
            message = codec.encode((kind, namespace, name)) + codec.encode(value)
        except codec.NotPlain as error:
            raise codec.NotPlain(f"The message {name!r} cannot be sent: {error}") from None
        for party in parties:
            self._push(party, message)

    def receive(self, party: PartyId, namespace: str, name: str) -> Any:
        """The value, or the table, that ``party`` sent under this name; waits for it.

        Raises:
            MalformedMessage: something that arrived meanwhile is no message of ours.
            Stopped: that party cannot go on.
        """
        party = party[0], party[1]
        line = self._lines[party]
        while (namespace, name) not in line.kept:
            if line.stopped is not None:
                raise Stopped(line.stopped)
            self._keep_next(party, line, name)
        kind, content = line.kept.pop((namespace, name))
        line.kept_bytes -= len(content)
        self._last_read = f"after the message {name!r} from {name_of(party)}"
        try:
            return self._value(party, namespace, name, kind, codec.decode(content))
        except codec.Malformed as error:
            raise MalformedMessage(name, party, str(error)) from None

    def stop(self, error: Exception) -> str:
        """Tell all others that this party cannot go on, and return the sentence that they get.

        Only what was wrong with a message is told in full: any other error may speak of this party's data.
        """
        failed = f"The task failed {self._last_read} ({type(error).__name__}); see that party's log."
        told = error if isinstance(error, MalformedMessage) else failed
        sentence = str(error) if isinstance(error, Stopped) else f"{self._name}: {told}"
        message = codec.encode((STOP, "", "")) + codec.encode(sentence[:MAX_LETTERS])
        for party, line in self._lines.items():
            if line.stopped is None:
                try:
                    self._push(party, message)
                except Exception:
                    logger.exception("%s could not be told that this party stops", name_of(party))
        return sentence

    def _value(self, party: PartyId, namespace: str, name: str, kind: int, content: Any) -> Any:
        kinds = self._kinds(name) or ()
        if kind == VALUE:
            if not is_one_of(content, kinds):
                raise codec.Malformed("it holds another kind of value than a message of this name")
            return content
        if not rows_of(kinds):
            raise codec.Malformed("it is a table, and no message of this name is one")
        return tables.received(
            content, rows_of(kinds), lambda meta: self._federation.pull_table(name, namespace, [party], [meta])[0]
        )

    def _push(self, party: PartyId, message: bytes) -> None:
        line, starts = self._lines[party], range(0, len(message), self._slice_bytes)
        for start in starts:
            mark = _LAST if start == starts[-1] else _MORE
            part = mark + message[start : start + self._slice_bytes]
            self._federation.push_bytes(part, name=QUEUE, tag=str(line.sent), parties=[party])
            line.sent += 1

    def _keep_next(self, party: PartyId, line: _Line, name: str) -> None:
        """Take in the next message of a party, while this one waits for the one called ``name``."""
        try:
            header, content = codec.decode_two(self._pull(party, line))
            shape = tuple(map(type, header)) if type(header) is tuple else None
            if shape != (int, str, str) or header[0] not in (VALUE, TABLE, STOP):
                raise codec.Malformed("it has no header of a message")
            kind, namespace, sent_name = header
            if kind == STOP:
                line.stopped = _sentence(codec.decode(content))
                return
            if (namespace, sent_name) in line.kept:
                raise codec.Malformed("another message with its name waits to be read")
            if line.kept_bytes + len(content) > MAX_BYTES:
                raise codec.Malformed(f"more than {MAX_BYTES} bytes of messages wait to be read")
        except codec.Malformed as error:
            raise MalformedMessage(name, party, str(error)) from None
        line.kept[namespace, sent_name] = (kind, content)
        line.kept_bytes += len(content)

    def _pull(self, party: PartyId, line: _Line) -> bytes:
        parts, size, mark = [], 0, _MORE
        while mark == _MORE:
            part = self._federation.pull_bytes(name=QUEUE, tag=str(line.received), parties=[party])[0]
            line.received += 1
            if not isinstance(part, bytes) or part[:1] not in (_LAST, _MORE):
                raise codec.Malformed("it does not begin as a message does")
            mark, size = part[:1], size + len(part)
            if size > MAX_BYTES:
                raise codec.Malformed(f"it has more than {MAX_BYTES} bytes")
            parts.append(part[1:])
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _sentence(value: Any) -> str:
    if type(value) is not str or len(value) > MAX_LETTERS or not value.isprintable():
        raise codec.Malformed("it says that its sender stops, but not in one sentence")
    return value


class PlainParty(Party):
    """FATE's object of another party of the task, with messages of `Channel`."""

    def put(self, name: str, value: Any) -> None:
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

    def put(self, name: str, value: Any) -> None:
        parties = [party for _, party in self.parties]
        self._ctx.channel.send(parties, self.namespace.federation_tag, name, value)

    def get(self, name: str) -> list:
        return [party.get(name) for party in self]


class PlainContext(Context):
    """A context, and all those of its sub-namespaces, whose parties exchange plain values alone."""

    def __init__(self, ctx: Context, channel: Channel | None = None, namespace: Any = None) -> None:
        super().__init__(
            device=ctx._device,
            computing=ctx._computing,
            federation=ctx._federation,
            metrics_handler=ctx._metrics_handler,
            namespace=namespace or ctx._namespace,
            cipher=ctx._cipher,
        )
        self.channel = channel or Channel(ctx)

    def with_namespace(self, namespace: Any) -> PlainContext:
        return PlainContext(self, self.channel, namespace)

    def _get_parties(self, role: Any = None) -> PlainParties:
        found = super()._get_parties(role)
        return PlainParties(self, found.federation, found.computing, found.parties, found.namespace)


def with_plain_messages(stage: Callable) -> Callable:
    """A component's function, where FATE's executor enters it, called with the context of `plain_messages`."""

    @wraps(stage)
    def called(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        with plain_messages(ctx) as plain:
            return stage(plain, *args, **kwargs)

    called.has_plain_messages = True  # type: ignore[attr-defined]
    return called


@contextmanager
def plain_messages(ctx: Any) -> Iterator[PlainContext]:
    """A context whose messages are plain values; if this party fails in it, all others learn that, and stop.

    A refusal of `preflight.agree` is known to all already. Within such a context it is the same one again.

    Raises:
        Refused: what another party sent could not be read, or another party stopped; the same sentence everywhere.
    """
    if isinstance(ctx, PlainContext):
        yield ctx
        return
    plain = PlainContext(ctx)
    try:
        yield plain
    except Refused:
        raise
    except (MalformedMessage, Stopped) as error:
        raise Refused(plain.channel.stop(error)) from error
    except Exception as error:
        plain.channel.stop(error)
        raise
