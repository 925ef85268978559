"""The raw file's texts as numbers."""

import numpy
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.data_prep.lending_club.columns import CATEGORIES, NUMERIC, PUBLIC_LIMITS, PUBLIC_UNITS, STUDY_COLUMNS
from fate_dp.data_prep.lending_club.preparation import to_public_units
from fate_dp.data_prep.lending_club.raw_file import READERS


def read(column, *texts):
    return READERS[column].read(pyarrow.array(texts, pyarrow.string())).tolist()


def is_refused(column, text):
    """Alone and among others, since both take another way."""
    good = {"term": "36", "emp_length": "3 years"}.get(column, "1")
    mixed = read(column, good, text, good) if column not in CATEGORIES else [1, *read(column, text), 1]
    return numpy.isnan(read(column, text)).all() and numpy.isnan(mixed).tolist() == [False, True, False]


def test_every_column_of_the_study_has_a_reader():
    assert set(READERS) == set(STUDY_COLUMNS)


@given(st.floats(0, 1e300), st.integers(0, 10**9), st.sampled_from(NUMERIC))
def test_numbers_are_read_to_the_last_bit(number, whole, column):
    if column in ("term", "emp_length"):
        return
    assert read(column, repr(number), str(whole), f"{whole}.0") == [number, float(whole), float(whole)]


@pytest.mark.parametrize(
    "text", ["abc", "-1", "inf", "-inf", "nan", "NaN", "1e999", "1,000", "$5", "0x10", "1_0", "1 2"]
)
@pytest.mark.parametrize("column", ["loan_amnt", "revol_util"])
def test_what_is_no_number_from_0_on_is_refused(column, text):
    assert is_refused(column, text)


def test_a_percent_sign_may_stand_behind_a_rate_alone():
    for column in ("int_rate", "revol_util"):
        assert read(column, "13.5%", "13.5", "0%", "7 %") == [13.5, 13.5, 0, 7]
        assert all(is_refused(column, text) for text in ("13.5%%", "%", "%5", "5%5", "-1%", "inf%"))
    assert is_refused("dti", "13.5%")


def test_term():
    assert read("term", "36 months", "60 months", "36", "60.0", "36months", "60 Months", "36 month") == [
        36,
        60,
        36,
        60,
        36,
        60,
        36,
    ]
    assert all(is_refused("term", text) for text in ("48 months", "36 years", "months", "3.6", "36.5", "136", "3660"))


def test_years_of_employment():
    written = ["< 1 year", "<1 year", "1 year", "2 years", "9 years", "10+ years", "10 years"]
    assert read("emp_length", *written, "0", "7", "7.0", "10", "10+") == [0, 0, 1, 2, 9, 10, 10, 0, 7, 7, 10, 10]
    refused = ("11 years", "11", "-1", "3+ years", "< 2 years", "years", "2.5", "ten", "10++", "1 month")
    assert all(is_refused("emp_length", text) for text in refused)


@pytest.mark.parametrize("column", list(CATEGORIES))
def test_categories_in_any_case(column):
    names = CATEGORIES[column]
    for changed in (str, str.lower, str.upper, str.title):
        assert read(column, *map(changed, names)) == list(range(len(names)))
    assert is_refused(column, "crypto") and is_refused(column, names[0] + "x")


def test_older_spellings_of_verification_status():
    old = ["not verified", "VERIFIED - income", "VERIFIED - income source", "verified"]
    assert [CATEGORIES["verification_status"][int(position)] for position in read("verification_status", *old)] == [
        "Not Verified",
        "Verified",
        "Source Verified",
        "Verified",
    ]


def test_status():
    assert read("loan_status", "Fully Paid", "Charged Off", "CHARGED OFF", "fully paid") == [1, 0, 0, 1]
    others = ("Current", "Default", "Does not meet the credit policy. Status:Fully Paid", "")
    assert numpy.isnan(read("loan_status", *others)).all()


def test_no_texts_give_no_numbers():
    for column in STUDY_COLUMNS:
        assert read(column) == []


def test_public_units_clamp_then_centre_and_scale_and_leave_the_rest():
    import pandas

    rows = {column: [limits[0] - 1, PUBLIC_UNITS[column][0], limits[1] + 1] for column, limits in PUBLIC_LIMITS.items()}
    frame = pandas.DataFrame({"id": ["a", "b", "c"], **rows, "purpose_car": [0.0, 1.0, 0.0], "loan_status": [0, 1, 1]})
    before = frame.copy()
    changed = to_public_units(frame)
    assert frame.equals(before) and list(changed.columns) == list(frame.columns)
    assert changed[["id", "purpose_car", "loan_status"]].equals(frame[["id", "purpose_car", "loan_status"]])
    for column, (centre, spread) in PUBLIC_UNITS.items():
        low, high = PUBLIC_LIMITS[column]
        assert changed[column].tolist() == [(low - centre) / spread, 0, (high - centre) / spread]


def test_public_units_of_a_row_depend_on_no_other_row():
    import pandas

    generator = numpy.random.default_rng(3)
    frame = pandas.DataFrame(generator.uniform(0, 50000, (20, len(NUMERIC))), columns=list(NUMERIC))
    whole = to_public_units(frame)
    assert to_public_units(frame.iloc[4:5]).equals(whole.iloc[4:5])


def test_public_units_of_no_number_are_refused():
    import pandas

    frame = pandas.DataFrame({column: [1.0, 2.0] for column in NUMERIC})
    frame.loc[1, "dti"] = numpy.nan
    with pytest.raises(ValueError, match=r"^The column dti has nan; finite numbers are allowed\.$"):
        to_public_units(frame)
