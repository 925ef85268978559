"""Sums of labels between a guest and a host in one process: exact but for the noise, and mutants that show too much."""

import queue
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from fate_dp.components.dp_binning import label_sums
from fate_dp.components.dp_binning.label_sums import ask_guest, serve_hosts
from fate_dp.crypto import cross_product
from fate_dp.crypto.paillier import PublicKey, column_from_bytes, generate_keypair
from fate_dp.privacy.bins import TableBins, category_bins, cut_bins
from fate_dp.privacy.mechanisms import bin_counts
from fate_dp.privacy.mechanisms.bin_counts import FRACTION_BITS, BinCountNoise

BINS = TableBins((cut_bins("a", [0.0]), category_bins("b", [1, 2])))
DECLARED = BINS.total + 3
VALUES = np.array([[-1.0, 1], [1.0, 2], [np.nan, 1], [0.0, 7], [2.0, np.nan], [2.0, 2]])
LABELS = np.array([1, 0, 1, 1, 0, 1])
EXACT = [2.0, 1, 1, 2, 1, 1, 0]
"""Events by bin: a up to 0, above, missing; b 1, 2, rare, missing."""
NOISE = BinCountNoise(3.0, 0, 2, DECLARED)
KEYS = generate_keypair(2048)


class Blocks(dict):
    """Stands for FATE's table of blocks."""

    def mapValues(self, function):
        return Blocks((key, function(value)) for key, value in self.items())

    def join(self, other, function):
        return Blocks((key, function(value, other[key])) for key, value in self.items())

    def reduce(self, function):
        first, *others = self.values()
        for each in others:
            first = function(first, each)
        return first


NAMES = ("public_key", "encrypted_rows", "masked", "label_sums")


class Party:
    """The other end of a line, as FATE has it; ``sent`` keeps what was put there."""

    def __init__(self, role, number, outbox, inbox):
        self.role, self.party, self.rank = role, (role, number), number
        self._outbox, self._inbox, self.sent = outbox, inbox, {}

    def put(self, name, value):
        self.sent[name] = value
        self._outbox[name].put(value)

    def get(self, name):
        return self._inbox[name].get(timeout=60)


@pytest.fixture
def run(monkeypatch):
    """A function that plays both parties and returns what the host learned, and what either sent."""

    def played(noise=NOISE):
        to_host, to_guest = ({name: queue.Queue() for name in NAMES} for _ in range(2))
        host, guest = Party("host", "1", to_host, to_guest), Party("guest", "0", to_guest, to_host)
        monkeypatch.setattr(label_sums, "generate_keypair", lambda length: KEYS)
        cut = np.array_split(np.arange(len(VALUES)), 2)
        events = Blocks(enumerate(LABELS[rows] for rows in cut))
        codes = Blocks(enumerate(BINS.codes(VALUES[rows]) for rows in cut))
        at_guest = SimpleNamespace(parties=[host], rank="0")
        serving = threading.Thread(
            target=serve_hosts, args=(at_guest, events, len(VALUES), {"host 1": DECLARED}, 2048, noise)
        )
        serving.start()
        learned = ask_guest(SimpleNamespace(guest=guest), codes, BINS, DECLARED, len(VALUES), 2048)
        serving.join()
        return SimpleNamespace(learned=learned, by_guest=host.sent, by_host=guest.sent)

    return played


def look(seen, noise=True):
    """What the parties may see, and no more: raises AssertionError."""
    assert (seen.learned != EXACT).all() or not noise, "a host learned an exact sum"
    key = PublicKey.from_wire(seen.by_guest["public_key"])
    sent = [item.value for block in seen.by_guest["encrypted_rows"].values() for item in column_from_bytes(block, key)]
    assert len(set(sent)) == len(LABELS), "two records' ciphertexts are the same"
    layout = label_sums.table_layout(len(VALUES), 1, key)
    opened = label_sums.open_bin_sums(seen.by_host["masked"], DECLARED, layout, KEYS[1])
    assert min(opened) > len(VALUES), "the guest decrypted a sum without its mask"


def test_a_host_learns_the_sums_of_its_bins_and_nobody_more(run):
    seen = run(noise=None)
    assert seen.learned.tolist() == EXACT
    look(seen, noise=False)
    noisy = run()
    look(noisy)
    assert np.abs(noisy.learned - EXACT).max() < 10 * NOISE.sigma


def test_a_host_s_number_of_bins_is_what_it_declared_not_what_it_has(run):
    assert len(run().by_guest["label_sums"]) == DECLARED > BINS.total


def no_noise(patch):
    patch.setattr(bin_counts, "discrete_gaussian", lambda scale, size, rng=None: np.zeros(size, dtype=np.int64))


def no_mask(patch):
    patch.setattr(cross_product, "draw_mask", lambda modulus, random_bits: 0)


def one_blinding_for_all(patch):
    encrypt = label_sums.encrypt_bits

    def same(bits, encryption, expected):
        ciphertexts = [encrypt(np.array([bit]), encryption, expected) for bit in (0, 1)]
        return b"".join(ciphertexts[bit] for bit in bits)

    patch.setattr(label_sums, "encrypt_bits", same)


@pytest.mark.parametrize("mutate", [no_noise, no_mask, one_blinding_for_all])
def test_a_mutant_that_shows_too_much_is_noticed(run, mutate, monkeypatch):
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        look(run())


def test_noise_is_drawn_for_every_bin_on_the_grid(run):
    steps = (run().learned - EXACT) * 2.0**FRACTION_BITS
    assert (steps == np.rint(steps)).all() and len(set(steps)) == BINS.total
