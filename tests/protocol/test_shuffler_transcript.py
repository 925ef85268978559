"""What each party of the shuffle model sees: ciphertexts that say nothing, and payloads that nobody's place tells."""

import numpy as np
import pytest
from scipy.stats import chisquare

from fate_dp.components.protocols.sealed_shuffle import Analyzer, Encoder, Splitting, shuffle
from fate_dp.crypto.sealed_box import BoxKey

KEY = BoxKey()
CLIENTS = 6
SIZE = 32
NEVER = 1e-11
"""Chance does not bring a p-value below this, not even one of some hundred."""


def client_payloads(client):
    """Two payloads a client, one long and one short, that name it."""
    return [f"client {client} likes long payloads".encode(), f"{client}".encode()]


def one_round(round_number, payloads=client_payloads, order=range(CLIENTS)):
    """What the shuffler sees, by client in order of arrival, what it passes on, and what the server reads."""
    arrived = {client: Encoder(KEY.public_bytes, round_number, SIZE).encode(payloads(client)) for client in order}
    passed = shuffle([ciphertext for messages in arrived.values() for ciphertext in messages], 2 * CLIENTS)
    return arrived, passed, Analyzer(KEY, SIZE, 2 * CLIENTS).open(passed, round_number)


def test_the_shuffler_sees_equal_sizes_and_no_content():
    arrived, passed, opened = one_round(0)
    seen = [ciphertext for messages in arrived.values() for ciphertext in messages]
    assert {len(ciphertext) for ciphertext in seen} == {SIZE + 96}
    for client in range(CLIENTS):
        for payload in client_payloads(client):
            assert payload in opened
            assert len(payload) < 4 or not any(payload in ciphertext for ciphertext in seen)
    assert sorted(seen) == sorted(passed)


def test_the_shuffler_sees_other_bytes_in_every_run():
    runs = [one_round(0, lambda client: [b"same", b"same"])[1] for _ in range(2)]
    parts = [{ciphertext[at : at + 8] for ciphertext in run for at in range(0, SIZE + 96, 8)} for run in runs]
    assert not parts[0] & parts[1]
    assert all(len(part) == 2 * CLIENTS * (SIZE + 96) // 8 for part in parts)


def test_the_bytes_that_the_shuffler_sees_are_spread_evenly():
    """Except the last bit of the ephemeral keys, which X25519 leaves 0; the control are the payloads themselves."""
    payloads = [bytes(SIZE)] * 2000
    seen = np.frombuffer(b"".join(Encoder(KEY.public_bytes, 0, SIZE).encode(payloads)), np.uint8).reshape(2000, -1)
    hidden = np.delete(seen, 31, axis=1)
    assert chisquare(np.bincount(hidden.ravel(), minlength=256)).pvalue > NEVER
    columns = [chisquare(np.bincount(column >> 4, minlength=16)).pvalue for column in hidden.T]
    assert min(columns) > NEVER
    control = np.frombuffer(b"".join(payloads), np.uint8)
    assert chisquare(np.bincount(control, minlength=256)).pvalue < NEVER**2


def places_of_client(rounds, passing_on, orders):
    """How often each place of the server's list held the message of client 0."""
    counts = np.zeros(CLIENTS, dtype=int)
    for number in range(rounds):
        order = orders[number % len(orders)]
        sent = [Encoder(KEY.public_bytes, number, 1, threads=1).encode([bytes([client])])[0] for client in order]
        opened = Analyzer(KEY, 1, CLIENTS, threads=1).open(passing_on(sent), number)
        counts[opened.index(b"\x00")] += 1
    return counts


@pytest.mark.parametrize("first", [0, CLIENTS - 1], ids=["arrives first", "arrives last"])
def test_a_place_at_the_server_tells_neither_sender_nor_time(first):
    order = sorted(range(CLIENTS), key=lambda client: (client - first) % CLIENTS)
    counts = places_of_client(300, lambda sent: shuffle(sent, CLIENTS), [order])
    assert chisquare(counts).pvalue > NEVER


def test_the_control_that_forwards_in_order_of_arrival_is_caught():
    for mutant in (list, sorted, lambda sent: sent[::-1]):
        counts = places_of_client(60, mutant, [range(CLIENTS)])
        caught = chisquare(counts).pvalue < NEVER
        assert caught == (mutant is not sorted)  # Sorted by ciphertext, which is random, the order says nothing either.


def test_the_server_cannot_join_the_pieces_of_one_vector():
    """What it reads of a round depends on which numbers stand at each position, not on who sent which together."""
    splitting, seen = Splitting(2, "coordinate"), []
    for vectors in ([[1, 10], [2, 20]], [[1, 20], [2, 10]]):
        pieces = [piece for row in vectors for piece in splitting.pieces(np.array(row, dtype=float))]
        sent = shuffle(Encoder(KEY.public_bytes, 0, splitting.payload_bytes).encode_pieces(pieces), 4)
        seen.append(Analyzer(KEY, splitting.payload_bytes, 4).open_pieces(sent, 0))
    assert sorted(seen[0]) == sorted(seen[1])


def test_refusals_at_the_server_read_alike_whoever_sent_the_wrong_message():
    sentences = set()
    for culprit in range(CLIENTS):
        keys = [BoxKey().public_bytes if client == culprit else KEY.public_bytes for client in range(CLIENTS)]
        sent = [Encoder(key, 0, SIZE).encode([b"payload"])[0] for key in keys]
        with pytest.raises(ValueError) as caught:
            Analyzer(KEY, SIZE, CLIENTS).open(shuffle(sent, CLIENTS), 0)
        sentences.add(str(caught.value))
    assert sentences == {"1 of 6 messages cannot be opened: sealed to another key, or changed on the way."}
