"""One of two parties that align their records over a pipe: the kernels of components/align, without FATE.

Each party is a process of its own on one core, and waits for the other only where the protocol does.
"""

import secrets
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import numpy as np

from fate_dp.components.align.tagged_tables import (
    Blinding,
    blinded_records,
    encrypted_records,
    opened_records,
    share_rows,
    tagged_again,
)
from fate_dp.crypto.joined_records import TagKey, encode_values
from fate_dp.crypto.paillier import PublicKey, generate_keypair

AT_ONCE = 1000
ROWS_OF_A_MESSAGE = 10_000


class Party(NamedTuple):
    """Who aligns: the first sends first, so that two parties never wait for each other to read."""

    first: bool
    names: list
    values: np.ndarray


def align(connection, party: Party, step: Callable[[int], None]) -> tuple:
    """The whole protocol, keys included; this party's shares of its own columns and of the other's, as of `split_shares`.

    What is no longer needed is let go, so that of a million records two sets of ciphertexts are in memory at most.

    Args:
        step: told how many records one more part of the work has covered.
    """
    _, private = generate_keypair(primes=3)
    tagger, columns = TagKey().for_workers(), party.values.shape[1]
    wire, theirs = _swap(connection, party, (private.to_wire(), columns))
    peer = PublicKey.from_wire(wire)
    matrix = encode_values(party.values, list(map(str, range(columns))))
    received = _swap(connection, party, _encrypted(party.names, matrix, tagger, private.encryption(), step))
    doubled = dict(_batches(_emptied(received), lambda part: tagged_again(part, tagger), step))
    matched = doubled.keys() & set(_swap(connection, party, sorted(doubled)))
    blinding = Blinding(theirs, peer, secrets.token_bytes(32), len(matched))
    kept: dict[bytes, tuple] = {}
    pairs = ((tag, doubled.pop(tag)) for tag in sorted(matched))
    outgoing = _batches(pairs, lambda part: _without_shares(blinded_records(part, blinding), kept), step)
    joined = ((tag, (record, kept.pop(tag))) for tag, record in _emptied(_swap(connection, party, outgoing)))
    decryption = private.decryption()
    opened = _batches(joined, lambda part: opened_records(part, columns, decryption), step)
    blocks = [share_rows([pair for _, pair in rows]) for rows in _pieces(sorted(opened), AT_ONCE)]
    if not blocks:
        return np.empty((0, 2 * columns), dtype=np.int64), np.empty((0, 2 * theirs), dtype=np.int64)
    return tuple(map(np.concatenate, zip(*blocks)))


def _without_shares(blinded, kept) -> list:
    kept.update((tag, shares) for tag, (_, shares) in blinded)
    return [(tag, record) for tag, (record, _) in blinded]


def _emptied(items):
    """The items of a list, each of which it lets go."""
    items.reverse()
    while items:
        yield items.pop()


def _pieces(items, size):
    return (items[at : at + size] for at in range(0, len(items), size))


def _swap(connection, party, message):
    """The other party's message for this one; lists go in pieces, and are let go."""
    steps = (_send, _receive) if party.first else (_receive, _send)
    return next(found for found in [step(connection, message) for step in steps] if found is not None)


def _send(connection, message):
    whole = not isinstance(message, list)
    connection.send(None if whole else len(message))
    for piece in [message] if whole else _pieces(message, ROWS_OF_A_MESSAGE):
        connection.send(piece)
    if not whole:
        message.clear()


def _receive(connection, _):
    count = connection.recv()
    if count is None:
        return connection.recv()
    received = []
    while len(received) < count:
        received += connection.recv()
    return received


def _encrypted(names, matrix, tagger, encryption, step):
    rows = _batches(
        range(len(names)),
        lambda at: encrypted_records([names[row] for row in at], matrix[at], tagger, encryption, len(names)),
        step,
    )
    return sorted(rows)


def _batches(items, kernel, step) -> list:
    items, results = iter(items), []
    while batch := list(islice(items, AT_ONCE)):
        results += kernel(batch)
        step(len(batch))
    return results
