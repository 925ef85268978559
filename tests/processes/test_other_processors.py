"""What a processor computes of the same records: equal to the last bit where a count or a sum of parties rests on it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.arithmetic.computed import WHITENED
from tests.arithmetic.processors import OLD_PROCESSOR

pytestmark = pytest.mark.arithmetic
ROOT = Path(__file__).parents[2]


def computed(**variables) -> dict:
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.arithmetic.computed"],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(process.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def both() -> tuple:
    return computed(), computed(**OLD_PROCESSOR)


def test_sums_clips_relevances_scores_and_flips_are_those_of_any_processor(both):
    here, there = both
    assert here["exact"] == there["exact"] and len(here["exact"]) == 12


def test_convolutions_features_and_predictions_agree_to_float32(both):
    here, there = both
    for name, values in here["close"].items():
        other = np.array(there["close"][name])
        share = 1e-3 if name == WHITENED else 1e-5
        assert np.abs(other - values).max() <= share * np.abs(values).max(), name
