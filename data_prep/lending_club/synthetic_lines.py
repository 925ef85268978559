"""From arrays to lines of the raw CSV file, in one of its public editions.

The lines are joined by Arrow, not by its CSV writer: the public file puts quotes only around values that need them, and
writes 3000.0, not 3000, neither of which the writer can.
"""
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc

from fate_dp.data_prep.lending_club.columns import RAW_COLUMNS
from fate_dp.data_prep.lending_club.synthetic_vocabulary import CATEGORIES, month_labels

MONTHS = ("issue_d", "earliest_cr_line", "last_pymnt_d", "next_pymnt_d", "last_credit_pull_d")
NUMBERED = ("id", "member_id")
TITLE_LINE = "Notes offered by Prospectus (https://www.lendingclub.com/info/prospectus.action)"


class InvalidSyntheticLoans(ValueError):
    """A request for invented loans that cannot be met."""


@dataclass(frozen=True)
class Edition:
    """What distinguishes the public editions of the file; each part is off in the most common one.

    percent_signs: ' 13.48%' and '95.6%' instead of 13.48 and 95.6 in int_rate and revol_util.
    plain_terms: '36' instead of ' 36 months'.
    index_column: a first column without a name that counts the rows from 0.
    title_line: a line about the prospectus above the header.
    """

    percent_signs: bool = False
    plain_terms: bool = False
    index_column: bool = False
    title_line: bool = False

    def __post_init__(self):
        for part, value in asdict(self).items():
            if not isinstance(value, bool):
                raise InvalidSyntheticLoans(f"{part} is {value!r}; it must be True or False.")


def header(edition) -> bytes:
    columns = ("",) * edition.index_column + RAW_COLUMNS
    lines = (TITLE_LINE,) * edition.title_line + (",".join(columns),)
    return "".join(line + "\n" for line in lines).encode()


def lines(loans, edition, first_row) -> memoryview:
    """The rows of ``loans`` (every raw column: numbers, codes or texts, see the modules that draw them) as CSV."""
    cells = {column: written(column, values) for column, values in loans.items()}
    if edition.percent_signs:
        cells["int_rate"] = pc.binary_join_element_wise(" ", cells["int_rate"], "%", "")
        cells["revol_util"] = pc.binary_join_element_wise(cells["revol_util"], "%", "")
    if edition.plain_terms:
        cells["term"] = pc.utf8_slice_codeunits(cells["term"], 1, 3)
    ordered = [cells[column] for column in RAW_COLUMNS]
    if edition.index_column:
        ordered.insert(0, pa.array(range(first_row, first_row + len(ordered[0]))).cast(pa.string()))
    rows = pc.binary_join_element_wise(*ordered, ",", null_handling="replace", null_replacement="")
    return text_of(pc.binary_join_element_wise(rows, "", "\n"))


def written(column, values):
    """One column as an array of strings, null where a value is missing."""
    if isinstance(values, pa.Array):
        return quoted_if_needed(values)
    if values.dtype.kind == "f":
        return decimals(values)
    if column in NUMBERED:
        return pa.array(values).cast(pa.string())
    labels = month_labels() if column in MONTHS else CATEGORIES[column]
    return pa.array(labels).take(pa.array(values, mask=values < 0))


def decimals(values):
    """13.48, and 3000.0 for whole numbers."""
    text = pa.array(values, from_pandas=True).cast(pa.string())
    return pc.if_else(pc.match_substring(text, "."), text, pc.binary_join_element_wise(text, ".0", ""))


def quoted_if_needed(texts):
    doubled = pc.replace_substring(texts, '"', '""')
    quoted = pc.binary_join_element_wise('"', doubled, '"', "")
    return pc.if_else(pc.match_substring_regex(texts, '[",\r\n]'), quoted, texts)


def text_of(array) -> memoryview:
    """All strings of an array in a row: what its buffer holds already."""
    _, offsets, characters = array.buffers()
    ends = memoryview(offsets).cast("i")
    return memoryview(characters)[ends[array.offset] : ends[array.offset + len(array)]]
