"""Any number of invented loans in the raw format of Lending Club's public file.

Tests, the demo and measurements of scale need no download with them. Nothing in them comes from a real row: columns
follow round parametric laws after the published marginals (see the modules that draw them). They are meant to break a
program that real rows would break, and to be about as hard to learn; nothing about real borrowers can be learned there.
"""
import gzip
import os
import secrets
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

from fate_dp.data_prep.lending_club.synthetic_applications import draw_applications
from fate_dp.data_prep.lending_club.synthetic_lines import Edition, InvalidSyntheticLoans, header, lines
from fate_dp.data_prep.lending_club.synthetic_outcomes import draw_outcomes
from fate_dp.data_prep.lending_club.synthetic_words import draw_texts
from fate_dp.data_prep.progress import silent
from fate_dp.privacy.number_kinds import is_whole

BLOCK = 50_000
COMPRESSION = 6
FIRST_ID, ID_STEP = 54_000, 77
FIRST_MEMBER, MEMBER_STEP = 70_000, 82


def write_synthetic(path, rows, seed=2024, edition=Edition(), progress=silent):
    """Write ``rows`` invented loans to ``path`` as CSV, gzip-compressed if its name ends in .gz.

    Rows, seed and edition decide every byte; editions of one seed tell of the same loans. ``progress(text, share)`` is
    called after each block. The file appears complete or not at all; memory does not grow with ``rows``. Raises
    InvalidSyntheticLoans where a number makes no sense or the file cannot be written.
    """
    path = Path(path)
    check_whole("rows", rows, 1)
    check_whole("seed", seed, 0)
    if path.is_dir():
        raise InvalidSyntheticLoans(f"{path} cannot be written: it is a folder.")
    try:
        with file_beside(path) as file:
            file.write(header(edition))
            for start in range(0, rows, BLOCK):
                stop = min(start + BLOCK, rows)
                file.write(lines(draw_block(seed, start, stop), edition, start))
                progress(f"{stop:,} of {rows:,} rows", stop / rows)
    except OSError as error:
        raise InvalidSyntheticLoans(f"{path} cannot be written: {error.strerror}.") from error


def draw_block(seed, start, stop) -> dict:
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
def file_beside(path):
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


def check_whole(field, value, smallest):
    if not is_whole(value) or value < smallest:
        raise InvalidSyntheticLoans(f"{field} is {value!r}; it must be a whole number of at least {smallest}.")
