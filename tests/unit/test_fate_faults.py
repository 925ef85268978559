"""FATE with our folder on PYTHONPATH: a refused queue is asked for again, and only kept tables wait for the disk."""

import os
import subprocess
import sys

import pytest

from fate_dp.deploy.flow.server import FATE_PATCHES

PROGRAM = """
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock
import fate_faults
# FATE's way to the broker, which only clusters need, is not installed everywhere.
sys.modules["pika"] = MagicMock()
from fate.arch.federation.backends.rabbitmq import _rabbit_manager as module
statuses = [400] * {refusals} + [201]
asked = []
def put(url, **options):
    asked.append(url)
    return SimpleNamespace(status_code=statuses[min(len(asked), len(statuses)) - 1])
module.requests.put = put
fate_faults.PATIENCE_SECONDS = {patience}
fate_faults.PAUSE_SECONDS = 0.01
print(module.RabbitManager("fate", "password", "127.0.0.1:1").create_queue("vhost", "queue"), len(asked))
"""


def run(refusals, *path, patience=30.0):
    program = PROGRAM.format(refusals=refusals, patience=patience)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))},
    )


@pytest.mark.parametrize("refusals", [0, 1, 5])
def test_a_queue_is_asked_for_until_it_is_there(refusals):
    done = run(refusals, FATE_PATCHES)
    assert done.stdout.split() == ["True", str(refusals + 1)], done.stderr


def test_a_queue_that_never_comes_fails_the_task_with_a_sentence():
    """FATE alone goes on and loses what it sends."""
    done = run(10**6, FATE_PATCHES, patience=0.2)
    assert done.returncode != 0
    assert "The broker at 127.0.0.1:1 did not make the queue queue within 0 seconds" in done.stderr


def test_the_environments_own_customisation_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('its own')\n")
    assert run(0, FATE_PATCHES, tmp_path).stdout.split() == ["its", "own", "True", "1"]


def test_other_programs_are_left_alone():
    """Nothing of FATE is imported for the change, and a Python without FATE starts as ever."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import sitecustomize, sys; print('fate' in sys.modules)"],
        env={"PYTHONPATH": str(FATE_PATCHES)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "False\n", done.stderr


def test_what_jobs_name_is_looked_at_in_every_process_with_our_folder():
    """FATE's way to a runner, as its tasks go it, and what it would have called."""
    program = """
from fate.components.components.nn.component_utils import prepare_runner_class
from fate.ml.nn.trainer.trainer_base import TrainingArguments
for ask in (
    lambda: prepare_runner_class("homo_default_runner", "loader_load_from_conf", {"conf": CONF}, None),
    lambda: TrainingArguments(deepspeed="/dev/null"),
):
    try:
        print(ask())
    except Exception as error:
        print(error)
""".replace("CONF", '{"module_name": "builtins", "item_name": "print", "kwargs": {"sep": "called"}}')
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(FATE_PATCHES)},
    )
    runner, arguments = done.stdout.splitlines()
    assert "module_name and item_name must be a layer or loss of torch.nn" in runner
    assert arguments == "deepspeed of training_args_conf must be without texts, got '/dev/null'."


KEEPING = """
import sys
from fate.arch.computing.backends.standalone import _standalone as module
open_partition, synced = module.Table._get_env_for_partition, []
class Watched:
    def __init__(self, own):
        self.own = own
    def __enter__(self):
        return self
    def __exit__(self, *error):
        self.own.close()
    def __getattr__(self, name):
        return getattr(self.own, name)
    def sync(self, force):
        synced.append(force)
        self.own.sync(force)
module.Table._get_env_for_partition = lambda *given, **named: Watched(open_partition(*given, **named))
session = module.Session("session", sys.argv[1], 1, None)
numbers = [(bytes([key]), bytes([key])) for key in range(20)]
kinds = {"key_serdes_type": 0, "value_serdes_type": 0, "partitioner_type": 0}
table = session.parallelize(numbers, 3, lambda key, parts: key[0] % parts, **kinds)
print(module._open_env(module.Path(sys.argv[1]) / "other").flags()["sync"], synced)
kept = table.copy_as("kept", "elsewhere", need_cleanup=False)
print(len(list(kept.collect())), synced)
session.stop()
"""


def test_only_a_table_that_outlives_its_task_waits_for_the_disk(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KEEPING, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(FATE_PATCHES)},
    )
    assert done.stdout.splitlines() == ["False []", "20 [True, True, True]"], done.stderr


READING = """
import os, sys
from fate.arch.computing.backends.standalone import _standalone as module
def read():
    register = module._TableMetaManager
    register._env.clear()
    register.get_table_meta(sys.argv[1], "namespace", "table")
(started, start), (ended, end) = os.pipe(), os.pipe()
# One process stays until this one ends.
if not os.fork():
    os.close(end)
    read()
    os.write(start, b"x")
    os.read(ended, 1)
    os._exit(0)
os.read(started, 1)
for _ in range(1100):
    if not os.fork():
        try:
            read()
        finally:
            os._exit(0)
    os.wait()
read()
print("read")
"""


def test_tasks_that_ended_leave_no_place_taken_in_the_register_of_tables(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READING, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(FATE_PATCHES)},
    )
    assert done.stdout == "read\n", done.stderr[-300:]
