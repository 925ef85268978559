"""Streams what the ledger needs to know of each record from a block table to the driver, block by block.

The ledger is one SQLite file at the party's driver, so its rows have to get there: keyed hashes and labels only, never
more than one block at a time in memory.
"""
import hashlib
import hmac
from functools import partial
from itertools import chain

import numpy as np

from fate_dp.privacy.label_flips import ANY_SOURCE, canonical_label, label_tags, record_tags

from .frames import feature_blocks, label_blocks, match_id_blocks


_ALIGNMENT = b"fate-dp: are the rows of two parties the same"


def record_tag_stream(frame, key: bytes, source: str):
    """Iterator over the keyed hash of every match id."""
    tags = match_id_blocks(frame).mapValues(partial(record_tags, key=key, source=source))
    return chain.from_iterable(block for _, block in tags.collect())


def labelled_stream(frame, key: bytes, source: str):
    """Iterator over (keyed hash of the match id, label as text)."""
    pairs = match_id_blocks(frame).join(label_blocks(frame), partial(_labelled, key=key, source=source))
    return chain.from_iterable(block for _, block in pairs.collect())


def flip_stream(frame, flipped, key: bytes, source: str):
    """Iterator over the rows of ``Ledger.record_flips``: keyed hashes of match id and true label, the flipped label as text,
    and the same two hashes without the source."""
    true_labels = match_id_blocks(frame).join(label_blocks(frame), partial(_true_tags, key=key, source=source))
    triples = true_labels.join(flipped, _with_flipped)
    return chain.from_iterable(block for _, block in triples.collect())


def ids_digest(frame) -> list:
    """[[block, SHA-256 of its match ids in order], ...]: equal at two parties iff their rows are aligned."""
    return sorted([key, digest] for key, digest in match_id_blocks(frame).mapValues(_digest).collect())


def alignment_digest(frame) -> str:
    """One digest of all rows for another party to compare: equal iff rows are aligned.

    It is over all ids at once, so that no dictionary opens a part of them, and slow to make (scrypt, 16 MB and some
    50 ms), so that guessing the ids of a table of one or two rows is dear as well.
    """
    digest = hashlib.scrypt(ids_fingerprint(frame).encode(), salt=_ALIGNMENT, n=1 << 14, r=8, p=1, dklen=32)
    return digest.hex()


def ids_fingerprint(frame) -> str:
    """SHA-256 over `ids_digest`: evidence of which rows a ledger line speaks of, not an identity."""
    return hashlib.sha256(repr(ids_digest(frame)).encode()).hexdigest()


def content_digest(frame, key: bytes) -> bytes:
    """Keyed hash of all rows, ids and features, whatever their order or spread over blocks."""
    # A key of its own: rows are anybody's bytes, and must read like no other input of the party's key.
    own_key = hmac.digest(key, b"fate-dp table content", "sha256")
    sums = match_id_blocks(frame).join(feature_blocks(frame), partial(_content_sum, key=own_key))
    return sums.reduce(_add_modulo).to_bytes(32, "big")


def count_distinct_ids(frame) -> int:
    """Number of different match ids."""
    return match_id_blocks(frame).flatMap(_each_once).count()


def _labelled(match_ids, labels, key, source):
    return list(zip(record_tags(match_ids, key, source), map(canonical_label, labels.tolist())))


def _true_tags(match_ids, labels, key, source):
    texts = [canonical_label(label) for label in labels.tolist()]
    return [
        list(zip(record_tags(match_ids, key, name), label_tags(match_ids, texts, key, name)))
        for name in (source, ANY_SOURCE)
    ]


def _with_flipped(tags, flipped):
    values = map(canonical_label, flipped.tolist())
    return [(*own, value, *common) for own, common, value in zip(*tags, values)]


def _digest(match_ids):
    return hashlib.sha256("\x00".join(match_ids).encode()).hexdigest()


def _content_sum(match_ids, features, key):
    rows = np.ascontiguousarray(features, dtype="<f8")
    hashes = (
        hmac.digest(key, len(text).to_bytes(8, "big") + text + row.tobytes(), "sha256")
        for text, row in zip((match_id.encode() for match_id in match_ids), rows)
    )
    return sum(int.from_bytes(item, "big") for item in hashes) % 2**256


def _add_modulo(first, second):
    return (first + second) % 2**256


def _each_once(_, match_ids):
    return [(match_id, 1) for match_id in match_ids]
