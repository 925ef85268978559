"""Tests keep to a home of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fate_dp.privacy.private_files import HOME_VARIABLE, parties_folder
from fate_dp.privacy.validation import InvalidArgument
from tests.own_home import OF_THE_USER

ROOT = Path(__file__).parents[2]


def test_the_home_of_whoever_runs_the_tests_is_neither_read_nor_written():
    users = os.environ[OF_THE_USER].split(os.pathsep)
    assert str(parties_folder()) not in users and parties_folder().is_relative_to(Path.home())
    for folder in users:
        file = Path(folder, "warm")
        touches = (file.mkdir, file.open, lambda: os.listdir(folder), lambda: Path(Path.home(), "x").rename(file))
        for touch in (*touches, lambda: shutil.move(file, Path.home())):
            with pytest.raises(RuntimeError, match="touches .*, which is not its own"):
                touch()


CHILD = "import pathlib, sys; pathlib.Path(sys.argv[1], 'flip.key').write_text('x')"
BENCH = f"""
import os, subprocess, sys, tests.conftest, bench
from pathlib import Path
user = sys.argv[1]
assert Path.home() != Path(user) and os.environ["FATE_DP_HOME"].startswith(str(Path.home()))
if sys.argv[2:]:
    subprocess.run([sys.executable, "-c", {CHILD!r}, user + "/.fate-dp"], check=True)
"""


@pytest.mark.parametrize("writes, status", [([], 0), (["writes"], 1)])
def test_a_bench_whose_child_wrote_into_the_home_before_fails(tmp_path, writes, status):
    (tmp_path / ".fate-dp").mkdir()
    others = {key: value for key, value in os.environ.items() if key not in (OF_THE_USER, HOME_VARIABLE)}
    command = [sys.executable, "-c", BENCH, str(tmp_path), *writes]
    ended = subprocess.run(command, env={**others, "HOME": str(tmp_path)}, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == status, ended.stderr
    assert ("flip.key, which is not its own" in ended.stderr) is bool(writes)


@pytest.mark.parametrize("given", ["parties", "./parties", "~/.fate-dp"])
def test_a_home_that_each_task_would_look_for_in_its_own_folder_is_refused(monkeypatch, given):
    monkeypatch.setenv(HOME_VARIABLE, given)
    with pytest.raises(
        InvalidArgument, match=r"^\$FATE_DP_HOME must be an absolute path, got '.*'. Each task runs in a"
    ):
        parties_folder()
