"""The fence: what a peer's pickles may name, in which processes, and how an operator lets in more."""

import io
import json
import os
import pickle
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pytest
import torch

from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.flow.server import SITE, server_environment
from fate_dp.deploy.site import fence
from tests import hostile_pickles as hostile
from tests.fork_servers import make_place, serving
from tests.support.cluster import party_server


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "marker"


def read(data):
    return fence.FencedSerdes.deserialize(data)


def refused(data):
    """The sentence with which a pickle is refused."""
    with pytest.raises(fence.FencedOff) as refusal:
        read(data)
    return str(refusal.value)


# What is let in -----------------------------------------------------------------------------------------------------

PLAIN = [None, True, 3, 2**70, 0.5, "text", b"bytes", [1, (2, 3)], {"a": {1, 2}}, frozenset("a"), slice(1, 2)]
ARRAYS = [np.arange(6.0).reshape(2, 3), np.array(["a", None, 2], dtype=object), np.array(["a"]), np.float64(0.5)]
TENSORS = [
    torch.rand(3, 2),
    torch.arange(4),
    torch.tensor([True, False]),
    torch.rand(4, 3)[::2, 1],
    torch.zeros(0),
    torch.rand(2).half(),
    torch.tensor(1.5),
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_come_back(value):
    assert read(fence.FencedSerdes.serialize(value)) == value


@pytest.mark.parametrize("value", ARRAYS, ids=lambda value: str(value.dtype))
def test_arrays_come_back(value):
    found = read(fence.FencedSerdes.serialize(value))
    assert found.dtype == value.dtype and np.array_equal(found, value)


@pytest.mark.parametrize("value", TENSORS, ids=lambda value: f"{value.dtype} {tuple(value.shape)}")
def test_tensors_come_back(value):
    found = read(fence.FencedSerdes.serialize(value))
    assert found.dtype == value.dtype and found.stride() == value.stride() and torch.equal(found, value)


def test_an_index_and_a_series_come_back():
    index = pd.Index(["a", "b"], name="columns")
    pd.testing.assert_index_equal(read(pickle.dumps(index)), index)
    series = pd.Series([1.0, 2.0], index=["a", "b"])
    pd.testing.assert_series_equal(read(pickle.dumps(series)), series)


def test_keys_of_encryption_come_back():
    from fate.arch.protocol.phe import paillier

    private, public, coder = paillier.keygen(1024)
    got = read(pickle.dumps((public, coder)))
    assert [type(each) for each in got] == [type(public), type(coder)]
    assert pickle.dumps(got) == pickle.dumps((public, coder))


def test_every_name_on_the_list_is_there():
    """A name that FATE or a library no longer has would be refused in the middle of a job."""
    lists = (fence.MADE, fence.CALLED, fence.TAKEN)
    listed = [(module, each) for names in lists for module in names for each in names[module]]
    assert len(listed) == len(set(listed)), "a name stands in two lists"
    for module, each in listed:
        fence.admitted(module, each)
        assert "." not in each and not each.startswith("__")


# What is not --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module, name",
    [("fate.arch.config._config", "os.system"), ("collections", "OrderedDict.fromkeys"), ("numpy", "ndarray.tofile")],
    ids=".".join,
)
def test_no_name_with_a_dot(module, name, marker, monkeypatch):
    monkeypatch.setenv(fence.ALLOW, f"{module}.{name}")
    said = refused(hostile.call(module, name, f"touch {marker}"))
    assert repr(name) in said and module in said and "no name with a dot" in said and not marker.exists()


@pytest.mark.parametrize(
    "module, name",
    [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("functools", "partial"),
        ("fate.arch.config._config", "os"),
        ("fate.arch.launchers.multiprocess_launcher", "launch"),
        ("torch", "load"),
        ("numpy", "load"),
        ("pickle", "loads"),
        ("cloudpickle", "loads"),
        ("torch.jit", "load"),
        ("fate.arch.federation.api._serdes", "pickle"),
        ("fate.arch.computing.serdes._serdes_base", "p_loads"),
    ],
    ids=".".join,
)
def test_nothing_that_is_not_listed(module, name, marker):
    said = refused(hostile.call(module, name, f"touch {marker}"))
    assert said == (
        f"A peer's message or a table's value names {module}.{name}, which FATE-DP's fence does not let in; if it does "
        f"no harm whatever a peer calls it with, start this server with FATE_DP_FENCE_ALLOW={module}.{name} in its "
        "environment."
    )
    assert not marker.exists()


def test_a_value_that_runs_a_command(marker):
    command = f"touch {marker}"
    assert ".system, which FATE-DP's fence does not let in" in refused(pickle.dumps([1, hostile.Command(command)]))
    assert not marker.exists()
    pickle.loads(pickle.dumps(hostile.Command(command)))
    assert marker.exists(), "the attack is one where nothing stands in its way"


def plain(command):
    return pickle.dumps(hostile.Command(command))


@pytest.mark.parametrize("form", [hostile.archive, hostile.old_tensor, plain])
def test_torch_reads_tensors_only(form, marker):
    """`torch.storage._load_from_bytes`, by which every pickled tensor comes, is torch.load without a restriction."""
    data = hostile.tensor_of(form(f"touch {marker}"))
    with pytest.raises(pickle.UnpicklingError):
        read(data)
    assert not marker.exists()


class Built:
    """Pickled as a call with a state that is filled in afterwards."""

    def __init__(self, function, arguments, state=None):
        self.reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self):
        return self.reduced


PLAIN_OBJECTS = (3, "|", None, None, None, -1, -1, 63)
NO_OBJECTS = (3, "|", None, None, None, -1, -1, 0)
WITH_FIELDS = (3, "|", None, ("a",), {"a": (np.dtype("O"), 800)}, 8, 1, 0)


@pytest.mark.parametrize(
    "kind, state",
    [
        ("O8", NO_OBJECTS),
        ("f8", PLAIN_OBJECTS),
        ("V8", WITH_FIELDS),
        ("O,i4", None),
        ("M8", None),
        ("S8", (3, "|", None, None, None, 10**6, 1, 0)),
    ],
    ids=str,
)
def test_numpy_takes_no_bytes_of_a_peer_for_addresses(kind, state):
    """Told that they are no objects, it would follow 8 bytes of a message as if they were the address of one."""
    said = refused(pickle.dumps(Built(np.dtype, (kind, False, True), state)))
    assert "numpy.dtype with a state that is none of numpy's own" in said or "texts and objects are let in" in said
    assert read(pickle.dumps(Built(np.dtype, ("O8", False, True), PLAIN_OBJECTS))) == np.dtype("O")


def test_no_other_way_leads_to_a_kind_of_numbers():
    """An instruction that makes an object of a class, instead of calling it."""
    made = hostile.PROTOCOL + hostile.name("numpy", "dtype") + hostile.text("O,i4") + hostile.TUPLE_OF_1 + b"\x81."
    assert "texts and objects are let in" in refused(made)


def test_a_name_that_is_hidden_is_refused():
    """Protocol 0 writes a text with escapes, so that the name does not stand in the bytes."""
    hidden = b"Vnumpy\nV\\u0064type\n\x93."
    assert b"dtype" not in hidden and refused(hidden) == "A pickle hides that it names numpy.dtype."


def test_nothing_but_an_index_is_made_by_the_function_for_one():
    from pandas.core.indexes.base import _new_Index

    assert refused(pickle.dumps(Built(_new_Index, (np.dtype, {"dtype": "O"})))) == "A pickle has an index that is none."


@pytest.mark.parametrize(
    "module, name",
    [
        ("fate.arch.protocol.phe.paillier", "PK"),
        ("fate.arch.tensor.phe._keypair", "PHETensorEncryptor"),
        ("pandas.core.series", "Series"),
        ("fate.arch.protocol.phe.paillier", "evaluator"),
        ("fate.arch.dataframe.manager.block_manager", "BlockType"),
    ],
    ids=".".join,
)
def test_no_class_is_changed(module, name):
    """By a state with attributes, which a pickle may give to whatever it holds, it could replace a method."""
    real = getattr(__import__(module, fromlist=[name]), name)
    fence.admitted(module, name)
    before = dict(vars(real))
    said = refused(hostile.set_attribute(module, name, "encrypt_encoded"))
    assert said == f"A pickle changes the class {real.__module__}.{real.__qualname__}, which is not its own."
    assert dict(vars(real)) == before


def test_no_member_of_an_enumeration_is_changed():
    """There is one of each in the process, which everybody compares with."""
    from fate.arch.dataframe.manager.block_manager import BlockType

    member = next(iter(BlockType))
    assert read(pickle.dumps(member)) is member
    said = refused(pickle.dumps(Built(BlockType, (member.value,), {"_value_": "another"})))
    assert said.startswith("A pickle changes the class") and member._value_ != "another"


class ByName:
    """Pickled as Python 3.11.0 to 3.11.3 pickle a member of an enumeration."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def __reduce__(self):
        return getattr, self.arguments


def test_a_member_of_an_enumeration_is_had_by_its_name_and_nothing_else_by_getattr():
    """Debian 12's Python is 3.11.2, so that every member comes like this there."""
    from fate.arch.dataframe.manager.block_manager import BlockManager, BlockType

    for member in BlockType:
        assert read(pickle.dumps(ByName(BlockType, member.name))) is member
    for arguments in (
        (BlockType, "__class__"),
        (BlockType, "mro"),
        (BlockType, ["a"]),
        (BlockManager, "__init__"),
        ("text", "format"),
        (BlockType,),
        (BlockType, "nothing", None),
    ):
        with pytest.raises((fence.FencedOff, TypeError)) as refusal:
            read(pickle.dumps(ByName(*arguments)))
        assert len(arguments) != 2 or "no member of an enumeration" in str(refusal.value)


def test_no_function_is_changed():
    said = refused(hostile.set_attribute("torch._utils", "_rebuild_tensor_v2", "__defaults__"))
    assert said == "A pickle changes the function torch._utils._rebuild_tensor_v2, which is not its own."


def test_no_type_of_a_library_is_changed():
    with pytest.raises((TypeError, AttributeError)):
        read(hostile.set_attribute("numpy", "ndarray", "sum"))


def test_no_constructor_runs_that_none_needs():
    said = refused(hostile.call("fate.arch.tensor.phe._keypair", "PHETensorEncryptor", "a", "b", "c", "d"))
    assert said.startswith("A pickle runs the constructor of fate.arch.tensor.phe._keypair.PHETensorEncryptor")


def test_the_refusal_crosses_processes():
    """It is raised in a pool, and shown by the task."""
    error = pickle.loads(pickle.dumps(fence.FencedOff("one sentence")))
    assert isinstance(error, fence.FencedOff) and str(error) == "one sentence"


# Widening -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["decimal.Decimal", "decimal.Decimal,fractions.Fraction", " a.B  decimal.Decimal "])
def test_an_operator_lets_in_more(value, monkeypatch):
    from decimal import Decimal

    refused(pickle.dumps(Decimal("0.1")))
    monkeypatch.setenv(fence.ALLOW, value)
    assert read(pickle.dumps(Decimal("0.1"))) == Decimal("0.1")
    monkeypatch.delenv(fence.ALLOW)
    refused(pickle.dumps(Decimal("0.1")))


@pytest.mark.parametrize("value", ["decimal", "decimal.*", "decimal.Decimal; os.system", "*"])
def test_what_the_option_does_not_take(value, monkeypatch):
    from decimal import Decimal

    monkeypatch.setenv(fence.ALLOW, value)
    assert f"{fence.ALLOW} has" in refused(pickle.dumps(Decimal("0.1")))
    assert read(pickle.dumps([1])) == [1]


# Messages -----------------------------------------------------------------------------------------------------------


def receive(data, context=None):
    """What a party gets from these bytes."""
    from fate.arch.federation.api import _serdes

    module = types.SimpleNamespace(**vars(_serdes))
    fence.fence_messages(module)
    kind = module.TableRemotePersistentUnpickler
    return kind(context, None, "name", "tag", ("guest", "9999"), io.BytesIO(data)).load()


def test_a_message_leaves_the_receivers_context_alone():
    context = types.SimpleNamespace(cipher="own")
    with pytest.raises(fence.FencedOff, match="changes the context of the task that receives it"):
        receive(hostile.change_context("cipher"), context)
    assert vars(context) == {"cipher": "own"}
    assert receive(hostile.PROTOCOL + hostile.refer("_ContextPersistentId", key="x") + b".", context) is context


def test_a_message_refers_to_what_fate_knows_only():
    with pytest.raises(fence.FencedOff, match="neither table, tensor nor context"):
        receive(hostile.PROTOCOL + hostile.text("anything") + b"Q.")


PROGRAM = """
import json, os, pickle, struct, sys, types
sys.path.insert(0, {root!r})
from tests import hostile_pickles as hostile
from fate.arch.federation.api import TableRemotePersistentUnpickler, TableMeta
from fate.arch.federation.api._serdes import _FederationBytesCoder
from fate.arch.computing.serdes import get_serdes_by_type
from fate_flow.engine.storage.serdes import get_serdes_by_type as of_the_server
marker = {marker!r}
command = "touch " + marker
values = [pickle.dumps(hostile.Command(command))]

def slices(name, tag, parties, table_metas):
    serdes = get_serdes_by_type(table_metas[0].value_serdes_type)
    return [types.SimpleNamespace(collect=lambda: ((i, serdes.deserialize(each)) for i, each in enumerate(values)))]

federation = types.SimpleNamespace(pull_table=slices)
def pull(data):
    return TableRemotePersistentUnpickler.pull(data, None, federation, "verdict", "t", ("guest", "9999"))
large = _FederationBytesCoder.encode_split(TableMeta(1, 0, 0, 0), 2 << 20, 2, 1 << 20)
whole = hostile.dotted(marker)
attacks = {{
    "message": lambda: pull(struct.pack("!B", 0) + whole),
    "large message, by its slices": lambda: pull(large),
    "large message, as a whole": lambda: values.__setitem__(0, pickle.dumps(whole)) or pull(large),
    "table value": lambda: get_serdes_by_type(0).deserialize(pickle.dumps(hostile.Command(command))),
    "table at the server": lambda: of_the_server(0).deserialize(pickle.dumps(hostile.Command(command))),
}}
told = {{}}
for name, attack in attacks.items():
    try:
        attack()
        told[name] = "read"
    except Exception as error:
        told[name] = str(error)
    told[name] += ", ran" if os.path.exists(marker) else ""
    if os.path.exists(marker): os.remove(marker)
print(json.dumps(told))
"""


def run_program(text, *path, **variables):
    """What a Python process with these folders on its path prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=SITE.parents[1],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **variables},
    )
    return done.stdout.splitlines(), done.stderr


def attacked(marker, *path):
    """What becomes of each attack in a Python process with these folders on its path."""
    root = str(SITE.parents[1])
    said, errors = run_program(PROGRAM.format(root=root, marker=str(marker)), *path)
    assert said, errors
    return json.loads(said[-1])


def test_a_cold_process_is_fenced_before_the_first_message(marker):
    told = attacked(marker, SITE)
    assert len(told) == 5, told
    assert all("FATE-DP's fence" in sentence and not sentence.endswith("ran") for sentence in told.values()), told


def test_fate_alone_runs_all_of_it(marker):
    """What FATE 2.2.0 calls restricted; should a later one refuse, the fence can be looked at again."""
    told = attacked(marker)
    assert all(sentence.endswith(", ran") for sentence in told.values()), told


# Where it holds -----------------------------------------------------------------------------------------------------

IN_A_POOL = """
import sys
sys.path[:0] = [{root!r}, {root!r} + "/docs/upstream"]
from own_context import make_context
from tests import hostile_pickles as hostile
ctx = make_context()
table = ctx.computing.parallelize([(0, hostile.Command("touch " + {marker!r}))], include_key=True, partition=1)
for use in (lambda: table.mapValues(lambda value: value), lambda: list(table.collect())):
    try:
        use()
        print("read")
    except Exception as error:
        print(error)
ctx.computing.get_standalone_session()._pool.shutdown()
"""


def test_a_value_of_a_table_is_refused_in_the_pool_and_in_the_task(marker):
    said, errors = run_program(IN_A_POOL.format(root=str(SITE.parents[1]), marker=str(marker)), SITE)
    assert len(said) == 2 and all("FATE-DP's fence does not let in" in each for each in said), (said, errors)
    assert not marker.exists()


TASK = """
import pickle, struct, sys
from decimal import Decimal
print("fate.arch.federation.api" in sys.modules)
from fate.arch.computing.serdes import get_serdes_by_type
from fate.arch.federation.api import TableRemotePersistentUnpickler
message = bytes.fromhex({message!r})
for read in (
    lambda: get_serdes_by_type(0).deserialize(pickle.dumps(Decimal("0.5"))),
    lambda: TableRemotePersistentUnpickler.pull(bytes(1) + message, None, None, "name", "tag", ("guest", "9999")),
):
    try:
        print(read())
    except Exception as error:
        print(error)
"""


def test_a_child_of_a_fork_server_is_fenced_by_its_own_environment(tmp_path, marker):
    """The fork server has imported FATE before it knows what this child's operator lets in."""
    place = make_place(tmp_path)
    task = TASK.format(message=hostile.dotted(marker).hex())
    with serving(place, ("fate.arch.federation.api", "fate.arch.computing.serdes")):
        strict = place.run_task(task).stdout.splitlines()
        wider = place.run_task(task, more={fence.ALLOW: "decimal.Decimal"}).stdout.splitlines()
        again = place.run_task(task).stdout.splitlines()
        assert place.counts() == (3, {})
    assert [each[0] for each in (strict, wider, again)] == ["True"] * 3, "FATE was imported before the fork"
    assert "names decimal.Decimal, which FATE-DP's fence does not let in" in strict[1] and strict == again
    assert wider[1] == "0.5" and strict[2] == wider[2] and "no name with a dot" in strict[2]
    assert not marker.exists()


DRIVER = """
import sys, cloudpickle
from fate.arch.computing.api._table import _lifted_mpwi_map_to_serdes
from fate.arch.computing.serdes import get_serdes_by_type
serdes = get_serdes_by_type(0)
mapper = _lifted_mpwi_map_to_serdes(lambda index, rows: rows, serdes, serdes, serdes, serdes)
open({file!r}, "wb").write(cloudpickle.dumps(mapper))
"""
EXECUTOR = """
import sys, cloudpickle, pickle
sys.path.insert(0, {root!r})
from tests import hostile_pickles as hostile
try:
    mapper = cloudpickle.load(open({file!r}, "rb"))
    rows = [(pickle.dumps(0), pickle.dumps(hostile.Command("touch " + {marker!r})))]
    print(list(mapper(0, iter(rows))))
except Exception as error:
    print(error)
"""


def test_an_executor_reads_by_the_list_or_not_at_all(tmp_path, marker):
    """Spark gives its executors the task's functions as cloudpickle writes them; they carry the way to read by name."""
    known = {"root": str(SITE.parents[1]), "marker": str(marker), "file": str(tmp_path / "mapper")}
    _, errors = run_program(DRIVER.format(**known), SITE)
    assert not errors
    (said,), _ = run_program(EXECUTOR.format(**known), SITE)
    assert "FATE-DP's fence does not let in" in said
    (said,), _ = run_program(EXECUTOR.format(**known))
    assert said == "No module named 'fence'"
    assert not marker.exists()


def test_executors_get_the_folder(tmp_path):
    party_server.spark_environment(tmp_path)
    lines = (tmp_path / "spark" / "spark-defaults.conf").read_text().splitlines()
    assert f"spark.executorEnv.PYTHONPATH {SITE}:{party_server.DAEMON_FOLDER}" in lines


def test_every_server_of_ours_has_the_folder_on_its_path(tmp_path):
    """Embedded ones and the cluster's, in the order that Python looks; the container's `start.sh` does the same."""
    home = open_home(tmp_path)
    path = server_environment(home)["PYTHONPATH"].split(os.pathsep)
    assert str(SITE) in path and not list(home.python.glob("sitecustomize.py"))
    started = (SITE.parent / "docker" / "start.sh").read_text()
    assert "PYTHONPATH=$(python -c 'import fate_dp.deploy.site as site; print(site.__path__[0])')" in started
    assert started.index("PYTHONPATH=") < started.index("\nservice start")
