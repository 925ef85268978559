"""Prepared loans on the disk: the tables, and the manifest of what was done and the hash of every file.

The manifest holds no absolute path and no time, so that the same loans and options give the same bytes.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy
import pandas
import pyarrow
from pyarrow.csv import CSVWriter, WriteOptions

from fate_dp.privacy.validation import InvalidArgument

from .. import Progress, silent
from ..atomic_folder import replaced_folder
from ..division import Shares
from .cleaning import CleanLoans
from .columns import FEATURES, GROUPS, ID, LABEL, LABEL_VALUES, PUBLIC_LIMITS, PUBLIC_UNITS
from .options import PrepOptions
from .preparation import Division, class_counts, columns_of_parties

MANIFEST = "manifest.json"
SCHEMA = "fate-dp/prepared/1"
BLOCK = 1 << 20
NO_RECORD_PRIVACY = (
    "Over-sampled: whatever trains on these files has no record-level guarantee (epsilon infinity), because synthetic "
    "rows mix real ones; class weights with a public maximum are the private route."
)
NOT_OVER_SAMPLED = "Not over-sampled: a record-private component may follow."


def manifest_of(clean: CleanLoans, options: PrepOptions, files: dict[str, dict]) -> dict:
    """The manifest of cleaned loans as `read_manifest` will read it; ``files`` are paths in the folder and what is said
    of them."""
    manifest = {
        "schema": SCHEMA,
        "fate_dp_version": version("fate-dp"),
        "source": {"file": clean.source, "sha256": clean.sha256},
        "options": asdict(options),
        "steps": [asdict(step) for step in clean.steps],
        "missing": clean.missing,
        "dropped_columns": clean.dropped_columns,
        "notices": list(clean.notices),
        "id": ID,
        "label": LABEL,
        "label_values": LABEL_VALUES,
        "features": list(FEATURES),
        "units": _UNITS[options.units],
        "record_privacy": NOT_OVER_SAMPLED if options.over_sampling == "none" else NO_RECORD_PRIVACY,
        "files": files,
    }
    return json.loads(json.dumps(manifest))


def manifest_text(manifest: dict) -> str:
    return json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_manifest(folder: str | os.PathLike) -> dict:
    path = Path(folder) / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        schema = manifest["schema"]
        is_complete = all(
            entry["sha256"] and not os.path.isabs(name) and ".." not in Path(name).parts
            for name, entry in manifest["files"].items()
        )
    except OSError as error:
        raise InvalidArgument(
            f"{folder} has no readable {MANIFEST}; make one with `fate-dp prep lending-club`."
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidArgument(f"{path} is not a manifest of prepared loans.") from error
    if schema != SCHEMA:
        raise InvalidArgument.of(f"schema of {path}", schema, repr(SCHEMA), "Prepare the loans again.")
    if not is_complete:
        raise InvalidArgument(f"{path} names files without a hash or outside {folder}.")
    return manifest


def verify(folder: str | os.PathLike) -> dict:
    """The manifest of a prepared folder all of whose files are as they were written."""
    manifest = read_manifest(folder)
    for name, entry in manifest["files"].items():
        path = Path(folder) / name
        try:
            found = sha256_of(path)
        except OSError as error:
            raise InvalidArgument(f"{path} cannot be read: {error.strerror}; prepare the loans again.") from error
        if found != entry["sha256"]:
            raise InvalidArgument(f"{path} was changed after it was written; prepare the loans again.")
    return manifest


def check_replaceable(folder: Path) -> None:
    """Refuse to replace a folder that holds anything but an earlier preparation."""
    try:
        known = {MANIFEST, *read_manifest(folder)["files"]}
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{folder} holds things other than prepared loans; name a folder that is empty or new."
        ) from error
    for path in sorted(folder.rglob("*")):
        if not path.is_dir() and str(path.relative_to(folder)) not in known:
            raise InvalidArgument(f"{path} is not part of the prepared loans and would be lost; move it away first.")


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


_UNITS = {
    "raw": {"name": "raw"},
    "public": {"name": "public", "limits": PUBLIC_LIMITS, "centre_and_spread": PUBLIC_UNITS},
}


# The tables: all cleaned rows, the test rows, and a folder for each party with its table
#
# Numbers read back as the very same doubles, whole ones without a point. FATE splits lines without regard to quotes, so
# none are written, and an id that would need them is refused.

ROWS_AT_ONCE = 1 << 15
WRITERS = 2
ZERO_OR_ONE = frozenset(name for group in GROUPS for name in group)


@dataclass(frozen=True, eq=False)
class Table:
    """A CSV file to write, and what the manifest says about it; with a `name` it is uploaded under that name."""

    path: str
    frame: pandas.DataFrame
    name: str | None = None
    notes: dict = field(default_factory=dict)


def write(
    clean: CleanLoans, division: Division, options: PrepOptions, folder: str | os.PathLike, progress: Progress = silent
) -> dict:
    """Write everything into ``folder``, which appears complete or not at all; returns the manifest.

    A folder of an earlier preparation is replaced as a whole; InvalidArgument where it holds other things. ``progress``
    is told the share of the rows that is written.
    """
    tables = list(tables_of(clean, division, options))
    with replaced_folder(folder, check_replaceable) as staging:
        files = _write_tables(staging, tables, progress)
        manifest = manifest_of(clean, options, files)
        (staging / MANIFEST).write_text(manifest_text(manifest), encoding="utf-8")
    return manifest


def tables_of(clean: CleanLoans, division: Division, options: PrepOptions) -> Iterator[Table]:
    yield Table("loans.csv", clean.frame, notes=_classes(clean.frame))
    # None where all parties hold all rows.
    shares = Shares(options.shares).fractions.tolist() if options.shares else [None] * len(options.parties)
    columns = columns_of_parties(options)
    of_parties = [(party, f"{party.role}_{party.party_id}") for party in division.parties]
    for (party, folder), share in zip(of_parties, shares):
        notes = {
            "role": party.role,
            "party_id": party.party_id,
            "share": share,
            "before": party.rows_before,
            "after": party.rows_after,
            "largest_influence": party.largest_influence,
        }
        yield Table(f"{folder}/train.csv", party.training, f"{folder}_train", notes)
    # Parties with different columns have no table in common to be tested on: each has its own part of it.
    yield Table("test.csv", division.test, None if columns else "test", _classes(division.test))
    for party, folder in of_parties if columns else ():
        held = division.test[columns[party.party_id]]
        yield Table(f"{folder}/test.csv", held, f"{folder}_test", {"role": party.role, "party_id": party.party_id})


def _classes(frame: pandas.DataFrame) -> dict:
    return {"classes": class_counts(frame[LABEL])}


def _write_tables(folder: Path, tables: list[Table], progress: Progress) -> dict[str, dict]:
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
        raise InvalidArgument(
            f"An id in {path.name} has a comma, a quote or a line break; FATE cannot read such an id."
        ) from error


def _column(name: str, values: pandas.Series) -> pyarrow.Array:
    if name == ID:
        return pyarrow.array(values, type=pyarrow.string())
    numbers = values.to_numpy()
    # Whole numbers are written faster; synthetic rows may hold fractions of plain SMOTE here.
    if name in ZERO_OR_ONE and numpy.isin(numbers, (0, 1)).all():
        numbers = numbers.astype(numpy.int8)
    return pyarrow.array(numbers)
