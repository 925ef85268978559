"""Runs the tests that fork for every line that a writer may die at, and for every size that a disk may have left."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

MEMORY = "/dev/shm"
TESTS = Path(__file__).parents[1] / "unit"  # beside the scenarios that they share with others


@pytest.mark.parametrize("tests", ["ledger_crashes.py", "ledger_disk.py"])
def test_in_a_small_process(tests):
    # They fork and sync about a thousand times. A fork of a process that holds torch takes ten times as long, and a
    # disk that others use may take a hundred times as long as memory, which outlives a killed process as well.
    with tempfile.TemporaryDirectory(dir=MEMORY if Path(MEMORY).is_dir() else None) as folder:
        Path(folder).chmod(0o755)
        options = ["-q", "-p", "no:cacheprovider", "--basetemp", f"{folder}/tests"]
        command = [sys.executable, "-m", "pytest", *options, str(TESTS / tests)]
        finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
    assert finished.returncode == 0, finished.stdout
