"""Raw loan files of every public edition, and files that are none."""

import gzip
import hashlib
import itertools
import os
import zipfile

import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_loan_files import Edition, cleaned, loan, refusal, refusal_of, two_loans

from fate_dp.data_prep.lending_club import raw_file
from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.data_prep.lending_club.columns import FEATURES, RAW_COLUMNS, STUDY_COLUMNS

LOANS = [*two_loans(), loan(3, term=" 60 months", revol_util="0"), loan(4, "Current"), loan(5, emp_length="n/a")]
EDITIONS = {
    "percent signs": Edition(percent=True),
    "a plain term": Edition(term="{}"),
    "a term without its blank": Edition(term="{} months"),
    "gzip": Edition(packed=True),
    "an index column": Edition(index=""),
    "an index column that pandas named": Edition(index="Unnamed: 0"),
    "a title line": Edition(title=True),
    "footers": Edition(footers=True),
    "a byte order mark": Edition(byte_order_mark=True),
    "CRLF": Edition(line_end="\r\n"),
    "quotes around everything": Edition(quote_all=True),
    "a repeated header": Edition(repeat_header=True),
    "all at once": Edition(True, "{}", True, "", True, True, True, "\r\n", True, True),
}


@pytest.mark.parametrize("name", EDITIONS)
def test_every_edition_gives_the_same_loans(name, tmp_path):
    usual, other = cleaned(tmp_path, LOANS), cleaned(tmp_path, LOANS, EDITIONS[name])
    pandas.testing.assert_frame_equal(usual.frame, other.frame, check_exact=True)
    assert usual.states.equals(other.states)
    assert usual.missing == other.missing and usual.dropped_columns == other.dropped_columns
    loans_left = [(step.rows, step.columns) for step in other.steps if "removed" not in step.name][1:]
    assert loans_left == [(step.rows, step.columns) for step in usual.steps][1:]


def test_the_order_of_the_columns_does_not_matter(tmp_path):
    usual, other = cleaned(tmp_path, LOANS), cleaned(tmp_path, LOANS, columns=RAW_COLUMNS[::-1])
    pandas.testing.assert_frame_equal(usual.frame, other.frame, check_exact=True)


def test_gzip_is_known_by_its_content_and_not_by_its_name(tmp_path):
    (tmp_path / "plain.csv.gz").write_bytes(Edition().content(LOANS))
    (tmp_path / "packed.csv").write_bytes(Edition(packed=True).content(LOANS))
    plain, packed = clean(tmp_path / "plain.csv.gz"), clean(tmp_path / "packed.csv")
    assert plain.frame.equals(packed.frame)
    for loans, name in ((plain, "plain.csv.gz"), (packed, "packed.csv")):
        assert loans.source == name
        assert loans.sha256 == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()


def test_packed_files_that_were_appended(tmp_path):
    whole = cleaned(tmp_path, LOANS)
    parts = [Edition(packed=True, title=True).content(loans) for loans in (LOANS[:2], LOANS[2:])]
    (tmp_path / "loan.csv").write_bytes(b"".join(parts))
    assert clean(tmp_path / "loan.csv").frame.equals(whole.frame)


def test_an_error_of_whoever_shows_the_progress_is_not_blamed_on_the_file(tmp_path):
    def broken(text, share):
        raise BrokenPipeError(32, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        cleaned(tmp_path, LOANS, progress=broken)


def test_a_file_of_many_blocks_is_the_same_as_its_parts(tmp_path, monkeypatch):
    many = [loan(number, ("Fully Paid", "Charged Off")[number % 2]) for number in range(60)]
    whole = cleaned(tmp_path, many, Edition(title=True, footers=True))
    monkeypatch.setattr(raw_file, "BLOCK_BYTES", 1500)
    for edition in (Edition(title=True, footers=True), Edition(packed=True, title=True, footers=True)):
        pieces = cleaned(tmp_path, many, edition)
        assert whole.frame.equals(pieces.frame) and whole.steps == pieces.steps and whole.missing == pieces.missing
        assert pieces.sha256 == hashlib.sha256((tmp_path / "loan.csv").read_bytes()).hexdigest()


def test_progress_tells_the_share_of_the_file_that_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(raw_file, "BLOCK_BYTES", 1000)
    heard = []
    loans = [loan(number, ("Fully Paid", "Charged Off")[number % 2]) for number in range(60)]
    cleaned(tmp_path, loans, progress=lambda text, share: heard.append((text, share)))
    shares = [share for text, share in heard]
    assert {text for text, share in heard} == {"reading the raw file"}
    assert len(shares) > 3 and shares[0] > 0 and shares == sorted(shares) and shares[-1] == 1


def test_notes_and_repeated_headers_are_counted_and_are_no_loans(tmp_path):
    loans = cleaned(tmp_path, LOANS, Edition(footers=True, repeat_header=True, title=True))
    assert [(step.name, step.rows) for step in loans.steps[:2]] == [
        ("raw file read", 10),
        ("notes, empty records and repeated headers removed", 5),
    ]
    assert "removed" not in " ".join(step.name for step in cleaned(tmp_path, LOANS).steps)


def test_a_note_at_the_very_end_is_a_record(tmp_path):
    (tmp_path / "loan.csv").write_bytes(Edition().content(LOANS) + b"Total amount funded in policy code 2: 0")
    assert [step.rows for step in clean(tmp_path / "loan.csv").steps[:2]] == [6, 5]


@pytest.mark.parametrize("block", [1500, 1 << 20])
def test_notes_everywhere_shift_the_numbers_of_the_records_below_them(block, tmp_path, monkeypatch):
    monkeypatch.setattr(raw_file, "BLOCK_BYTES", block)
    header, *records = Edition().content([loan(number, desc="") for number in range(30)]).splitlines(keepends=True)
    records[20] = records[20].replace(b",27.65,", b",high,")
    records.insert(12, header)
    noted = header + b"".join(record + b"a note\n" for record in records)
    assert refusal_of(tmp_path, noted) == "has 'high' as dti in record 43; finite numbers from 0 on are allowed."
    charged_off = noted.replace(b",high,", b",0,").replace(b"Fully Paid", b"Charged Off", 1)
    (tmp_path / "loan.csv").write_bytes(charged_off)
    assert [step.rows for step in clean(tmp_path / "loan.csv").steps[:2]] == [62, 30]


def test_blanks_around_the_names_of_columns(tmp_path):
    usual = cleaned(tmp_path, LOANS, Edition(index=""))
    content = Edition(index=" Unnamed: 0 ").content(LOANS).replace(b",loan_amnt,", b", loan_amnt ,", 1)
    (tmp_path / "loan.csv").write_bytes(content)
    assert clean(tmp_path / "loan.csv").missing == usual.missing


def test_a_note_between_loans_changes_no_loan_and_is_a_record(tmp_path):
    lines = Edition().content([loan(1), loan(2, "Charged Off"), loan(3, loan_amnt="abc")]).decode()
    cut = lines.index("1002,")
    content = lines[:cut] + '\n\n"Loans that do not meet the credit policy"\n\n' + lines[cut:]
    assert refusal_of(tmp_path, content.encode()) == (
        "has 'abc' as loan_amnt in record 4; finite numbers from 0 on are allowed."
    )


@pytest.mark.parametrize("edition", [Edition(), Edition(title=True), Edition(index=""), Edition(line_end="\r\n")])
@pytest.mark.parametrize("block", [1500, 1 << 20])
def test_record_numbers_count_from_1_below_the_header(edition, block, tmp_path, monkeypatch):
    monkeypatch.setattr(raw_file, "BLOCK_BYTES", block)
    loans = [loan(number) for number in range(1, 10)]
    loans[6] = loan(7, dti="high")
    assert refusal_of(tmp_path, edition.content(loans)) == (
        "has 'high' as dti in record 7; finite numbers from 0 on are allowed."
    )


@pytest.mark.parametrize("fields", [2, 73, 75])
@pytest.mark.parametrize("edition", [Edition(), Edition(title=True, line_end="\r\n"), Edition(packed=True)])
def test_a_record_with_another_number_of_fields(fields, edition, tmp_path):
    lines = Edition(line_end=edition.line_end, title=edition.title).content(two_loans()).decode()
    broken = lines + "A note" + ",1" * (fields - 1) + edition.line_end
    content = gzip.compress(broken.encode()) if edition.packed else broken.encode()
    assert refusal_of(tmp_path, content) == f"has {fields} fields in record 3, and its header names 74."


def test_a_file_cut_off_within_its_first_field(tmp_path):
    content = Edition().content(two_loans()) + b"1003"
    assert refusal_of(tmp_path, content) == "has 1 field in record 3, and its header names 74."


def test_a_quotation_mark_that_is_not_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(raw_file, "BLOCK_BYTES", 2000)
    more = (loan(number, emp_title="", desc="long " * 40) for number in range(3, 30))
    lines = Edition().content([*two_loans(), *more]).decode()
    cut = lines.index("1003,")
    assert refusal_of(tmp_path, (lines[:cut] + '"' + lines[cut:]).encode()) == (
        "has a record of more than 2000 bytes after record 2; probably a quotation mark is not closed."
    )


def test_truncated_gzip(tmp_path):
    content = Edition(packed=True).content([loan(number) for number in range(200)])
    for kept in (len(content) - 1, len(content) - 9, len(content) // 2, 30):
        assert refusal_of(tmp_path, content[:kept]) == "is cut off: its gzip stream ends too early."


def test_damaged_gzip(tmp_path):
    content = bytearray(Edition(packed=True).content(LOANS))
    content[-6] ^= 1
    for damaged in (bytes(content), b"\x1f\x8b" + b"no gzip at all" * 9):
        assert refusal_of(tmp_path, damaged) == "is damaged: its gzip stream cannot be unpacked."


def test_files_that_are_no_text(tmp_path):
    not_text = "is not text; Lending Club's CSV file is expected, plain or packed with gzip."
    with zipfile.ZipFile(tmp_path / "loan.zip", "w") as archive:
        archive.writestr("loan.csv", Edition().content(LOANS))
    assert refusal(tmp_path / "loan.zip") == not_text
    assert refusal_of(tmp_path, Edition().content(LOANS).decode().encode("utf-16")) == not_text
    assert refusal_of(tmp_path, gzip.compress(b"\x7fELF\0\0\0")) == not_text


def test_files_that_are_empty(tmp_path):
    for content in (b"", b"\n\n", gzip.compress(b""), b" \r\n"):
        assert refusal_of(tmp_path, content) == "is empty."
    for edition in (Edition(), Edition(packed=True), Edition(footers=True, title=True)):
        assert refusal_of(tmp_path, edition.content([])) == "has no loans below its header."
    assert refusal_of(tmp_path, Edition().content([]).rstrip()) == "has no loans below its header."


def test_another_csv_file(tmp_path):
    other = (
        "is not Lending Club's: none of its first 10 lines names the columns loan_amnt, term, int_rate, installment "
        "and so on."
    )
    header_too_late = b"a note\n" * 10 + Edition().content(LOANS)
    without_header = Edition().content(LOANS).split(b"\n", 1)[1]
    semicolons = Edition().content(LOANS).replace(b",", b";")
    for content in (b"id,y\n1,2\n", b"no commas", header_too_late, without_header, semicolons, b"\x89PNG\r\n\x1a\n"):
        assert refusal_of(tmp_path, content) == other


def test_the_header_may_stand_in_the_tenth_line(tmp_path):
    usual = cleaned(tmp_path, LOANS)
    (tmp_path / "loan.csv").write_bytes(b"a note\n\n" * 4 + b"another note\n" + Edition().content(LOANS))
    assert clean(tmp_path / "loan.csv").frame.equals(usual.frame)


def test_what_cannot_be_opened(tmp_path, monkeypatch):
    assert refusal(tmp_path) == "cannot be read: it is a folder or a pipe, not a file."
    assert refusal(tmp_path / "absent.csv") == "cannot be read: No such file or directory."
    (tmp_path / "loan.csv").write_bytes(Edition().content(LOANS))

    def forbidden(path):
        raise PermissionError(13, f"Failed to open local file {path}")

    monkeypatch.setattr(raw_file.pyarrow, "OSFile", forbidden)
    assert refusal(tmp_path / "loan.csv") == "cannot be read: Permission denied."


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == "cannot be read: it is a folder or a pipe, not a file."


def test_columns_that_the_study_needs(tmp_path):
    one = [column for column in RAW_COLUMNS if column != "dti"]
    two = [column for column in one if column != "term"]
    assert refusal_of(tmp_path, Edition().content(LOANS, one)) == "lacks the column dti, which the study needs."
    assert refusal_of(tmp_path, Edition().content(LOANS, two)) == "lacks the columns term, dti, which the study needs."


def test_a_repeated_column(tmp_path):
    content = Edition().content(LOANS, (*RAW_COLUMNS, "dti"))
    assert refusal_of(tmp_path, content) == "has the column 'dti' more than once; rename or remove one of them."


def test_absent_and_unknown_columns_are_noticed_and_do_no_harm(tmp_path):
    usual = cleaned(tmp_path, LOANS)
    few = cleaned(tmp_path, LOANS, columns=("id", *STUDY_COLUMNS))
    assert few.frame.equals(usual.frame) and few.states.tolist() == [""] * 3
    assert few.notices[0].startswith(
        "The file lacks 55 of the public file's columns, none of which becomes a feature: member_id, funded_amnt, "
    )
    loans = [{**values, "hardship_flag": "N", "x": "1"} for values in LOANS]
    more = cleaned(tmp_path, loans, columns=(*RAW_COLUMNS, "hardship_flag", "x"))
    assert more.frame.equals(usual.frame)
    assert more.notices[0] == (
        "The file has 2 columns that the public file does not have; they are not used: hardship_flag, x."
    )
    assert more.dropped_columns["x"] == more.dropped_columns["hardship_flag"] == "not a column of the public file"


def test_text_in_another_encoding_is_refused_where_it_is_read_alone(tmp_path):
    usual = cleaned(tmp_path, LOANS)
    content = Edition().content([loan(1, emp_title="caf\u00e9"), *LOANS[1:]])
    (tmp_path / "loan.csv").write_bytes(content.decode().encode("latin-1"))
    assert clean(tmp_path / "loan.csv").frame.equals(usual.frame)
    content = Edition().content([loan(1), loan(2, "Charged Off", purpose="caf\u00e9")]).decode().encode("latin-1")
    assert refusal_of(tmp_path, content) == "has bytes that are not UTF-8 text as purpose in record 2."


def outcomes_and_loans():
    """Random loans with the features that they must become."""
    amounts = st.floats(0, 1e7).map(lambda value: round(value, 2))
    lengths = {"< 1 year": 0, "1 year": 1, **{f"{years} years": years for years in range(2, 10)}, "10+ years": 10}
    return st.lists(
        st.fixed_dictionaries(
            {
                "loan_amnt": amounts,
                "term": st.sampled_from([36, 60]),
                # Rates that are all fractions are refused.
                "int_rate": st.floats(1.01, 40),
                "dti": amounts,
                "revol_util": st.floats(0, 900),
                "total_acc": st.integers(0, 200),
                "emp_length": st.sampled_from(sorted(lengths.items())),
                "purpose": st.sampled_from(["car", "wedding", "other"]),
                "desc": st.text("a,\"\n '%", max_size=8),
                "paid": st.booleans(),
            }
        ),
        max_size=6,
    )


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(outcomes_and_loans(), st.sampled_from(list(EDITIONS.values())))
def test_random_loans_survive_any_edition(tmp_path, drawn, edition):
    fixed = [{**values, "paid": paid} for values, paid in itertools.product(drawn[:1], (True, False))]
    drawn = fixed + drawn
    if not drawn:
        return
    loans = [
        loan(
            number,
            "Fully Paid" if values["paid"] else "Charged Off",
            term=f" {values['term']} months",
            emp_length=values["emp_length"][0],
            purpose=values["purpose"],
            desc=values["desc"],
            **{column: repr(values[column]) for column in ("loan_amnt", "int_rate", "dti", "revol_util", "total_acc")},
        )
        for number, values in enumerate(drawn)
    ]
    frame = cleaned(tmp_path, loans, edition).frame
    for column in ("loan_amnt", "term", "int_rate", "dti", "revol_util", "total_acc"):
        assert frame[column].tolist() == [values[column] for values in drawn]
    assert frame["emp_length"].tolist() == [values["emp_length"][1] for values in drawn]
    assert frame["loan_status"].tolist() == [values["paid"] for values in drawn]
    for category in ("car", "wedding", "other", "vacation"):
        assert frame[f"purpose_{category}"].tolist() == [values["purpose"] == category for values in drawn]
    assert frame["id"].tolist() == [values["id"] for values in loans]
    assert list(frame.columns) == ["id", *FEATURES, "loan_status"]
