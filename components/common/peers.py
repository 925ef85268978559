"""How the parties of a task meet: a key of each for this task alone, signed where its operator has an identity.

A greeting is the first thing that a party sends each other one, and the only one, but for a stop, that travels open. Whoever
carries it can put an own one in its place, and so read and write what follows, unless the receiver's operator has pinned
the sender's identity: then the greeting must be signed by it, for this run of this task and these two parties.
"""

import json
import os
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fate_dp.crypto.message_seals import SealKey
from fate_dp.crypto.pairwise_masks import AgreementKey
from fate_dp.privacy import private_files as files
from fate_dp.privacy.validation import InvalidArgument, check_party_id

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
        self._home = files.party_folder(files.parties_folder(), own[1])

    def greeting(self, other: PartyId) -> bytes:
        key, known = self._key.public_bytes, os.path.lexists(self._home / files.IDENTITY_FILE)
        signature = _identity(self._home).sign(self._claim(self._own, other, key)) if known else b""
        return codec.encode((VERSION, key, signature))

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
        pinned = pins(self._home).get(other[1])
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


def _identity(home: Path) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(files.load_or_create_key(home / files.IDENTITY_FILE))


def public_key(home: Path) -> str:
    """That of an operator's identity, in hexadecimal digits; made on first use (mode 0600)."""
    return _identity(home).public_key().public_bytes_raw().hex()


def fingerprint(key: str) -> str:
    """What operators compare: eight groups of four hexadecimal digits of a hash of the key."""
    digest = sha256(b"fate-dp identity" + bytes.fromhex(key)).hexdigest()[:32]
    return " ".join(digest[at : at + 4] for at in range(0, len(digest), 4))


def pins(home: Path) -> dict[str, str]:
    """{party id: public key of its operator}, as this party's operator has pinned them."""
    path = home / files.PEERS_FILE
    try:
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {str(number): _checked(key) for number, key in known.items()}
    except (AttributeError, ValueError) as error:
        raise InvalidArgument(f"The pins in {path} cannot be read; move it away and pin each peer again.") from error


def pin(home: Path, party_id: str, key: str | None) -> None:
    """Pin a key for a party, in place of any other one; None takes the pin away."""
    known = {**pins(home), check_party_id(party_id) if key else party_id: key and _checked(key)}
    files.replace_file(
        home / files.PEERS_FILE, json.dumps({number: each for number, each in known.items() if each}).encode()
    )


def _checked(key: object) -> str:
    if not (isinstance(key, str) and len(key) == 2 * KEY_BYTES and set(key) <= set("0123456789abcdef")):
        raise InvalidArgument.of("key", key, f"{2 * KEY_BYTES} hexadecimal digits, as `fate-dp identity` prints them")
    return key
