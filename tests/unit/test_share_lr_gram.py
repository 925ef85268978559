"""Shares of a Gram matrix: exact over the integers, whatever the shares and the blocks, and narrow in the end."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from share_lr_tables import LocalTable, Mailbox

from fate_dp.components.share_lr.training import Side, exact_square, gram_share, half_of
from fate_dp.crypto.joined_records import SHARE_BITS
from fate_dp.crypto.paillier import keypair_of_any_length
from fate_dp.crypto.slots import STATISTICAL_BITS

# Short keys: what is tested here does not depend on their length.
KEYS = [keypair_of_any_length(512), keypair_of_any_length(512)]
WIDE = st.integers(-(2**SHARE_BITS) + 1, 2**SHARE_BITS - 1)


def matrix(rows) -> np.ndarray:
    made = np.empty((len(rows), len(rows[0])), dtype=object)
    made[:] = rows
    return made


def random_shares(shape, generator) -> np.ndarray:
    parts = generator.integers(0, 2**33, (2, *shape)).astype(object)
    return (parts[0] << 33) + parts[1] - (1 << 65)


def both(function):
    """What ``function(side)`` returns at guest and host, run at the same time over two mailboxes."""
    mailboxes, results = Mailbox.pair(), [None, None]

    def run(at):
        side = Side(mailboxes[at], KEYS[at][1], KEYS[1 - at][0], at == 0, lambda stage, work: work())
        results[at] = function(side)

    threads = [threading.Thread(target=run, args=(at,)) for at in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@given(st.lists(st.lists(WIDE, min_size=3, max_size=3), min_size=1, max_size=6))
@settings(max_examples=30)
def test_the_square_of_a_share_is_exact(rows):
    entries = matrix(rows)
    assert (exact_square(entries) == entries.T @ entries).all()


@pytest.mark.parametrize("sizes", [(1,), (2,), (5, 1), (1, 1, 7)])
def test_shares_of_the_gram_matrix_add_up_over_the_integers_however_rows_lie_in_blocks(sizes):
    generator = np.random.default_rng(sum(sizes))
    values = generator.integers(-(2**24) + 1, 2**24, (sum(sizes), 3)).astype(object)
    mask = random_shares(values.shape, generator)
    ends = np.cumsum([0, *sizes])

    def of(side):
        shares = mask if side.guest else values - mask
        blocks = LocalTable([(at, shares[first:last]) for at, (first, last) in enumerate(zip(ends, ends[1:]))])
        return gram_share(side, blocks, len(values), 3)

    guest, host = both(of)
    # Units: values come in 2^-20, sums in 2^-48.
    assert (guest + host == (values.T @ values) << 8).all()
    for share in (guest, host):
        widest = max(int(entry).bit_length() for entry in share.ravel())
        assert widest <= 48 + len(values).bit_length() + STATISTICAL_BITS + 2 + 8
        assert (share == share.T).all()


@pytest.mark.parametrize("rows", [0, 1, 2, 7])
def test_each_row_is_encrypted_by_one_party(rows):
    block = matrix([[row] for row in range(rows)]) if rows else np.empty((0, 1), dtype=object)
    front, back = half_of(block, True), half_of(block, False)
    assert [*front.ravel(), *back.ravel()] == list(range(rows)) and abs(len(front) - len(back)) <= 1
