"""What align leaves behind: shares as columns of a FATE DataFrame, and what both parties know of them.

A share of up to 65 bits is kept in two int64 columns, ``<name>.high`` and ``<name>.low``: share = high 2^33 + low with
0 <= low < 2^33. Rows lie in blocks with the same keys and the same rows in the same order at both parties. Everything
stays distributed.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fate_dp.crypto.joined_records import FRACTION_BITS, LOW_BITS, SHARE_BITS, join_shares

from ..common.federation import Context, Document
from ..common.frames import DataFrame, Table

LABEL, MEMBERSHIP = "label", "membership"
MATCH_ID, SAMPLE_ID = "id", "sample_id"
_FORMAT = {"fraction_bits": FRACTION_BITS, "share_bits": SHARE_BITS, "low_bits": LOW_BITS}


@dataclass(frozen=True)
class Alignment:
    """An alignment as both parties know it, and with ``own``, ``label_privacy`` and ``dataset`` what this party alone knows.

    The other party's columns are known by number: ``guest_x0``, ``host_x0`` and so on. With its size hidden, an
    alignment also has rows that stand for no record. They are zero everywhere, in the membership column too, which is 1
    for every record: with the membership in the place of an intercept they add nothing to any sum.

    Attributes:
        session: random name of this alignment, the same at both parties.
        rows: number of joined rows, dummies included.
        hide_size: None, or {epsilon, delta, pool}: each party adds 0 to pool dummies.
        own: this party's own names of its features, in the order of its columns.
        label_privacy: at the guest, what its ledger says of the labels: source, epsilon, unit and relation; None where
            they are neither flips that label_flip released nor declared public, and at the host.
        dataset: this party's own name of its table in its ledger; empty in what an earlier version wrote.
    """

    session: str
    rows: int
    guest: tuple[str, ...]
    host: tuple[str, ...]
    labelled: bool
    hide_size: Document | None = None
    own: tuple[str, ...] = ()
    label_privacy: Document | None = None
    dataset: str = ""

    @property
    def names(self) -> list[str]:
        """All joined columns in their public order; the membership comes last."""
        return [*self.guest, *self.host, *([LABEL] if self.labelled else []), MEMBERSHIP]

    def to_json(self) -> Document:
        """Builtins, as FATE stores a model."""
        return {
            **_FORMAT,
            "session": self.session,
            "rows": self.rows,
            "columns": {"guest": list(self.guest), "host": list(self.host), "label": self.labelled},
            "hide_size": self.hide_size,
            "own": {"columns": list(self.own), "label_privacy": self.label_privacy, "dataset": self.dataset},
        }

    @classmethod
    def from_json(cls, document: Document) -> "Alignment":
        """Raises ValueError for what `to_json` did not write, or wrote with another format of shares."""
        try:
            form = {name: document[name] for name in _FORMAT}
            columns, own = document["columns"], document["own"]
            read = cls(
                document["session"],
                document["rows"],
                guest=tuple(columns["guest"]),
                host=tuple(columns["host"]),
                labelled=columns["label"],
                hide_size=document["hide_size"],
                own=tuple(own["columns"]),
                label_privacy=own["label_privacy"],
                dataset=own.get("dataset", ""),
            )
        except (KeyError, TypeError) as error:
            raise ValueError("The alignment is no model that align wrote; connect align's alignment.") from error
        if form != _FORMAT:
            raise ValueError(f"The alignment has shares of the format {form}; this version reads {_FORMAT}.")
        return read


def feature_names(role: str, count: int) -> tuple[str, ...]:
    """Public names of a party's features: their own names stay with the party."""
    return tuple(f"{role}_x{number}" for number in range(count))


def share_blocks(frame: DataFrame, names: Sequence[str]) -> Table:
    """Table of object arrays (rows, c): this party's shares of the columns, in units of 2^-20.

    ``names`` are a part of `Alignment.names` in any order; raises ValueError where the frame has no shares of one.
    """
    present = set(frame.schema.columns)
    missing = [name for name in names if not present.issuperset(_pair(name))]
    if missing:
        raise ValueError(f"The table has no shares of the column {missing[0]!r}; connect align's output_data.")
    places = frame.data_manager.loc_block([half for name in names for half in _pair(name)])
    return frame.block_table.mapValues(
        lambda blocks: join_shares(
            np.stack([np.asarray(blocks[block][:, offset], dtype=np.int64) for block, offset in places], axis=1)
        )
    )


def write_shares(
    ctx: Context, blocks: Table, names: Sequence[str], starts: Mapping[int, int], session: str
) -> DataFrame:
    """A FATE DataFrame of shares; match id of a row is its position, sample id the session and the position.

    ``blocks`` are a table {block: int64 (rows, 2 c)} as `split_shares` gives them, numbered from 0; ``names`` the c joined
    columns; ``starts`` {block: position of its first row}.
    """
    from fate.arch.dataframe import DataFrame
    from fate.arch.dataframe.manager import DataManager
    from fate.arch.dataframe.ops._indexer import get_partition_order_mappings_by_block_table

    manager = DataManager()
    manager.init_from_local_file(
        sample_id_name=SAMPLE_ID,
        columns=[MATCH_ID, *(half for name in names for half in _pair(name))],
        match_id_list=None,
        match_id_name=MATCH_ID,
        label_name=None,
        weight_name=None,
        label_type=None,
        weight_type=None,
        dtype="int64",
        anonymous_site_name=ctx.local.name,
    )
    table = blocks.map(partial(_written, manager=manager, starts=starts, session=session))
    return DataFrame(ctx, table, get_partition_order_mappings_by_block_table(table, manager.block_row_size), manager)


def belongs_to(frame: DataFrame, session: str) -> bool:
    """Whether all rows are those of one alignment, each at its position."""
    names = (frame.schema.sample_id_name, frame.schema.match_id_name)
    ids = [frame.data_manager.loc_block(name, with_offset=False) for name in names]

    def all_of(blocks: Sequence) -> bool:
        sample_ids, positions = (blocks[block] for block in ids)
        return all(found == _sample_id(session, position) for found, position in zip(sample_ids, positions))

    return frame.block_table.mapValues(all_of).reduce(operator.and_)


def _sample_id(session: str, position: str) -> str:
    return f"{session}-{position}"


def _pair(name: str) -> tuple[str, str]:
    return f"{name}.high", f"{name}.low"


def _written(
    number: int, halves: np.ndarray, manager: Any, starts: Mapping[int, int], session: str
) -> tuple[int, list]:
    ids = [str(position) for position in range(starts[number], starts[number] + len(halves))]
    values = {
        SAMPLE_ID: [_sample_id(session, position) for position in ids],
        MATCH_ID: ids,
        **dict(zip(manager.schema.columns, halves.T)),
    }
    return number, [
        _block(block, [values[manager.get_field_name(at)] for at in block.field_indexes]) for block in manager.blocks
    ]


def _block(block: Any, columns: list) -> Any:
    return block.convert_block(np.column_stack(columns) if block.is_numeric() else columns[0])
