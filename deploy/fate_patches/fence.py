"""What may come of a pickle that a peer has written: values of FATE's kinds, which are made here, and nothing else.

FATE 2.2.0 unpickles what other parties send. Its own restriction lets in every name of every `fate.*` module, names
with dots included, by which a message reaches `os.system`; the values of tables, and messages above 1 MiB, which travel
as tables, are restricted by nothing. Here FATE's modules get these readers instead when they are imported
(`sitecustomize`), in every process that has this folder on its PYTHONPATH.

Nothing that a pickle says is run. `fence_reader` turns it into plain data and notes, `fence_builder` makes arrays, tensors
and FATE's objects of them, and `fence_classes` lists their classes, fields and what a field may hold. So no argument of a
peer reaches a function or a constructor that is not of this folder, but for states of FATE's Rust objects.

*Fenced*: messages of every size, and keys and values of all of FATE's tables, at a task, in its pool of processes, on
Spark's executors, and at the FATE-Flow server, which shows and downloads tables. All tables, not only received ones:
rows of a peer are handed on as they are by `repartition`, `save` and Spark's joins, so that no table is known to be
free of them. An executor without this folder does not read the tables of a task that has it: it cannot find this module,
and fails.

*Not fenced*, since no peer writes it: functions that a task sends to its own processes and executors, and files of
models. Not fenced either: EggRoll, which computes in Python processes of its own. And components still believe a peer's
numbers.
"""

from __future__ import annotations

import os
import pickle
import sys

if __package__:
    from .fence_builder import OTHERS, Builder
    from .fence_classes import CONTEXT, LISTED
    from .fence_numbers import NUMBERS
    from .fence_reader import FencedOff, Name, read, refused, shown
else:
    from fence_builder import OTHERS, Builder  # type: ignore[no-redef]
    from fence_classes import CONTEXT, LISTED  # type: ignore[no-redef]
    from fence_numbers import NUMBERS  # type: ignore[no-redef]
    from fence_reader import FencedOff, Name, read, refused, shown  # type: ignore[no-redef]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Further classes, separated by commas or blanks, each a module and one name in it.
ALLOW = "FATE_DP_FENCE_ALLOW"
# Whose classes no operator lets in: they do other things with what they hold than to keep it.
OURS = {name.removesuffix(".py") for name in os.listdir(os.path.dirname(os.path.abspath(__file__)))}
NEVER = frozenset((*sys.stdlib_module_names, "numpy", "pandas", "torch", "fate_utils", *OURS))
# Of a peer's table: ways to write keys and values, kinds of partitioners, and how many partitions it may announce.
SERDES_TYPES, PARTITIONER_TYPES, MAX_PARTITIONS = range(2), range(4), 1 << 14

MAKERS = {**NUMBERS, **OTHERS}
_known: dict[tuple[str, str], Name] = {}


def admitted(module: str, name: str) -> Name:
    """The note of a name that is let in; raises FencedOff, with how to let it in, where it is not."""
    found = _known.get((module, name))
    if found is not None:
        return found
    full = f"{module}.{name}"
    if "." in name:
        raise FencedOff(
            f"A peer's message or a table's value names {name[:200]!r} in the module {shown(module)}; FATE-DP's fence "
            "lets in no name with a dot."
        )
    if full in LISTED:
        found = _known[module, name] = Name(full)
        return found
    # Not remembered: a child of a fork server has an environment of its own.
    if full in widened():
        return Name(full)
    raise FencedOff(
        f"A peer's message or a table's value names {shown(full)}, which FATE-DP's fence does not let in; if it is a class "
        f"that does no harm whatever its fields hold, start this server with {ALLOW}={shown(full)} in its environment."
    )


def widened() -> frozenset[str]:
    """The classes that the operator lets in beside the list, as the environment of this process has them now."""
    names = os.environ.get(ALLOW, "").replace(",", " ").split()
    for each in names:
        wrong = wrong_name(each)
        if wrong:
            raise FencedOff(wrong)
    return frozenset(names)


def wrong_name(name: str) -> str:
    """What is wrong with a name that an operator lets in; empty where nothing is."""
    parts = name.split(".")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        return f"{ALLOW} has {name!r}, but takes full names only, such as package.module.Name, without stars."
    if parts[0] in NEVER:
        return f"{ALLOW} has {name!r}, but takes no class of {parts[0]}, which runs more than plain Python."
    return ""


def value_of(data: bytes, beside: Callable[[str, dict], Any] | None = None) -> Any:
    """What a pickle holds; `beside` gives tables and contexts that came with it."""
    value, to_build, _ = read(data, admitted)
    if not to_build:
        return value
    return Builder(len(data), MAKERS, beside).build(value)


class FencedSerdes:
    """FATE's way to write keys and values, and the fenced way to read them; FATE's functions carry it to other
    processes by its name here."""

    @staticmethod
    def serialize(value: Any) -> bytes:
        return pickle.dumps(value)

    @staticmethod
    def deserialize(data: bytes) -> Any:
        return value_of(data)


def fence_tables(module: Any) -> None:
    """Let `get_serdes_by_type` of FATE, or of FATE-Flow, give the fenced way for all that is pickled."""
    others = module.get_serdes_by_type

    def get_serdes_by_type(serdes_type: int) -> Any:
        return FencedSerdes if serdes_type == 0 else others(serdes_type)

    module.get_serdes_by_type = get_serdes_by_type


def fence_messages(module: Any) -> None:
    """Let FATE read messages by the fence, whole ones and those that come in slices."""

    class FencedMessages:
        @classmethod
        def pull(cls, buffers: bytes, ctx: Any, federation: Any, name: str, tag: str, party: Any) -> Any:
            def beside(kind: str, fields: dict) -> Any:
                """FATE's own context, whatever the message says of it, or a table that came with the message."""
                if kind == CONTEXT:
                    return ctx
                number = fields["key"].removeprefix(f"{name}__table_persistent_").removesuffix("__")
                if not number.isdigit() or fields["key"] != f"{name}__table_persistent_{number}__":
                    raise refused("refers to a table that did not come with it")
                return pulled(federation, fields["key"], tag, party, fields["table_meta"])

            data = bytes(buffers)
            if data[:1] == b"\1":
                data = in_slices(module, data, federation, name, tag, party)
            elif data[:1] != b"\0":
                raise refused("is neither whole nor in slices")
            else:
                data = data[1:]
            return value_of(data, beside)

    module.TableRemotePersistentUnpickler = FencedMessages


def pulled(federation: Any, name: str, tag: str, party: Any, meta: Any) -> Any:
    """A table of a peer, if it is one that FATE sends."""
    if (
        meta.key_serdes_type not in SERDES_TYPES
        or meta.value_serdes_type not in SERDES_TYPES
        or meta.partitioner_type not in PARTITIONER_TYPES
        or not 1 <= meta.num_partitions <= MAX_PARTITIONS
    ):
        raise refused("announces a table of a form that FATE does not send")
    return federation.pull_table(name=name, tag=tag, parties=[party], table_metas=[meta])[0]


def in_slices(module: Any, data: bytes, federation: Any, name: str, tag: str, party: Any) -> bytes:
    """The whole of a message that came as a table of slices, each under its number."""
    if len(data) < 33:
        raise refused("does not say in how many slices it comes")
    meta, size, count, _ = module._FederationBytesCoder.decode_split(data)
    table = pulled(federation, module._SplitTableUtil.get_split_table_key(name), tag, party, meta)
    slices: dict[int, bytes] = {}
    for number, part in table.collect():
        if type(number) is not int or not 0 <= number < count or type(part) is not bytes:
            raise refused("comes in other slices than it says")
        slices[number] = part
    if len(slices) != count or sum(map(len, slices.values())) != size:
        raise refused("is of another size than it says")
    return b"".join(slices[number] for number in range(count))
