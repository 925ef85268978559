"""Tags of record ids under a commutative cipher: equal ids get equal tags once both parties have encrypted them.

An id becomes a point of the prime-order subgroup of edwards25519, and a tag is that point times a secret scalar. Two
scalars commute, so the point times both is the same whoever came first. A tag under one scalar looks random to whoever
does not know it (decisional Diffie-Hellman in that group, ids hashed as by a random oracle).

* A point is the sum of two Elligator images of independent hashes, which is close to uniform on the subgroup (one image
  alone reaches about half of it): E. Brier et al., "Efficient indifferentiable hashing into ordinary elliptic curves",
  CRYPTO 2010. libsodium multiplies images by the cofactor, so none lies outside the subgroup.
* A scalar is fresh for every job (`TagKey`) and never stored: tags of two jobs cannot be linked.
* What another party sends is refused unless it is a canonical encoding of a point of the subgroup other than the
  neutral one: a point of small order would make tags that do not depend on the id.
* Neither libsodium's multiplication nor its Elligator map branches on secrets.
"""
import hashlib
import secrets
from typing import Iterable, List

from nacl import bindings

POINT_BYTES = 32
_ORDER = 2**252 + 27742317777372353535851937790883648493
_DOMAIN = b"fate-dp align id to edwards25519, half "


class InvalidTag(ValueError):
    """Bytes from another party that are no tags; the message is one sentence."""


class TagCipher:
    """Makes tags with a secret scalar. A secret that travels to this party's own workers only; see `TagKey`."""

    def __init__(self, scalar: bytes):
        self._scalar = scalar

    def tags(self, ids: Iterable[str]) -> List[bytes]:
        """Tags of ids, in their order: the caller permutes them before they are sent."""
        return [bindings.crypto_scalarmult_ed25519_noclamp(self._scalar, point_of(each)) for each in ids]

    def again(self, tags: bytes) -> List[bytes]:
        """What another party sent, each tag encrypted under this key as well, in the order received.

        Raises:
            InvalidTag: a length that is no multiple of 32 bytes, or a tag that is no point of the subgroup.
        """
        return [bindings.crypto_scalarmult_ed25519_noclamp(self._scalar, tag) for tag in split_tags(tags)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(secret)"


class TagKey(TagCipher):
    """A secret scalar for one job. It is drawn here, never leaves the process, and has no byte form."""

    def __init__(self):
        super().__init__((1 + secrets.randbelow(_ORDER - 1)).to_bytes(32, "little"))

    def for_workers(self) -> TagCipher:
        """The same tags, in a form that can be pickled: for this party's own workers alone."""
        return TagCipher(self._scalar)

    def __reduce__(self):
        raise TypeError("A tag key is never pickled: it stays in the process that made it.")


def point_of(match_id: str) -> bytes:
    """The point of an id, 32 bytes."""
    halves = [
        bindings.crypto_core_ed25519_from_uniform(hashlib.sha512(_DOMAIN + half + match_id.encode()).digest()[:32])
        for half in (b"1:", b"2:")
    ]
    return bindings.crypto_core_ed25519_add(*halves)


def split_tags(data: bytes) -> List[bytes]:
    """Tags that another party sent one after the other, checked.

    Raises:
        InvalidTag: see `TagKey.again`.
    """
    if len(data) % POINT_BYTES:
        raise InvalidTag(f"The other party's tags have {len(data)} bytes; allowed is a multiple of {POINT_BYTES}.")
    tags = [data[at : at + POINT_BYTES] for at in range(0, len(data), POINT_BYTES)]
    if not all(map(bindings.crypto_core_ed25519_is_valid_point, tags)):
        raise InvalidTag("The other party sent a tag that is no point of the prime-order group; it was not made by TagKey.")
    return tags
