"""Joins the records of two parties by id so that each gets additive shares; guest and host do the same.

1. Each party tags and encrypts its records and sends them, sorted by tag.
2. Each tags the other's tags again and sends back the double tags alone, sorted: what is in both lists has matched. A
   double tag tells its owner nothing about which of its records it stands for.
3. Each masks the other's matched records under the encryption and sends them, sorted by double tag.
4. What a party decrypts, and minus the masks that it added itself, are its shares.

Both parties learn the sizes of the tables and the number of matches. Neither sees an id, or a value without its mask;
tags and ciphertexts are fresh in every run. Parties are semi-honest; what is malformed is told to both, and refused.
"""

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fate_dp.crypto.joined_records import TagKey
from fate_dp.crypto.paillier import PrivateKey, PublicKey, generate_keypair
from fate_dp.privacy.mechanisms.dummy_count import draw_dummy_count
from fate_dp.privacy.noise.stream import KEY_BYTES

from ..common.federation import Context, Document
from ..common.frames import DataFrame, Table
from ..common.preflight import Preflight, Refusal, show_summary
from ..protocols.joined_tables import Alignment, feature_names, write_shares
from . import tagged_tables
from .preflight import OTHER, AlignmentTerms, check_parties, dummy_names, partitions_of, peer_key, record_blocks
from .settings import Settings

logger = logging.getLogger(__name__)
STAGES = ("tags", "matches", "masks", "shares")
"""Both parties agree after each; the task's log says so, and nothing else of it."""


def run(ctx: Context, settings: Settings, frame: DataFrame) -> tuple[DataFrame, Alignment]:
    """This party's part; returns (frame of shares, `Alignment`). Raises ValueError, one sentence, at both parties."""
    check_parties(ctx)
    _, private_key = generate_keypair(settings.he_param["key_length"], primes=3)
    preflight, hidden = AlignmentTerms(ctx, settings, frame, private_key), settings.hide_size
    terms, role = preflight.agree(), preflight.role
    other_key = peer_key(preflight, terms)
    preflight.charge()
    dummies = dummy_names(role, draw_dummy_count(hidden.epsilon, hidden.pool), hidden.pool) if hidden else []
    own_blocks = record_blocks(frame, role, dummies)
    sizes = {party: Sizes(*(terms[party][name] for name in ("records", "columns", "features"))) for party in OTHER}
    partitions = max(
        partitions_of(sizes[party].records, sizes[party].columns, key, settings.worker_memory)
        for party, key in ((role, private_key.public_key), (OTHER[role], other_key))
    )
    blocks, starts, rows = joined_blocks(ctx, own_blocks, role, sizes, private_key, other_key, partitions)
    if preflight.charges is not None:
        preflight.charges.mark_released()
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
    summary = {
        "mechanism": "records joined as additive shares",
        "session": alignment.session,
        "records of the guest": sizes["guest"].records,
        "records of the host": sizes["host"].records,
        "rows": rows,
        "number of matches": "hidden" if hidden else "known to both parties",
        **{f"{name} of the number of matches": value for name, value in (alignment.hide_size or {}).items()},
        "shared columns": len(alignment.names),
    }
    show_summary(ctx, summary)
    return write_shares(ctx, blocks, alignment.names, starts, alignment.session), alignment


@dataclass(frozen=True)
class Sizes:
    """Public numbers of one party: records that it sends, dummies included, their columns, and features among these."""

    records: int
    columns: int
    features: int


def joined_blocks(
    ctx: Context,
    blocks: Table,
    role: str,
    sizes: Mapping[str, Sizes],
    private_key: PrivateKey,
    peer_key: PublicKey,
    partitions: int = 1,
) -> tuple[Table, dict[int, int], int]:
    """Run the protocol; returns ({block: int64 (rows, 2 c)}, {block: first position}, number of rows).

    Columns are the guest's features, the host's, the guest's label, if any, and the membership. ``blocks`` are this
    party's records, as `preflight.record_blocks` makes them; ``partitions`` is the least number of partitions of tables
    with ciphertexts, which bounds what a worker holds. Raises Refused, at both parties, with one sentence.
    """
    own, theirs, peer = sizes[role], sizes[OTHER[role]], ctx.hosts[0] if role == "guest" else ctx.guest
    key = TagKey().for_workers()
    encryption = private_key.encryption()
    peer.put("records", tagged_tables.encrypted_table(blocks, key, encryption, own.records, partitions))

    received = peer.get("records")
    doubled = tagged_tables.double_tagged_table(received, key, partitions)
    Settlement(ctx.sub_ctx("tags"), "tags", (received, theirs.records), doubled).rows()
    peer.put("double_tags", tagged_tables.tags_of(doubled))

    own_tags = peer.get("double_tags")
    matched = tagged_tables.matches(doubled, own_tags)
    rows = Settlement(ctx.sub_ctx("matches"), "matches", (own_tags, own.records), counted=matched).rows()
    blinding = tagged_tables.Blinding(theirs.columns, peer_key, secrets.token_bytes(KEY_BYTES), rows)
    blinded = tagged_tables.blinded_table(matched, blinding)
    Settlement(ctx.sub_ctx("masks"), "masks", None, blinded).rows()
    peer.put("masked", tagged_tables.outgoing(blinded))

    returned = peer.get("masked")
    opened = tagged_tables.opened_table(returned, blinded, own.columns, private_key.decryption())
    Settlement(ctx.sub_ctx("shares"), "shares", (returned, rows), opened, counted=opened, wanted=rows).rows()
    arrange = partial(_in_public_order, role=role, guest_features=sizes["guest"].features)
    return *tagged_tables.ordered_blocks(opened, tagged_tables.bucket_count(rows), arrange), rows


@dataclass
class Settlement(Preflight):
    """After each stage both parties learn what either found.

    ``arrived`` is (table from the other party, rows that it must have); in ``table`` a kernel of this party may have
    left a sentence; the rows of ``counted`` must be as many at both parties, and ``wanted``, where that is known.
    """

    stage: str
    arrived: tuple[Table, int] | None
    table: Table | None = None
    counted: Table | None = None
    wanted: int | None = None
    found: int | None = field(init=False)

    def rows(self) -> Any:
        """The number of rows of ``counted``, the same at both parties; None where nothing is counted."""
        rows = self.agree()["rows"]
        if rows != self.found:
            raise Refusal(f"The guest says {rows} rows after {self.stage}, and this party counts {self.found}.")
        logger.info("align has its %s, step %d of %d.", self.stage, STAGES.index(self.stage) + 1, len(STAGES))
        return rows

    def check(self) -> Document:
        if self.arrived is not None:
            received, announced = self.arrived
            if received.count() != announced:
                raise Refusal(
                    f"The other party sent {received.count()} rows of {self.stage} and had announced {announced}."
                )
        problem = None if self.table is None else tagged_tables.problem_in(self.table)
        if problem is not None:
            raise Refusal(problem)
        self.found = None if self.counted is None else self.counted.count()
        if self.wanted is not None and self.found != self.wanted:
            raise Refusal(f"The other party sent {self.stage} of records that are not among the {self.wanted} matches.")
        return {"rows": self.found}

    def commit(self, hosts: dict[str, Document]) -> Document:
        (facts,) = hosts.values()
        if facts["rows"] != self.found:
            raise Refusal(
                f"The parties count {self.found} and {facts['rows']} matches; one did not follow the protocol."
            )
        if self.found == 0:
            raise Refusal("The parties have no ids in common; there is nothing to align.")
        return facts


def _in_public_order(own: np.ndarray, theirs: np.ndarray, role: str, guest_features: int) -> np.ndarray:
    guest, host = (own, theirs) if role == "guest" else (theirs, own)
    # Two numbers a share, see `halves`.
    return np.hstack([guest[:, : 2 * guest_features], host, guest[:, 2 * guest_features :]])
