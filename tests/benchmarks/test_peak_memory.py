"""The clock of the benchmarks sees a process's memory and that of the processes it starts."""

import json
import subprocess
import sys

import pytest

from bench.peak_memory import measure

MIB = 2**20
# From a small process, as the benchmark does it: the one of the tests is large.
MEASURE = "import json, sys; from bench.peak_memory import measure; cost = measure(sys.argv[1:]); "
REPORT = "print(json.dumps([cost.seconds, cost.peak_bytes]))"
HOLD = "import time; held = b'x' * (150 << 20); time.sleep(0.3)"
# Each says when it holds its memory, and holds it until it is told to end: both do together, however late one begins.
HOLD_UNTIL_TOLD = "import sys; held = b'x' * (150 << 20); print(1, flush=True); sys.stdin.read()"
TWICE = f"""
import subprocess, sys, time
command = [sys.executable, "-c", {HOLD_UNTIL_TOLD!r}]
both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
for one in both:
    one.stdout.readline()
time.sleep(1)
for one in both:
    one.communicate()
"""


def measured(code):
    command = [sys.executable, "-c", MEASURE + REPORT, sys.executable, "-c", code]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def test_memory_and_time_of_one_process():
    seconds, peak = measured(HOLD)
    assert 150 * MIB < peak < 175 * MIB
    assert 0.3 <= seconds < 60


def test_processes_that_run_together_are_added_up():
    assert 300 * MIB < measured(TWICE)[1] < 360 * MIB


def test_a_failing_command_tells_why():
    with pytest.raises(RuntimeError) as failure:
        measure([sys.executable, "-c", "print('no such loan'); raise SystemExit(3)"])
    assert str(failure.value).endswith("ended with status 3:\nno such loan\n")


def test_a_process_smaller_than_its_caller_is_not_measured():
    held = b"x" * (60 * MIB)
    with pytest.raises(RuntimeError, match="only by one that was always smaller"):
        measure([sys.executable, "-c", "pass"])
    assert held
