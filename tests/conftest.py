"""Settings of all tests."""

import os
import shutil
import tempfile
from functools import cache
from multiprocessing import util
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.own_home import CHANGED, guard

# Before the conftests of folders, which are imported ahead of all hooks.
USERS_HOME = guard()
# So is numpy. Several parties, and several workers, keep all cores busy with one thread of each.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The machine may be busy with three parties' processes: a slow example is no failure, nor are slow draws. Examples are
# the same in every run, so that no run fails by an example that the one before it did not try.
settings.register_profile("unhurried", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

ROOT = Path(__file__).parents[1]
SERVER_TESTS = "tests/end_to_end/"
# Whoever runs last alone leaves a core idle: these take longest of those that do not share a server.
LONG = (
    *("end_to_end/test_fence", "end_to_end/test_warm_start", "end_to_end/test_demo"),
    *("protocol/test_training", "protocol/test_score_releases", "protocol/test_homo_nn"),
)
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


@cache
def shares_server(file):
    """Whether a file's tests ask for the server of the session; some have one of their own, or none."""
    return file.startswith(SERVER_TESTS) and "flow_address" in (ROOT / file).read_text(encoding="utf-8")


class WholeFiles(LoadScopeScheduling):
    """Gives each worker whole files, of the contract whole cases, and one worker all that share a FATE-Flow."""

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        if file.startswith("tests/contract/"):
            # A case's clauses, which stand after the last hyphen, share its play.
            return nodeid.rpartition("-")[0] or file
        return SERVER_TESTS if shares_server(file) else file


def pytest_xdist_make_scheduler(config, log):
    return WholeFiles(config, log)


def pytest_collection_modifyitems(items):
    """The tests that take longest begin first."""

    def place(item):
        file = item.nodeid.partition("::")[0]
        return not shares_server(file), *(name not in file for name in LONG)

    items.sort(key=place)
