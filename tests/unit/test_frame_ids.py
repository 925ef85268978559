"""Which match ids can name a record."""

import numpy as np
import pytest

from fate_dp.components.common.frames import _is_unusable


@pytest.mark.parametrize(
    "match_id", [None, float("nan"), np.nan, "", "\ud800"], ids=["None", "nan", "numpy", "empty", "half"]
)
def test_an_id_that_is_missing_or_cannot_be_encoded_names_no_record(match_id):
    assert _is_unusable(match_id)


@pytest.mark.parametrize("match_id", ["a", " ", "0", 7, "person \u00e9"], ids=["a", "space", "0", "number", "accent"])
def test_other_ids_do(match_id):
    assert not _is_unusable(match_id)
