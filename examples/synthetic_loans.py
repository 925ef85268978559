"""``python -m examples.synthetic_loans``: any number of invented loans in the raw format of Lending Club's public file, so
that examples, tests and measurements of scale need no download.

Nothing in them comes from a real row: columns follow round parametric laws after the published marginals, and free texts
are put together from short lists. They are meant to break a program that real rows would break, and to be about as hard
to learn; nothing about real borrowers can be learned there.
"""

from __future__ import annotations

import argparse
import gzip
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, fields
from io import BufferedWriter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fate_dp.data_prep import Progress, silent
from fate_dp.data_prep.lending_club.columns import RAW_COLUMNS, listed
from fate_dp.pipelines.cli.console import wide_console
from fate_dp.pipelines.cli.data import ShareBar
from fate_dp.pipelines.cli.main import run_command
from fate_dp.privacy.validation import InvalidArgument, whole

from .loan_draws import (
    CATEGORIES,
    EMPLOYMENT,
    Table,
    choose,
    draw_applications,
    draw_outcomes,
    happens,
    month_labels,
    month_number,
)

# Free texts: employers' titles, loan titles, and what borrowers write about themselves. They are as long and nearly as
# varied as people's own, and a share has the commas, quotation marks and line breaks that a reader of the file must survive.


RANKS = ("", "", "", "", "", "", "Senior ", "Lead ", "Assistant ", "Chief ", "Junior ", "Regional ", "Deputy ", "Head ")
TRADES = listed(
    "Teacher|Manager|Registered Nurse|Driver|Supervisor|Sales|Engineer|Owner|Accountant|Office Manager|Technician|"
    "Electrician|Project Manager|Mechanic|Clerk|Police Officer|Director|Operator|Foreman|Paralegal|Cashier|Consultant|"
    "Machinist|Chef|Carpenter|Pharmacist|Welder|Bookkeeper|Dispatcher|Inspector|Librarian|Programmer|Plumber|"
    "Dental Hygienist",
    "|",
)
# An employer's name has one part of each.
EMPLOYERS = [
    listed(parts, "|")
    for parts in (
        "Al|Bar|Cor|Dun|El|Fair|Gar|Hol|Ing|Jas|Kel|Lan|Mar|Nor|Or|Pen|Quin|Ros|Sal|Tor|Ul|Ver|Wil|Yar",
        "a|ber|con|den|er|fi|gle|hi|in|lo|mer|na|o|per|ri|sen|ta|ver",
        "burg|by|dale|field|ford|ham|ley|mont|ridge|son|stead|ton|ville|well|wick|worth",
        " Schools| Hospital| County| Foods, Inc.| Logistics| Bank| Insurance| Motors| University| Clinic| Energy| Hardware|"
        ' Airlines| & Sons| Medical Group| "Express" Lines',
    )
]
TRADE_SHARE, UNSTATED_EMPLOYER_SHARE = 0.65, 0.01

# In the order of `PURPOSES`.
PLAIN_TITLES = listed(
    "Debt consolidation|Credit card refinancing|Home improvement|Other|Major purchase|Business|Car financing|"
    "Medical expenses|Moving and relocation|Vacation|Home buying|Wedding expenses|Green loan|Learning and training",
    "|",
)
OWN_TITLES = listed(
    'Fresh start|Pay it all down|bills, bills, bills|One payment|My "last" loan|Getting ahead|New roof|card payoff|'
    "CONSOLIDATE|Lower rate|Freedom|Plan for next year|engine + tires",
    "|",
)
OWN_TITLE_SHARE, UNTITLED_SHARE = 0.12, 1.7e-4

DESCRIBED_UNTIL, DESCRIBED_SHARE = month_number(2014, 4), 0.46
SENTENCES = (
    "I would like to bring three balances together into one monthly payment.",
    "My income is steady, and I have not missed a payment in six years.",
    "The rate on my cards went up again, so most of what I pay is interest.",
    'This is for a used truck; the dealer calls it "almost new".',
    "We are replacing the roof before winter, then the two windows in front.",
    "I have worked for the same employer for a long time and enjoy what I do.",
    "After rent, food, gas and insurance I have about $700 left each month.",
    "Thank you for reading this, and for considering my request!",
    "A shorter plan with a fixed end date helps me more than a low minimum payment.",
    "The money goes to hospital bills (all of them), not to anything new.",
    "My wife and I share the household costs; she is paid every other week.",
    "I keep a budget, and I know exactly where the savings will come from.",
    "First I close the two store cards, next the one with the 24.9 % rate.",
    "The shop has grown every year, and a second oven would double what we can bake.",
)
LONGEST = 3
ADDRESS = "https://www.lendingclub.com/browse/loanDetail.action?loan_id="


def draw_texts(table: Table, numbers: np.ndarray, generator: np.random.Generator) -> dict[str, pa.Array]:
    """emp_title, title, desc and url as pyarrow arrays of strings; ``numbers`` are the loans' ids."""
    return {
        "emp_title": employer_titles(generator, table["emp_length"]),
        "title": loan_titles(generator, table["purpose"]),
        "desc": descriptions(generator, table["issue_d"]),
        "url": joined(ADDRESS, pa.array(numbers).cast(pa.string())),
    }


def employer_titles(generator: np.random.Generator, employment: np.ndarray) -> pa.Array:
    """A trade with or without a rank, or the employer's name, as borrowers fill the field in; none without a job."""
    rows = len(employment)
    trade = joined(picked(generator, rows, RANKS), picked(generator, rows, TRADES))
    name = joined(*(picked(generator, rows, parts) for parts in EMPLOYERS))
    title = pc.if_else(pa.array(happens(generator, rows, TRADE_SHARE)), trade, name)
    stated = (employment != list(EMPLOYMENT).index("n/a")) & ~happens(generator, rows, UNSTATED_EMPLOYER_SHARE)
    return where(stated, title)


def loan_titles(generator: np.random.Generator, purpose: np.ndarray) -> pa.Array:
    rows = len(purpose)
    plain = pa.array(PLAIN_TITLES).take(pa.array(purpose))
    own = pa.array(happens(generator, rows, OWN_TITLE_SHARE))
    title = pc.if_else(own, picked(generator, rows, OWN_TITLES), plain)
    return where(~happens(generator, rows, UNTITLED_SHARE), title)


def descriptions(generator: np.random.Generator, issued: np.ndarray) -> pa.Array:
    """One to three sentences under the date on which they were added, on one line or on several."""
    rows = len(issued)
    described = (issued < DESCRIBED_UNTIL) & happens(generator, rows, DESCRIBED_SHARE)
    count = generator.integers(1, LONGEST + 1, rows)
    sentences = [where(count > place, picked(generator, rows, SENTENCES)) for place in range(LONGEST)]
    between = pa.array((" ", "<br>", "\n")).take(pa.array(choose(generator, rows, (70, 25, 5))))
    text = pc.binary_join_element_wise(*sentences, between, null_handling="skip")
    day = pa.array([f"{number:02}" for number in range(1, 29)]).take(pa.array(generator.integers(0, 28, rows)))
    month = pa.array([f"{1 + number % 12:02}/" for number in range(12)]).take(pa.array(issued % 12))
    year = pa.array([f"/{number % 100:02}" for number in range(1950, 2030)]).take(pa.array(issued // 12))
    return where(described, joined("  Borrower added on ", month, day, year, " > ", text, "<br>"))


def picked(generator: np.random.Generator, rows: int, texts: Sequence[str]) -> pa.Array:
    return pa.array(texts).take(pa.array(generator.integers(0, len(texts), rows)))


def joined(*parts: str | pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def where(present: np.ndarray, texts: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(present), texts, pa.scalar(None, pa.string()))


# From arrays to lines of the raw CSV file
#
# The lines are joined by Arrow, not by its CSV writer: the public file puts quotes only around values that need them, and
# writes 3000.0, not 3000, neither of which the writer can.

MONTHS = ("issue_d", "earliest_cr_line", "last_pymnt_d", "next_pymnt_d", "last_credit_pull_d")
NUMBERED = ("id", "member_id")
TITLE_LINE = "Notes offered by Prospectus (https://www.lendingclub.com/info/prospectus.action)"


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

    def __post_init__(self) -> None:
        for part, value in asdict(self).items():
            if not isinstance(value, bool):
                raise InvalidArgument.of(part, value, "True or False")


def header(edition: Edition) -> bytes:
    columns = ("",) * edition.index_column + RAW_COLUMNS
    lines = (TITLE_LINE,) * edition.title_line + (",".join(columns),)
    return "".join(line + "\n" for line in lines).encode()


def lines(loans: Mapping[str, np.ndarray | pa.Array], edition: Edition, first_row: int) -> memoryview:
    """The rows of ``loans`` (every raw column: numbers, codes or texts, see the modules that draw them) as CSV."""
    cells = {column: written(column, values) for column, values in loans.items()}
    if edition.percent_signs:
        cells["int_rate"] = joined(" ", cells["int_rate"], "%")
        cells["revol_util"] = joined(cells["revol_util"], "%")
    if edition.plain_terms:
        cells["term"] = pc.utf8_slice_codeunits(cells["term"], 1, 3)
    ordered = [cells[column] for column in RAW_COLUMNS]
    if edition.index_column:
        ordered.insert(0, pa.array(range(first_row, first_row + len(ordered[0]))).cast(pa.string()))
    rows = pc.binary_join_element_wise(*ordered, ",", null_handling="replace", null_replacement="")
    return text_of(pc.binary_join_element_wise(rows, "", "\n"))


def written(column: str, values: np.ndarray | pa.Array) -> pa.Array:
    """One column as an array of strings, null where a value is missing."""
    if isinstance(values, pa.Array):
        quoted = joined('"', pc.replace_substring(values, '"', '""'), '"')
        return pc.if_else(pc.match_substring_regex(values, '[",\r\n]'), quoted, values)
    if values.dtype.kind == "f":
        # 13.48, and 3000.0 for whole numbers.
        text = pa.array(values, from_pandas=True).cast(pa.string())
        return pc.if_else(pc.match_substring(text, "."), text, joined(text, ".0"))
    if column in NUMBERED:
        return pa.array(values).cast(pa.string())
    labels = month_labels() if column in MONTHS else CATEGORIES[column]
    return pa.array(labels).take(pa.array(values, mask=values < 0))


def text_of(array: pa.Array) -> memoryview:
    """All strings of an array in a row: what its buffer holds already."""
    _, offsets, characters = array.buffers()
    ends = memoryview(offsets).cast("i")
    return memoryview(characters)[ends[array.offset] : ends[array.offset + len(array)]]


# The file

DEFAULT_ROWS, DEFAULT_SEED = 20_000, 2024
BLOCK = 50_000
COMPRESSION = 6
FIRST_ID, ID_STEP = 54_000, 77
FIRST_MEMBER, MEMBER_STEP = 70_000, 82


def write_synthetic(
    path: str | os.PathLike,
    rows: int,
    seed: int = DEFAULT_SEED,
    edition: Edition = Edition(),
    progress: Progress = silent,
) -> None:
    """Write invented loans as CSV; the file appears complete or not at all, and memory does not grow with ``rows``.

    Args:
        path: gzip-compressed if its name ends in .gz.
        rows: how many loans; rows, seed and edition decide every byte.
        seed: editions of one seed tell of the same loans.
        edition: which public edition the file looks like.
        progress: is told the share of the rows that is written, after each block.

    Raises:
        InvalidArgument: a number makes no sense, or the file cannot be written.
    """
    path = Path(path)
    whole("rows", rows, 1)
    whole("seed", seed, 0)
    if path.is_dir():
        raise InvalidArgument(f"{path} cannot be written: it is a folder.")
    try:
        with file_beside(path) as file:
            file.write(header(edition))
            for start in range(0, rows, BLOCK):
                stop = min(start + BLOCK, rows)
                file.write(lines(draw_block(seed, start, stop), edition, start))
                progress(f"{stop:,} of {rows:,} rows", stop / rows)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be written: {error.strerror}.") from error


def draw_block(seed: int, start: int, stop: int) -> dict[str, np.ndarray | pa.Array]:
    """The raw columns of rows ``start`` to ``stop``; ids rise from row to row."""
    streams = np.random.SeedSequence(seed, spawn_key=(start // BLOCK,)).spawn(4)
    identity, application, outcome, text = map(np.random.default_rng, streams)
    row, rows = np.arange(start, stop), stop - start
    numbers = FIRST_ID + ID_STEP * row + identity.integers(0, ID_STEP, rows)
    members = FIRST_MEMBER + MEMBER_STEP * row + identity.integers(0, MEMBER_STEP, rows)
    table = draw_applications(rows, application)
    table |= draw_outcomes(table, outcome)
    return table | draw_texts(table, numbers, text) | {"id": numbers, "member_id": members}


@contextmanager
def file_beside(path: Path) -> Iterator[gzip.GzipFile | BufferedWriter]:
    """A file to write to that gets its name when all went well, and is removed otherwise."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as raw:
            # Neither name nor time goes into the gzip header: the same loans are the same bytes.
            zipped = gzip.GzipFile("", "wb", COMPRESSION, raw, mtime=0) if path.suffix == ".gz" else nullcontext(raw)
            with zipped as file:
                yield file
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


# The command


def main(arguments: list[str] | None = None) -> int:
    """The exit status; a refusal is one sentence on standard error and status 1."""
    return run_command(parser(), arguments)


def parser() -> argparse.ArgumentParser:
    text = "Invent loans in the raw format of Lending Club's public file, so that nothing needs a download."
    command = argparse.ArgumentParser(prog="python -m examples.synthetic_loans", description=text)
    command.set_defaults(run=run)
    command.add_argument("--rows", type=int, default=DEFAULT_ROWS, help=f"number of loans ({DEFAULT_ROWS})")
    command.add_argument("--out", type=Path, required=True, help="file to write; compressed if it ends in .gz")
    command.add_argument("--seed", type=int, default=DEFAULT_SEED, help=f"of the random draws ({DEFAULT_SEED})")
    command.add_argument("--percent-signs", action="store_true", help="write rates with %% signs")
    command.add_argument("--plain-terms", action="store_true", help="write terms as 36, without the word months")
    command.add_argument("--index-column", action="store_true", help="begin with a column of row numbers")
    command.add_argument("--title-line", action="store_true", help="write a line above the header")
    return command


def run(options: argparse.Namespace) -> None:
    edition, console = Edition(**{part.name: getattr(options, part.name) for part in fields(Edition)}), wide_console()
    with ShareBar(console) as progress:
        write_synthetic(options.out, options.rows, options.seed, edition, progress.show)
    console.print(f"Written: {options.rows} invented loans in {options.out}", markup=False, highlight=False)


if __name__ == "__main__":
    raise SystemExit(main())
