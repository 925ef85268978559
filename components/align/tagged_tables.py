"""The kernels over FATE's tables: {tag: record}, a few hundred records at a time.

A table that is keyed by tags is spread by their hash. Within a partition an engine may keep the order in which rows
came, hence what leaves the party is sorted by tag first. Where the other party's data are malformed a kernel cannot
raise (engines hide the reason, or try again): it leaves the sentence under `PROBLEM`, and the driver looks for it.
"""
from functools import partial
from itertools import islice

import numpy as np

from .kernels import blinded_records, encrypted_records, opened_records, share_rows, tagged_again

PROBLEM = b""
"""No tag is empty."""
AT_ONCE = 256
BUCKET_ROWS = 4096
BLOCK_ROWS = 128
"""Rows in a block of a frame, as FATE has it."""


def encrypted_table(blocks, cipher, encryption, expected):
    """{tag: record} from {block: (names, int64 (rows, c))}."""
    kernel = partial(encrypted_records, cipher=cipher, encryption=encryption, expected=expected)
    return _sorted(blocks.mapPartitions(partial(_encrypt_blocks, kernel=kernel)))


def double_tagged_table(received, cipher):
    """{double tag: record} of the other party's table."""
    return received.mapPartitions(partial(_in_batches, kernel=partial(tagged_again, cipher=cipher)))


def tags_of(table):
    """{tag: 0}: the tags alone, fit to leave."""
    return _sorted(table.mapValues(_nothing))


def matches(double_tagged, own_tags):
    """{double tag: record} of the records whose double tag is also one of this party's."""
    return double_tagged.join(own_tags, _first)


def blinded_table(matched, blinding):
    """{double tag: (what its owner may decrypt, this party's shares)}."""
    return matched.mapPartitions(
        partial(_in_batches, kernel=partial(blinded_records, blinding=blinding)), preserves_partitioning=True
    )


def outgoing(blinded):
    """{double tag: what its owner may decrypt}, fit to leave."""
    return _sorted(blinded.mapValues(_first_of))


def opened_table(returned, blinded, columns, decryption):
    """{double tag: (this party's shares of its own record, of the other's)}, each as bytes of int64."""
    joined = returned.join(blinded, _with_kept)
    kernel = partial(opened_records, columns=columns, decryption=decryption)
    return joined.mapPartitions(partial(_in_batches, kernel=kernel), preserves_partitioning=True)


def ordered_blocks(opened, buckets: int, arrange):
    """({block: int64 (rows, 2 c)}, {block: first position}), rows in the order of their double tags.

    Tags are spread evenly, so their first bytes sort rows into buckets of similar size; only sizes reach the driver.

    Args:
        buckets: how many, at least 1.
        arrange: (int64 (rows, 2 c) of own records, of the other's) -> int64 with the columns in their public order.
    """
    grouped = opened.mapReducePartitions(partial(_by_bucket, buckets=buckets), _concatenated)
    sizes = dict(grouped.mapValues(len).collect())
    starts, places, position, block = {}, {}, 0, 0
    for bucket in sorted(sizes):
        places[bucket] = block
        for at in range(0, sizes[bucket], BLOCK_ROWS):
            starts[block], block = position + at, block + 1
        position += sizes[bucket]
    return grouped.mapPartitions(partial(_cut, places=places, arrange=arrange)), starts


def problem_in(table):
    """The first sentence that a kernel left in a table, or None."""
    found = (sentence for _, sentence in table.applyPartitions(_problem).collect())
    return next((sentence for sentence in found if sentence is not None), None)


def bucket_count(rows: int) -> int:
    """Buckets for so many rows."""
    return -(-rows // BUCKET_ROWS)


def _encrypt_blocks(blocks, kernel):
    for _, (names, matrix) in blocks:
        yield from kernel(names, matrix)


def _in_batches(items, kernel):
    items = iter(items)
    try:
        while batch := list(islice(items, AT_ONCE)):
            yield from kernel(batch)
    except (ValueError, TypeError) as error:
        yield PROBLEM, str(error)


def _sorted(table):
    return table.mapPartitions(_in_order, preserves_partitioning=True)


def _in_order(items):
    return sorted(items)


def _nothing(_):
    return 0


def _first(first, _):
    return first


def _first_of(pair):
    return pair[0]


def _with_kept(returned, blinded):
    return returned, blinded[1]


def _problem(items):
    return next((value for key, value in items if key == PROBLEM), None)


def _by_bucket(items, buckets):
    found = {}
    for tag, pair in items:
        found.setdefault(int.from_bytes(tag[:4], "big") * buckets >> 32, []).append((tag, pair))
    return found.items()


def _concatenated(first, second):
    return first + second


def _cut(grouped, places, arrange):
    for bucket, rows in grouped:
        shares = arrange(*share_rows([pair for _, pair in sorted(rows)]))
        for number, at in enumerate(range(0, len(shares), BLOCK_ROWS)):
            yield places[bucket] + number, np.ascontiguousarray(shares[at : at + BLOCK_ROWS])
