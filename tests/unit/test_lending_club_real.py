"""The real loans, where they lie on this machine."""

import hashlib

import numpy
import pytest

from fate_dp.data_prep.lending_club.cleaning import Step, clean
from fate_dp.data_prep.lending_club.columns import APPLICATION_TIME, CATEGORIES, FEATURES, RAW_COLUMNS, STUDY_COLUMNS
from fate_dp.data_prep.lending_club.preparation import to_public_units
from tests.real_data import LENDING_CLUB, needs_lending_club

pytestmark = needs_lending_club


@pytest.fixture(scope="module")
def loans():
    return clean(LENDING_CLUB)


def test_rows_and_columns_after_every_step(loans):
    assert [(step.rows, step.columns) for step in loans.steps] == [
        (47348, 74),
        (47348, 44),
        (47348, 42),
        (47348, 25),
        (47348, 18),
        (45570, 18),
        (38961, 18),
        (38961, 38),
    ]
    assert loans.steps[2] == Step("columns dropped: a single value", 47348, 42, "pymnt_plan, policy_code")
    assert loans.notices == () and set(loans.dropped_columns) == set(RAW_COLUMNS) - set(STUDY_COLUMNS)
    assert loans.source == "lending_club.csv.gz"
    assert loans.sha256 == hashlib.sha256(LENDING_CLUB.read_bytes()).hexdigest()


def test_37_features_and_nothing_missing(loans):
    assert list(loans.frame.columns) == ["id", *FEATURES, "loan_status"] and len(FEATURES) == 37
    values = loans.frame[list(FEATURES)].to_numpy()
    assert numpy.isfinite(values).all() and (values >= 0).all()
    assert loans.frame["id"].is_unique and len(loans.states) == len(loans.frame) and loans.states.str.len().eq(2).all()
    used = {next((c for c in CATEGORIES if name.startswith(f"{c}_")), name) for name in FEATURES}
    assert used < APPLICATION_TIME


def test_values_lie_where_they_should(loans):
    frame = loans.frame
    assert frame["loan_status"].value_counts().to_dict() == {1: 33114, 0: 5847}
    assert set(frame["term"]) == {36, 60} and set(frame["emp_length"]) == set(range(11))
    assert frame["loan_amnt"].between(500, 35000).all() and frame["int_rate"].between(5, 30).all()
    assert frame["dti"].between(0, 40).all() and 70000 < frame["annual_inc"].mean() < 75000
    for column, names in CATEGORIES.items():
        assert (frame[[f"{column}_{name}" for name in names]].sum(axis=1) == 1).all()
    assert frame["home_ownership_NONE"].sum() == 2 and frame["purpose_educational"].sum() == 156
    assert loans.missing["emp_length"] == (42 + 1686) / 47348 and loans.missing["desc"] == 1


def test_public_units_put_every_feature_within_a_few_units_of_zero(loans):
    changed = to_public_units(loans.frame)
    assert changed[list(FEATURES)].abs().to_numpy().max() < 6
    assert (changed[list(FEATURES[:14])].mean().abs() < 0.6).all()
