"""Write prepared loans: all cleaned rows, the test rows, and a folder for each party with its table and its meta.

Numbers read back as the very same doubles, whole ones without a point. FATE splits lines without regard to quotes, so
none are written, and an id that would need them is refused.
"""
from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import pandas
import pyarrow
from pyarrow.csv import CSVWriter, WriteOptions

from fate_dp.data_prep.atomic_folder import replaced_folder
from fate_dp.data_prep.progress import silent
from fate_dp.data_prep.shares import Shares

from .cleaning import CleanLoans
from .columns import GROUPS, ID, LABEL
from .manifest import MANIFEST, check_replaceable, manifest_of, manifest_text, sha256_of
from .options import PrepOptions
from .preparation import Division, PartyRows, class_counts, held_out_columns

ROWS_AT_ONCE = 1 << 15
WRITERS = 2
ZERO_OR_ONE = frozenset(name for group in GROUPS for name in group)


class CannotWrite(ValueError):
    """A table with a text that a line of values cannot hold; one sentence."""


@dataclass(frozen=True, eq=False)
class Table:
    """A CSV file to write, and what the manifest says about it; with a `name` it is uploaded under that name."""

    path: str
    frame: pandas.DataFrame
    name: str | None = None
    notes: dict = field(default_factory=dict)


def write(
    clean: CleanLoans, division: Division, options: PrepOptions, folder: str | os.PathLike, progress=silent
) -> dict:
    """Write everything into ``folder``, which appears complete or not at all; returns the manifest.

    A folder of an earlier preparation is replaced as a whole. ``progress(text, share)`` is told the share of the rows
    that is written. Raises FolderNotWritten, NotPrepared (the folder holds other things) or CannotWrite.
    """
    tables = list(tables_of(clean, division, options))
    with replaced_folder(folder, check_replaceable) as staging:
        files = _write_tables(staging, tables, progress)
        for table in tables:
            if table.name is not None:
                name = f"{table.path.removesuffix('.csv')}.meta.json"
                files[table.path]["meta"] = name
                (staging / name).write_text(json.dumps(upload_meta(table.frame), indent=2) + "\n", encoding="utf-8")
                files[name] = {"sha256": sha256_of(staging / name)}
        manifest = manifest_of(clean, options, files)
        (staging / MANIFEST).write_text(manifest_text(manifest), encoding="utf-8")
    return manifest


def tables_of(clean: CleanLoans, division: Division, options: PrepOptions) -> Iterator[Table]:
    """Every CSV file of a preparation, the largest first."""
    yield Table("loans.csv", clean.frame, notes=class_notes(clean.frame))
    shares = Shares(options.shares).fractions.tolist() if options.shares else [None] * len(options.parties)
    for party, share in zip(division.parties, shares):
        folder = f"{party.role}_{party.party_id}"
        yield Table(f"{folder}/train.csv", party.training, f"{folder}_train", party_notes(party, share))
    held_out = held_out_columns(options)
    # Parties with different columns have no table in common to be tested on: each has its own part of it.
    yield Table("test.csv", division.test, None if held_out else "test", class_notes(division.test))
    for party in division.parties if held_out else ():
        folder = f"{party.role}_{party.party_id}"
        held = division.test[held_out[party.party_id]]
        yield Table(f"{folder}/test.csv", held, f"{folder}_test", {"role": party.role, "party_id": party.party_id})


def class_notes(frame: pandas.DataFrame) -> dict:
    """Rows per class."""
    return {"classes": class_counts(frame[LABEL])}


def party_notes(party: PartyRows, share: float | None) -> dict:
    """What the manifest says about a party's training rows; the share is None where all parties hold all rows."""
    return {
        "role": party.role,
        "party_id": party.party_id,
        "share": share,
        "before": party.rows_before,
        "after": party.rows_after,
        "largest_influence": party.largest_influence,
    }


def upload_meta(frame: pandas.DataFrame) -> dict:
    """The metadata of FATE-Flow's upload for a table."""
    label = {"label_name": LABEL, "label_type": "int32"} if LABEL in frame.columns else {}
    return {"match_id_name": ID, "dtype": "float64", "delimiter": ",", **label}


def _write_tables(folder: Path, tables: list[Table], progress) -> dict[str, dict]:
    whole, written = sum(len(table.frame) for table in tables), 0
    files = {}
    with ThreadPoolExecutor(WRITERS) as pool:
        entries = [pool.submit(_write_table, folder, table) for table in tables]
        try:
            for table, entry in zip(tables, entries):
                files[table.path] = entry.result()
                written += len(table.frame)
                progress(f"wrote {table.path}", written / whole)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return files


def _write_table(folder: Path, table: Table) -> dict:
    path = folder / table.path
    path.parent.mkdir(exist_ok=True)
    write_csv(path, table.frame)
    entry = {"sha256": sha256_of(path), "rows": len(table.frame), "columns": list(table.frame.columns), **table.notes}
    return entry if table.name is None else {"table": table.name, **entry}


def write_csv(path: Path, frame: pandas.DataFrame) -> None:
    """Write a frame with plain header and values; a text with a comma, a quote or a line break is refused."""
    columns = {name: _column(name, frame[name]) for name in frame.columns}
    table = pyarrow.table(columns)
    # The writer of pyarrow would put the header in quotes.
    options = WriteOptions(include_header=False, quoting_style="none", batch_size=ROWS_AT_ONCE)
    try:
        with path.open("wb") as file:
            file.write((",".join(columns) + "\n").encode())
            with CSVWriter(file, table.schema, write_options=options) as writer:
                writer.write_table(table)
    except pyarrow.ArrowInvalid as error:
        raise CannotWrite(
            f"An id in {path.name} has a comma, a quote or a line break in it; FATE cannot read such an id."
        ) from error


def _column(name: str, values: pandas.Series) -> pyarrow.Array:
    if name == ID:
        return pyarrow.array(values, type=pyarrow.string())
    numbers = values.to_numpy()
    # Whole numbers are written faster; synthetic rows may hold fractions of plain SMOTE here.
    if name in ZERO_OR_ONE and numpy.isin(numbers, (0, 1)).all():
        numbers = numbers.astype(numpy.int8)
    return pyarrow.array(numbers)
