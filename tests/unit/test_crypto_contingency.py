"""Secure contingency tables: exact shares, masks that hide, rows that are checked, and mutants that must be caught."""

import secrets
from functools import partial, reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fate_dp.crypto import contingency
from fate_dp.crypto.contingency import add_rows, one_hot, table_layout
from fate_dp.crypto.cross_product import encrypt_rows, merge_sums, open_sums, seal_sums
from fate_dp.crypto.paillier import keypair_of_any_length

pytestmark = pytest.mark.usefixtures("arithmetic")

PUBLIC, PRIVATE = keypair_of_any_length(256)
OWN = PRIVATE.encryption()
BINS, HOST_BINS = 7, 5


def tables(rows, seed=1):
    """The guest's rows of zeros and ones with a target, and the host's places."""
    generator = np.random.default_rng(seed)
    guest = one_hot(np.column_stack([generator.integers(0, 3, rows), generator.integers(3, BINS, rows)]), BINS)
    host = np.column_stack([generator.integers(0, 2, rows), generator.integers(2, HOST_BINS, rows)])
    return np.column_stack([guest, generator.choice([-2, 2], rows)]).astype(np.int64), host.astype(np.int64)


def shares(guest, host, kernels=1, key=(PUBLIC, PRIVATE)):
    """Shares of the party that adds and masks, and of the owner of the key."""
    public, private = key
    layout, width = table_layout(len(guest), 2, public), guest.shape[1]
    parts = [
        add_rows(
            host[part],
            HOST_BINS,
            encrypt_rows(guest[part], private.encryption(), layout, len(guest)),
            width,
            layout,
            public,
        )
        for part in np.array_split(np.arange(len(guest)), kernels)
    ]
    sealed, ours = seal_sums(reduce(partial(merge_sums, public_key=public), parts), width, layout, public)
    return ours, open_sums(sealed, width, layout, private)


def exact(guest, host):
    return one_hot(host, HOST_BINS).T @ guest


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 2**32))
def test_both_shares_add_up_to_the_tables_and_the_totals_of_the_target(rows, kernels, seed):
    guest, host = tables(rows, seed)
    ours, theirs = shares(guest, host, min(kernels, rows))
    assert (ours + theirs == exact(guest, host)).all()


def test_the_largest_counts_that_the_slots_are_made_for_are_exact():
    guest = np.tile(np.array([[1, 0, 0, 1, 0, 0, 0, -2]]), (63, 1))
    host = np.tile(np.array([[1, 4]]), (63, 1))
    ours, theirs = shares(guest, host)
    assert (ours + theirs)[1].tolist() == [63, 0, 0, 63, 0, 0, 0, -126]


def test_a_kernel_works_in_spans(monkeypatch):
    guest, host = tables(11)
    layout = table_layout(11, 2, PUBLIC)
    encrypted = encrypt_rows(guest, OWN, layout, 11)
    at_once = add_rows(host, HOST_BINS, encrypted, guest.shape[1], layout, PUBLIC)
    monkeypatch.setattr(contingency, "_ROWS_AT_ONCE", 3)
    assert add_rows(host, HOST_BINS, encrypted, guest.shape[1], layout, PUBLIC) == at_once


def test_what_the_owner_opens_is_uniform_whatever_the_tables_are():
    """The leading bits of masked plaintexts, for a table of nothing and one of as much as fits."""
    for rows in (np.zeros((1, 2), dtype=np.int64), np.full((1, 2), 2)):
        layout = table_layout(1, 2, PUBLIC)
        sums = add_rows(np.array([[0]]), 1, encrypt_rows(rows, OWN, layout, 1), 2, layout, PUBLIC)
        counts = np.zeros(8, dtype=int)
        for _ in range(400):
            (sealed,), _ = seal_sums(sums, 2, layout, PUBLIC)
            counts[int(PRIVATE.decrypt(int.from_bytes(sealed, "big"))) * 8 // PUBLIC.n] += 1
        assert chisquare(counts).pvalue > 1e-6


def test_nothing_leaves_twice_the_same_nor_without_blinding():
    guest, host = tables(6)
    layout, width = table_layout(6, 2, PUBLIC), guest.shape[1]
    sums = add_rows(host, HOST_BINS, encrypt_rows(guest, OWN, layout, 6), width, layout, PUBLIC)
    messages = [data for _ in range(2) for data in seal_sums(sums, width, layout, PUBLIC)[0]]
    assert len(set(messages)) == len(messages)
    assert not {value.to_bytes(PUBLIC.ciphertext_bytes, "big") for value in sums} & set(messages)


def test_the_size_of_every_message_follows_from_public_numbers():
    layout = table_layout(8, 2, PUBLIC)
    for seed in (1, 2):
        guest, host = tables(8, seed)
        encrypted = encrypt_rows(guest, OWN, layout, 8)
        sealed, _ = seal_sums(
            add_rows(host, HOST_BINS, encrypted, guest.shape[1], layout, PUBLIC), guest.shape[1], layout, PUBLIC
        )
        per_row = layout.plaintexts(guest.shape[1])
        assert len(encrypted) == 8 * per_row * PUBLIC.ciphertext_bytes and len(sealed) == HOST_BINS * per_row
        assert {len(data) for data in sealed} == {PUBLIC.ciphertext_bytes}


@pytest.mark.parametrize(
    "spoil, told",
    [
        (lambda data: data[:-1], "Encrypted rows must be 4 of 128 bytes each, got 511 bytes"),
        (lambda data: bytes(len(data)), "outside"),
        (
            lambda data: (1).to_bytes(PUBLIC.ciphertext_bytes, "big") + data[PUBLIC.ciphertext_bytes :],
            "without blinding",
        ),
        (lambda data: b"\xff" * len(data), "outside"),
    ],
)
def test_rows_that_no_honest_party_sends_are_refused(spoil, told):
    guest, host = tables(4)
    layout = table_layout(4, 2, PUBLIC)
    with pytest.raises(ValueError, match=told):
        add_rows(host, HOST_BINS, spoil(encrypt_rows(guest, OWN, layout, 4)), guest.shape[1], layout, PUBLIC)


@pytest.mark.parametrize("places", [np.array([[0, 5]]), np.array([[-1, 2]]), np.array([[0.0, 1.0]]), np.array([1])])
def test_places_outside_the_bins_are_refused(places):
    with pytest.raises(ValueError, match="place"):
        one_hot(places, HOST_BINS)
    with pytest.raises(ValueError, match="place"):
        add_rows(places, HOST_BINS, b"", 3, table_layout(1, 2, PUBLIC), PUBLIC)


@pytest.mark.parametrize("rows, largest", [(0, 1), ((1 << 30) + 1, 1), (5, 0)])
def test_a_layout_for_no_rows_or_no_entries_is_refused(rows, largest):
    with pytest.raises(ValueError, match=r"rows must be from 1|largest must be"):
        table_layout(rows, largest, PUBLIC)


def narrow_slots(monkeypatch):
    """Slots as if entries were no larger than 1/2^41, so that masked sums spill into their neighbours."""
    monkeypatch.setattr("fate_dp.crypto.slots.STATISTICAL_BITS", 0)


def no_masks(monkeypatch):
    monkeypatch.setattr("fate_dp.crypto.cross_product.draw_mask", lambda *given: 0)


def test_mutants_are_caught(monkeypatch):
    """Without masks the owner's share is the table itself; without spare bits shares no longer add up."""
    guest, host = tables(30)
    with monkeypatch.context() as patched:
        no_masks(patched)
        _, theirs = shares(guest, host)
        bound = 1 << table_layout(30, 2, PUBLIC).value_bits
        assert max(theirs[:, :BINS].ravel()) < bound
    _, theirs = shares(guest, host)
    assert max(theirs[:, :BINS].ravel()) > bound
    with monkeypatch.context() as patched:
        narrow_slots(patched)
        wrong = [(sum(shares(guest, host)) != exact(guest, host)).any() for _ in range(5)]
        assert any(wrong)


def test_masks_come_from_the_operating_systems_entropy():
    assert seal_sums.__defaults__ == (secrets.randbits,)
