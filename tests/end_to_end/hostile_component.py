"""A component whose guest attacks its host by what it sends; it is copied into a folder of its own for the test."""

import os
import pickle
import struct

import numpy as np
from fate.arch import Context
from fate.arch.federation.api import TableMeta
from fate.arch.federation.api._serdes import _FederationBytesCoder, _SplitTableUtil
from fate.components.core import GUEST, HOST, Role, cpn


class Command:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


class Addresses:
    """An array of objects over bytes, which numpy takes for their addresses."""

    def __reduce__(self):
        return np.ndarray, ((1,), np.dtype("O"), b"12345678")


@cpn.component(roles=[GUEST, HOST], provider="fate")
def hostile(ctx: Context, role: Role, marker: cpn.parameter(type=str, default="", desc="file to be made")):
    """The host's summary says what became of each message."""
    if role.is_guest:
        attack(ctx, f"touch {marker}")
    else:
        ctx.metrics.log_metrics(suffer(ctx), "summary")


def attack(ctx, command):
    def text(value):
        return b"\x8c" + bytes([len(value)]) + value.encode()

    name = text("fate.arch.config._config") + text("os.system") + b"\x93"
    push(ctx, "message", struct.pack("!B", 0) + b"\x80\x04" + name + text(command) + b"\x85R.")
    push(ctx, "array", struct.pack("!B", 0) + pickle.dumps(Addresses()))
    ctx.hosts.put("table", table_of(ctx, {0: Command(command)}))
    # Above 1 MiB a message comes in slices, of which each is a pickle, and so is what they make together.
    big = pickle.dumps([b"\0" * (2 << 20), Command(command)])
    for message, slices in (("slices", {0: Command(command)}), ("whole", {0: big[: 1 << 20], 1: big[1 << 20 :]})):
        meta, tag = TableMeta(1, 0, 0, 0), ctx.namespace.federation_tag
        parties = [each.party for each in ctx.hosts]
        ctx.federation.push_table(table_of(ctx, slices), _SplitTableUtil.get_split_table_key(message), tag, parties)
        push(ctx, message, _FederationBytesCoder.encode_split(meta, len(big), len(slices), 1 << 20))


def table_of(ctx, rows):
    return ctx.computing.parallelize(list(rows.items()), include_key=True, partition=1)


def push(ctx, name, data):
    parties = [each.party for each in ctx.hosts]
    ctx.federation.push_bytes(v=data, name=name, tag=ctx.namespace.federation_tag, parties=parties)


def suffer(ctx):
    told = {}
    for name in ("message", "array", "table", "slices", "whole"):
        try:
            value = ctx.guest.get(name)
            told[name] = str(list(value.mapValues(lambda each: each).collect()) if name == "table" else value)
        except Exception as error:
            told[name] = str(error)
    return told
