"""What one party sends another in one task, sealed under keys that the two agree on when the task begins.

Every two parties of a task share a secret (`pairwise_masks.AgreementKey`) and take from it one `SealKey` for each direction. A
part of a message is sealed by ChaCha20-Poly1305 (RFC 8439) under its number in the direction, and opens in no other place.
Rows of a table, which engines spread by their keys and bring in any order, are sealed by AES-SIV (RFC 5297), which is
deterministic: equal keys stay equal. Opening raises cryptography's InvalidTag.
"""

from typing import NoReturn

from cryptography.hazmat.primitives.ciphers.aead import AESSIV, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

OVERHEAD_BYTES = 16
"""How much longer a sealed part is than its content."""
_CIPHER_BYTES, _ROWS_BYTES, _NUMBER_BYTES = 32, 64, 12
_PURPOSE, _KEY_OF_ROW = b"fate-dp messages from one party to another", b"key of a row"


class SealKey:
    """The key of one ``direction``, which names whatever both parties must agree on; no number may be used twice to `seal`."""

    __slots__ = ("_cipher", "_tables")

    def __init__(self, secret: bytes, direction: bytes) -> None:
        made = HKDFExpand(SHA256(), _CIPHER_BYTES + _ROWS_BYTES, _PURPOSE + direction).derive(secret)
        self._cipher, self._tables = ChaCha20Poly1305(made[:_CIPHER_BYTES]), made[_CIPHER_BYTES:]

    def seal(self, number: int, mark: bytes, content: bytes) -> bytes:
        """The sealed content; ``mark`` travels beside it and is bound to it."""
        return self._cipher.encrypt(_bytes(number), content, mark)

    def open(self, number: int, mark: bytes, sealed: bytes) -> bytes:
        return self._cipher.decrypt(_bytes(number), sealed, mark)

    def of_table(self, number: int) -> "RowSeal":
        """The key of the rows of one table, whose message has this number."""
        return RowSeal(HKDFExpand(SHA256(), _ROWS_BYTES, _bytes(number)).derive(self._tables))

    def __reduce__(self) -> NoReturn:
        raise TypeError("A key of messages is never pickled or copied: its numbers must be used once.")


class RowSeal:
    """Seals the rows of one table, of which neither key nor value is empty; a party's own workers get it."""

    __slots__ = ("_cipher", "_key")

    def __init__(self, key: bytes) -> None:
        self._key, self._cipher = key, AESSIV(key)

    def seal(self, key: bytes, value: bytes) -> tuple[bytes, bytes]:
        sealed = self._cipher.encrypt(key, [_KEY_OF_ROW])
        return sealed, self._cipher.encrypt(value, [sealed])

    def open(self, key: bytes, value: bytes) -> tuple[bytes, bytes]:
        return self._cipher.decrypt(key, [_KEY_OF_ROW]), self._cipher.decrypt(value, [key])

    def __reduce__(self) -> "tuple[type[RowSeal], tuple[bytes]]":
        return RowSeal, (self._key,)


def _bytes(number: int) -> bytes:
    return number.to_bytes(_NUMBER_BYTES, "big")
