"""FATE's tables on their way between parties: keys and values are in the form of `codec` while they travel.

The engine's own form of a row is a pickle. A party's own rows are pickled and unpickled as ever; those of another party
are read as bytes, taken apart by `codec`, and only what that made of them is pickled for this party's workers. Each row is
sealed for its table, and how many there are stands in the table's message, which is sealed, too.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from cryptography.exceptions import InvalidTag
from fate.arch.computing.api import KVTable
from fate.arch.computing.serdes import get_serdes_by_type
from fate.arch.federation.api import TableMeta

from fate_dp.crypto.message_seals import RowSeal

from . import codec
from .kinds import Int, List, Rows

MAX_PARTITIONS = 1 << 14
FACTS = List(Int(64), 4)
"""What the message of a table holds, see `facts_of`."""
_PICKLED = 0
_KEY_FORMS, _PARTITIONERS = (0, 1), (0, 1, 2, 3)
"""Of FATE: how keys are pickled here, and how they are spread over partitions."""


def facts_of(table: KVTable) -> list:
    """What the receiver must know of a table: rows, partitions, and FATE's numbers for the form of keys and their order."""
    return [table.count(), table.num_partitions, table.key_serdes_type, table.partitioner_type]


def sealed(table: KVTable, seal: RowSeal) -> KVTable:
    """The table with its keys and values as they travel; raises `codec.NotPlain` in a worker."""
    encode = partial(_sealed_rows, key_form=table.key_serdes_type, value_form=table.value_serdes_type, seal=seal)
    return _mapped(table, encode, table.key_serdes_type, table.partitioner_type, shuffle=False)


def received(facts: list[int], kind: Rows, seal: RowSeal, pull: Callable[[TableMeta], KVTable]) -> KVTable:
    """A table of this party's own with the rows of another party's table, whose keys and values are of ``kind``.

    ``facts`` are what the other party said of it (`facts_of`); ``pull`` takes a TableMeta and returns what arrived.
    Raises codec.Malformed where ``facts`` or a row are not what they must be.
    """
    rows, partitions, key_form, partitioner = _checked(facts)
    arrived = pull(TableMeta(partitions, key_form, _PICKLED, partitioner))
    if (arrived.num_partitions, arrived.partitioner_type) != (partitions, partitioner):
        raise codec.Malformed("the table has other partitions than it says")
    # A row that cannot be read is left out, since engines hide why a worker failed. Shuffled, because its sender's engine
    # may have spread rows by the keys as they travel.
    decode = partial(_decoded_rows, key_form=key_form, kind=kind, seal=seal)
    table = _mapped(arrived, decode, key_form, partitioner, shuffle=True)
    found = table.count()
    if found != rows:
        explain = partial(_reasons, key_form=key_form, kind=kind, seal=seal)
        reasons = _mapped(arrived, explain, _PICKLED, partitioner, shuffle=False)
        of_a_row = next((f"in a row of the table, {reason}" for _, reason in reasons.collect()), None)
        raise codec.Malformed(of_a_row or f"the table has {found} different keys and should have {rows}")
    return table


def _checked(facts: list[int]) -> list[int]:
    if len(facts) != FACTS.at_most:
        raise codec.Malformed("the header of a table has an unknown form")
    rows, partitions, key_form, partitioner = facts
    sized = rows >= 0 and 1 <= partitions <= MAX_PARTITIONS
    if not sized or key_form not in _KEY_FORMS or partitioner not in _PARTITIONERS:
        raise codec.Malformed("the header of a table is out of range")
    return facts


def _mapped(table: KVTable, rows: object, key_form: int, partitioner: int, shuffle: bool) -> KVTable:
    """``rows`` get the engine's bytes of keys and values, and give such bytes: nothing else looks at them."""
    return table.mapPartitionsWithIndexNoSerdes(
        rows,
        shuffle=shuffle,
        output_key_serdes_type=key_form,
        output_value_serdes_type=_PICKLED,
        output_partitioner_type=partitioner,
    )


def _sealed_rows(_: int, rows: Any, key_form: int, value_form: int, seal: RowSeal) -> Iterator[tuple[bytes, bytes]]:
    key_serdes, value_serdes = get_serdes_by_type(key_form), get_serdes_by_type(value_form)
    for key, value in rows:
        yield seal.seal(codec.encode(key_serdes.deserialize(key)), codec.encode(value_serdes.deserialize(value)))


def _decoded_rows(_: int, rows: Any, key_form: int, kind: Rows, seal: RowSeal) -> Iterator[tuple[bytes, bytes]]:
    key_serdes, value_serdes = get_serdes_by_type(key_form), get_serdes_by_type(_PICKLED)
    for row in rows:
        try:
            key, value = _decoded(row, key_form, kind, seal)
        except codec.Malformed:
            continue
        yield key_serdes.serialize(key), value_serdes.serialize(value)


def _reasons(index: int, rows: Any, key_form: int, kind: Rows, seal: RowSeal) -> Iterator[tuple[bytes, bytes]]:
    """The first reason of a partition why a row cannot be read."""
    serdes = get_serdes_by_type(_PICKLED)
    for row in rows:
        try:
            _decoded(row, key_form, kind, seal)
        except codec.Malformed as error:
            yield serdes.serialize(index), serdes.serialize(str(error))
            return


def _decoded(row: tuple[bytes, bytes], key_form: int, kind: Rows, seal: RowSeal) -> tuple:
    try:
        opened = seal.open(*row)
    except InvalidTag:
        raise codec.Malformed("it was changed on the way, or is of another table, task, sender or receiver") from None
    key = codec.decode(opened[0], kind.keys)
    if key_form and not (type(key) is int and key >= 0):
        raise codec.Malformed("a key is no integer from 0 to 2^63 - 1")
    return key, codec.decode(opened[1], kind.values)
