"""Columns of a FATE DataFrame as tables of numpy blocks, and back.

A block table maps a block's key to the block's rows; parties that ran PSI hold the same keys with the same rows in the
same order. Everything here stays distributed: no function returns rows to the driver but `collect_column`.
"""

import hashlib
import hmac
import logging
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from fate_dp.privacy.labels.flips import canonical_label, label_tags, record_tags

from .federation import Context, Document, TableInput, TableOutput, check_roles
from .preflight import Refusal, agree
from .progress import counted

DataFrame = Any
"""FATE's; its own annotations cover too little of it to be checked against."""
Table = Any
"""FATE's distributed table, of keys and values."""
Block = Any
"""A block of a frame: a list of torch tensors and numpy arrays, one for each group of columns."""
logger = logging.getLogger(__name__)


def feature_blocks(frame: DataFrame) -> Table:
    """Table of float64 arrays (rows, features), columns in the order of ``frame.schema.columns``."""
    places = frame.data_manager.loc_block(frame.schema.columns.to_list())

    def columns(blocks: Block) -> np.ndarray:
        found = [np.asarray(blocks[block][:, offset], dtype=np.float64) for block, offset in places]
        return np.stack(found, axis=1) if found else np.empty((len(blocks[0]), 0))

    return _cut(frame, ("features", *places), columns)


def label_blocks(frame: DataFrame) -> Table:
    """Table of float64 arrays (rows,): the label column. Raises ValueError if the labels are not numbers."""
    place = frame.data_manager.loc_block(frame.schema.label_name)
    if not frame.data_manager.get_block(place[0]).is_numeric():
        raise ValueError(f"The label column {frame.schema.label_name!r} must be numeric.")
    return _cut(frame, ("labels", *place), lambda blocks: np.asarray(blocks[place[0]][:, place[1]], dtype=np.float64))


def match_id_blocks(frame: DataFrame) -> Table:
    """Table of lists of match ids as text."""
    place = _place_of_match_ids(frame)
    return _cut(frame, ("match ids", place), lambda blocks: list(map(str, blocks[place])))


def _place_of_match_ids(frame: DataFrame) -> int:
    return frame.data_manager.loc_block(frame.schema.match_id_name, with_offset=False)


_CUTS: WeakKeyDictionary[Table, dict[Hashable, Table]] = WeakKeyDictionary()


def _cut(frame: DataFrame, columns: Hashable, work: Callable) -> Table:
    """What ``work`` makes of each block's ``columns``, made once: FATE's own engine writes every table to a disk."""
    of_table = _CUTS.setdefault(frame.block_table, {})
    if columns not in of_table:
        of_table[columns] = frame.block_table.mapValues(work)
    return of_table[columns]


def block_starts(frame: DataFrame) -> dict[int, int]:
    """Block key -> global index of the block's first row.

    Counted, because ``frame.partition_order_mappings`` knows only one block a partition after FATE's
    ``loc(preserve_order=True)``, which makes the host's tables in cross-validation.
    """
    starts, rows = {}, 0
    for key, size in sorted(frame.block_table.mapValues(lambda blocks: len(blocks[0])).collect()):
        starts[key] = rows
        rows += size
    return starts


def with_blocks(frame: DataFrame, table: Table, blocks: Sequence[tuple[int, object]]) -> Table:
    """A table of the frame's engine with more blocks, [(key, block)], which are spread and written as its own are."""
    added = frame._ctx.computing.parallelize(
        blocks,
        partition=table.num_partitions,
        key_serdes_type=table.key_serdes_type,
        value_serdes_type=table.value_serdes_type,
        partitioner_type=table.partitioner_type,
    )
    return table.union(added)


def replace_labels(frame: DataFrame, labels: Table, soft: bool = False) -> DataFrame:
    """The frame with its label column replaced by the table ``labels`` (block key -> array (rows,)).

    The column keeps its type, or becomes float64 for ``soft`` labels in [0, 1].
    """
    manager = frame.data_manager.duplicate()
    block, offset = manager.loc_block(frame.schema.label_name)
    if soft:
        from fate.arch.dataframe.manager.block_manager import BlockType

        # FATE's own label setter forgets to note the wider type, and the table is written as whole numbers.
        manager.promote_types([(block, BlockType.float64)])
    replaced = frame.block_table.join(labels, partial(_with_label, block=block, offset=offset, soft=soft))
    return type(frame)(frame._ctx, replaced, frame.partition_order_mappings, manager)


def collect_column(blocks: Table) -> np.ndarray:
    """One number per record, in global row order, on the driver: for label-sized columns only."""
    parts = dict(blocks.collect())
    return np.concatenate([parts[key] for key in sorted(parts)]) if parts else np.empty(0)


def _is_unusable(match_id: object) -> bool:
    """Whether a match id is missing, empty, or no text that can be encoded."""
    if match_id is None or match_id != match_id or match_id == "":
        return True
    try:
        str(match_id).encode()
    except UnicodeEncodeError:
        return True
    return False


def _with_label(blocks: Block, labels: np.ndarray, block: int, offset: int, soft: bool) -> Block:
    import torch

    replaced = list(blocks)
    column = blocks[block].double() if soft else blocks[block].clone()
    column[:, offset] = torch.as_tensor(labels).to(column.dtype)
    replaced[block] = column
    return replaced


# What the ledger needs to know of each record. It is one SQLite file at the party's driver, so its rows have to get there:
# keyed hashes and labels only, never more than one block at a time in memory.

_ALIGNMENT = b"fate-dp: are the rows of two parties the same"


def record_tag_stream(frame: DataFrame, key: bytes, source: str) -> Iterator[bytes]:
    """Iterator over the keyed hash of every match id."""
    return _stream(match_id_blocks(frame).mapValues(partial(record_tags, key=key, source=source)))


def labelled_stream(frame: DataFrame, key: bytes, source: str) -> Iterator[tuple[bytes, str]]:
    """Iterator over (keyed hash of the match id, label as text)."""

    def labelled(match_ids: Sequence[str], labels: np.ndarray) -> list[tuple[bytes, str]]:
        return list(zip(record_tags(match_ids, key, source), map(canonical_label, labels.tolist())))

    return _stream(match_id_blocks(frame).join(label_blocks(frame), labelled))


def flip_stream(frame: DataFrame, flipped: Table, key: bytes, source: str) -> Iterator[tuple[bytes, bytes, str]]:
    """Iterator over the rows of ``Ledger.record_flips``: keyed hashes of match id and true label, and the flipped label."""

    def tags(match_ids: Sequence[str], labels: np.ndarray) -> tuple[list[bytes], list[bytes]]:
        return record_tags(match_ids, key, source), label_tags(match_ids, labels.tolist(), key, source)

    def with_flipped(own: tuple[list[bytes], list[bytes]], values: np.ndarray) -> list[tuple[bytes, bytes, str]]:
        return list(zip(*own, map(canonical_label, values.tolist())))

    return _stream(match_id_blocks(frame).join(label_blocks(frame), tags).join(flipped, with_flipped))


def _stream(table: Table) -> Iterator:
    blocks = counted(table.collect(), table.count(), "blocks")
    return chain.from_iterable(block for _, block in blocks)


def ids_digest(frame: DataFrame) -> list:
    """[[block, SHA-256 of its match ids in order], ...]: equal at two parties iff their rows are aligned."""
    digests = match_id_blocks(frame).mapValues(lambda ids: hashlib.sha256("\x00".join(ids).encode()).hexdigest())
    return sorted([key, digest] for key, digest in digests.collect())


def alignment_digest(frame: DataFrame) -> str:
    """One digest of all rows for another party to compare: equal iff rows are aligned.

    It is over all ids at once, so that no dictionary opens a part of them, and slow to make (scrypt, 16 MB and some
    50 ms), so that guessing the ids of a table of one or two rows is dear as well.
    """
    return hashlib.scrypt(ids_fingerprint(frame).encode(), salt=_ALIGNMENT, n=1 << 14, r=8, p=1, dklen=32).hex()


def check_aligned(frame: DataFrame, hosts: Mapping[str, Mapping[str, object]], fact: str = "digest") -> None:
    """At the guest: every host must hold the same ids in the same blocks and order; ``fact`` names its digest of them."""
    own = alignment_digest(frame)
    for name, facts in hosts.items():
        if facts[fact] != own:
            raise Refusal(f"The rows of guest and {name} are not the same ids in the same order; run psi before.")


def ids_fingerprint(frame: DataFrame) -> str:
    """SHA-256 over `ids_digest`: evidence of which rows a ledger line speaks of, not an identity."""
    return hashlib.sha256(repr(ids_digest(frame)).encode()).hexdigest()


def content_digest(frame: DataFrame, key: bytes) -> bytes:
    """Keyed hash of all rows, ids and features, whatever their order or spread over blocks."""
    # A key of its own: rows are anybody's bytes, and must read like no other input of the party's key.
    own_key = hmac.digest(key, b"fate-dp table content", "sha256")
    sums = match_id_blocks(frame).join(feature_blocks(frame), partial(_content_sum, key=own_key))
    return sums.reduce(lambda first, second: (first + second) % 2**256).to_bytes(32, "big")


def _content_sum(match_ids: Sequence[str], features: np.ndarray, key: bytes) -> int:
    rows = np.ascontiguousarray(features, dtype="<f8")
    hashes = (
        hmac.digest(key, len(text).to_bytes(8, "big") + text + row.tobytes(), "sha256")
        for text, row in zip((match_id.encode() for match_id in match_ids), rows)
    )
    return sum(int.from_bytes(item, "big") for item in hashes) % 2**256


# Checks of a party's own table before work starts; each raises ValueError with one sentence.

ANY_UNIT = 2.0**100
"""The scale of `check_features` where columns may be in any unit: sums of their squares stay finite."""


def check_guest_table(frame: DataFrame, binned: bool = False) -> None:
    """What the guest must bring to any task on labels: rows, a label column, sound features."""
    require_rows(frame)
    if frame.schema.label_name is None:
        raise Refusal("The guest's table has no label column; upload it with label_name set.")
    if label_blocks(frame).mapValues(lambda labels: bool(np.isnan(labels).any())).reduce(operator.or_):
        raise ValueError("A label is missing. Every record of the guest needs one.")
    check_training_table(frame, binned)


def check_host_table(frame: DataFrame, binned: bool = False) -> None:
    """What a host must bring: rows, no label column, sound features."""
    refuse_label(frame)
    check_training_table(frame, binned)


def check_training_table(frame: DataFrame, binned: bool = False) -> None:
    """What training needs of the table of any party; where it is ``binned`` before, any numbers and missing values will do."""
    refuse_weights(frame)
    require_distinct_ids(frame)
    if binned:
        feature_names(frame)
        require_numeric(frame)
        return
    low, high = check_features(frame, scale=ANY_UNIT)
    for name, smallest, largest in zip(frame.schema.columns, low, high):
        if smallest == largest:
            raise bad_feature(name, "is constant; drop it before training")


def refuse_weights(frame: DataFrame) -> None:
    """Sample weights would change what one record contributes."""
    if frame.schema.weight_name is not None:
        raise ValueError(
            f"The table has the weight column {frame.schema.weight_name!r}; sample weights are not supported."
        )


def require_rows(frame: DataFrame) -> None:
    if frame.shape[0] == 0:
        raise Refusal("The table has no rows: the parties have no ids in common.")
    # Not loaded at the top: a command that reads a ledger should not wait for gmpy2 and the kernels.
    from fate_dp.crypto.slots import ROW_BITS

    if frame.shape[0] > 2**ROW_BITS:
        raise ValueError(f"The table has {frame.shape[0]} rows; at most 2^{ROW_BITS} fit into an encrypted sum.")


def refuse_label(frame: DataFrame) -> None:
    """A host must have rows and no label column."""
    require_rows(frame)
    refuse_label_column(frame)


def refuse_label_column(frame: DataFrame) -> None:
    if frame.schema.label_name is not None:
        raise ValueError(
            f"The host's table has the label column {frame.schema.label_name!r}; only the guest has labels."
        )


def require_distinct_ids(frame: DataFrame) -> None:
    """Records without an id would otherwise match each other."""
    place = _place_of_match_ids(frame)
    if frame.block_table.mapValues(lambda blocks: any(map(_is_unusable, blocks[place]))).reduce(operator.or_):
        raise ValueError("A match id is missing, empty or no valid text; every record needs its own match id.")
    if match_id_blocks(frame).flatMap(lambda _, ids: [(match_id, 1) for match_id in ids]).count() != frame.shape[0]:
        raise ValueError("An id occurs more than once in the table; every record needs its own match id.")


def distinct_labels(frame: DataFrame, limit: int) -> set:
    """Label values that occur, at most ``limit + 1`` per block."""
    of_blocks = label_blocks(frame).mapValues(lambda labels: set(np.unique(labels)[: limit + 1].tolist()))
    return of_blocks.reduce(operator.or_)


def feature_names(frame: DataFrame) -> list[str]:
    """The feature columns, of which each data party needs at least one."""
    names = frame.schema.columns.to_list()
    if not names:
        raise Refusal("The table has no feature columns; each data party needs at least one.")
    return names


def require_numeric(frame: DataFrame, instead: str = "all features must be numbers") -> None:
    """Features must be numbers; ``instead`` says what to do about the first one that is not, which its own party is told."""
    for name in frame.schema.columns:
        if not block_of(frame, name).is_numeric():
            raise bad_feature(name, f"is not numeric; {instead}")


def check_features(frame: DataFrame, centre: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> tuple:
    """Features must exist, be numbers, finite and within 2^20 ``scale`` of the ``centre``, numbers or arrays (m,).

    The first bad column is named to its own party only. Returns the smallest and the largest value of each feature.
    """
    from fate_dp.crypto.slots import MAGNITUDE_BITS

    names, most = feature_names(frame), 2.0**MAGNITUDE_BITS
    require_numeric(frame)
    low, high, finite = feature_blocks(frame).mapValues(_ranges).reduce(_merge_ranges)
    middle, unit = np.asarray(centre), np.asarray(scale)
    reach = np.maximum(middle - low, high - middle) / unit
    for name, reached, limit, sound in zip(names, reach, np.broadcast_to(unit, reach.shape) * most, finite):
        if not sound:
            raise bad_feature(name, "must be finite numbers, got a missing or infinite value")
        if reached >= most:
            raise bad_feature(name, f"reaches a magnitude of {limit:g}; standardise the features")
    return low, high


def block_of(frame: DataFrame, column: str) -> Any:
    """What FATE's data manager knows of the block that a column lies in: its type."""
    return frame.data_manager.get_block(frame.data_manager.loc_block(column, with_offset=False))


def bad_feature(name: str, what: str) -> ValueError:
    return ValueError(f"Feature {name!r} {what}.")


def _ranges(features: np.ndarray) -> tuple:
    finite = np.isfinite(features).all(axis=0)
    safe = np.where(np.isfinite(features), features, 0.0)
    return safe.min(axis=0, initial=np.inf), safe.max(axis=0, initial=-np.inf), finite


def _merge_ranges(first: Any, second: Any) -> tuple:
    return np.minimum(first[0], second[0]), np.maximum(first[1], second[1]), first[2] & second[2]


TRAIN_SET, VALIDATE_SET, TEST_SET = "train_set", "validate_set", "test_set"
"""Which rows were scored, as FATE calls them: loading its own names takes torch."""


def prediction_frame_of(frame: DataFrame, scored: Table, dataset_type: str) -> DataFrame:
    """A frame in FATE's prediction format: label (if any), predict_score, predict_result, predict_detail, type.

    ``scored`` is a table of (scores, results, details) of every block: three lists. FATE's own way, apply_row, calls
    pandas once per row, and takes no column with several probabilities.
    """
    from fate.arch.dataframe.manager.block_manager import BlockType
    from fate.components.components.utils.tools import add_dataset_type
    from fate.ml.utils.predict_tools import LABEL, PREDICT_DETAIL, PREDICT_RESULT, PREDICT_SCORE

    result = frame.create_frame(with_label=frame.schema.label_name is not None, with_weight=False)
    if result.schema.label_name not in (None, LABEL):
        result.rename(label_name=LABEL)
    manager = result.data_manager.duplicate()
    blocks = manager.append_columns(
        [PREDICT_SCORE, PREDICT_RESULT, PREDICT_DETAIL], [BlockType.float64, BlockType.int32, BlockType.np_object]
    )
    convert = [manager.blocks[block].convert_block for block in blocks]

    def append(blocks: Block, scored: Sequence[list]) -> Block:
        return [*blocks, *(make([[value] for value in column]) for make, column in zip(convert, scored))]

    table = result.block_table.join(scored, append)
    logger.info("%d rows scored", frame.shape[0])
    return add_dataset_type(type(frame)(frame._ctx, table, frame.partition_order_mappings, manager), dataset_type)


def with_details(
    scores: np.ndarray, results: np.ndarray, classes: Sequence[object], probabilities: np.ndarray
) -> tuple[list, list, list]:
    """(scores, results, details) of a block, as `prediction_frame_of` takes them; ``probabilities`` are (rows, classes)."""
    from fate.ml.utils.predict_tools import predict_detail_dict_to_str

    details = [predict_detail_dict_to_str(dict(zip(classes, row))) for row in probabilities.tolist()]
    return scores.tolist(), results.tolist(), details


def scored_by_one(of_one: np.ndarray, threshold: float) -> tuple[list, list, list]:
    """The same of classes 0 and 1, from the probabilities (rows,) of 1."""
    both = np.stack([1 - of_one, of_one], axis=1)
    return with_details(of_one, (of_one > threshold).astype(int), (0, 1), both)


def pass_through(
    ctx: Context,
    input_data: TableInput,
    output_data: TableOutput,
    facts: Callable[[Any], Document] = lambda frame: {},
    binned: bool = False,
) -> None:
    """A host's part of a task on the guest's labels: it joins the preflight, so that it learns of a refusal.

    It checks what a later training would refuse, before the guest spends anything, and writes the table unchanged.
    ``facts`` of the table are what the guest is to know, ``binned`` as of `check_training_table`.
    """
    check_roles(ctx, arbiter=False)
    frame = input_data.read()

    def check() -> Document:
        check_host_table(frame, binned)
        return facts(frame)

    agree(ctx, check)
    output_data.write(frame)
    logger.info("%d rows passed on unchanged", frame.shape[0])
