"""Where noise or flips protect labels, it is no reason for a refusal that all of them are alike: others would see it."""

import pytest

from .cases import GUEST
from .registry import CASES

PROTECTED = (
    "dp_binning / train / label, Gaussian",
    "dp_binning / train / record, Laplace",
    "dp_hetero_lr / train / noise label",
    "dp_scorecard / train / label",
    "dp_scorecard / train / record",
    "label_count / default / labels at two of three parties",
    "label_flip / default / classes",
    "label_flip / default / numbers",
)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("name", PROTECTED)
def test_a_job_goes_on(name, value, tmp_path):
    (case,) = [each for each in CASES if each.name == name]
    case.play(tmp_path, case.with_table(GUEST, case.tables[GUEST].assign(y=value))).check()
