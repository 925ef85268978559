"""Canaries in a party's table: records, or labels, that fair coins decided, so that a job on the table can be audited.

``plant`` writes a copy of a table with canaries, for upload, and keeps in the party's home which records they are and how
their coins fell. Whoever knows the coins can tell canaries from people, so that file is private (mode 0600) and the coins
leave it as counts alone. Canaries of a table are made once: coins that were tossed after a job say nothing of it.

- ``labels``: existing records get a label by a fair coin among two classes. Their own labels are lost to the training.
- ``records``: made-up records join, each with probability one half. Values are drawn from public ranges and labels by fair
  coins of their own, so that canaries say nothing of any record, and a replaced record replaces no canary.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fate_dp.privacy.auditing.certificate import hash_of
from fate_dp.privacy.auditing.games import fair_coins
from fate_dp.privacy.events import Word
from fate_dp.privacy.labels.flips import canonical_label
from fate_dp.privacy.ledger.policy import check_source
from fate_dp.privacy.mechanisms.sampling import random_permutation
from fate_dp.privacy.noise.stream import Rng, open_stream, uniform_below
from fate_dp.privacy.private_files import CANARIES_FOLDER, atomic_write, publish_if_absent
from fate_dp.privacy.validation import InvalidArgument, one_of, whole

from .csv_files import TableMeta, read_csv_file
from .party_ledgers import make_home

SCHEMA = 1
MIN_CANARIES = 10
PREFIX = "canary-"
UNNAMED = (-1.0, 1.0)
DAMAGED = "The file {} is not a list of canaries of this version; it cannot serve an audit."


class Kind(Word):
    """What the coins decided."""

    LABELS = "labels"
    RECORDS = "records"


@dataclass(frozen=True)
class Canaries:
    """The canaries of one table, and their coins.

    ``coins`` are +1 or -1: the second or the first of the two ``classes``, or present or absent. ``columns`` and ``rows``,
    the features of each canary, are for ``records`` only; ``table`` and ``planted`` are SHA-256 of the file without and
    with canaries.
    """

    kind: str
    source: str
    ids: tuple[str, ...]
    coins: tuple[int, ...]
    classes: tuple[str, str]
    labels: tuple[str, ...]
    table: str
    planted: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[float, ...], ...] = ()

    @property
    def table_name(self) -> str:
        """``namespace/name``."""
        return self.source.rpartition("/")[0]


@dataclass(frozen=True)
class Planting:
    """What is planted where: ``count`` coins in the table ``csv``, which goes to ``out`` with its canaries.

    The ranges of ``meta`` say for ``records``, by column, what values are drawn from: lowest and highest, of whole numbers if both are
    whole (int), `UNNAMED` for other columns. They must not be read off the table.
    """

    csv: Path
    out: Path
    source: str
    kind: str = Kind.LABELS
    count: int = 1000
    meta: TableMeta = TableMeta()


def file_of(home: Path, table: str) -> Path:
    """Where the canaries of a table ``namespace/name`` are kept."""
    return home / CANARIES_FOLDER / f"{table.replace('/', '.')}.json"


def plant(parties_folder: Path, party_id: str, planting: Planting, rng: Rng = None) -> Canaries:
    """Write the table with canaries, and keep them in the party's home; coins come from ``rng``, None for the system's
    entropy. Raises `InvalidArgument` before anything is written."""
    check_source(planting.source)
    one_of("kind", planting.kind, tuple(Kind))
    whole("count", planting.count, MIN_CANARIES)
    home = make_home(parties_folder, party_id)
    kept = file_of(home, planting.source.rpartition("/")[0])
    if kept.exists():
        raise InvalidArgument(f"{kept} exists: canaries of a table are made once, before any job reads it.")
    before = hash_of(planting.csv)
    label = planting.source.rpartition("/")[2]
    table = read_csv_file(planting.csv, replace(planting.meta, label_name=label)).frame
    make = _label_canaries if planting.kind == Kind.LABELS else _record_canaries
    changed, found = make(table, planting, label, open_stream(rng))
    atomic_write(planting.out, changed.to_csv(index=False))
    canaries = Canaries(str(planting.kind), planting.source, **found, table=before, planted=hash_of(planting.out))
    publish_if_absent(kept, json.dumps({"schema": SCHEMA, **asdict(canaries)}).encode())
    return canaries


def _label_canaries(table: Any, planting: Planting, label: str, rng: Rng) -> tuple[Any, dict[str, Any]]:
    if planting.count > len(table):
        raise InvalidArgument.of("count", planting.count, f"at most the number of records, {len(table)}")
    classes = _classes(table, label)
    places = _places(len(table), planting.count, rng)
    coins = fair_coins(planting.count, rng)
    labels = [classes[int(coin > 0)] for coin in coins]
    changed = table.copy()
    changed.loc[places, label] = labels
    return changed, {
        "ids": tuple(table[planting.meta.id_name].iloc[places]),
        "coins": tuple(coins.tolist()),
        "classes": classes,
        "labels": tuple(labels),
    }


def _record_canaries(table: Any, planting: Planting, label: str, rng: Rng) -> tuple[Any, dict[str, Any]]:
    import pandas

    classes, count = _classes(table, label), planting.count
    id_name, ranges = planting.meta.id_name, planting.meta.facts.ranges
    columns = [name for name in table if name not in (id_name, label)]
    made = {name: _drawn(ranges.get(name, UNNAMED), count, rng) for name in columns}
    labels = [classes[int(coin > 0)] for coin in fair_coins(count, rng)]
    ids = [f"{PREFIX}{open_stream(rng).integer(64):016x}" for _ in range(count)]
    coins = fair_coins(count, rng)
    drawn = pandas.DataFrame({id_name: ids, **made, label: labels})[list(table)]
    changed = pandas.concat([table, drawn[coins > 0]], ignore_index=True)
    # In a secret order: a position would tell canaries from people.
    changed = changed.iloc[_places(len(changed), len(changed), rng)]
    return changed, {
        "ids": tuple(ids),
        "coins": tuple(coins.tolist()),
        "classes": classes,
        "columns": tuple(columns),
        "rows": tuple(map(tuple, drawn[columns].astype(float).to_numpy().tolist())),
        "labels": tuple(labels),
    }


def _drawn(limits: tuple[float, float], count: int, rng: Rng) -> list[str]:
    """``count`` uniform numbers within limits, as they stand in a file."""
    low, high = limits
    if isinstance(low, int) and isinstance(high, int):
        return [str(low + int(step)) for step in uniform_below(high - low + 1, count, rng)]
    return [repr(low + (high - low) * float(step) / 2.0**53) for step in uniform_below(2**53, count, rng)]


def _places(records: int, count: int, rng: Rng) -> np.ndarray:
    """``count`` different places of a table, in a secret order."""
    return random_permutation(records, rng)[:count]


def _classes(table: Any, label: str) -> tuple[str, str]:
    found = sorted({canonical_label(value) for value in table[label].unique()})
    if len(found) != 2:
        raise InvalidArgument.of(
            f"number of values of the label {label!r}", len(found), "2, which coins choose between"
        )
    return found[0], found[1]


def canaries_of(home: Path, table: str) -> Canaries | None:
    """Those of a table ``namespace/name``, None where none were planted; `InvalidArgument` for a file of another version."""
    path = file_of(home, table)
    if not path.is_file():
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored.pop("schema") != SCHEMA:
            raise InvalidArgument(DAMAGED.format(path))
        for name in ("ids", "coins", "classes", "columns", "labels"):
            stored[name] = tuple(stored[name])
        stored["rows"] = tuple(map(tuple, stored["rows"]))
        return Canaries(**stored)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgument(DAMAGED.format(path)) from error
