"""What a kernel over a partition does: batches, sentences in place of errors, order by tag, buckets of rows."""

import hashlib

import numpy as np
import pytest
from share_lr_tables import LocalTable

from fate_dp.components.align import tagged_tables
from fate_dp.components.align.tagged_tables import AT_ONCE, BLOCK_ROWS, PROBLEM


def tag_of(number) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


def test_a_partition_is_worked_off_in_batches():
    sizes = []

    def kernel(batch):
        sizes.append(len(batch))
        return batch

    items = [(tag_of(number), b"") for number in range(2 * AT_ONCE + 3)]
    assert list(tagged_tables._in_batches(iter(items), kernel)) == items
    assert sizes == [AT_ONCE, AT_ONCE, 3]
    assert list(tagged_tables._in_batches(iter([]), kernel)) == []


@pytest.mark.parametrize("error", [ValueError, TypeError])
def test_an_error_of_a_kernel_becomes_a_row_that_the_driver_finds(error):
    def kernel(batch):
        raise error("It is no tag.")

    rows = list(tagged_tables._in_batches([(tag_of(0), b"")], kernel))
    assert rows == [(PROBLEM, "It is no tag.")]
    assert tagged_tables._problem([(tag_of(1), b""), *rows]) == "It is no tag."
    assert tagged_tables._problem([(tag_of(1), b"")]) is None


def test_what_leaves_a_party_is_sorted_whatever_the_order_it_was_made_in(monkeypatch):
    """These tables keep the order of their rows, as an engine may."""
    tags = [tag_of(number) for number in range(50)]
    monkeypatch.setattr(tagged_tables, "encrypted_records", lambda names, matrix, **_: [(tag, b"") for tag in names])
    encrypted = tagged_tables.encrypted_table(LocalTable([(0, (tags, None))]), None, None, 50)
    table = LocalTable([(tag, (b"sent", b"kept")) for tag in tags])
    for leaving, row in ((encrypted, b""), (tagged_tables.tags_of(table), 0), (tagged_tables.outgoing(table), b"sent")):
        assert leaving.collect() == [(tag, row) for tag in sorted(tags)] != [(tag, row) for tag in tags]


@pytest.mark.parametrize("buckets", [1, 3, 7])
def test_blocks_have_the_same_rows_in_the_same_order_however_tags_lie_in_partitions(buckets):
    rows = [(tag_of(number), number) for number in range(1000)]

    def blocks_of(partitions):
        grouped = {}
        for part in partitions:
            for bucket, found in tagged_tables._by_bucket(part, buckets):
                grouped[bucket] = grouped.get(bucket, []) + found
        assert set(grouped) == set(range(buckets))
        return [number for bucket in sorted(grouped) for _, number in sorted(grouped[bucket])]

    first, second = blocks_of([rows[:400], rows[400:]]), blocks_of([rows[::3], rows[1::3], rows[2::3]])
    assert first == second == [number for _, number in sorted(rows)]


def test_a_bucket_is_cut_into_blocks():
    pairs = [(np.array([number, 0]).tobytes(), np.array([number, 1]).tobytes()) for number in range(BLOCK_ROWS + 5)]
    grouped = [(4, [(tag_of(number), pair) for number, pair in enumerate(pairs)])]
    blocks = dict(tagged_tables._cut(grouped, {4: 9}, lambda own, others: np.hstack([own, others])))
    assert {number: block.shape for number, block in blocks.items()} == {9: (BLOCK_ROWS, 4), 10: (5, 4)}
    order = sorted(range(len(pairs)), key=tag_of)
    assert np.concatenate([blocks[9], blocks[10]]).tolist() == [[number, 0, number, 1] for number in order]


@pytest.mark.parametrize("rows, buckets", [(1, 1), (4096, 1), (4097, 2), (100_000, 25)])
def test_buckets_hold_about_so_many_rows(rows, buckets):
    assert tagged_tables.bucket_count(rows) == buckets
