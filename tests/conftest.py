"""Settings of all tests."""

import os
import shutil
import tempfile
from multiprocessing import util
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.own_home import CHANGED, guard

# Before the conftests of folders, which are imported ahead of all hooks.
USERS_HOME = guard()
# The machine may be busy with three parties' processes: a slow example is no failure, nor are slow draws. Examples are
# the same in every run, so that no run fails by an example that the one before it did not try.
settings.register_profile("unhurried", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

SERVER_TESTS = "tests/end_to_end/"
OF_PARTIES = ("tests/contract", "tests/protocol", "tests/end_to_end", "tests/cluster")
MEMORY = Path("/dev/shm")
ROOM = 6 * 2**30
"""Bytes that a whole run may take there, several times over."""


def pytest_configure(config):
    """Folders of tests with several parties lie in memory where there is room.

    FATE's standalone tables wait for the disk at every message, which on many a disk is most of the time that parties take.
    """
    if "TMPDIR" in os.environ or not all(str(each).startswith(OF_PARTIES) for each in config.args):
        return
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM:
        return
    folder = tempfile.mkdtemp(prefix="fate-dp-", dir=MEMORY)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    # Workers of pytest-xdist find TMPDIR set. The folder goes after those that multiprocessing keeps in it until its end.
    util.Finalize(None, shutil.rmtree, args=(folder, True), exitpriority=-200)


def pytest_sessionfinish(session):
    """Fail a run that changed a file of the user's."""
    if hasattr(session.config, "workerinput"):
        return
    if changed := USERS_HOME.changes():
        print("\n" + CHANGED.format(", ".join(changed[:5])))
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


class WholeFiles(LoadScopeScheduling):
    """Gives each worker whole files, and one worker all tests on FATE-Flow, which share a server."""

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        return SERVER_TESTS if file.startswith(SERVER_TESTS) else file


def pytest_xdist_make_scheduler(config, log):
    return WholeFiles(config, log)


def pytest_collection_modifyitems(items):
    """The tests that take longest begin first."""
    items.sort(key=lambda item: not item.nodeid.startswith(SERVER_TESTS))
