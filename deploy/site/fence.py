"""What a pickle that may come from a peer can name: a list of exact names, and nothing else.

FATE 2.2.0 unpickles what other parties send. Its own restriction lets in every name of every `fate.*` module, names
with dots included, by which a message reaches `os.system`; the values of tables, and messages above 1 MiB, which travel
as tables, are restricted by nothing. Here FATE's modules get this list instead when they are imported
(`sitecustomize`), in every process that has this folder on its PYTHONPATH.

*Fenced*: messages of every size, and keys and values of all of FATE's tables, at a task, in its pool of processes, on
Spark's executors, and at the FATE-Flow server, which shows and downloads tables. All tables, not only received ones:
rows of a peer are handed on as they are by `repartition`, `save` and Spark's joins, so that no table is known to be
free of them. What a name gives depends on the list in which it stands, so that a message can neither run a constructor
that none needs, nor change a class or a function that the rest of the process uses, nor this task's own context. An
executor without this folder does not read the tables of a task that has it: it cannot find this module, and fails.

*Not fenced*, since no peer writes it: functions that a task sends to its own processes and executors, and files of
models. Not fenced either: EggRoll, which computes in Python processes of its own. And the list says what may come, not
what may be in it: components still believe a peer's numbers, and numpy, pandas, torch and FATE's Rust still read the
states of their own objects.

Imports nothing but Python's own, since every process of FATE-Flow starts with it.
"""

from __future__ import annotations

import enum
import importlib
import io
import os
import pickle
import re
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Further names, separated by commas or blanks, each a module and one name in it.
ALLOW = "FATE_DP_FENCE_ALLOW"

# Classes of which a pickle makes an object and fills it; their constructors do not run.
MADE = {
    "fate.arch.dataframe._dataframe": ("DataFrame",),
    "fate.arch.dataframe.manager.block_manager": (
        *("BlockManager", "BoolBlock", "Float32Block", "Float64Block", "IndexBlock"),
        *("Int32Block", "Int64Block", "NPObjectBlock", "PHETensorBlock"),
    ),
    "fate.arch.dataframe.manager.data_manager": ("DataManager",),
    "fate.arch.dataframe.manager.schema_manager": ("Schema", "SchemaManager"),
    "fate.arch.federation.api._serdes": (
        *("_ContextPersistentId", "_TablePersistentId"),
        *("_NumpySafeTensorPersistentId", "_TorchSafeTensorPersistentId"),
    ),
    "fate.arch.federation.api._table_meta": ("TableMeta",),
    "fate.arch.histogram._histogram_distributed": ("DistributedHistogram",),
    "fate.arch.histogram._histogram_splits": ("HistogramSplits",),
    "fate.arch.histogram.values._cipher": ("HistogramEncryptedValues",),
    "fate.arch.histogram.values._plain": ("HistogramPlainValues",),
    "fate.arch.histogram.values._values": ("HistogramValuesContainer",),
    "fate.arch.protocol.phe.ou": ("Coder", "PK"),
    "fate.arch.protocol.phe.paillier": ("Coder", "PK"),
    "fate.arch.tensor.distributed._tensor": ("DTensor", "Shardings", "_ShardingShapes"),
    "fate.arch.tensor.inside._op_quantile": ("GKSummary",),
    "fate.arch.tensor.phe._keypair": ("PHETensorCoder", "PHETensorEncryptor"),
    "fate.arch.tensor.phe._tensor": ("PHETensor", "PHETensorEncoded"),
    "fate.ml.ensemble.learner.decision_tree.tree_core.decision_tree": ("Node",),
    # Of our own components, whose messages name no class: what stands in a party's own tables.
    "fate_dp.components.dp_hetero_lr.per_epoch.protocol": ("Slice", "Sums"),
    "fate_dp.components.dp_hetero_lr.rows": ("Block", "Seen"),
    "fate_dp.components.dp_scorecard.tables": ("Binned",),
    "fate_utils.ou": ("CiphertextVector", "Coder", "PK", "PlaintextVector"),
    "fate_utils.paillier": ("CiphertextVector", "Coder", "PK", "PlaintextVector"),
    "fate_utils.quantile": ("QuantileSummaryStream",),
    "pandas.core.indexes.base": ("Index",),
    "pandas.core.series": ("Series",),
}
# Functions, and classes of which no object can be had otherwise: a pickle calls them, with whatever it likes.
CALLED = {
    "builtins": ("getattr", "slice"),
    "collections": ("OrderedDict",),
    "fate.arch.dataframe.manager.block_manager": ("BlockType",),
    "fate.arch.unify._infra_def": ("device",),
    "numpy": ("dtype", "ndarray"),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),
    "pandas.core.indexes.base": ("_new_Index",),
    "pandas.core.internals.managers": ("SingleBlockManager",),
    "torch": ("Size", "device"),
    "torch._utils": ("_rebuild_tensor_v2",),
    "torch.storage": ("_load_from_bytes",),
}
# What is sent as it is: constants, and classes that are used without an object.
TAKEN = {
    "fate.arch.protocol.phe.ou": ("evaluator",),
    "fate.arch.protocol.phe.paillier": ("evaluator",),
    "torch": ("bool", "float16", "float32", "float64", "int16", "int32", "int64", "int8", "uint8"),
}

# With these bytes begins what torch writes for the numbers of a tensor that is pickled, and neither an archive nor a
# program, which `torch.load` would take as well.
STORAGE_BEGINS = pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2)
NUMPY_DTYPE = ("numpy", "dtype")
# As numpy writes the kinds of arrays that have neither fields nor units of time.
PLAIN_KIND = re.compile(r"[?biufcSUO][0-9]*")
# Of types, in CPython: made by a program rather than compiled, and closed to changes all the same.
HEAP_TYPE, IMMUTABLE_TYPE = 1 << 9, 1 << 8


class FencedOff(pickle.UnpicklingError):
    """A pickle names, or does, what is not let in."""


class StandIn(type):
    """What a pickle is given for a class: it makes objects of that class, and cannot be used to change the class.

    A pickle may set attributes of whatever it holds. Given the class itself, it could replace the methods by which this
    party encrypts.
    """

    real: type
    may_be_called: bool

    def __call__(cls, *arguments: Any) -> Any:
        if not cls.may_be_called:
            raise FencedOff(f"A pickle runs the constructor of {described(cls.real)}, which no component of FATE does.")
        return cls.real(*arguments)

    def __setstate__(cls, state: Any) -> None:
        raise FencedOff(f"A pickle changes the class {described(cls.real)}, which is not its own.")


class Function:
    """What a pickle is given for a function; it can call it and no more."""

    __slots__ = ("_function",)

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise FencedOff(f"A pickle changes the function {described(self._function)}, which is not its own.")


def described(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def stand_in(real: type, may_be_called: bool) -> StandIn:
    """A class that makes objects of another one."""

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        return real.__new__(real, *arguments, **named)

    return StandIn(real.__name__, (), {"__new__": __new__, "real": real, "may_be_called": may_be_called})


def closed(real: type) -> type:
    """A class that is sent as itself, or whose objects are shared, closed to pickles that would change it or them."""

    def __setstate__(state: Any) -> None:
        raise FencedOff(f"A pickle changes the class {described(real)}, which is not its own.")

    real.__setstate__ = staticmethod(__setstate__)  # type: ignore[attr-defined]
    return real


def storage_in(data: bytes) -> Any:
    """The numbers of a tensor, as torch pickles them: in a pickle of their own, which torch would read without limits."""
    if not isinstance(data, bytes) or not data.startswith(STORAGE_BEGINS):
        raise FencedOff("A pickle gives torch a file to read which holds no tensor.")
    import torch

    return torch.load(io.BytesIO(data), weights_only=True)


def index_of(kind: Any, data: Any) -> Any:
    """An index of pandas; its own function makes an object of whatever class it is given."""
    if not isinstance(kind, StandIn) or kind.real.__module__ != "pandas.core.indexes.base":
        raise FencedOff("A pickle has an index that is none.")
    from pandas.core.indexes.base import _new_Index

    return _new_Index(kind, data)


def member_of(kind: Any, name: Any) -> Any:
    """A member of an enumeration, which Python 3.11.0 to 3.11.3 pickle as what `getattr` gives of it; nothing else."""
    if not isinstance(kind, enum.EnumMeta) or not isinstance(name, str) or name not in kind.__members__:
        raise FencedOff("A pickle asks by builtins.getattr for what is no member of an enumeration.")
    return kind.__members__[name]


# Functions that would themselves run what they are given, and what is called instead.
INSTEAD = {
    ("builtins", "getattr"): member_of,
    ("torch.storage", "_load_from_bytes"): storage_in,
    ("pandas.core.indexes.base", "_new_Index"): index_of,
}
_known: dict[tuple[str, str], object] = {}


def admitted(module: str, name: str) -> Any:
    """What a name in a pickle stands for; raises FencedOff, with how to let it in, where it is not let in."""
    found = _known.get((module, name))
    if found is not None:
        return found
    if "." in name or not any(name in names.get(module, ()) for names in (MADE, CALLED, TAKEN)):
        if "." in name or f"{module}.{name}" not in widened():
            raise FencedOff(refusal(module, name))
        # Not remembered: a child of a fork server has an environment of its own.
        return resolved(module, name)
    found = _known[module, name] = resolved(module, name)
    return found


def resolved(module: str, name: str) -> Any:
    """What a pickle is given for a name that is let in."""
    if (module, name) in INSTEAD:
        return Function(INSTEAD[module, name])
    real = getattr(importlib.import_module(module), name)
    if isinstance(real, types.FunctionType):
        return Function(real)
    if not isinstance(real, type) or not real.__flags__ & HEAP_TYPE or real.__flags__ & IMMUTABLE_TYPE:
        return real
    if name in TAKEN.get(module, ()) or issubclass(real, enum.Enum):
        return closed(real)
    return stand_in(real, may_be_called=name not in MADE.get(module, ()))


def widened() -> set[str]:
    """The names that the operator lets in beside the list, as the environment of this process has them now."""
    names = set(os.environ.get(ALLOW, "").replace(",", " ").split())
    for each in sorted(names):
        wrong = wrong_name(each)
        if wrong:
            raise FencedOff(wrong)
    return names


def wrong_name(name: str) -> str:
    """What is wrong with a name that an operator lets in; empty where nothing is."""
    parts = name.split(".")
    if len(parts) > 1 and all(part.isidentifier() for part in parts):
        return ""
    return f"{ALLOW} has {name!r}, but takes full names only, such as package.module.Name, without stars."


def refusal(module: str, name: str) -> str:
    full = f"{module}.{name}"
    if "." in name:
        return (
            f"A peer's message or a table's value names {name!r} in the module {module}; FATE-DP's fence lets in "
            "no name with a dot."
        )
    return (
        f"A peer's message or a table's value names {full}, which FATE-DP's fence does not let in; if it does no "
        f"harm whatever a peer calls it with, start this server with {ALLOW}={full} in its environment."
    )


class Anything:
    """What a rehearsed pickle gets for all that it names, and may do what it likes with."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        pass

    extend = add = append


class KindOfNumbers(Anything):
    """What a rehearsed pickle gets for `numpy.dtype`: it refuses what numpy itself would not have written.

    By its state, which numpy does not check, a kind of numbers could be told that it holds no objects although it does,
    or does although it holds none; numpy then follows what a peer wrote as if it were addresses of objects.
    """

    state: Any

    def __new__(cls, text: Any = None, align: Any = None, copy: Any = None, **named: Any) -> KindOfNumbers:
        if not (isinstance(text, str) and PLAIN_KIND.fullmatch(text)) or (align, copy) != (False, True) or named:
            raise FencedOff(f"A pickle has an array of {text!r}; numbers, texts and objects are let in.")
        import numpy

        made = super().__new__(cls)
        made.state = numpy.dtype(text).__reduce__()[2]
        return made

    def __setstate__(self, state: Any) -> None:
        if type(state) is not tuple or state[2:] != self.state[2:] or state[0] != self.state[0]:
            raise FencedOff("A pickle has a numpy.dtype with a state that is none of numpy's own.")


class Rehearsal(pickle.Unpickler):
    """Follows a pickle without making anything, to see what it would do to the types of its arrays."""

    def find_class(self, module: str, name: str) -> Any:
        admitted(module, name)
        return KindOfNumbers if (module, name) == NUMPY_DTYPE else Anything

    def persistent_load(self, identity: Any) -> Any:
        return Anything()


class FencedUnpickler(pickle.Unpickler):
    """Reads a value of a table."""

    rehearsed = False

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == NUMPY_DTYPE and not self.rehearsed:
            raise FencedOff("A pickle hides that it names numpy.dtype.")
        return admitted(module, name)


class FencedSerdes:
    """FATE's way to write keys and values of tables, and the fenced way to read them.

    FATE's functions carry it to the processes that run them by its name in this module.
    """

    @staticmethod
    def serialize(value: Any) -> bytes:
        return pickle.dumps(value)

    @staticmethod
    def deserialize(data: bytes) -> Any:
        unpickler = FencedUnpickler(io.BytesIO(data))
        # The name stands in every pickle that has arrays; one that hides it is refused.
        if NUMPY_DTYPE[1].encode() in data:
            Rehearsal(io.BytesIO(data)).load()
            unpickler.rehearsed = True
        return unpickler.load()


def fence_tables(module: Any) -> None:
    """Let `get_serdes_by_type` of FATE, or of FATE-Flow, give the fenced way for all that is pickled."""
    others = module.get_serdes_by_type

    def get_serdes_by_type(serdes_type: int) -> Any:
        return FencedSerdes if serdes_type == 0 else others(serdes_type)

    module.get_serdes_by_type = get_serdes_by_type


def fence_messages(module: Any) -> None:
    """Let FATE's reader of messages take names from the list only, and leave this task's own context alone."""
    own_kinds = (
        module._TablePersistentId,
        module._ContextPersistentId,
        module._TorchSafeTensorPersistentId,
        module._NumpySafeTensorPersistentId,
    )

    class FencedMessageUnpickler(module.TableRemotePersistentUnpickler):
        def __init__(self, ctx: Any, federation: Any, name: str, tag: Any, party: Any, file: io.BufferedIOBase) -> None:
            self._file = file
            super().__init__(ctx, federation, name, tag, party, file)

        def find_class(self, module_name: str, name: str) -> Any:
            return admitted(module_name, name)

        def persistent_load(self, identity: Any) -> Any:
            if type(identity) not in own_kinds:
                raise FencedOff("A message refers to something beside it that is neither table, tensor nor context.")
            # Not the object's own `load`, which the message could have replaced.
            return type(identity).load(identity, self)

        def load(self) -> Any:
            Rehearsal(self._file).load()
            self._file.seek(0)
            own: Any = vars(self._ctx) if self._ctx is not None else {}
            before = dict(own)
            value = super().load()
            if own.keys() != before.keys() or any(own[name] is not each for name, each in before.items()):
                own.clear()
                own.update(before)
                raise FencedOff("A message changes the context of the task that receives it.")
            return value

    module.TableRemotePersistentUnpickler = FencedMessageUnpickler
