"""`make bench-smoke` leaves no benchmark out."""

import os
import re
import subprocess
import sys
from pathlib import Path

from bench.smoke import PLAYED, SMALLEST

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
SPAWNED = "import runpy; runpy.run_module('bench.smoke', run_name='__mp_main__'); from bench import noise; print(noise.SCALES)"


def test_every_benchmark_of_the_makefile_has_a_smallest_setting():
    targets = {name for line in re.findall(r"^\.PHONY: (.+)$", MAKEFILE, flags=re.M) for name in line.split()}
    assert {name.removeprefix("bench-") for name in targets if name.startswith("bench-")} == {*SMALLEST, "smoke"}


def test_each_is_the_module_that_make_runs():
    for rule in re.findall(r"^((?:bench-[\w-]+ ?)+):.*\n\t.*-m bench\.([\w.]+)", MAKEFILE, flags=re.M):
        for name in rule[0].split():
            assert name == "bench-smoke" or SMALLEST[name.removeprefix("bench-")].module == rule[1]


def test_a_process_that_a_benchmark_spawns_has_the_small_constants():
    environment = {**os.environ, PLAYED: "noise"}
    done = subprocess.run([sys.executable, "-c", SPAWNED], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout == "(1.0,)\n", done.stderr
