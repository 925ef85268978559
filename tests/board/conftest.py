"""A FATE-Board of the user's own before a FATE-Flow with finished jobs; without one everything is skipped, in a sentence."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import pytest

from fate_dp.deploy.board import start
from fate_dp.deploy.flow import server
from fate_dp.deploy.flow.programs import FlowServerError, free_port
from fate_dp.pipelines.cli.servers import DESCRIPTIONS

from . import browser
from .jobs import kept, run_all
from .walk import Walk

SHOTS = Path(__file__).parents[2] / "out" / "board"
BOARD = "FATE_BOARD_JAR"
# A home whose jobs have ended already, so that a second run looks at the first one's.
HOME = "FATE_BOARD_HOME"
counted = {"passed": 0, "failed": 0, "skipped": 0}


def pytest_ignore_collect(collection_path, config):
    """Not part of a run that does not ask for them: they need a board, a browser and minutes."""
    named = any(
        Path(str(argument).partition("::")[0]).resolve().is_relative_to(Path(__file__).parent)
        for argument in config.invocation_params.args
    )
    return None if named else True


def pytest_runtest_logreport(report):
    """Count a test that was skipped; what a test asserted is counted by `see`, what stopped it otherwise here."""
    counted["skipped"] += report.skipped
    counted["failed"] += report.failed and "Seen" not in str(report.longrepr)


def pytest_unconfigure(config):
    shots = sorted(SHOTS.glob("*.png")) if counted["passed"] else []
    for shot in shots:
        print(shot.relative_to(SHOTS.parents[1]))
    print("Assertions: " + ", ".join(f"{number} {what}" for what, number in counted.items()) + ".")


class Seen(AssertionError):
    """Something is drawn otherwise than it should be."""


@pytest.fixture(scope="session")
def see():
    """A function that asserts a sentence about what is drawn, and counts it."""

    def check(holds: object, sentence: str) -> None:
        counted["passed" if holds else "failed"] += 1
        if not holds:
            raise Seen(f"Not seen: {sentence}")

    return check


@pytest.fixture(scope="session")
def files():
    """The board's files, which a variable names."""
    place = os.environ.get(BOARD)
    if not place:
        pytest.skip(f"{BOARD} names no FATE-Board.")
    try:
        found = start.find_board(place)
        start.find_java()
    except FlowServerError as error:
        pytest.skip(str(error))
    sentence = browser.missing_program()
    if sentence:
        pytest.skip(sentence)
    return found


@pytest.fixture(scope="session")
def home(files, tmp_path_factory):
    """The folder of the FATE-Flow; what runs in it is stopped at the end, but in a home that the user named."""
    folder = Path(os.environ[HOME]).resolve() if os.environ.get(HOME) else tmp_path_factory.mktemp("board") / "home"
    yield folder
    start.stop(start.board_folder(folder))
    if not os.environ.get(HOME):
        server.down(folder)


@pytest.fixture(scope="session")
def flow(home):
    return server.up(home)


@pytest.fixture(scope="session")
def jobs(flow, home, tmp_path_factory):
    """{name: {"id", "error"}} of jobs that have ended."""
    return kept(home / "jobs_of_the_walk.json", lambda: run_all(flow, home, tmp_path_factory.mktemp("tables")))


@pytest.fixture(scope="session")
def walk(files, flow, home, tmp_path_factory):
    """A browser that is signed in to the board."""
    folder = start.board_folder(home)
    board = start.start(files, flow, folder, DESCRIPTIONS, version("fate-dp"), port=free_port())
    with browser.Browser(tmp_path_factory.mktemp("browser")) as window:
        yield Walk(window, board, SHOTS)
