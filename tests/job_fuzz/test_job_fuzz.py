"""Some seconds of the whole jobs beside the oracle that `make job-fuzz` plays for ten minutes; no test depends on how many."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .mutants import MUTANTS, reached
from .oracle import BY_LABELS, NOTHING, REPLACE_ONE, Cell, Content, Draw, Mechanism, Secret, Truth, epsilon_of, gaussian
from .shrink import shrunk

ROOT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("JOB_FUZZ_SECONDS", "20"))
LABEL = Secret("guest", "people", "p1", "y")
PERSON = LABEL._replace(column="")


def test_no_ledger_says_less_than_the_oracle_in_whole_jobs():
    given = ["--seconds", str(SECONDS), "--workers", "1", "--mutants", "none"]
    done = subprocess.run([sys.executable, "-m", "tests.job_fuzz", *given], cwd=ROOT, capture_output=True, text=True)
    figures = json.loads(done.stdout.splitlines()[-1])["figures"]
    assert (figures["understated"], figures["broken"]) == (0, 0), done.stdout
    assert figures["sequences"] < 20 or figures["accepted_share"] > 0.4


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_can_still_be_planted(mutant):
    assert mutant.source()


def test_a_fault_in_a_component_is_sought_where_a_task_runs_it_and_any_other_everywhere():
    in_binning = next(each for each in MUTANTS if "dp_binning" in each.module)
    in_ledger = next(each for each in MUTANTS if each.module.startswith("privacy"))
    in_common = next(each for each in MUTANTS if "common" in each.module)
    other, binned = ([{"do": "job", "tasks": [{"component": name}]}] for name in ("label_flip", "dp_binning"))
    assert [reached(in_binning, steps) for steps in (other, binned)] == [False, True]
    assert all(reached(mutant, steps) for mutant in (in_ledger, in_common) for steps in (other, binned))


def test_the_oracle_composes_as_theory_says():
    delta = 1e-6
    assert epsilon_of((gaussian(1.0, delta),), delta) == pytest.approx(1.0, abs=1e-6)
    two = (Mechanism("response", 1.0), Mechanism("response", 0.5))
    assert epsilon_of(two, 0.0) == pytest.approx(1.5)
    # Two Gaussian mechanisms are one of the root of the sum of squares.
    first, second = gaussian(1.0, delta), gaussian(0.5, delta)
    both = Mechanism("gaussian", (first.size**2 + second.size**2) ** 0.5)
    assert epsilon_of((first, second), delta) == pytest.approx(epsilon_of((both,), delta))
    # Noise beside flips: more than either, less than the sum.
    mixed = epsilon_of((first, Mechanism("response", 1.0)), delta)
    assert 1.0 < mixed < 2.0
    assert epsilon_of((first, NOTHING), delta) == float("inf")


def test_the_oracle_counts_draws_once_and_flips_of_flips_not_at_all():
    truth, draw = Truth(), Draw(0, "bank/loans/y", 1.0, 2)
    table = Content((PERSON,), (Cell(LABEL),))
    truth.flipped(table, draw)
    truth.flipped(table, draw)
    truth.flipped(Content((PERSON,), (Cell(LABEL, frozenset({draw})),)), draw._replace(source="bank/others/y"))
    assert truth.seen[LABEL].mechanisms == (Mechanism("response", 1.0),)


def test_a_promise_for_rows_that_others_decided_is_none():
    noise = gaussian(1.0, 1e-6)
    derived = Content((PERSON,), (Cell(LABEL, derived=True),))
    chosen = Content((PERSON,), (Cell(LABEL),), frozenset({BY_LABELS}))
    for table in (derived, chosen):
        truth = Truth()
        truth.records_shown(table, [noise], REPLACE_ONE)
        assert truth.seen[PERSON].mechanisms == (NOTHING,)


def test_a_failing_sequence_is_shrunk_to_what_it_needs():
    steps = [{"do": "upload", "cap": None, "name": str(at)} for at in range(12)]

    def fails(candidate):
        return {"3", "8"} <= {step["name"] for step in candidate}

    assert [step["name"] for step in shrunk(steps, fails)] == ["3", "8"]
