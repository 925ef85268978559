"""Where the fence holds: in cold and warm processes, in pools, at executors and at the server; what runs without it."""

import json
import os
import subprocess
import sys

import pytest

from fate_dp.deploy.fate_patches import fence
from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.flow.server import FATE_PATCHES, server_environment
from tests import hostile_pickles as hostile
from tests.fork_servers import make_place, serving
from tests.support.cluster import party_server


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "marker"


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
        cwd=FATE_PATCHES.parents[1],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), **variables},
    )
    return done.stdout.splitlines(), done.stderr


def attacked(marker, *path):
    """What becomes of each attack in a Python process with these folders on its path."""
    root = str(FATE_PATCHES.parents[1])
    said, errors = run_program(PROGRAM.format(root=root, marker=str(marker)), *path)
    assert said, errors
    return json.loads(said[-1])


def test_a_cold_process_is_fenced_before_the_first_message(marker):
    told = attacked(marker, FATE_PATCHES)
    assert len(told) == 5, told
    assert all("FATE-DP's fence" in sentence and not sentence.endswith("ran") for sentence in told.values()), told


def test_fate_alone_runs_all_of_it(marker):
    """What FATE 2.2.0 calls restricted; should a later one refuse, the fence can be looked at again."""
    told = attacked(marker)
    assert all(sentence.endswith(", ran") for sentence in told.values()), told


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
    said, errors = run_program(IN_A_POOL.format(root=str(FATE_PATCHES.parents[1]), marker=str(marker)), FATE_PATCHES)
    assert len(said) == 2 and all("FATE-DP's fence does not let in" in each for each in said), (said, errors)
    assert not marker.exists()


TASK = """
import pickle, struct, sys
sys.path.insert(0, {root!r})
from tests.operators_class import Rate
print("fate.arch.federation.api" in sys.modules)
from fate.arch.computing.serdes import get_serdes_by_type
from fate.arch.federation.api import TableRemotePersistentUnpickler
message = bytes.fromhex({message!r})
for read in (
    lambda: vars(get_serdes_by_type(0).deserialize(pickle.dumps(Rate(0.5)))),
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
    task = TASK.format(root=str(FATE_PATCHES.parents[1]), message=hostile.dotted(marker).hex())
    with serving(place, ("fate.arch.federation.api", "fate.arch.computing.serdes")):
        strict = place.run_task(task).stdout.splitlines()
        wider = place.run_task(task, more={fence.ALLOW: "tests.operators_class.Rate"}).stdout.splitlines()
        again = place.run_task(task).stdout.splitlines()
        assert place.counts() == (3, {})
    assert [each[0] for each in (strict, wider, again)] == ["True"] * 3, "FATE was imported before the fork"
    assert "names tests.operators_class.Rate, which FATE-DP's fence does not let in" in strict[1] and strict == again
    assert wider[1] == "{'value': 0.5}" and strict[2] == wider[2] and "no name with a dot" in strict[2]
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
import numpy
from tests import hostile_pickles as hostile
for value in (numpy.arange(3), hostile.Command("touch " + {marker!r})):
    try:
        mapper = cloudpickle.load(open({file!r}, "rb"))
        rows = [(pickle.dumps(0), pickle.dumps(value))]
        print([pickle.loads(each) for _, each in mapper(0, iter(rows))])
    except Exception as error:
        print(error)
"""


def test_an_executor_reads_by_the_fence_or_not_at_all(tmp_path, marker):
    """Spark gives its executors the task's functions as cloudpickle writes them; they carry the way to read by name."""
    known = {"root": str(FATE_PATCHES.parents[1]), "marker": str(marker), "file": str(tmp_path / "mapper")}
    _, errors = run_program(DRIVER.format(**known), FATE_PATCHES)
    assert not errors
    said, _ = run_program(EXECUTOR.format(**known), FATE_PATCHES)
    assert said[0] == "[array([0, 1, 2])]" and "FATE-DP's fence does not let in" in said[1]
    said, _ = run_program(EXECUTOR.format(**known))
    assert said == ["No module named 'fence'"] * 2
    assert not marker.exists()


def test_executors_get_the_folder(tmp_path):
    party_server.spark_environment(tmp_path)
    lines = (tmp_path / "spark" / "spark-defaults.conf").read_text().splitlines()
    assert f"spark.executorEnv.PYTHONPATH {FATE_PATCHES}:{party_server.DAEMON_FOLDER}" in lines


def test_every_server_of_ours_has_the_folder_on_its_path(tmp_path):
    """Embedded ones and the cluster's, in the order that Python looks; the container's `start.sh` does the same."""
    home = open_home(tmp_path)
    path = server_environment(home)["PYTHONPATH"].split(os.pathsep)
    assert str(FATE_PATCHES) in path and not list(home.python.glob("sitecustomize.py"))
    started = (FATE_PATCHES.parent / "docker" / "start.sh").read_text()
    assert (
        "PYTHONPATH=$(python -c 'import fate_dp.deploy.fate_patches as patches; print(patches.__path__[0])')" in started
    )
    assert started.index("PYTHONPATH=") < started.index("\nservice start")
