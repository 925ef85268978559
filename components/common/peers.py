"""How the parties of a task meet: a key of each for this task alone, signed where its operator has an identity.

A greeting is the first thing that a party sends each other one, and the only one, but for a stop, that travels open. Whoever
carries it can put an own one in its place, and so read and write what follows, unless the receiver's operator has pinned
the sender's identity: then the greeting must be signed by it, for this run of this task and these two parties.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fate_dp.crypto.message_seals import SealKey
from fate_dp.crypto.pairwise_masks import AgreementKey
from fate_dp.privacy.private_files import (
    IDENTITY_FILE,
    PEERS_FILE,
    load_or_create_key,
    parties_folder,
    party_folder,
    replace_file,
)
from fate_dp.privacy.validation import InvalidArgument

from .federation import PartyId, name_of
from .wire import codec
from .wire.kinds import Bytes, Int, Tuple

VERSION = 1
KEY_BYTES, SIGNATURE_BYTES = 32, 64
GREETING = Tuple((Int(8), Bytes(KEY_BYTES), Bytes(SIGNATURE_BYTES)))
"""Version, public key of the task, and the signature, if any."""


class Meeting:
    """One party's key of one run of a task, from the operating system's entropy, and what it makes of others' greetings."""

    def __init__(self, session: str, own: PartyId) -> None:
        self._session, self._own, self._key = session, own, AgreementKey()
        self._home = party_folder(parties_folder(), own[1])

    def greeting(self, other: PartyId) -> bytes:
        key, path = self._key.public_bytes, self._home / IDENTITY_FILE
        signed = identity(path).sign(self._claim(self._own, other, key)) if os.path.lexists(path) else b""
        return codec.encode((VERSION, key, signed))

    def keys(self, other: PartyId, sent: bytes, received: bytes) -> tuple[SealKey, SealKey]:
        """(for what is sent to the other party, for what comes from it), given both greetings; raises codec.Malformed."""
        try:
            version, key, signature = codec.decode(received, GREETING)
        except codec.Malformed:
            version = None
        if version != VERSION:
            raise codec.Malformed("it is none of this FATE-DP's; install one version at all parties")
        self._check_pin(other, key, signature)
        try:
            secret = self._key.shared_with(key, self._session, name_of(other))
        except ValueError:
            raise codec.Malformed("no secret can be agreed on with its key") from None
        return (
            SealKey(secret, codec.encode((self._own, other, sent, received))),
            SealKey(secret, codec.encode((other, self._own, received, sent))),
        )

    def _check_pin(self, other: PartyId, key: bytes, signature: bytes) -> None:
        pinned = pins(self._home / PEERS_FILE).get(other[1])
        if pinned is None:
            return
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(pinned)).verify(
                signature, self._claim(other, self._own, key)
            )
        except InvalidSignature:
            raise codec.Malformed(
                f"it is {'signed by another key than' if signature else 'not signed by'} the one pinned here for party "
                f"{other[1]}; compare fingerprints with its operator (`fate-dp identity`), then pin the right one with "
                "`fate-dp peers`"
            ) from None

    def _claim(self, sender: PartyId, receiver: PartyId, key: bytes) -> bytes:
        return codec.encode(("fate-dp greeting", VERSION, self._session, sender, receiver, key))


def identity(path: Path) -> Ed25519PrivateKey:
    """An operator's identity, made on first use (mode 0600)."""
    return Ed25519PrivateKey.from_private_bytes(load_or_create_key(path))


def public_key(path: Path) -> str:
    """That of the identity, in hexadecimal digits."""
    return identity(path).public_key().public_bytes_raw().hex()


def fingerprint(key: str) -> str:
    """What operators compare: 16 groups of four hexadecimal digits of a hash of the key."""
    digest = sha256(b"fate-dp identity" + bytes.fromhex(key)).hexdigest()[:32]
    return " ".join(digest[at : at + 4] for at in range(0, len(digest), 4))


def pins(path: Path) -> dict[str, str]:
    """{party id: public key of its operator}, as this party's operator has pinned them."""
    try:
        return {str(number): check_key(key) for number, key in json.loads(path.read_text(encoding="utf-8")).items()}
    except FileNotFoundError:
        return {}
    except (AttributeError, ValueError) as error:
        raise InvalidArgument(f"The pins in {path} cannot be read; move it away and pin each peer again.") from error


def pin(path: Path, party_id: str, key: str | None) -> None:
    """Pin a key for a party, in place of any other one; None takes the pin away."""
    known = {**pins(path), party_id: key and check_key(key)}
    replace_file(path, json.dumps({number: each for number, each in known.items() if each}, indent=1).encode())


def check_key(key: object) -> str:
    if not (isinstance(key, str) and len(key) == 2 * KEY_BYTES and set(key) <= set("0123456789abcdef")):
        raise InvalidArgument.of("key", key, f"{2 * KEY_BYTES} hexadecimal digits, as `fate-dp identity` prints them")
    return key
