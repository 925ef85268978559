"""The one last line of `make test-all` counts what all its targets say."""

import re
from pathlib import Path

from tests.everything import TARGETS, counted


def test_all_last_lines_of_pytest_and_of_the_benchmarks_are_counted():
    said = [
        "12 passed, 3 skipped in 4.50s",
        "=========== 1 failed, 2 passed, 1 warning, 1 error in 61.00s (0:01:01) ===========",
        "2 skipped in 0.10s",
        "SKIPPED [1] tests/cluster/conftest.py:20: rabbitmq-server is missing",
        "FAILED tests/unit/test_x.py::test_y - 7 passed in a test's own words",
        '{"bench": "smoke", "figures": {"ran": 30, "failed": 1, "left_out": 2}}',
        '{"bench": "contract", "figures": {"cells": 276}}',
    ]
    assert counted(said) == {"passed": 44, "failed": 3, "skipped": 7}


def test_every_target_is_one_of_the_makefile():
    text = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")
    named = {name for line in re.findall(r"^\.PHONY: (.+)$", text, flags=re.M) for name in line.split()}
    assert {target.split()[0] for target in TARGETS} <= named and {
        name for name in named if name.startswith("cluster-test")
    } <= set(TARGETS)
