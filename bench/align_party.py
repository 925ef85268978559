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
from fate_dp.components.protocols.joined_tables import join_shares
from fate_dp.crypto.joined_records import TagKey, encode_values
from fate_dp.crypto.paillier import PublicKey, generate_keypair

AT_ONCE = 1000


class Party(NamedTuple):
    """Who aligns: the first sends first, so that two parties never wait for each other to read."""

    first: bool
    names: list
    values: np.ndarray


def align(connection, party: Party, step: Callable[[int], None]) -> tuple:
    """The whole protocol, keys included; object arrays of this party's shares of its own columns and of the other's.

    Args:
        step: told how many records one more part of the work has covered.
    """
    _, private = generate_keypair(primes=3)
    tagger, columns = TagKey().for_workers(), party.values.shape[1]
    wire, theirs = _swap(connection, party, (private.to_wire(), columns))
    peer = PublicKey.from_wire(wire)
    matrix = encode_values(party.values, range(columns))
    own = _encrypted(party.names, matrix, tagger, private.encryption(), step)
    doubled = dict(_batches(_swap(connection, party, own), lambda part: tagged_again(part, tagger), step))
    matched = doubled.keys() & set(_swap(connection, party, sorted(doubled)))
    blinding = Blinding(theirs, peer, secrets.token_bytes(32), len(matched))
    pairs = ((tag, doubled[tag]) for tag in sorted(matched))
    blinded = dict(_batches(pairs, lambda part: blinded_records(part, blinding), step))
    returned = _swap(connection, party, [(tag, record) for tag, (record, _) in blinded.items()])
    joined = ((tag, (record, blinded[tag][1])) for tag, record in returned)
    opened = _batches(joined, lambda part: opened_records(part, columns, private.decryption()), step)
    if not opened:
        return np.empty((0, columns), dtype=object), np.empty((0, theirs), dtype=object)
    return tuple(map(join_shares, share_rows([pair for _, pair in sorted(opened)])))


def _swap(connection, party, message):
    if party.first:
        connection.send(message)
        return connection.recv()
    received = connection.recv()
    connection.send(message)
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
