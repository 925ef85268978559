"""Decryption by this party's own workers: a secret key may not be pickled, this may travel to them."""
from functools import lru_cache
from typing import Optional, Union

from .ciphertext import Encrypted
from .paillier import PrivateKey, PublicKey, check_primes


class OwnerDecryption:
    """Decrypts as `PrivateKey` does. Holds the primes: a secret that travels to this party's own workers only."""

    def __init__(self, public_key: PublicKey, *primes: int):
        check_primes(public_key, primes)
        self.public_key = public_key
        self._primes = primes

    def decrypt(self, ciphertext: Union[int, Encrypted]) -> int:
        """See `PrivateKey.decrypt`."""
        return int(_private_key(self).decrypt(ciphertext))

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
    return PrivateKey(decryption.public_key, *decryption._primes)
