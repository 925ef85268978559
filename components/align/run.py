"""Joins the records of two parties by id so that each gets additive shares; guest and host do the same.

1. Each party tags and encrypts its records and sends them, sorted by tag.
2. Each tags the other's tags again and sends back the double tags alone, sorted: what is in both lists has matched. A
   double tag tells its owner nothing about which of its records it stands for.
3. Each masks the other's matched records under the encryption and sends them, sorted by double tag.
4. What a party decrypts, and minus the masks that it added itself, are its shares.

Both parties learn the sizes of the tables and the number of matches. Neither sees an id, or a value without its mask;
tags and ciphertexts are fresh in every run. Parties are semi-honest; what is malformed is told to both, and refused.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fate_dp.crypto.joined_records import TagKey
from fate_dp.crypto.paillier import PrivateKey, PublicKey, generate_keypair
from fate_dp.privacy.mechanisms.dummy_count import draw_dummy_count
from fate_dp.privacy.noise.stream import KEY_BYTES

from ..common.frames import DataFrame, Table
from ..protocols.federation import Context
from ..protocols.joined_tables import Alignment, feature_names, write_shares
from ..protocols.preflight import Preflight, Together, show_summary
from .preflight import OTHER, Terms, check_parties, dummy_names, peer_key, record_blocks
from .settings import HideSize, Settings
from .tagged_tables import (
    Blinding,
    blinded_table,
    bucket_count,
    double_tagged_table,
    encrypted_table,
    matches,
    opened_table,
    ordered_blocks,
    outgoing,
    problem_in,
    tags_of,
)


def run(
    ctx: Context, settings: Settings, frame: DataFrame, label_source: str | None = None
) -> tuple[DataFrame, Alignment]:
    """This party's part; returns (frame of shares, `Alignment`).

    Raises:
        ValueError: one sentence, at both parties.
    """
    check_parties(ctx)
    _, private_key = generate_keypair(settings.key_length, primes=3)
    preflight = Terms(ctx, settings, frame, private_key, label_source)
    terms, role = preflight.agree(), preflight.role
    other_key = peer_key(ctx, terms, settings, role)
    if preflight.charge is not None:
        # If another job took what was left of the cap, both learn of it.
        Together(ctx)("charges", preflight.charge.record)
    own_blocks = record_blocks(frame, role, _dummies(settings.hide_size, role))
    sizes = {party: Sizes(*(terms[party][name] for name in ("records", "columns", "features"))) for party in OTHER}
    blocks, starts, rows = joined_blocks(ctx, own_blocks, role, sizes, private_key, other_key)
    if preflight.charge is not None:
        preflight.charge.mark_released()
    alignment = Alignment(
        session=terms["session"],
        rows=rows,
        guest=feature_names("guest", sizes["guest"].features),
        host=feature_names("host", sizes["host"].features),
        labelled=terms["guest"]["labelled"],
        hide_size=settings.to_json()["hide_size"],
        own=tuple(frame.schema.columns),
        label_privacy=preflight.label_privacy,
        dataset=preflight.dataset,
    )
    show_summary(ctx, _summary(alignment, sizes))
    return write_shares(ctx, blocks, alignment.names, starts, alignment.session), alignment


def _dummies(hide_size: HideSize | None, role: str) -> list[str]:
    if hide_size is None:
        return []
    return dummy_names(role, draw_dummy_count(hide_size.epsilon, hide_size.pool), hide_size.pool)


def _summary(alignment: Alignment, sizes: dict) -> dict:
    hidden = alignment.hide_size
    size = "hidden" if hidden else "known to both parties"
    privacy = {f"{name} of the number of matches": value for name, value in (hidden or {}).items()}
    return {
        "mechanism": "records joined as additive shares",
        "session": alignment.session,
        "records of the guest": sizes["guest"].records,
        "records of the host": sizes["host"].records,
        "rows": alignment.rows,
        "number of matches": size,
        **privacy,
        "shared columns": len(alignment.names),
    }


@dataclass(frozen=True)
class Sizes:
    """Public numbers of one party: records that it sends, dummies included, their columns, and features among these."""

    records: int
    columns: int
    features: int


def joined_blocks(
    ctx: Context, blocks: Table, role: str, sizes: Mapping[str, Sizes], private_key: PrivateKey, peer_key: PublicKey
) -> tuple[Table, dict[int, int], int]:
    """Run the protocol; returns ({block: int64 (rows, 2 c)}, {block: first position}, number of rows).

    Columns are the guest's features, the host's, the guest's label, if any, and the membership.

    Args:
        blocks: this party's records, as `preflight.record_blocks` makes them.
        sizes: of both parties, by role.

    Raises:
        Refused: at both parties, with one sentence.
    """
    own, theirs, peer = sizes[role], sizes[OTHER[role]], ctx.hosts[0] if role == "guest" else ctx.guest
    key = TagKey().for_workers()
    encryption = private_key.encryption()
    peer.put("records", encrypted_table(blocks, key, encryption, own.records))

    received = peer.get("records")
    doubled = double_tagged_table(received, key)
    Settlement(ctx.sub_ctx("tags"), "tags", (received, theirs.records), doubled).rows()
    peer.put("double_tags", tags_of(doubled))

    own_tags = peer.get("double_tags")
    matched = matches(doubled, own_tags)
    rows = Settlement(ctx.sub_ctx("matches"), "matches", (own_tags, own.records), counted=matched).rows()
    blinding = Blinding(theirs.columns, peer_key, secrets.token_bytes(KEY_BYTES), rows)
    blinded = blinded_table(matched, blinding)
    Settlement(ctx.sub_ctx("masks"), "masks", None, blinded).rows()
    peer.put("masked", outgoing(blinded))

    returned = peer.get("masked")
    opened = opened_table(returned, blinded, own.columns, private_key.decryption())
    Settlement(ctx.sub_ctx("shares"), "shares", (returned, rows), opened, counted=opened, wanted=rows).rows()
    arrange = partial(_in_public_order, role=role, guest_features=sizes["guest"].features)
    return *ordered_blocks(opened, bucket_count(rows), arrange), rows


@dataclass
class Settlement(Preflight):
    """After each stage both parties learn what either found.

    Attributes:
        stage: what was sent.
        arrived: (table from the other party, rows that it must have); None where nothing arrived.
        table: where a kernel of this party may have left a sentence.
        counted: table whose rows must be as many at both parties.
        wanted: rows that ``counted`` must have, where that is known.
    """

    stage: str
    arrived: tuple[Table, int] | None
    table: Table | None = None
    counted: Table | None = None
    wanted: int | None = None

    def rows(self) -> Any:
        """The number of rows of ``counted``, the same at both parties; None where nothing is counted."""
        return self.agree()["rows"]

    def check(self) -> dict:
        if self.arrived is not None:
            received, announced = self.arrived
            if received.count() != announced:
                raise ValueError(
                    f"The other party sent {received.count()} rows of {self.stage} and had announced {announced}."
                )
        problem = None if self.table is None else problem_in(self.table)
        if problem is not None:
            raise ValueError(problem)
        rows = self._counted_rows()
        if self.wanted is not None and rows != self.wanted:
            raise ValueError(
                f"The other party sent {self.stage} of records that are none of the {self.wanted} matches."
            )
        return {"rows": rows}

    def commit(self, hosts: dict[str, dict]) -> dict:
        (facts,) = hosts.values()
        rows = self._counted_rows()
        if facts["rows"] != rows:
            raise ValueError(f"The parties count {rows} and {facts['rows']} matches; one did not follow the protocol.")
        if rows == 0:
            raise ValueError("The parties have no ids in common; there is nothing to align.")
        return {"rows": rows}

    def _counted_rows(self) -> int | None:
        return None if self.counted is None else self.counted.count()


def _in_public_order(own: np.ndarray, theirs: np.ndarray, role: str, guest_features: int) -> np.ndarray:
    guest, host = (own, theirs) if role == "guest" else (theirs, own)
    # Two numbers a share, see `halves`.
    return np.hstack([guest[:, : 2 * guest_features], host, guest[:, 2 * guest_features :]])
