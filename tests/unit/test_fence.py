"""The fence: honest values come back as they were, and nothing of a peer's reaches a function that is not the fence's own."""

import collections
import copyreg
import pickle
import pickletools
import struct

import numpy as np
import pandas as pd
import pytest
import torch

from fate_dp.deploy.fate_patches import fence, fence_builder, fence_classes, fence_reader
from tests import fence_values as values
from tests import hostile_pickles as hostile
from tests.fence_values import read, receive, refused
from tests.hostile_pickles import Built, filled
from tests.operators_class import Rate

# What is let in -----------------------------------------------------------------------------------------------------

STATE = collections.OrderedDict(w=torch.rand(2), b=torch.zeros(1))
PLAIN = [
    None,
    True,
    3,
    255,
    256,
    -1,
    2**70,
    0.5,
    "text",
    "é" * 200,
    b"bytes",
    [1, (2, 3)],
    {"a": {1, 2}},
    frozenset("a"),
]
LONG = [
    *(list(range(3000)), [each / 7 for each in range(3000)], [f"{each}" for each in range(3000)], ["ab\x94"] * 2500),
    *(
        [(each, "k", None) for each in range(3000)],
        {each: str(each) for each in range(3000)},
        [255] * 1001 + [256] * 1001,
    ),
    *([["x"] * 20, ["y"] * 20] * 70, [{"a": []}] * 3, "x" * 70000, b"y" * 70000, [2**31, -(2**40)] * 600),
]
ARRAYS = [
    *(np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3)), np.zeros((0, 3)), np.float64(0.5)),
    *(
        np.array(["a", None, 2, [1], (torch.tensor(1),)], dtype=object).reshape(5, 1),
        np.array(["añ", "b"]),
        np.array([b"ab"]),
    ),
    *(np.arange(3, dtype=">i4"), np.array([True, False]), np.array(1j), np.int32(7), np.bool_(True), np.dtype("f4")),
    *({np.int64(3)}, {np.int64(3): "a"}, slice(1, None), STATE, torch.Size([2, 3]), torch.device("cpu"), torch.float32),
    *(pd.Index(["a", "b"], name="columns"), pd.Index([1, 2]), pd.Series([1.0, 2.0], index=["a", "b"], name="s")),
]
TENSORS = [
    *(torch.rand(3, 2), torch.arange(4), torch.tensor([True, False]), torch.rand(4, 3)[::2, 1], torch.zeros(0)),
    *(torch.rand(2).half(), torch.tensor(1.5), torch.rand(2, 3).T, torch.rand(6)[2:], torch.zeros(0, 3)),
]


@pytest.mark.parametrize("value", [*PLAIN, *LONG, *ARRAYS, *TENSORS], ids=lambda value: str(type(value).__name__))
def test_a_value_comes_back(value):
    assert values.alike(read(pickle.dumps(value)), value)
    assert values.alike(read(pickle.dumps([value, value, (value,)])), [value, value, (value,)])


@pytest.mark.parametrize("value", [*PLAIN, *LONG], ids=lambda value: str(type(value).__name__))
def test_a_plain_value_comes_back_from_a_later_python(value):
    assert values.alike(read(pickle.dumps(value, 5)), value)


def test_one_object_of_every_class_comes_back():
    context, found = object.__new__(values.Context), set()
    for made, data in ((value, pickle.dumps(value)) for value in values.in_tables().values()):
        assert values.alike(read(data), made)
        found |= names_in(data)
    for made in values.in_messages(context).values():
        data, federation = values.send(made)
        assert values.alike(receive(data, context, federation), made)
        found |= names_in(data[1:])
    listed = {*fence_classes.FIELDS, *fence_classes.IN_ORDER, *fence_classes.NAMED_TUPLES, *fence_classes.RUST_STATES}
    assert listed - found == set(), "no honest object of these is tried"


def names_in(data):
    """The names that a pickle of protocol 4 has."""
    texts, memory, names = [], [], set()
    for instruction, argument, _ in pickletools.genops(data):
        if instruction.name == "STACK_GLOBAL":
            names.add(".".join(texts[-2:]))
        elif isinstance(argument, str):
            texts.append(argument)
        elif instruction.name in ("BINGET", "LONG_BINGET"):
            texts.append(memory[argument])
        if instruction.name == "MEMOIZE":
            memory.append(texts[-1] if texts else "")
    return names


def test_what_is_built_is_the_receivers_own():
    """Numbers that could not be written to, or lay in one memory, would fail in the middle of a job."""
    array, tensor = read(pickle.dumps((np.zeros(2), torch.zeros(2))))
    array += 1
    tensor += 1
    both = read(pickle.dumps([STATE, STATE]))
    assert array.sum() == tensor.sum() == 2 and both[0] is both[1]


def test_every_name_on_the_list_is_there():
    """A name that FATE or a library no longer has would be refused in the middle of a job."""
    for full in fence_classes.LISTED:
        found = fence_builder.real(full)
        assert fence.admitted(*full.rsplit(".", 1)).full == full and not full.rpartition(".")[2].startswith("__")
        if full in fence_classes.FIELDS:
            assert found.__new__ is object.__new__ and not hasattr(found, "__slots__")


# Names --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module, name",
    [("fate.arch.config._config", "os.system"), ("collections", "OrderedDict.fromkeys"), ("numpy", "ndarray.tofile")],
    ids=".".join,
)
def test_no_name_with_a_dot(module, name, monkeypatch):
    monkeypatch.setenv(fence.ALLOW, f"{module}.{name}")
    said = refused(hostile.call(module, name, "true"))
    assert repr(name) in said and module in said and "no name with a dot" in said


@pytest.mark.parametrize(
    "module, name",
    [
        *(("os", "system"), ("builtins", "eval"), ("functools", "partial"), ("fate.arch.config._config", "os")),
        *(("torch", "load"), ("numpy", "load"), ("pickle", "loads"), ("numpy", "frombuffer"), ("torch", "Tensor")),
        *(("fate.arch.federation.api._serdes", "pickle"), ("fate.arch.computing.serdes._serdes_base", "p_loads")),
    ],
    ids=".".join,
)
def test_nothing_that_is_not_listed(module, name):
    assert refused(hostile.call(module, name, "true")) == (
        f"A peer's message or a table's value names {module}.{name}, which FATE-DP's fence does not let in; if it is a "
        f"class that does no harm whatever its fields hold, start this server with FATE_DP_FENCE_ALLOW={module}.{name} "
        "in its environment."
    )


@pytest.mark.parametrize("full", sorted(fence_classes.LISTED))
def test_no_listed_name_is_called_as_a_peer_likes(full):
    """With nothing, with what a constructor would take, and with a state that would be set attribute by attribute."""
    module, _, name = full.rpartition(".")
    named = hostile.PROTOCOL + hostile.name(module, name)
    refused(named + hostile.MARK + hostile.text("a") * 9 + b"t" + hostile.CALL + hostile.END)
    state = hostile.NONE + b"}" + hostile.text("__class__") + hostile.NONE + b"s" + hostile.TUPLE_OF_2
    refused(named + b")" + hostile.CALL + state + hostile.FILL + hostile.END)
    assert "changes what it did not make" in refused(hostile.set_attribute(module, name, "attribute"))
    assert "calls what is not a name" in refused(named + b"]" + hostile.CALL + hostile.END)
    if full not in (*fence_builder.BESIDE, "collections.OrderedDict"):
        assert "an item in what" in refused(named + b")" + hostile.CALL + hostile.text("a") + b"Ns" + hostile.END)
    if full not in (*fence_classes.TORCH_TYPES, *fence_classes.EVALUATORS):
        assert "where a value belongs" in refused(named + hostile.END)


def test_a_name_is_told_in_one_line():
    said = refused(hostile.call("os\nERROR: all is lost", "a" * 250))
    assert "\n" not in said and len(said) < 700


# Instructions -------------------------------------------------------------------------------------------------------

# Those that are read where nearly all are, without a function of their own.
AT_ONCE = {"STOP", "MARK", "MEMOIZE", "BINFLOAT", "BININT1", "BININT2", "SHORT_BINUNICODE", "TUPLE2"}
OWN = {
    *("PROTO", "FRAME", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "LONG1", "LONG4", "GLOBAL", "STACK_GLOBAL", "REDUCE"),
    *("NEWOBJ", "BUILD", "BINPERSID", "BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    *(
        "EMPTY_TUPLE",
        "TUPLE",
        "TUPLE1",
        "TUPLE3",
        "EMPTY_LIST",
        "APPEND",
        "APPENDS",
        "EMPTY_DICT",
        "SETITEM",
        "SETITEMS",
    ),
    *("EMPTY_SET", "ADDITEMS", "FROZENSET", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
}


@pytest.mark.parametrize("instruction", pickletools.opcodes, ids=lambda each: each.name)
def test_an_instruction_that_no_value_needs_is_refused(instruction):
    """By EXT1 a pickle has what any library registered, by POP it hides what it did, by INST it calls without a note."""
    refuses = "refuse" in fence_reader.INSTRUCTIONS[ord(instruction.code)].__qualname__
    assert refuses == (instruction.name not in OWN)
    if instruction.name not in AT_ONCE | OWN:
        assert "which no value of FATE needs" in refused(b"\x80\x04(" + instruction.code.encode("latin-1") + b"\0" * 9)


def test_what_others_registered_is_not_had(monkeypatch):
    monkeypatch.setitem(copyreg._inverted_registry, 7, ("os", "system"))
    assert "instruction" in refused(b"\x80\x04\x82\x07.")


def nested(opening, closing, depth=300_000):
    return b"\x80\x04" + opening * depth + closing * depth + b"."


@pytest.mark.parametrize(
    "data, what",
    [
        (b"\x80\x04K\x01r\xff\xff\xff\xff.", "remembers under a number that is not the next"),
        (b"\x80\x04q\x05K\x01.", "remembers under a number"),
        (b"\x80\x04\x8e" + b"\xff" * 7 + b"\x7f.", "no sound pickle"),
        (b"\x80\x04\x8d\xff\xff\xff\xff\0\0\0\0.", "no sound pickle"),
        (b"\x80\x04\x8b\xff\xff\xff\x7f\1.", "no sound pickle"),
        (nested(b"]", b"a")[:-2] + b".", "nested deeper than 100 levels"),
        (b"\x80\x04)" + b"\x85" * 300_000 + b".", "nested deeper than 100 levels"),
        (nested(b"(", b"t"), "nested deeper than 100 levels"),
        (b"\x80\x04}" + b"}" * 200 + b"K\x01" + b"".join([hostile.text("a"), b"s"]), "no sound pickle"),
        (b"\x80\x04}\x94" + hostile.text("a") + b"h\0s.", "contains itself"),
        (b"\x80\x04]\x94h\0a" + hostile.name("torch", "bool") + b"a.", "contains itself"),
        (b"\x80\x04}\x8a\x09" + b"\1" * 9 + b"Ns.", "neither a text, a number of 64 bits"),
        (b"\x80\x04}" + b"K\1\x85\x85Ns.", "neither a text, a number of 64 bits"),
        (b"\x80\x04\x8f(" + b"K\1\x85\x85\x90.", "neither a text, a number of 64 bits"),
        (b"\x80\x04}]Ns.", "neither a text, a number of 64 bits"),
        (pickle.dumps(dict.fromkeys(range(140_000))), "more than 65536 keys"),
        (pickle.dumps(set(range(140_000))), "more than 65536 keys"),
        (b"\x80\x04K\x01K\x02b.", "changes what it did not make"),
        (b"\x80\x04K\x01)R.", "calls what is not a name"),
        (b"\x80\x04(K\x01K\x02a.", "appends to what is not a list"),
        (b"\x80\x04}(K\x01K\x02\x86\x90.", "adds a member to what is not a set"),
        (b"\x80\x04(K\1\x85\x85\x91.", "neither a text, a number of 64 bits"),
        (b"\x80\x04" + hostile.name("collections", "OrderedDict") + b")R]Ns.", "neither a text, a number of 64 bits"),
        (b"\x80\x04}" + hostile.name("torch", "Size") + b")\x85RNs.", "a key made by torch.Size"),
        (b"\x80\x04K\1K\2K\3s.", "adds an item to what is not a dictionary"),
        *(
            (b"\x80\x04" + two + b"\x93.", "no sound pickle")
            for two in (b"]" + hostile.text("a"), hostile.text("a") + b"]")
        ),
        (b"\x80\x04" + hostile.refer("_ContextPersistentId", key="x") + b".", "neither table, tensor nor context"),
        (b"\x80\x06N.", "no sound pickle"),
        (b"\x80\x04K", "no sound pickle"),
        (b"\x80\x04\x8c\x05abc", "no sound pickle"),
        (b"\x80\x04.", "no sound pickle"),
        (b"", "no sound pickle"),
    ],
)
def test_a_pickle_of_no_honest_form_is_refused(data, what):
    """Each would take all memory, all stack or hours, crash what reads it, or change what it does not own."""
    assert what in refused(data)


def test_a_value_is_filled_once():
    twice = hostile.PROTOCOL + hostile.refer("_ContextPersistentId", key="x")[:-1] + b"}b}b."
    assert "fills a value twice" in refused(twice)


# FATE's objects -----------------------------------------------------------------------------------------------------

rust = values.paillier.keygen(512)[1].pk
VECTOR = type(values.encrypted(values.ou)["tensor"].data)


@pytest.mark.parametrize(
    "value, what",
    [
        (filled(values.PHETensorCoder, {"_coder": 1}), "whose field _coder is not what FATE puts there"),
        (filled(values.PHETensorCoder, {"encode": None}), "with other fields than FATE gives it"),
        (filled(values.PHETensorCoder, {"__class__": None}), "with other fields than FATE gives it"),
        (filled(values.PHETensorCoder, (None, {"__dict__": {}})), "without fields"),
        (filled(values.PHETensorCoder, {3: None}), "with other fields than FATE gives it"),
        (Built(values.PHETensorCoder, None), "without fields"),
        (
            Built(values.PHETensorCoder, None, state=vars(values.encrypted(values.ou)["coder"])),
            "made otherwise than FATE's are",
        ),
        (filled(values.GKSummary, {"_epsilon": 0.1}), "with other fields than FATE gives it"),
        (
            filled(values.GKSummary, {"_epsilon": "0.1", "_summary": None}),
            "whose field _epsilon is not what FATE puts there",
        ),
        (
            filled(values.HistogramSplits, dict.fromkeys(vars(values.histogram(values.ou)), True)),
            "whose field sid is not what FATE puts there",
        ),
        (
            filled(type(values.data_manager()._block_manager), {"_blocks": [1], "_field_block_mapping": {}}),
            "whose field _blocks is not",
        ),
        *(
            (
                filled(type(values.data_manager()._block_manager), {"_blocks": [], "_field_block_mapping": wrong}),
                "_mapping is not",
            )
            for wrong in ([], {"a": (0, 0)}, {0: (0,)}, {0: (0, "a")}, {0: [0, 0]}, {True: (0, 0)})
        ),
        (Built(values.Block, 1, np.ones(1), None, state={}), "not as our components make it"),
        (filled(values.DistributedHistogram, (1, 2)), "another number of fields"),
        (filled(values.DistributedHistogram, (1, 2, 3, 4, True, True)), "whose field _splits is not"),
        (Built(values.Block, 1, "rows", None), "not as our components make it"),
        (Built(values.BlockType, "nothing"), "not a member of an enumeration"),
        (Built(getattr, values.BlockType, "__class__"), "not a member of an enumeration"),
        (Built(getattr, values.BlockType, "mro"), "not a member of an enumeration"),
        (Built(getattr, values.GKSummary, "__init__"), "an attribute that is not one"),
        (Built(getattr, "text", "format"), "an attribute that is not one"),
        (filled(type(rust), b""), "whose state is of another form"),
        (filled(type(rust), bytes(rust.__getstate__())[:-1]), "whose state is of another form"),
        (filled(type(rust), bytes(rust.__getstate__()) + b"\0"), "whose state is of another form"),
        (filled(type(rust), b"\x11" + bytes(rust.__getstate__())[1:]), "whose state is of another form"),
        (
            filled(type(rust), b"\n\0\0\0\1" + b"\0" * 7 + b"0" + bytes(rust.__getstate__())[140:]),
            "whose state is of another form",
        ),
        (filled(VECTOR, struct.pack("<QiQ1si", 1, 10, 1, b"7", 2**17)), "whose state is of another form"),
        (filled(VECTOR, struct.pack("<QiQ1si", 1, 10, 1, b"a", 0)), "whose state is of another form"),
        (filled(type(rust), [256]), "cannot be made"),
        (filled(type(values.summary()._summary), b"\2" + bytes(24)), "whose state is of another form"),
        (filled(type(values.summary()._summary), b"\1" + b"\xff" * 24), "whose state is of another form"),
        (filled(VECTOR, b"\xff" * 8 + b"\0" * 16), "whose state is of another form"),
    ],
)
def test_an_object_of_fate_has_fates_fields(value, what):
    assert what in refused(value)


def test_a_member_of_an_enumeration_is_had_by_its_name():
    """Debian 12's Python is 3.11.2, where every member comes like this."""
    for member in values.BlockType:
        assert read(pickle.dumps(Built(getattr, values.BlockType, member.name))) is member
        assert read(pickle.dumps(member)) is member


def test_a_panic_of_rust_is_a_refusal(monkeypatch):
    """It is no `Exception`, so that a task would end without a word."""
    monkeypatch.setattr(fence_builder, "has_form", lambda state, form: True)
    assert "that FATE's Rust does not read" in refused(filled(type(rust), b"\xff" * 20))


def test_the_refusal_crosses_processes():
    """It is raised in a pool, and shown by the task."""
    error = pickle.loads(pickle.dumps(fence.FencedOff("one sentence")))
    assert isinstance(error, fence.FencedOff) and str(error) == "one sentence"


# Widening -----------------------------------------------------------------------------------------------------------

RATE = "tests.operators_class.Rate"


@pytest.mark.parametrize("value", [RATE, f"{RATE},a.B", f" a.B  {RATE} "])
def test_an_operator_lets_in_a_class_of_plain_python(value, monkeypatch):
    refused(Rate(0.5))
    monkeypatch.setenv(fence.ALLOW, value)
    assert vars(read(pickle.dumps(Rate(0.5)))) == {"value": 0.5}
    assert "was made otherwise" in refused(Built(Rate, 0.5, state={}))
    assert "that Python itself looks for" in refused(filled(Rate, {"__reduce_ex__": 1}))
    monkeypatch.delenv(fence.ALLOW)
    refused(Rate(0.5))


@pytest.mark.parametrize("name", ["function", "Counted", "Slotted", "Chooser", "pickle"])
def test_an_operator_lets_in_nothing_else(name, monkeypatch):
    """Neither functions, nor modules, nor classes that do more with what they hold than to keep it."""
    monkeypatch.setenv(fence.ALLOW, f"tests.operators_class.{name}")
    assert "not a class of plain Python" in refused(hostile.call("tests.operators_class", name))


@pytest.mark.parametrize(
    "value",
    ["decimal", "decimal.*", "bank.Code; os.system", "*", "os.system", "numpy.ndarray", "torch.load", "builtins.eval"],
)
def test_what_the_option_does_not_take(value, monkeypatch):
    monkeypatch.setenv(fence.ALLOW, value)
    with pytest.raises(fence.FencedOff, match=f"{fence.ALLOW} has"):
        read(pickle.dumps(Rate(0.5)))
    assert read(pickle.dumps([1])) == [1]
