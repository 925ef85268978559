"""`make bench-smoke` leaves no benchmark out."""

import re
from pathlib import Path

from bench.smoke import SMALLEST

MAKEFILE = (Path(__file__).parents[2] / "Makefile").read_text(encoding="utf-8")


def test_every_benchmark_of_the_makefile_has_a_smallest_setting():
    targets = {name for line in re.findall(r"^\.PHONY: (.+)$", MAKEFILE, flags=re.M) for name in line.split()}
    assert {name.removeprefix("bench-") for name in targets if name.startswith("bench-")} == {*SMALLEST, "smoke"}


def test_each_is_the_module_that_make_runs():
    for rule in re.findall(r"^((?:bench-[\w-]+ ?)+):.*\n\t.*-m bench\.([\w.]+)", MAKEFILE, flags=re.M):
        for name in rule[0].split():
            assert name == "bench-smoke" or SMALLEST[name.removeprefix("bench-")].module == rule[1]
