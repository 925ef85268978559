"""One engine with stand-in images and the project's own image, for all tests here; they run only when named."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from . import standins
from .engine import ROOT, Engine, kept_folder, missing

COUNTED = {"passed": 0, "failed": 0, "skipped": 0}
BEGUN = time.monotonic()


def pytest_ignore_collect(collection_path, config):
    """Not part of a run that does not ask for them: they start an engine and work for many minutes."""
    named = any(
        Path(str(argument).partition("::")[0]).resolve().is_relative_to(Path(__file__).parent)
        for argument in config.invocation_params.args
    )
    return None if named else True


def pytest_assertion_pass(item, lineno, orig, expl):
    COUNTED["passed"] += 1


def pytest_runtest_logreport(report):
    """A test ends at the first assertion that fails; a skipped one counts once.

    What failed is told at once, while the containers are still there to be looked at.
    """
    if report.failed:
        COUNTED["failed"] += 1
        print(f"\n{report.nodeid} failed in {report.when}: {report.longreprtext[-2000:]}", flush=True)
    elif report.skipped:
        COUNTED["skipped"] += 1


def pytest_unconfigure(config):
    told = ", ".join(f"{number} {name}" for name, number in COUNTED.items())
    print(f"docker-test: assertions {told}; {time.monotonic() - BEGUN:.0f} s")


@pytest.fixture(scope="session")
def engine():
    """The engine; skips where there cannot be one."""
    sentence = missing() or standins.missing()
    if sentence is not None:
        pytest.skip(sentence)
    engine = Engine(kept_folder())
    engine.start()
    yield engine
    engine.stop()
    assert not Path("/sys/class/net/docker0").exists()


@pytest.fixture(scope="session")
def images(engine):
    """The stand-ins, under the names of the images that they stand for."""
    standins.build_all(engine)


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    """A copy of the source tree as an operator has it: secrets are made in it, and nothing is left in the checkout."""
    folder = tmp_path_factory.mktemp("source")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    subprocess.run(["./secrets.sh", "--tls"], cwd=folder / "deploy" / "docker", check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def built(engine, images, source):
    """What the build of the project's own recipe printed."""
    return standins.build_ours(engine, source)
