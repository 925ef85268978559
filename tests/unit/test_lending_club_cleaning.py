"""Which columns and loans the cleaning keeps, what it refuses, and how it accounts for every step."""

import random

import numpy
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_loan_files import Edition, cleaned, loan, refusal_of, two_loans

from fate_dp.data_prep.division import split_train_test
from fate_dp.data_prep.lending_club import raw_file
from fate_dp.data_prep.lending_club.cleaning import Step
from fate_dp.data_prep.lending_club.columns import APPLICATION_TIME, FEATURES, RAW_COLUMNS, STUDY_COLUMNS
from fate_dp.privacy.validation import InvalidArgument

PAYMENTS = (
    "funded_amnt",
    "funded_amnt_inv",
    "out_prncp",
    "out_prncp_inv",
    "total_pymnt",
    "total_pymnt_inv",
    "total_rec_prncp",
    "total_rec_int",
    "total_rec_late_fee",
    "recoveries",
    "collection_recovery_fee",
    "last_pymnt_d",
    "last_pymnt_amnt",
    "next_pymnt_d",
    "last_credit_pull_d",
)


def several(count=12, **changes):
    """Loans of both outcomes in turn, whose columns all hold more than one value."""
    purposes = ("car", "house", "other")
    return [
        loan(
            number,
            ("Fully Paid", "Charged Off")[number % 2],
            term=f" {36 + 24 * (number % 3 == 0)} months",
            int_rate=str(6 + number),
            installment=str(100 + number),
            emp_length=f"{2 + number % 8} years",
            home_ownership=("RENT", "OWN")[number % 2],
            verification_status=("Verified", "Not Verified")[number % 2],
            purpose=purposes[number % 3],
            dti=str(number),
            delinq_2yrs=str(number % 2),
            inq_last_6mths=str(number % 3),
            open_acc=str(number),
            pub_rec=str(number % 2),
            revol_bal=str(7 * number),
            revol_util=str(number),
            total_acc=str(20 + number),
            grade="AB"[number % 2],
            addr_state=("AZ", "CA")[number % 2],
            **changes,
        )
        for number in range(count)
    ]


def changed(loans, column, values):
    """The loans with the first values of a column replaced."""
    kept = [values_of[column] for values_of in loans[len(values) :]]
    return [{**values_of, column: value} for values_of, value in zip(loans, [*values, *kept])]


def test_37_features_in_the_source_s_order():
    assert len(FEATURES) == 37 and FEATURES[:5] == ("loan_amnt", "term", "int_rate", "installment", "emp_length")
    assert FEATURES[13:17] == ("total_acc", "home_ownership_ANY", "home_ownership_MORTGAGE", "home_ownership_NONE")
    assert FEATURES[-15:-13] == ("verification_status_Verified", "purpose_car") and FEATURES[-1] == "purpose_wedding"


def test_the_table(tmp_path):
    frame = cleaned(tmp_path, several()).frame
    assert list(frame.columns) == ["id", *FEATURES, "loan_status"]
    assert frame["loan_status"].dtype == numpy.int8 and (frame[list(FEATURES)].dtypes == numpy.float64).all()
    some = ["id", "term", "int_rate", "emp_length", "dti", "loan_status"]
    assert frame.loc[5, some].tolist() == ["1005", 36, 11, 7, 5, 0]
    assert frame["loan_status"].tolist() == [1, 0] * 6 and list(frame.index) == list(range(12))
    for group, size in (("home_ownership_", 6), ("verification_status_", 3), ("purpose_", 14)):
        columns = [name for name in FEATURES if name.startswith(group)]
        assert len(columns) == size and (frame[columns].sum(axis=1) == 1).all()
    assert frame.loc[frame["home_ownership_OWN"] == 1, "id"].tolist() == [f"{1000 + k}" for k in range(1, 12, 2)]


def test_every_step_says_what_is_left(tmp_path):
    loans = several(12)
    loans = changed(loans, "loan_status", ["Current", "Default", "Does not meet the credit policy. Status:Fully Paid"])
    loans = changed(loans, "emp_length", ["n/a", "2 years", "2 years", "n/a", " "])
    loans = changed(loans, "desc", [""] * 5)
    found = cleaned(tmp_path, [{**values, "extra": "1"} for values in loans], columns=(*RAW_COLUMNS, "extra"))
    empty = [name for name in RAW_COLUMNS if all(values[name] == "" for values in loans)]
    assert found.steps == (
        Step("raw file read", 12, 75),
        Step("columns dropped: not a column of the public file", 12, 74, "extra"),
        Step(
            "columns dropped: missing in too many loans",
            12,
            30,
            ", ".join(name for name in RAW_COLUMNS if name == "desc" or name in empty),
        ),
        Step(
            "columns dropped: a single value",
            12,
            24,
            "emp_title, issue_d, pymnt_plan, zip_code, earliest_cr_line, policy_code",
        ),
        Step("columns dropped: not known when the application is decided", 12, 20, "id, member_id, url, total_pymnt"),
        Step("columns dropped: not among the study's 18", 12, 18, "grade, addr_state"),
        Step("loans dropped that miss a value", 9, 18),
        Step("Fully Paid and Charged Off kept", 7, 18),
        Step("encoded", 7, 38, "37 features and loan_status"),
    )
    assert found.missing["desc"] == 5 / 12 and found.missing["emp_length"] == 3 / 12 and found.missing["dti"] == 0
    assert list(found.missing) == [*RAW_COLUMNS, "extra"]
    assert set(found.dropped_columns) == {*RAW_COLUMNS, "extra"} - set(STUDY_COLUMNS)


def test_no_column_of_the_payments_is_known_when_the_application_is_decided():
    assert not APPLICATION_TIME & set(PAYMENTS)
    assert not APPLICATION_TIME & {"id", "member_id", "url", "issue_d", "loan_status", "pymnt_plan", "policy_code"}
    assert set(RAW_COLUMNS) > APPLICATION_TIME and set(STUDY_COLUMNS) - {"loan_status"} < APPLICATION_TIME


def test_the_allow_list_is_frozen():
    assert isinstance(APPLICATION_TIME, frozenset)
    assert " ".join(sorted(APPLICATION_TIME)) == (
        "acc_now_delinq addr_state all_util annual_inc annual_inc_joint application_type collections_12_mths_ex_med "
        "delinq_2yrs desc dti dti_joint earliest_cr_line emp_length emp_title grade home_ownership il_util "
        "inq_fi inq_last_12m inq_last_6mths installment int_rate loan_amnt max_bal_bc mths_since_last_delinq "
        "mths_since_last_major_derog mths_since_last_record mths_since_rcnt_il open_acc open_acc_6m open_il_12m "
        "open_il_24m open_il_6m open_rv_12m open_rv_24m pub_rec purpose revol_bal revol_util sub_grade term title "
        "tot_coll_amt tot_cur_bal total_acc total_bal_il total_cu_tl total_rev_hi_lim verification_status "
        "verification_status_joint zip_code"
    )


@pytest.mark.parametrize("column", [*PAYMENTS, "debt_settlement_flag", "grade"])
def test_a_column_that_gives_the_outcome_away_never_reaches_the_table(column, tmp_path):
    usual = cleaned(tmp_path, several())
    telling = changed(several(), column, ["9999.5", "0.25"] * 6)
    columns = RAW_COLUMNS if column in RAW_COLUMNS else (*RAW_COLUMNS, column)
    found = cleaned(tmp_path, telling, columns=columns)
    assert found.frame.equals(usual.frame) and column in found.dropped_columns
    assert not (found.frame.drop(columns="id") == 9999.5).any().any()


@pytest.mark.parametrize(
    ("most_missing", "is_dropped"), [(1 / 3, False), (0.3, True), (0.5, False), (0, True), (1, False)]
)
def test_a_column_may_miss_just_the_share_that_is_allowed(most_missing, is_dropped, tmp_path):
    loans = changed(several(12), "grade", [""] * 4)
    found = cleaned(tmp_path, loans, most_missing=most_missing)
    assert found.missing["grade"] == 4 / 12
    assert found.dropped_columns["grade"] == ("missing in too many loans" if is_dropped else "not among the study's 18")


def test_a_needed_column_that_is_missing_too_often(tmp_path):
    loans = changed(several(12), "emp_length", ["n/a", "", "NA", " ", "N/A"])
    assert refusal_of(tmp_path, Edition().content(loans)) == (
        "misses emp_length in 5 of 12 loans (41.7%); at most 33.3% are allowed in a column that the study needs."
    )
    assert len(cleaned(tmp_path, loans, most_missing=5 / 12).frame) == 7
    assert len(cleaned(tmp_path, changed(several(12), "emp_length", ["n/a"] * 4)).frame) == 8


def test_a_single_value_is_kept_in_the_study_and_noticed(tmp_path):
    one_purpose = changed(several(12), "purpose", ["car"] * 12)
    found = cleaned(tmp_path, one_purpose)
    assert list(found.frame.columns) == ["id", *FEATURES, "loan_status"] and found.frame["purpose_car"].all()
    assert found.notices == (
        "The column purpose has the same value in every loan; it is kept, since the features are fixed.",
    )
    assert cleaned(tmp_path, several()).notices == ()


def test_a_value_that_changes_between_two_blocks_is_not_single(tmp_path, monkeypatch):
    loans = changed(several(24), "policy_code", ["1.0"] * 12 + ["2.0"] * 12)
    for size in range(1200, 1600, 50):
        monkeypatch.setattr(raw_file, "BLOCK_BYTES", size)
        found = cleaned(tmp_path, loans)
        assert found.dropped_columns["policy_code"] == "not known when the application is decided"
        assert found.dropped_columns["pymnt_plan"] == "a single value"


def test_a_second_value_in_the_last_loan_alone_counts(tmp_path):
    loans = changed(several(12), "policy_code", ["1.0"] * 11 + ["2.0"])
    assert cleaned(tmp_path, loans).dropped_columns["policy_code"] == "not known when the application is decided"
    loans = changed(several(12), "policy_code", ["1.0"] * 9 + [""] * 3)
    assert cleaned(tmp_path, loans).dropped_columns["policy_code"] == "a single value"


def test_blanks_around_values_and_other_cases_change_nothing(tmp_path):
    usual = cleaned(tmp_path, several())
    columns = (*STUDY_COLUMNS, "id", "addr_state")
    padded = [dict(values, **{name: f"  {values[name]} " for name in columns}) for values in several()]
    words = ("home_ownership", "verification_status", "purpose", "loan_status", "emp_length")
    louder = [dict(values, **{name: values[name].upper() for name in words}) for values in several()]
    for loans in (padded, louder):
        found = cleaned(tmp_path, loans)
        assert found.frame.equals(usual.frame) and found.states.equals(usual.states)


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("loan_amnt", "abc", "has 'abc' as loan_amnt in record 3; finite numbers from 0 on are allowed."),
        ("annual_inc", "inf", "has 'inf' as annual_inc in record 3; finite numbers from 0 on are allowed."),
        ("dti", "-1.5", "has '-1.5' as dti in record 3; finite numbers from 0 on are allowed."),
        ("revol_bal", "-1", "has '-1' as revol_bal in record 3; finite numbers from 0 on are allowed."),
        ("dti", "inf", "has 'inf' as dti in record 3; finite numbers from 0 on are allowed."),
        (
            "int_rate",
            "12,5%",
            "has '12,5%' as int_rate in record 3; finite numbers from 0 on, with or without a percent sign, are allowed.",
        ),
        ("term", "48 months", "has '48 months' as term in record 3; 36 and 60 months are allowed."),
        (
            "emp_length",
            "long",
            'has \'long\' as emp_length in record 3; "< 1 year", "1 year" to "10+ years" and the '
            "numbers 0 to 10 are allowed.",
        ),
        (
            "purpose",
            "crypto",
            "has 'crypto' as purpose in record 3; allowed are car, credit_card, debt_consolidation, "
            "educational, home_improvement, house, major_purchase, medical, moving, other, renewable_energy, small_business, "
            "vacation, wedding.",
        ),
        (
            "home_ownership",
            "CASTLE",
            "has 'CASTLE' as home_ownership in record 3; allowed are ANY, MORTGAGE, NONE, OTHER, OWN, RENT.",
        ),
        (
            "verification_status",
            "x" * 50,
            f"has '{'x' * 40}...' as verification_status in record 3; allowed are "
            "Not Verified, Source Verified, Verified.",
        ),
    ],
)
def test_a_value_that_is_not_allowed(column, value, sentence, tmp_path):
    loans = several(12)
    loans[2], loans[7] = {**loans[2], column: value}, {**loans[7], column: "worse"}
    assert refusal_of(tmp_path, Edition().content(loans)) == sentence
    loans[7]["loan_status"] = loans[2]["loan_status"] = "Current"
    assert len(cleaned(tmp_path, loans).frame) == 10
    loans[2].update(loan_status="Fully Paid", open_acc="")
    assert len(cleaned(tmp_path, loans).frame) == 10


@pytest.mark.parametrize(("absent", "other"), [("Charged Off", "Fully Paid"), ("Fully Paid", "Charged Off")])
def test_both_outcomes_must_occur(absent, other, tmp_path):
    sentence = (
        f"has no {absent} loan that misses none of the study's columns; Fully Paid and Charged Off loans are needed."
    )
    assert refusal_of(tmp_path, Edition().content([loan(1, other), loan(2, other)])) == sentence
    incomplete = [loan(1, other), loan(2, other), loan(3, other), loan(4, absent, dti="")]
    assert refusal_of(tmp_path, Edition().content(incomplete)) == sentence


def test_no_loan_that_is_settled(tmp_path):
    assert refusal_of(tmp_path, Edition().content([loan(1, "Current"), loan(2, "Issued")])) == (
        "has no Fully Paid loan that misses none of the study's columns; Fully Paid and Charged Off loans are needed."
    )


@pytest.mark.parametrize(
    ("ids", "why"),
    [
        (["7", "8", "7"], "The id '7' occurs 2 times with different values"),
        (["7", "synthetic-8", "9"], "The id 'synthetic-8' begins like those of over-sampled rows"),
        (["7", "", "9"], "1 of 3 loans have no id"),
        (["7", "8,1", "9"], "The id '8,1' has other characters than letters, digits, '_', '.' and '-'"),
    ],
)
def test_loans_without_an_id_of_their_own_are_named_by_their_records(ids, why, tmp_path):
    loans = [loan(0, "Current"), loan(1), loan(2, "Charged Off"), loan(3)]
    found = cleaned(tmp_path, changed(loans, "id", ["7", *ids]))
    assert found.frame["id"].tolist() == ["row-2", "row-3", "row-4"]
    assert found.notices[-1] == f"{why}; the loans are named by their record numbers."


def test_a_file_without_ids(tmp_path):
    found = cleaned(tmp_path, two_loans(), columns=[name for name in RAW_COLUMNS if name != "id"])
    assert found.frame["id"].tolist() == ["row-1", "row-2"]
    assert found.notices[-1] == "2 of 2 loans have no id; the loans are named by their record numbers."


def test_ids_that_repeat_in_dropped_loans_only_are_kept(tmp_path):
    loans = changed([loan(0, "Current"), loan(1), loan(2, "Charged Off")], "id", ["7", "7", "8"])
    assert cleaned(tmp_path, loans).frame["id"].tolist() == ["7", "8"]


def test_an_id_that_begins_like_those_of_synthetic_rows_is_kept_where_it_is_dropped_or_differs(tmp_path):
    loans = [loan(0, "Current", id="synthetic-7"), loan(1, id="synthetic"), loan(2, "Charged Off", id="x-synthetic-")]
    assert cleaned(tmp_path, loans).frame["id"].tolist() == ["synthetic", "x-synthetic-"]


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (["7", "8", "9"], ["7", "8", "9"]),
        (["", "", ""], ["row-2", "row-4", "row-6"]),
        (["7", "", "9"], ["row-2", "row-4", "row-6"]),
    ],
)
@pytest.mark.parametrize("block", [1500, 1 << 20])
def test_a_loan_that_the_file_repeats_is_kept_once(ids, names, block, tmp_path, monkeypatch):
    """As in a file that was put together from overlapping ones, the second with percent signs and bare terms."""
    monkeypatch.setattr(raw_file, "BLOCK_BYTES", block)
    loans = changed(changed(several(3), "id", ids), "addr_state", ["NV", "", "TX"])
    current = loan(9, "Current")
    spelled = [
        dict(values, int_rate=f" {values['int_rate']}.00%", term=values["term"].split()[0], desc="", url="")
        for values in loans
    ]
    twice = [values for pair in zip(loans, spelled) for values in pair]
    usual, found = (cleaned(tmp_path, given) for given in ([current, *loans], [current, *twice, current]))
    assert found.frame.drop(columns="id").equals(usual.frame.drop(columns="id"))
    assert found.frame["id"].tolist() == names
    assert found.states.index.equals(found.frame.index) and found.states.tolist() == ["NV", "", "TX"]
    assert found.notices == usual.notices
    assert [(step.name, step.rows, step.columns) for step in found.steps[-3:]] == [
        ("Fully Paid and Charged Off kept", 6, 18),
        ("repeated loans removed", 3, 18),
        ("encoded", 3, 38),
    ]
    assert "repeated loans removed" not in [step.name for step in usual.steps]


def test_rates_that_are_fractions_of_1_are_refused_or_told(tmp_path):
    loans = several()
    with pytest.raises(InvalidArgument, match="has no int_rate above 1; write percent, such as 13.56 for 0.1356"):
        cleaned(tmp_path, changed(loans, "int_rate", [f"{0.05 + 0.01 * number:.2f}" for number in range(12)]))
    found = cleaned(tmp_path, changed(loans, "revol_util", [f"{number / 20}" for number in range(12)]))
    assert "The column revol_util is at most 1 in every loan; percent are read: 45.2, not 0.452." in found.notices
    assert not [notice for notice in cleaned(tmp_path, loans).notices if "percent" in notice]


@pytest.mark.parametrize("word", ["NaN", "nan", "NA"])
def test_a_missing_value_may_be_written_as_programs_do(tmp_path, word):
    assert len(cleaned(tmp_path, changed(several(), "annual_inc", [word])).frame) == 11


@pytest.mark.parametrize(
    "change",
    [{"dti": "0.01"}, {"purpose": "wedding"}, {"loan_status": "Charged Off"}, {"addr_state": "TX"}, {"id": "8"}],
)
def test_loans_that_differ_in_one_value_are_two(change, tmp_path):
    first = loan(1, id="7")
    found = cleaned(tmp_path, [first, loan(2, "Charged Off"), {**first, **change}])
    assert len(found.frame) == 3 and found.frame["id"].is_unique


def test_equal_loans_with_ids_of_their_own_are_two_however_often_each_is_repeated(tmp_path):
    first, twin = loan(1, id="7"), loan(1, id="8")
    found = cleaned(tmp_path, [first, twin, loan(2, "Charged Off"), twin, first])
    assert found.frame["id"].tolist() == ["7", "8", "1002"] and found.steps[-1].rows == 3


def test_no_copy_of_a_test_loan_is_trained_on(tmp_path):
    loans = several(40)
    found = cleaned(tmp_path, loans + loans[::-1])
    training, held_out = split_train_test(found.frame, label="loan_status", id="id", test_share=0.5, seed=1)
    assert len(found.frame) == 40 and not pandas.concat([training.frame, held_out.frame]).duplicated(FEATURES).any()


@pytest.mark.parametrize("text", ["-1", " -1.0 ", "-1.00"])
def test_the_mark_for_no_ratio_of_debt_to_income_is_a_missing_value(text, tmp_path):
    found = cleaned(tmp_path, changed(several(12), "dti", [text]))
    assert found.missing["dti"] == 1 / 12 and len(found.frame) == 11 and (found.frame["dti"] >= 0).all()


def test_loans_with_an_unknown_status_are_left_out_and_noticed(tmp_path):
    outside = "Does not meet the credit policy."
    known = [
        "Current",
        "DEFAULT",
        "Issued",
        "Late (16-30 days)",
        "Late (31-120 days)",
        "In Grace Period",
        f"{outside}  Status:Fully Paid",
        f"{outside} Status:Charged Off",
    ]
    assert cleaned(tmp_path, changed(several(12), "loan_status", known)).notices == ()
    found = cleaned(tmp_path, changed(several(12), "loan_status", ["Repaid", "Chargedoff", "Current", "Repaid"]))
    assert len(found.frame) == 8 and found.notices == (
        "Loans left out because of a loan_status that the public file does not have, such as 'Chargedoff': 3.",
    )


def test_states_belong_to_their_loans(tmp_path):
    loans = changed([loan(0, "Current"), *several(3)], "addr_state", ["NV", "CA", "", "TX"])
    assert cleaned(tmp_path, loans).states.tolist() == ["CA", "", "TX"]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.integers(0, 2**32))
def test_loans_are_cleaned_one_by_one(tmp_path, seed):
    """What becomes of a loan depends on no other one, so any order and any part gives the same rows."""
    loans = changed(several(14), "loan_status", ["Current", "Charged Off"])
    loans = changed(loans, "dti", ["1", "2", "3", ""])
    whole = cleaned(tmp_path, loans).frame.set_index("id")
    draw = random.Random(seed)
    part = draw.sample(loans, draw.randint(8, 14))
    frame = cleaned(tmp_path, part).frame.set_index("id")
    expected = [values["id"] for values in part if values["id"] in whole.index]
    assert frame.index.tolist() == expected and frame.equals(whole.loc[expected])
