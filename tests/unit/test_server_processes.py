"""Ending processes: the stubborn ones by force, and none is waited for that has ended."""

import subprocess
import sys

import psutil
import pytest

from fate_dp.deploy.flow import server
from fate_dp.deploy.flow.server import end_all, left_after
from tests.fork_servers import wait_until

# A parent that never waits for its child, as the first process of many containers.
NEGLIGENT = """
import os, signal, sys, time
child = os.fork()
if not child:
    {child}
    time.sleep(600)
print(child, flush=True)
time.sleep(600)
"""


@pytest.fixture
def grandchild():
    """Start a program whose parent does not wait for it; gives its process."""
    parents = []

    def start(text="pass"):
        command = [sys.executable, "-c", NEGLIGENT.format(child=text)]
        parents.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return psutil.Process(int(parents[-1].stdout.readline()))

    yield start
    for parent in parents:
        for child in psutil.Process(parent.pid).children():
            child.kill()
        parent.kill()
        parent.communicate()


def test_one_that_has_ended_is_not_waited_for_though_its_parent_does_not(grandchild):
    process = grandchild()
    assert left_after(0.0, [process]) == [process]
    process.kill()
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE)
    assert left_after(0.0, [process]) == []


def test_who_does_not_listen_is_ended_by_force(grandchild, monkeypatch):
    monkeypatch.setattr(server, "SECONDS_TO_END", 0.2)
    stubborn = grandchild("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    found = [stubborn, grandchild()]
    assert end_all(lambda: [each for each in found if server.runs(each)]) == 2
    wait_until(lambda: not any(map(server.runs, found)))


def test_an_own_child_that_has_ended_is_waited_for():
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    wait_until(lambda: left_after(0.0, [psutil.Process(child.pid)] if psutil.pid_exists(child.pid) else []) == [])
    wait_until(lambda: not psutil.pid_exists(child.pid))
