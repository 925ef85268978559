"""Decryption by this party's own workers: a secret key may not be pickled, this may travel to them."""
from functools import lru_cache
from typing import Optional, Union

from .ciphertext import Encrypted
from .paillier import PrivateKey, PublicKey


class OwnerDecryption:
    """Decrypts as `PrivateKey` does. Holds the primes: a secret that travels to this party's own workers only."""

    def __init__(self, public_key: PublicKey, p: int, q: int):
        if p * q != public_key.n or p == q:
            raise ValueError("p and q do not belong to this public key; their product must be n.")
        self.public_key = public_key
        self._p, self._q = p, q

    def decrypt_signed(self, ciphertext: Union[int, Encrypted], bits: Optional[int] = None) -> int:
        """See `PrivateKey.decrypt_signed`."""
        return _private_key(self).decrypt_signed(ciphertext, bits)

    def __eq__(self, other) -> bool:
        return isinstance(other, OwnerDecryption) and self.public_key == other.public_key

    def __hash__(self) -> int:
        return hash(self.public_key)

    def __repr__(self) -> str:
        return f"OwnerDecryption({self.public_key.key_length} bits)"


@lru_cache(maxsize=2)
def _private_key(decryption: OwnerDecryption) -> PrivateKey:
    return PrivateKey(decryption.public_key, decryption._p, decryption._q)
