"""Names of records and of dummies, as they are hashed: a dummy's name is no record's. No FATE in here.

There are two public pools of K dummies. Each party brings the whole pool of the other, and of its own a secret number
d, from 0 to K: so d of them match. In place of the rest of its own pool it brings fillers, which the other never has,
since the size of its table would otherwise tell d: it is the number of its records plus 2 K.
"""

import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from fate_dp.crypto.joined_records import FRACTION_BITS, MAGNITUDE_BITS, encode_values, record_bytes
from fate_dp.crypto.paillier import PrivateKey, PublicKey
from fate_dp.privacy.events import REPLACE_ONE, Event
from fate_dp.privacy.mechanisms.dummy_count import dummy_count_event

from ..common import frames
from ..common.charges import Charges, home_of, remembered_dataset
from ..common.federation import Context, Document, roles
from ..common.frames import DataFrame, Table
from ..common.preflight import Preflight, PrivateReason, Refusal, Together, about_settings
from ..common.provenance import find_label_privacy, refuse_true_labels_of_released_records
from .settings import Settings

PURPOSE = "align: number of matches"
REFUSAL = "The cap that this party's operator set for private steps does not allow this noise."
OTHER = {"guest": "host", "host": "guest"}


def record_name(match_id: str) -> str:
    return f"record {match_id}"


def dummy_names(role: str, number: int, pool: int) -> list[str]:
    """The 2 K dummies that a party of this role brings; the ``number`` d is secret, the ``pool`` K is public."""
    own = [_dummy(role, at) if at < number else f"filler {role} {at}" for at in range(pool)]
    return own + [_dummy(OTHER[role], at) for at in range(pool)]


def _dummy(role: str, at: int) -> str:
    return f"dummy {role} {at}"


# How much memory is taken: what leaves a party is sorted, and so all ciphertexts of a partition are held at once. Tables are
# spread over as many partitions as keep one of them, while it is sorted, below what a worker may hold.

COPIES = 2
"""Of a partition while it is sorted: as it came, and in order."""
ROW_BYTES = 320
"""Of a record besides its ciphertexts: its tag, and what Python's objects and the storage engine take."""


def sorted_bytes(records: int, columns: int, public_key: PublicKey) -> int:
    """Memory that a table takes while it is sorted, if one worker holds all of it."""
    return COPIES * records * (record_bytes(columns, public_key) + ROW_BYTES)


def partitions_of(records: int, columns: int, public_key: PublicKey, worker_memory: int) -> int:
    """Partitions of a table that a worker sorts within ``worker_memory`` MiB each."""
    return -(-sorted_bytes(records, columns, public_key) // (worker_memory << 20))


def check_memory(ctx: Context, records: int, columns: int, public_key: PublicKey, worker_memory: int) -> None:
    """Refuse what exceeds the free memory, on an engine of one machine; others do not learn how much that is."""
    if "standalone" not in type(ctx.computing).__module__:
        return
    workers = os.cpu_count() or 1
    needed = min(sorted_bytes(records, columns, public_key), workers * (worker_memory << 20))
    free = free_memory()
    if needed > free:
        raise ValueError(
            f"The ciphertexts of {records} records need {needed / 2**30:.1f} GiB of memory at {workers} workers and "
            f"{free / 2**30:.1f} are free; lower worker_memory, or use an engine of several machines."
        )


def free_memory() -> int:
    """Bytes that this machine has left."""
    import psutil

    return psutil.virtual_memory().available


# A party's own records in fixed point, block by block, with its dummies as one block more.

LIMIT = 2.0**MAGNITUDE_BITS
# What encode_values takes: nothing that rounding would bring to the limit.
LARGEST = LIMIT - 2.0**-FRACTION_BITS
DUMMIES_AT_ONCE = 4096


def check_table(frame: DataFrame, role: str) -> None:
    """What can be aligned: rows with ids of their own, and finite numbers below 16; at the host no label."""
    if frame.shape[0] == 0:
        raise Refusal("The table has no rows; there is nothing to align.")
    frames.refuse_weights(frame)
    if role == "host":
        frames.refuse_label_column(frame)
    frames.require_distinct_ids(frame)
    low, high = frames.check_features(frame)
    for name, smallest, largest in zip(frame.schema.columns, low, high):
        if max(-smallest, largest) >= LARGEST:
            raise frames.bad_feature(name, f"has a value that is not below {LIMIT:g} in magnitude; standardise it")
    if frame.schema.label_name is not None:
        magnitudes = frames.label_blocks(frame).mapValues(lambda block: np.nan_to_num(np.abs(block), nan=np.inf))
        if not magnitudes.mapValues(lambda block: block.max(initial=0.0)).reduce(max) < LARGEST:
            raise ValueError(
                f"A label is missing or not below {LIMIT:g} in magnitude. Every record of the guest needs one that is."
            )


def columns_of(frame: DataFrame, role: str) -> int:
    """Columns of a party's records: its features, and at the guest the label, if any, and the membership."""
    label = frame.schema.label_name is not None
    return len(frame.schema.columns) + (role == "guest") * (1 + label)


def record_blocks(frame: DataFrame, role: str, dummies: Sequence[str]) -> Table:
    """Table {block: (names, int64 (rows, columns_of))}; dummies, of the names that are given, are zero throughout."""
    values = frames.feature_blocks(frame)
    if role == "guest":
        if frame.schema.label_name is not None:
            values = values.join(
                frames.label_blocks(frame), lambda features, labels: np.column_stack([features, labels])
            )
        values = values.mapValues(lambda block: np.column_stack([block, np.ones(len(block))]))
    blocks = frames.match_id_blocks(frame).join(values, _encoded)
    if not dummies:
        return blocks
    parts = [dummies[at : at + DUMMIES_AT_ONCE] for at in range(0, len(dummies), DUMMIES_AT_ONCE)]
    zeros = [np.zeros((len(part), columns_of(frame, role)), dtype=np.int64) for part in parts]
    # The blocks of a frame are numbered from 0.
    return frames.with_blocks(frame, blocks, [(-1 - number, block) for number, block in enumerate(zip(parts, zeros))])


def _encoded(ids: list[str], values: np.ndarray) -> tuple[list[str], np.ndarray]:
    return [record_name(match_id) for match_id in ids], encode_values(values, list(map(str, range(values.shape[1]))))


# Before any record is sent: the same request at both parties, tables that fit, sound keys, the public facts.

SESSION_BYTES = 8
TAGS = "Curve25519"
"""How tags are made; what another release makes on another curve would match nothing."""


def check_parties(ctx: Context) -> None:
    """Every party sees the same list, so every party raises the same sentence without a message."""
    present = roles(ctx)
    if sorted(present) != ["guest", "host"]:
        raise ValueError(
            f"The job names {present.count('guest')} guests, {present.count('host')} hosts and "
            f"{present.count('arbiter')} arbiters; align joins the tables of exactly one guest and one host."
        )


@dataclass
class AlignmentTerms(Preflight):
    """The same request at both parties, tables that fit, sound keys, the public facts.

    Hiding the number of matches costs a party, in its own ledger. Unit: record; relation: replace-one, with the numbers
    of records of both parties public: one replaced record changes the number of matches by at most 1. The other party
    sees it with the dummies of both, and knows its own number of them: what is left is the number of matches with this
    party's dummies, see `privacy.mechanisms.dummy_count`.
    """

    settings: Settings
    frame: DataFrame
    private_key: PrivateKey
    facts: Document = field(init=False)
    charges: Charges | None = None
    label_privacy: Document | None = None
    dataset: str = ""
    half: str = field(default_factory=lambda: secrets.token_hex(SESSION_BYTES))

    @property
    def role(self) -> str:
        return self.ctx.federation.local_party[0]

    def check(self) -> Document:
        check_table(self.frame, self.role)
        facts, settings = self._facts(), self.settings
        self.facts = facts
        check_memory(self.ctx, facts["records"], facts["columns"], self.private_key.public_key, settings.worker_memory)
        if settings.hide_size is not None:
            self.charges = Charges(self.ctx, self.frame, REFUSAL, reads_labels=False)
            self.charges.check(self._cost())
        self.label_privacy = self._label_privacy()
        # No id is left afterwards by which scores of joined rows could be counted for these records.
        self.dataset = remembered_dataset(home_of(self.ctx), self.frame).name
        return {"asked": self._asked(), "public": facts}

    def charge(self) -> None:
        """Before anything is sent. If another job took what was left of the cap, both parties learn of it."""
        if self.charges is not None:
            Together(self.ctx)("charges", partial(self.charges.record, self._cost(), PURPOSE))

    def commit(self, hosts: dict[str, Document]) -> Document:
        (facts,) = hosts.values()
        if facts["asked"] != self._asked():
            raise Refusal(
                f"The host was asked for {facts['asked']}, the guest for {self._asked()}; set the same at both."
            )
        _checked_key(facts["public"], self.settings, "host")
        return {"guest": self.facts, "host": facts["public"]}

    def agree(self) -> Document:
        """{session, guest, host}, in builtins: of each party {records, features, columns, labelled, public_key, session}."""
        terms = super().agree()
        # Each party puts its own half of the name itself, so that no other can give one name to two alignments.
        halves = {party: terms[party]["session"] for party in OTHER} | {self.role: self.half}
        return {"session": f"{halves['guest']}{halves['host']}", **terms}

    def _asked(self) -> Document:
        return {**self.settings.to_json(), "tags": TAGS}

    def _cost(self) -> list[tuple[Event, int]]:
        hidden = self.settings.hide_size
        assert hidden is not None
        seen_by = (OTHER[self.role], "model")
        return [(dummy_count_event(hidden.epsilon, hidden.pool, relation=REPLACE_ONE, observers=seen_by), 1)]

    def _facts(self) -> Document:
        dummies = 0 if self.settings.hide_size is None else 2 * self.settings.hide_size.pool
        return {
            "records": self.frame.shape[0] + dummies,
            "features": len(self.frame.schema.columns),
            "columns": columns_of(self.frame, self.role),
            "labelled": self.frame.schema.label_name is not None,
            "public_key": self.private_key.to_wire(),
            "session": self.half,
        }

    def _label_privacy(self) -> Document | None:
        """For training on the shares, where no id is left to ask by."""
        if self.frame.schema.label_name is None:
            return None
        home = home_of(self.ctx)
        try:
            return find_label_privacy(home, self.frame, self.settings.label_source).to_json(flipback="none")
        except PrivateReason:
            if self.settings.label_source is not None:
                raise
            # Nobody can ask by record afterwards, so true labels of records whose flips were released end here.
            refuse_true_labels_of_released_records(home, self.frame)
            return None


def peer_key(own: AlignmentTerms, terms: Document) -> PublicKey:
    """The other party's key, once the terms say of this party what it said; refused at both parties."""

    def checked() -> PublicKey:
        if terms[own.role] != own.facts:
            raise Refusal(f"The guest's terms say other facts of the {own.role} than it told itself.")
        return _checked_key(terms[OTHER[own.role]], own.settings, OTHER[own.role])

    return Together(own.ctx)("keys", checked)


@about_settings()
def _checked_key(facts: Document, settings: Settings, owner: str) -> PublicKey:
    if facts["columns"] != facts["features"] + (owner == "guest") * (1 + facts["labelled"]):
        raise Refusal(f"The {owner} told {facts['columns']} columns, which are not its features, label and membership.")
    if owner == "host" and facts["labelled"]:
        raise Refusal("The host told of a label; only the guest has labels.")
    if not re.fullmatch(rf"[0-9a-f]{{{2 * SESSION_BYTES}}}", str(facts["session"])):
        raise Refusal(f"The {owner} sent no half of a session's name, {SESSION_BYTES} bytes in hex.")
    key = PublicKey.from_wire(facts["public_key"])
    wanted = settings.he_param["key_length"]
    if key.key_length != wanted:
        raise Refusal(f"The {owner} sent a key of {key.key_length} bits; he_param.key_length is {wanted}.")
    return key
