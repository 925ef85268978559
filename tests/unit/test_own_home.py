"""Tests keep to a home of their own."""

import os
from pathlib import Path

import pytest

from fate_dp.privacy.private_files import parties_folder
from tests.own_home import OF_THE_USER


def test_the_home_of_whoever_runs_the_tests_is_neither_read_nor_written():
    users = os.environ[OF_THE_USER].split(os.pathsep)
    assert str(parties_folder()) not in users and parties_folder().is_relative_to(Path.home())
    for folder in users:
        for touch in (Path(folder, "party-9999").mkdir, Path(folder, "warm").open, lambda: os.listdir(folder)):
            with pytest.raises(RuntimeError, match="touches .*, which is not its own"):
                touch()
