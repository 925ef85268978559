"""One party's part of the protocol; guest and host do the same.

1. Each party tags and encrypts its records and sends them, sorted by tag.
2. Each tags the other's tags again and sends back the double tags alone, sorted: what is in both lists has matched. A
   double tag tells its owner nothing about which of its records it stands for.
3. Each masks the other's matched records under the encryption and sends them, sorted by double tag.
4. What a party decrypts, and minus the masks that it added itself, are its shares.

Both parties learn the sizes of the tables and the number of matches. Neither sees an id, or a value without its mask;
tags and ciphertexts are fresh in every run. Parties are semi-honest; what is malformed is told to both, and refused.
"""
import secrets
from dataclasses import dataclass
from functools import partial

import numpy as np

from fate_dp.components.common.preflight import agree
from fate_dp.crypto.id_tags import TagKey
from fate_dp.crypto.paillier import PrivateKey, PublicKey
from fate_dp.privacy.noise.stream import KEY_BYTES

from .dummies import OTHER
from .kernels import Blinding
from .tagged_tables import (
    blinded_table, bucket_count, double_tagged_table, encrypted_table, matches, opened_table, ordered_blocks, outgoing,
    problem_in, tags_of,
)  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """Public numbers of one party: records that it sends, dummies included, and their columns."""

    records: int
    columns: int


def joined_blocks(
    ctx, blocks, role: str, sizes: dict, guest_features: int, private_key: PrivateKey, peer_key: PublicKey
):
    """Run the protocol; returns ({block: int64 (rows, 2 c)}, {block: first position}, number of rows).

    Columns are the guest's features, the host's, the guest's label, if any, and the membership.

    Args:
        blocks: this party's records, as `records.record_blocks` makes them.
        sizes: {role: Sizes}.
        guest_features: columns of the guest before the label.

    Raises:
        Refused: at both parties, with one sentence.
    """
    own, theirs, peer = sizes[role], sizes[OTHER[role]], _peer(ctx, role)
    key = TagKey().for_workers()
    encryption = private_key.encryption()
    peer.put("records", encrypted_table(blocks, key, encryption, own.records))

    received = peer.get("records")
    doubled = double_tagged_table(received, key)
    _settle(ctx, "tags", [(received, theirs.records)], doubled)
    peer.put("double_tags", tags_of(doubled))

    own_tags = peer.get("double_tags")
    matched = matches(doubled, own_tags)
    rows = _settle(ctx, "matches", [(own_tags, own.records)], counted=matched)
    blinding = Blinding(theirs.columns, peer_key, secrets.token_bytes(KEY_BYTES), rows)
    blinded = blinded_table(matched, blinding)
    _settle(ctx, "masks", [], blinded)
    peer.put("masked", outgoing(blinded))

    returned = peer.get("masked")
    opened = opened_table(returned, blinded, own.columns, private_key.decryption())
    _settle(ctx, "shares", [(returned, rows)], opened, counted=opened, wanted=rows)
    arrange = partial(_in_public_order, role=role, guest_features=guest_features)
    return *ordered_blocks(opened, bucket_count(rows), arrange), rows


def _peer(ctx, role):
    return ctx.hosts[0] if role == "guest" else ctx.guest


def _settle(ctx, stage: str, arrived, table=None, counted=None, wanted=None):
    """Both parties learn what either found; returns the number of rows of ``counted``, the same at both.

    Args:
        arrived: [(table from the other party, rows that it must have)].
        table: where a kernel of this party may have left a sentence.
        wanted: rows that ``counted`` must have, where that is known.
    """

    def check():
        for received, rows in arrived:
            if received.count() != rows:
                raise ValueError(f"The other party sent {received.count()} rows of {stage} and had announced {rows}.")
        problem = None if table is None else problem_in(table)
        if problem is not None:
            raise ValueError(problem)
        rows = None if counted is None else counted.count()
        if wanted is not None and rows != wanted:
            raise ValueError(f"The other party sent {stage} of records that are none of the {wanted} matches.")
        return {"rows": rows}

    def commit(hosts):
        (facts,) = hosts.values()
        rows = None if counted is None else counted.count()
        if facts["rows"] != rows:
            raise ValueError(f"The parties count {rows} and {facts['rows']} matches; one did not follow the protocol.")
        if rows == 0:
            raise ValueError("The parties have no ids in common; there is nothing to align.")
        return {"rows": rows}

    return agree(ctx.sub_ctx(stage), check, commit)["rows"]


def _in_public_order(own, theirs, role: str, guest_features: int) -> np.ndarray:
    guest, host = (own, theirs) if role == "guest" else (theirs, own)
    # Two numbers a share, see `halves`.
    return np.hstack([guest[:, : 2 * guest_features], host, guest[:, 2 * guest_features :]])
