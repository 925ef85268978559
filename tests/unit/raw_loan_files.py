"""Raw loan files written by hand in every public edition, and the sentence with which one is refused."""

import csv
import gzip
import io
from dataclasses import dataclass

import pytest

from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.data_prep.lending_club.columns import RAW_COLUMNS
from fate_dp.privacy.validation import InvalidArgument

TITLE = "Notes offered by Prospectus (https://www.lendingclub.com/info/prospectus.action)"
FOOTERS = ("Total amount funded in policy code 1: 460296150", "Total amount funded in policy code 2: 0")


def loan(number=1, status="Fully Paid", **changes):
    """One loan with every raw column that the public file usually fills; values as in its most common edition."""
    values = dict.fromkeys(RAW_COLUMNS, "")
    values.update(
        id=str(1000 + number),
        member_id=str(2000 + number),
        loan_amnt=f"{5000 + 25 * number}.0",
        term=" 36 months",
        int_rate="13.5",
        installment="162.87",
        grade="C",
        emp_title='Clerk, "night"',
        emp_length="10+ years",
        home_ownership="RENT",
        annual_inc=f"{40000 + number}.0",
        verification_status="Verified",
        issue_d="Dec-2011",
        loan_status=status,
        pymnt_plan="n",
        url=f"https://example.org/{number}",
        desc='First line\nsecond, and "last"',
        purpose="credit_card",
        zip_code="860xx",
        addr_state="AZ",
        dti="27.65",
        delinq_2yrs="0.0",
        earliest_cr_line="Jan-1985",
        inq_last_6mths="1.0",
        open_acc="3.0",
        pub_rec="0.0",
        revol_bal="13648.0",
        revol_util="83.7",
        total_acc="9.0",
        total_pymnt=str(100 + number),
        policy_code="1.0",
    )
    values.update(changes)
    return values


def two_loans(**changes):
    """A paid loan with `changes` and a charged-off one: the smallest file that is accepted."""
    return [loan(1, **changes), loan(2, "Charged Off")]


@dataclass(frozen=True)
class Edition:
    """In which of the public ways a file is written."""

    percent: bool = False
    term: str = " {} months"
    packed: bool = False
    index: str | None = None
    title: bool = False
    footers: bool = False
    byte_order_mark: bool = False
    line_end: str = "\n"
    quote_all: bool = False
    repeat_header: bool = False

    def content(self, loans, columns=RAW_COLUMNS) -> bytes:
        """The bytes of the file."""
        text = io.StringIO(newline="")
        quoting = csv.QUOTE_ALL if self.quote_all else csv.QUOTE_MINIMAL
        rows = csv.writer(text, lineterminator=self.line_end, quoting=quoting)
        index = [] if self.index is None else [self.index]
        text.write((TITLE + self.line_end) * self.title)
        rows.writerow([*index, *columns])
        for position, values in enumerate(loans):
            if self.repeat_header and position == 1:
                text.write((TITLE + self.line_end) * self.title)
                rows.writerow([*index, *columns])
            row = [self.written(column, values[column]) for column in columns]
            rows.writerow([str(position)] * len(index) + row)
        text.write(self.footer(len(index) + len(columns)) * self.footers)
        content = (b"\xef\xbb\xbf" if self.byte_order_mark else b"") + text.getvalue().encode()
        return gzip.compress(content) if self.packed else content

    def footer(self, columns) -> str:
        """Notes alone in a line, notes with empty fields after them, blank lines and empty records."""
        lines = ["", FOOTERS[0], f'"{FOOTERS[1]}"' + "," * (columns - 1), "", "," * (columns - 1), ""]
        return self.line_end.join(lines)

    def written(self, column, value) -> str:
        """The value as this edition writes it."""
        if value and column in ("int_rate", "revol_util"):
            return f"{value}%" if self.percent else value
        if column == "term":
            return self.term.format(value.split()[0]) if value else value
        return value


def cleaned(folder, loans, edition=Edition(), columns=RAW_COLUMNS, **settings):
    """The loans after they were written and read again."""
    path = folder / "loan.csv"
    path.write_bytes(edition.content(loans, columns))
    return clean(path, **settings)


def refusal(path, *arguments):
    """The sentence with which a file is refused, from after its name on."""
    with pytest.raises(InvalidArgument) as refused:
        clean(path, *arguments)
    start, name, sentence = str(refused.value).partition(str(path))
    assert start == "The loan file " and name and sentence.startswith(" ") and sentence.endswith(".")
    return sentence[1:]


def refusal_of(folder, content, *arguments):
    """The sentence with which a file of these bytes is refused."""
    path = folder / "loan.csv"
    path.write_bytes(content)
    return refusal(path, *arguments)
