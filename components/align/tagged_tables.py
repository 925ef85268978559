"""What a party does to records, some at a time: tag and encrypt, tag again, blind, open. No FATE in here.

A kernel gets the secrets that it needs in forms that may travel to the party's own workers. The order in which results
leave the party is the caller's concern.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import add, itemgetter
from typing import NamedTuple

import numpy as np

from fate_dp.crypto import joined_records
from fate_dp.crypto.joined_records import TagCipher
from fate_dp.crypto.paillier import OwnerDecryption, OwnerEncryption, PublicKey, drawn_blinding

from ..common.frames import Table

Tagged = tuple[bytes, bytes]
"""(tag, encrypted record)."""


class Blinding(NamedTuple):
    """How this party blinds the other's records, about ``expected`` of them.

    All masks follow from ``mask_key``, 32 secret bytes of this job, and the records with their tags: a worker may do its work
    twice, and what differs never gets the same mask.
    """

    columns: int
    public_key: PublicKey
    mask_key: bytes
    expected: int


class KeyedBits:
    """Random integers that the same secret key and label give again, one with each call: SHAKE256 of key, label and number.

    They look uniform to whoever does not know the key, 32 bytes of entropy [Bertoni2011].
    """

    def __init__(self, key: bytes, label: bytes) -> None:
        self._seed, self._calls = b"fate-dp align masks " + key + label, 0

    def __call__(self, bits: int) -> int:
        self._calls += 1
        data = hashlib.shake_256(self._seed + self._calls.to_bytes(8, "little")).digest(-(-bits // 8))
        return int.from_bytes(data, "little") >> -bits % 8


def encrypted_records(
    names: Sequence[str], matrix: np.ndarray, cipher: TagCipher, encryption: OwnerEncryption, expected: int
) -> list[Tagged]:
    """This party's records, int64 (n, c) in units of 2^-20, under its own two keys; the names are hashed.

    Of how many records are ``expected`` in all, only the speed depends on it.
    """
    return list(zip(cipher.tags(names), joined_records.encrypt_records(matrix, encryption, expected)))


def tagged_again(received: Sequence[Tagged], cipher: TagCipher) -> list[Tagged]:
    """The other party's records under their double tags; raises ValueError for what is no tag."""
    tags = [tag for tag, _ in received]
    if not all(isinstance(tag, bytes) and len(tag) == joined_records.POINT_BYTES for tag in tags):
        raise ValueError(f"The other party sent something that is no tag of {joined_records.POINT_BYTES} bytes.")
    return list(zip(cipher.again(b"".join(tags)), (record for _, record in received)))


def blinded_records(matched: Sequence[Tagged], blinding: Blinding) -> list[tuple[bytes, tuple[bytes, bytes]]]:
    """[(double tag, (what the owner may decrypt, this party's shares))] of the other party's records.

    ValueError for a record that holds no ciphertexts of the other party's key.
    """
    if not matched:
        return []
    key, columns = blinding.public_key, blinding.columns
    keystreams = [KeyedBits(blinding.mask_key, tag + record) for tag, record in matched]
    masks = [mask for bits in keystreams for mask in joined_records.draw_masks(1, columns, key, bits)]
    ciphertexts = joined_records.record_bytes(columns, key) // key.ciphertext_bytes
    factors = drawn_blinding(key, blinding.expected * ciphertexts)
    blinded = joined_records.blind_records([record for _, record in matched], masks, factors)
    kept = joined_records.kept_shares(masks, columns, key)
    return [(tag, (record, row.tobytes())) for (tag, _), record, row in zip(matched, blinded, kept)]


def opened_records(
    joined: Sequence[tuple[bytes, tuple[bytes, bytes]]], columns: int, decryption: OwnerDecryption
) -> list[tuple[bytes, tuple[bytes, bytes]]]:
    """[(double tag, (this party's shares of its own record, of the other's))], each as bytes of int64.

    ``joined`` is [(double tag, (own record, blinded; shares of the other's record))]; ValueError for another party's record.
    """
    if not joined:
        return []
    own = joined_records.open_records([blinded for _, (blinded, _) in joined], columns, decryption)
    return [(tag, (row.tobytes(), kept)) for (tag, (_, kept)), row in zip(joined, own)]


def share_rows(opened: Sequence[tuple[bytes, bytes]]) -> tuple[np.ndarray, np.ndarray]:
    """int64 (rows, 2 c) of own records and of the other's, from pairs that `opened_records` made."""
    own, others = ([np.frombuffer(pair[side], dtype=np.int64) for pair in opened] for side in (0, 1))
    return np.stack(own), np.stack(others)


# The kernels over FATE's tables: {tag: record}, a few hundred records at a time.
#
# A table that is keyed by tags is spread by their hash. Within a partition an engine may keep the order in which rows
# came, hence what leaves the party is sorted by tag first. Where the other party's data are malformed a kernel cannot
# raise (engines hide the reason, or try again): it leaves the sentence under `PROBLEM`, and the driver looks for it.

PROBLEM = b""
"""No tag is empty."""
AT_ONCE = 256
BUCKET_ROWS = 4096
BLOCK_ROWS = 128
"""Rows in a block of a frame, as FATE has it."""


def encrypted_table(
    blocks: Table, cipher: TagCipher, encryption: OwnerEncryption, expected: int, partitions: int = 1
) -> Table:
    """{tag: record} from {block: (names, int64 (rows, c))}, in at least so many partitions."""

    def encrypted(of_partition: Iterable) -> Iterator[Tagged]:
        for _, (names, matrix) in of_partition:
            yield from encrypted_records(names, matrix, cipher=cipher, encryption=encryption, expected=expected)

    return _sorted(_spread(blocks, encrypted, partitions))


def double_tagged_table(received: Table, cipher: TagCipher, partitions: int = 1) -> Table:
    """{double tag: record} of the other party's table, in at least so many partitions."""
    return _spread(received, partial(_in_batches, kernel=partial(tagged_again, cipher=cipher)), partitions)


def tags_of(table: Table) -> Table:
    """{tag: 0}: the tags alone, fit to leave."""
    return _sorted(table.mapValues(lambda record: 0))


def matches(double_tagged: Table, own_tags: Table) -> Table:
    """{double tag: record} of the records whose double tag is also one of this party's."""
    return double_tagged.join(own_tags, lambda record, _: record)


def blinded_table(matched: Table, blinding: Blinding) -> Table:
    """{double tag: (what its owner may decrypt, this party's shares)}."""
    return matched.mapPartitions(
        partial(_in_batches, kernel=partial(blinded_records, blinding=blinding)), preserves_partitioning=True
    )


def outgoing(blinded: Table) -> Table:
    """{double tag: what its owner may decrypt}, fit to leave."""
    return _sorted(blinded.mapValues(itemgetter(0)))


def opened_table(returned: Table, blinded: Table, columns: int, decryption: OwnerDecryption) -> Table:
    """{double tag: (this party's shares of its own record, of the other's)}, each as bytes of int64."""
    joined = returned.join(blinded, lambda record, pair: (record, pair[1]))
    kernel = partial(opened_records, columns=columns, decryption=decryption)
    return joined.mapPartitions(partial(_in_batches, kernel=kernel), preserves_partitioning=True)


def ordered_blocks(
    opened: Table, buckets: int, arrange: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[Table, dict[int, int]]:
    """({block: int64 (rows, 2 c)}, {block: first position}), rows in the order of their double tags.

    Tags are spread evenly, so their first bytes sort rows into ``buckets`` of similar size; only sizes reach the driver.
    ``arrange`` takes int64 (rows, 2 c) of own records and of the other's, and puts the columns in their public order.
    """
    grouped = opened.mapReducePartitions(partial(_by_bucket, buckets=buckets), add)
    sizes = dict(grouped.mapValues(len).collect())
    starts, places, position, block = {}, {}, 0, 0
    for bucket in sorted(sizes):
        places[bucket] = block
        for at in range(0, sizes[bucket], BLOCK_ROWS):
            starts[block], block = position + at, block + 1
        position += sizes[bucket]
    return grouped.mapPartitions(partial(_cut, places=places, arrange=arrange)), starts


def problem_in(table: Table) -> str | None:
    """The first sentence that a kernel left in a table, or None."""
    found = (sentence for _, sentence in table.applyPartitions(_problem).collect())
    return next((sentence for sentence in found if sentence is not None), None)


def bucket_count(rows: int) -> int:
    return -(-rows // BUCKET_ROWS)


def _in_batches(items: Iterable, kernel: Callable) -> Iterator:
    items = iter(items)
    try:
        while batch := list(islice(items, AT_ONCE)):
            yield from kernel(batch)
    except (ValueError, TypeError) as error:
        yield PROBLEM, str(error)


def _spread(table: Table, function: Callable[[Iterable], Iterable], partitions: int) -> Table:
    """As mapPartitions, but for the number of partitions that rows are spread over by the hash of their keys."""
    return table.map_reduce_partitions_with_index(
        lambda _, items: function(items), output_num_partitions=max(table.num_partitions, partitions)
    )


def _sorted(table: Table) -> Table:
    return table.mapPartitions(sorted, preserves_partitioning=True)


def _problem(items: Iterable) -> str | None:
    return next((value for key, value in items if key == PROBLEM), None)


def _by_bucket(items: Iterable, buckets: int) -> Iterable:
    found: dict[int, list] = {}
    for tag, pair in items:
        found.setdefault(int.from_bytes(tag[:4], "big") * buckets >> 32, []).append((tag, pair))
    return found.items()


def _cut(
    grouped: Iterable, places: Mapping[int, int], arrange: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Iterator[tuple[int, np.ndarray]]:
    for bucket, rows in grouped:
        shares = arrange(*share_rows([pair for _, pair in sorted(rows)]))
        for number, at in enumerate(range(0, len(shares), BLOCK_ROWS)):
            yield places[bucket] + number, np.ascontiguousarray(shares[at : at + BLOCK_ROWS])
