"""X25519 keys: two parties that see each other's public keys share a key that nobody between them knows.

X25519 is RFC 7748, the derivation HKDF-SHA256 of RFC 5869; both come from the package cryptography. Public keys are not
authenticated here: whoever carries them must not replace them (semi-honest), or they must be compared on another way.
"""
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32
_PURPOSE = b"fate-dp key of a pair"


class InvalidPublicKey(ValueError):
    """A public key is malformed, of low order, or not one that its party may use."""


class AgreementKey:
    """One party's key pair for one session; made from the operating system's entropy, never pickled or copied."""

    __slots__ = ("_private", "public_bytes")

    def __init__(self):
        self._private = X25519PrivateKey.generate()
        self.public_bytes: bytes = self._private.public_key().public_bytes_raw()

    def shared_with(self, public_key: bytes, session: str, whose: str = "the other party") -> bytes:
        """32 bytes that the owner of ``public_key`` derives, too; other ones for every session.

        Raises:
            InvalidPublicKey: it is malformed, of low order, or one's own.
        """
        if public_key == self.public_bytes:
            raise InvalidPublicKey(f"The public key of {whose} is one's own; every party must make its own key.")
        secret = _exchange(self._private, public_key, whose)
        name = session.encode("utf-8")
        both = b"".join(sorted((self.public_bytes, bytes(public_key))))
        info = b"".join((_PURPOSE, len(name).to_bytes(8, "little"), name, both))
        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)

    def __repr__(self) -> str:
        return f"AgreementKey(public {self.public_bytes.hex()})"

    def __reduce__(self):
        raise TypeError("A secret key is never pickled or copied: it stays in the process that made it.")


def check_public_key(public_key: bytes, whose: str) -> bytes:
    """The 32 bytes of an X25519 public key, which nobody can have chosen so that shared secrets are known to all.

    Raises:
        InvalidPublicKey: it has another length or another type, or a low order.
    """
    _exchange(X25519PrivateKey.generate(), public_key, whose)
    return bytes(public_key)


def _exchange(private: X25519PrivateKey, public_key: bytes, whose: str) -> bytes:
    if not isinstance(public_key, (bytes, bytearray)) or len(public_key) != KEY_BYTES:
        raise InvalidPublicKey(f"The public key of {whose} must be {KEY_BYTES} bytes, which it is not.")
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(bytes(public_key)))
    except ValueError as error:
        # The product is zero: RFC 7748, section 6.1.
        raise InvalidPublicKey(f"The public key of {whose} has a low order, which no honest one has.") from error
