"""Received messages in plain builtins and arrays, and the ciphertexts and numbers in them."""

from collections import Counter
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

import numpy as np

from fate_dp.components.common.preflight import plugin_version
from fate_dp.components.common.wire.channel import Channel
from fate_dp.deploy.recorder.fate_values import rust_ciphertexts, rust_modulus

TERMS = {
    "rows",
    "batches",
    "optimizer",
    "flipback_epochs",
    "correction_epochs",
    "score_epochs",
    "features",
    "mean_square_bits",
    "run",
    "noise",
    "classes",
}
FACTS = {
    "rows",
    "features",
    "digest",
    "score_releases_left",
    "few_valued",
    "mean_square_bits",
    "noise",
    "warm_start_run",
    "classes",
}
"""What the guest tells everybody, and a host the guest, before a training without noise that starts anew."""


class Ciphertexts(NamedTuple):
    """Paillier ciphertexts of FATE's own tensors, with the modulus that came along."""

    n: int
    values: list


def plain_form(value):
    """The value without FATE's objects, so that it outlives the party's process."""
    from fate.arch.computing.api import KVTable
    from fate.arch.tensor import DTensor
    from fate.arch.tensor.phe._tensor import PHETensor

    if isinstance(value, DTensor):
        parts = [plain_form(part) for _, part in sorted(value.shardings._data.collect())]
        if all(isinstance(part, Ciphertexts) for part in parts):
            return Ciphertexts(parts[0].n, [ciphertext for part in parts for ciphertext in part.values])
        return [np.asarray(part) for part in parts]
    if isinstance(value, PHETensor):
        return Ciphertexts(rust_modulus(value._pk.pk), [ciphertext for ciphertext, _ in rust_ciphertexts(value._data)])
    if isinstance(value, tuple):
        return tuple(plain_form(part) for part in value)
    if isinstance(value, KVTable):
        return sorted(value.collect(), key=str)
    if type(value).__module__.startswith(("fate.", "fate_utils.")):
        return type(value).__name__
    return value


def parts_of_steps(received) -> list:
    """The messages (sender, name, value), what a message of a step says in one message for each thing that it says."""
    parts = []
    for sender, name, value in received:
        said = (
            {what: part for what, part in value.items() if part not in ([], None)} if name == "step" else {name: value}
        )
        parts.extend((sender, what, part) for what, part in said.items())
    return parts


def names(received) -> set:
    """{(role of the sender, name)} of the messages."""
    return {(sender.split("-")[0], name) for sender, name, _ in received}


@contextmanager
def noted_sending():
    """A list that gets (receiver, name) of everything that this party sends meanwhile, whether it is read or not."""
    sent, send = [], Channel.send

    def noting_send(channel, parties, namespace, name, value):
        parties = list(parties)
        parts = [what for _, what, _ in parts_of_steps([("", name, value)])]
        sent.extend(("-".join(party), what) for party in parties for what in parts)
        return send(channel, parties, namespace, name, value)

    with mock.patch.object(Channel, "send", noting_send):
        yield sent


def unread(outcomes, sent_by: dict) -> dict:
    """{(sender, receiver, name): count} of messages that were sent and never read; no list of received ones has them.

    Args:
        outcomes: of one scenario by party.
        sent_by: {party: what `noted_sending` gave it}.
    """
    sent = Counter(("-".join(sender), *message) for sender, messages in sent_by.items() for message in messages)
    read = Counter(
        (sender, "-".join(receiver), name)
        for receiver, outcome in outcomes.items()
        for sender, name, _ in outcome.received
    )
    return dict(sent - read)


def values_of(received, name, sender="") -> list:
    """The values of the messages with this name, in order, from senders whose name starts with ``sender``."""
    return [value for from_whom, message, value in received if message == name and from_whom.startswith(sender)]


def public_moduli(received) -> list:
    """The n of every public key that came in the messages, from our own parties or inside FATE's tensors."""
    in_tensors = [value.n for _, _, value in received if isinstance(value, Ciphertexts)]
    return list(dict.fromkeys([*(key["n"] for key in values_of(received, "public_key")), *in_tensors]))


def shape(value):
    """What a message is like without what it says: kinds, counts, and the lengths of bytes."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, Ciphertexts):
        return [shape(item) for item in value]
    return (type(value).__name__, len(value) if isinstance(value, bytes) else None)


def clear_beyond_public(received) -> list:
    """Messages that say something in clear that is none of the numbers and words which every party may know."""
    clear = [message for message in received if message[1] in _SAYS_PUBLIC]
    return [(sender, name) for sender, name, value in clear if not _SAYS_PUBLIC[name](value, sender)]


def _is_verdict(value, sender) -> bool:
    terms = value["terms"]
    if set(value) != {"problem", "terms"} or set(terms) != TERMS:
        return False
    epochs = [epoch for name in ("flipback_epochs", "correction_epochs", "score_epochs") for epoch in terms[name]]
    return (
        value["problem"] is terms["noise"] is None
        and terms["mean_square_bits"] in range(9)
        and len(bytes.fromhex(terms["run"])) == 8
        and all(type(epoch) is int for epoch in epochs)
        and terms["classes"] == list(map(float, range(len(terms["classes"]))))
    )


def _is_preflight(value, sender) -> bool:
    facts = value["facts"]
    if value["plugin"] != plugin_version() or set(value) != {"facts", "problem", "plugin"}:
        return False
    if value["problem"] is not None or sender.startswith("arbiter"):
        return (facts, value["problem"]) == ({}, None)
    whole = all(type(facts[name]) is int for name in ("rows", "features", "score_releases_left"))
    return set(facts) == FACTS and whole and facts["mean_square_bits"] in range(9) and not facts["noise"]


_SAYS_PUBLIC = {
    "verdict": _is_verdict,
    "preflight": _is_preflight,
    "public_key": lambda value, sender: set(value) == {"n", "blinding_base", "proof"},
    "training_state": lambda value, sender: value in ("goes on", "converged", "exhausted", "diverged"),
}


def ciphertexts(value, n) -> list:
    """The ciphertexts modulo n^2 in a message, of all its parts in order; none in one of another length."""
    if isinstance(value, Ciphertexts):
        return value.values if value.n == n else []
    width, blob = (2 * n.bit_length() + 7) // 8, b"".join(byte_strings(value))
    if len(blob) % width:
        return []
    return [int.from_bytes(blob[at : at + width], "big") for at in range(0, len(blob), width)]


def byte_strings(value) -> list:
    """All byte strings in a message, in order."""
    if isinstance(value, bytes):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in byte_strings(part)]
    return []


def numbers(value) -> list:
    """All numbers that a message says, integers of any size as they are; of a table those of its blocks."""
    if isinstance(value, (Ciphertexts, bytes, str)) or value is None:
        return []
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    if hasattr(value, "detach"):
        value = value.detach().numpy()
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and isinstance(value[0], int) and isinstance(value[1], (np.ndarray, bytes)):
            return numbers(value[1])  # a table's (key, block)
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, (int, float)) else []


@contextmanager
def changed_sending(changes: dict):
    """This party sends other values than it would: {name of a message: value}."""
    send = Channel.send

    def changing_send(channel, parties, namespace, name, value):
        return send(channel, parties, namespace, name, changes.get(name, value))

    with mock.patch.object(Channel, "send", changing_send):
        yield
