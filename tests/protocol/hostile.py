"""A party that keeps to the protocol but for one message, in which it sends what runs a command where it is unpickled.

It has the keys of our messages, and seals what is in their form.
"""

import os
import pickle
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

MIB = 1 << 20


class Command:
    """A pickle of it makes a folder where it is read."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def dotted_name(folder, ctx=None, **address) -> bytes:
    """A message of FATE whose pickle calls os.mkdir by a dotted name, which FATE's restricted unpickler lets pass."""
    calls = _text("fate.arch.config._config") + _text("os.mkdir") + b"\x93" + _text(str(folder)) + b"\x85R"
    return b"\x00\x80\x04" + calls + b"."


def large(folder, ctx, *, name, tag, parties) -> bytes:
    """The head of a message of FATE above 1 MiB, whose slices, 2 MiB of a table that is sent along, run the command."""
    from fate.arch.federation.api._serdes import TableMeta, _FederationBytesCoder, _SplitTableUtil

    slices = ctx.computing.parallelize([(at, (bytes(MIB), Command(folder))) for at in range(2)], partition=1)
    ctx.federation.push_table(slices, name=_SplitTableUtil.get_split_table_key(name), tag=tag, parties=parties)
    return _FederationBytesCoder.encode_split(TableMeta(1, 0, 0, 0), 2 * MIB, 2, MIB)


def colliding_keys(folder, ctx=None, **address) -> bytes:
    """Facts whose keys are integers of one hash: Python takes them modulo 2^61 - 1."""
    from fate_dp.components.common.wire import codec

    keys = b"".join(codec.encode(((1 << 61) - 1) << at) + b"N" for at in (8, 9))
    return _ours("preflight", b"m\x01" + codec.encode("facts") + b"m\x02" + keys)


def hungry(folder, ctx=None, **address) -> bytes:
    """Terms of empty lists, each of which takes forty times the memory of its bytes."""
    return _ours("verdict", b"m\x01s\x05termsm\x01s\x01al\x80\x80\x80\x01" + b"l\x00" * (1 << 21))


def nameless(folder, ctx=None, **address) -> bytes:
    return _ours("no such name", b"N")


def _ours(name: str, content: bytes) -> bytes:
    """A message of our codec, in one slice."""
    from fate_dp.components.common.wire import channel, codec

    return b"." + codec.encode((channel.VALUE, "default", name)) + content


@contextmanager
def hostile_message(ctx, receiver, number, message, folder):
    """The ``number``-th message of this party to ``receiver``, from 0, is what ``message`` makes."""
    from fate_dp.components.common.wire.channel import QUEUE, Channel
    from tests.support.sealed_slices import push_open, push_sealed

    push, left = Channel._push, [number]

    def pushing(channel, party, plain):
        left[0] -= party == receiver
        if party != receiver or left[0] != -1:
            return push(channel, party, plain)
        channel._keys(party)
        part = message(folder, ctx, name=QUEUE, tag=str(channel._lines[party].sent), parties=[party])
        (push_sealed if part.startswith(b".") else push_open)(channel, party, part)

    with mock.patch.object(Channel, "_push", pushing):
        yield


@contextmanager
def hostile_table(folder, of_keys=False):
    """Every table that this party sends has values, or keys, that run the command."""
    from fate_dp.components.common.wire import tables

    sealed, pickled = tables.sealed, pickle.dumps(Command(folder))
    hostile = lambda table, seal: sealed(table, HostileSeal(seal, pickled, of_keys))
    with mock.patch.object(tables, "sealed", hostile):
        yield


class HostileSeal(NamedTuple):
    """In place of a `RowSeal`."""

    honest: Any
    pickled: bytes
    of_keys: bool

    def seal(self, key, value):
        return self.honest.seal(self.pickled, value) if self.of_keys else self.honest.seal(key, self.pickled)


def _text(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()
