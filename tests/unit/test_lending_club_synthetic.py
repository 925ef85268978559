"""Invented loans look like the public file's, are as hard to learn, and leak their outcome where the real ones do."""

import csv
import gzip
import hashlib
import math
import re
import resource
from decimal import ROUND_HALF_EVEN, Decimal

import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from examples import loan_draws, synthetic_loans
from examples.synthetic_loans import Edition, main, write_synthetic
from fate_dp.data_prep.lending_club import columns
from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.privacy.validation import InvalidArgument

ROWS = 40_000
# What 300 loans of seed 7 are, byte for byte, on every supported Python.
SHA_256_OF_300 = "067b6a452b26a96ba5ed57da98bb6f6099c4ad6030c22ef4d749f91952e4e507"
NUMBER = r"-?\d+\.\d+"
MONTH = r"(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)-(19|20)\d\d"
FORMATS = {
    "id": r"\d+",
    "member_id": r"\d+",
    "term": r" (36|60) months",
    "int_rate": NUMBER,
    "loan_amnt": r"\d+\.0",
    "installment": NUMBER,
    "grade": "[A-G]",
    "sub_grade": "[A-G][1-5]",
    "issue_d": MONTH,
    "earliest_cr_line": f"({MONTH})?",
    "emp_length": r"< 1 year|1 year|[2-9] years|10\+ years|n/a",
    "zip_code": r"\d{3}xx",
    "addr_state": "[A-Z]{2}",
    "url": r"https://www\.lendingclub\.com/browse/loanDetail\.action\?loan_id=\d+",
    "pymnt_plan": "[ny]",
    "desc": r"(  Borrower added on \d\d/\d\d/\d\d > .*<br>)?",
    "initial_list_status": "[fw]",
    "policy_code": r"1\.0",
    "application_type": "INDIVIDUAL|JOINT",
    "next_pymnt_d": f"({MONTH})?",
    "total_pymnt": NUMBER,
    "open_il_6m": r"(\d+\.0)?",
}
# Of 887,379 loans of the public file; the fourteen details of the last month have one pattern.
PRESENT = {
    "emp_title": 836_000,
    "desc": 126_000,
    "mths_since_last_delinq": 433_000,
    "mths_since_last_record": 137_000,
    "mths_since_last_major_derog": 222_000,
    "tot_cur_bal": 817_103,
    "total_rev_hi_lim": 817_103,
    "next_pymnt_d": 634_000,
    "last_pymnt_d": 870_000,
    "open_acc_6m": 21_372,
    "total_bal_il": 21_372,
    "inq_last_12m": 21_372,
    "il_util": 18_617,
    "mths_since_rcnt_il": 20_810,
}
PERCENT = {
    "loan_status": {"Fully Paid": 23.4, "Charged Off": 5.1, "Current": 67.8, "Late (31-120 days)": 1.3, "Issued": 0.95},
    "emp_length": {"n/a": 5.05, "10+ years": 33.0},
    "term": {" 36 months": 70.0},
    "grade": {"A": 16.7, "B": 28.7, "G": 0.6},
    "home_ownership": {"MORTGAGE": 50.0, "RENT": 40.1, "OWN": 9.9},
}
LEAKS = ["recoveries", "total_rec_prncp", "last_pymnt_amnt"]


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    path = tmp_path_factory.mktemp("synthetic") / "loan.csv"
    write_synthetic(path, ROWS)
    return path


@pytest.fixture(scope="module")
def loans(raw):
    return pandas.read_csv(raw, keep_default_na=False, na_values=[""], low_memory=False)


def test_every_row_has_the_74_columns_in_the_public_formats(raw):
    with open(raw, newline="", encoding="ascii") as file:
        records = list(csv.DictReader(file, strict=True))
    assert tuple(records[0]) == columns.RAW_COLUMNS and len(records) == ROWS
    for column, pattern in FORMATS.items():
        shape = re.compile(pattern, re.DOTALL)
        wrong = [record[column] for record in records[::5] if not shape.fullmatch(record[column])]
        assert not wrong, (column, wrong[:3])
    assert all(len(record) == 74 and record["inq_last_12m"] is not None for record in records)
    assert len({record["id"] for record in records}) == ROWS


def test_free_text_is_hard_to_read_and_quoted_only_where_it_must_be(loans, raw):
    for mark in (",", '"', "\n"):
        assert loans["desc"].str.contains(mark, regex=False).sum() > 20, mark
    assert loans["emp_title"].nunique() > ROWS / 5
    first = raw.read_bytes().split(b"\n", 2)[1]
    assert first.startswith(b"54") and b'" 36 months"' not in first
    assert 440 < raw.stat().st_size / ROWS < 510


@pytest.mark.parametrize("column", PRESENT)
def test_values_are_missing_as_often_as_in_the_public_file(loans, column):
    expected = PRESENT[column] / 887_379
    spread = math.sqrt(expected * (1 - expected) / ROWS)
    assert abs(loans[column].notna().mean() - expected) < 4 * spread + 0.03 * min(expected, 1 - expected) + 0.002


@pytest.mark.parametrize("column", PERCENT)
def test_categories_have_their_published_shares(loans, column):
    shares = 100 * loans[column].value_counts(normalize=True)
    for category, percent in PERCENT[column].items():
        assert abs(shares[category] - percent) < 0.12 + 0.04 * percent, category


def test_details_of_the_last_month_are_missing_together(loans):
    details = loans[["open_acc_6m", "open_il_12m", "total_bal_il", "all_util", "inq_fi", "total_cu_tl"]].notna()
    assert (details.sum(axis=1).isin([0, details.shape[1]])).all()
    assert set(loans["issue_d"][details["inq_fi"]]) == {"Dec-2015"}


def test_vocabulary_knows_every_category_of_the_study():
    for column, categories in columns.CATEGORIES.items():
        assert set(loan_draws.CATEGORIES[column]) == set(categories)


def test_instalment_repays_the_loan_to_the_cent(loans):
    for loan in loans.head(500).itertuples():
        monthly = Decimal(str(loan.int_rate)) / 1200
        exact = Decimal(loan.funded_amnt) * monthly / (1 - (1 + monthly) ** -int(loan.term[1:3]))
        assert Decimal(str(loan.installment)) == exact.quantize(Decimal("0.01"), ROUND_HALF_EVEN)


def test_riskier_grades_pay_more(loans):
    assert (loans["grade"] == loans["sub_grade"].str[0]).all()
    assert loans.groupby("sub_grade")["int_rate"].mean().is_monotonic_increasing
    assert (loans["funded_amnt"] == loans["loan_amnt"]).mean() > 0.99
    assert (loans["funded_amnt"] <= loans["loan_amnt"]).all() and loans["loan_amnt"].between(500, 35000).all()


def test_payments_add_up(loans):
    parts = loans[["total_rec_prncp", "total_rec_int", "total_rec_late_fee", "recoveries"]]
    assert ((parts.sum(axis=1) - loans["total_pymnt"]).abs() < 0.005).all() and (parts >= 0).all(axis=None)
    running = ~loans["loan_status"].str.contains("Fully Paid|Charged Off")
    rest = loans["funded_amnt"] - loans["total_rec_prncp"] - loans["out_prncp"]
    assert (rest[running].abs() < 0.005).all()
    assert (loans["out_prncp"][~running] == 0).all() and (loans["out_prncp"][running] > 0).all()
    assert (loans["next_pymnt_d"].notna() == running).all()
    repaid = loans["loan_status"] == "Fully Paid"
    assert (loans["total_rec_prncp"] == loans["funded_amnt"])[repaid].all()
    charged_off = loans["loan_status"].str.contains("Charged Off")
    assert (loans["recoveries"][~charged_off] == 0).all() and (loans["recoveries"][charged_off] > 0).mean() > 0.3


def test_outcome_is_as_hard_to_predict_as_the_real_one_and_later_columns_give_it_away(raw, loans):
    frame = clean(raw).frame
    honest = held_out_auc(frame[list(columns.FEATURES)], frame["loan_status"])
    assert 0.68 <= honest <= 0.72
    later = loans.assign(id=loans["id"].astype(str)).set_index("id").loc[frame["id"], LEAKS].to_numpy()
    for position, column in enumerate(LEAKS):
        leaking = held_out_auc(frame[list(columns.FEATURES)].assign(leak=later[:, position]), frame["loan_status"])
        assert leaking > 0.8, column
        assert column not in columns.APPLICATION_TIME


def held_out_auc(features, labels):
    training = features.index % 2 == 0
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=100))
    model.fit(features[training], labels[training])
    return roc_auc_score(labels[~training], model.decision_function(features[~training]))


@settings(max_examples=8, deadline=None)
@given(edition=some.builds(Edition, *[some.booleans()] * 4))
def test_editions_tell_of_the_same_loans(tmp_path_factory, edition):
    folder = tmp_path_factory.mktemp("editions")
    for name, written in (("plain.csv", Edition()), ("edition.csv", edition)):
        write_synthetic(folder / name, 1500, seed=3, edition=written)
    plain, other = (clean(folder / name) for name in ("plain.csv", "edition.csv"))
    pandas.testing.assert_frame_equal(plain.frame, other.frame)
    pandas.testing.assert_series_equal(plain.states, other.states)


def test_each_part_of_an_edition_shows_in_the_file(tmp_path):
    def top(**parts):
        write_synthetic(tmp_path / "loan.csv", 20, edition=Edition(**parts))
        with open(tmp_path / "loan.csv", newline="", encoding="ascii") as file:
            return list(csv.reader(file))[:3]

    position = {column: place for place, column in enumerate(columns.RAW_COLUMNS)}
    header, usual, _ = top()
    signed, short, counted = top(percent_signs=True)[1], top(plain_terms=True)[1], top(index_column=True)
    assert signed[position["int_rate"]] == f" {usual[position['int_rate']]}%"
    assert signed[position["revol_util"]] == f"{usual[position['revol_util']]}%"
    assert short[position["term"]] == usual[position["term"]].strip().removesuffix(" months")
    assert counted[0] == ["", *header] and counted[1] == ["0", *usual] and counted[2][0] == "1"
    title, below, row = top(title_line=True)
    assert title == ["Notes offered by Prospectus (https://www.lendingclub.com/info/prospectus.action)"]
    assert below == header and row == usual


def test_rows_seed_and_edition_decide_every_byte(tmp_path):
    digests = []
    for name, seed in (("a.csv", 7), ("b.csv", 7), ("c.csv", 8)):
        write_synthetic(tmp_path / name, 300, seed=seed)
        digests.append(hashlib.sha256((tmp_path / name).read_bytes()).hexdigest())
    assert digests[0] == digests[1] == SHA_256_OF_300
    assert digests[2] != digests[0]


def test_gzip_holds_the_same_bytes_and_neither_name_nor_time(tmp_path):
    write_synthetic(tmp_path / "loan.csv", 50)
    for name in ("one.csv.gz", "other.gz"):
        write_synthetic(tmp_path / name, 50)
    packed = (tmp_path / "one.csv.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "loan.csv").read_bytes()
    assert packed == (tmp_path / "other.gz").read_bytes() and packed[3:8] == bytes(5)


def test_blocks_follow_each_other_and_progress_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic_loans, "BLOCK", 40)
    told = []
    write_synthetic(
        tmp_path / "loan.csv",
        100,
        edition=Edition(index_column=True),
        progress=lambda text, share: told.append((text, share)),
    )
    assert told == [("40 of 100 rows", 0.4), ("80 of 100 rows", 0.8), ("100 of 100 rows", 1.0)]
    loans = pandas.read_csv(tmp_path / "loan.csv", index_col=0)
    assert list(loans.index) == list(range(100))
    assert loans["id"].is_monotonic_increasing and loans["id"].is_unique and loans["member_id"].is_unique
    assert len(loans["installment"].unique()) > 90, "blocks must not repeat each other"


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ({"rows": 0}, "rows must be a whole number of at least 1, got 0."),
        ({"rows": True}, "rows must be a whole number of at least 1, got True."),
        ({"rows": 5.0}, "rows must be a whole number of at least 1, got 5.0."),
        ({"rows": 5, "seed": -1}, "seed must be a whole number of at least 0, got -1."),
        ({"rows": 5, "seed": "x"}, "seed must be a whole number of at least 0, got 'x'."),
    ],
)
def test_numbers_that_make_no_sense_are_refused(tmp_path, arguments, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        write_synthetic(tmp_path / "loan.csv", **arguments)
    assert str(refusal.value) == sentence and not list(tmp_path.iterdir())


def test_a_part_of_an_edition_is_on_or_off():
    with pytest.raises(InvalidArgument) as refusal:
        Edition(plain_terms=1)
    assert str(refusal.value) == "plain_terms must be True or False, got 1."


def test_a_folder_in_the_way_or_none_at_all_is_one_sentence(tmp_path):
    for path, reason in ((tmp_path, "it is a folder"), (tmp_path / "none" / "loan.csv", "No such file or directory")):
        with pytest.raises(InvalidArgument) as refusal:
            write_synthetic(path, 5)
        assert str(refusal.value) == f"{path} cannot be written: {reason}."


@pytest.mark.parametrize("name", ["loan.csv", "loan.csv.gz"])
def test_a_file_that_outgrows_the_disk_leaves_the_old_one_and_nothing_else(tmp_path, name):
    (tmp_path / name).write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(InvalidArgument) as refusal:
            write_synthetic(tmp_path / name, 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(refusal.value) == f"{tmp_path / name} cannot be written: File too large."
    assert [path.name for path in tmp_path.iterdir()] == [name] and (tmp_path / name).read_text() == "old"


def test_the_command_writes_every_edition_of_the_same_loans(tmp_path, capsys):
    editions = (["--percent-signs", "--plain-terms", "--index-column", "--title-line"], [])
    for name, flags in zip(("edition.csv.gz", "plain.csv"), editions):
        assert main(["--rows", "700", "--seed", "5", "--out", str(tmp_path / name), *flags]) == 0
    told = capsys.readouterr().out.replace("\n", "")
    assert f"Written: 700 invented loans in {tmp_path / 'edition.csv.gz'}" in told
    first, second = (clean(tmp_path / name).frame for name in ("edition.csv.gz", "plain.csv"))
    pandas.testing.assert_frame_equal(first, second)


def test_the_command_refuses_no_rows_in_one_sentence(tmp_path, capsys):
    assert main(["--rows", "0", "--out", str(tmp_path / "x.csv")]) == 1
    assert capsys.readouterr().err.count("\n") == 1 and not list(tmp_path.iterdir())
