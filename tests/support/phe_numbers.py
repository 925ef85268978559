"""Keys and encrypted numbers of python-paillier (the package ``phe``), both ways.

A number of phe is a plaintext times ``16^exponent``, and the exponent travels in clear. phe chooses it by the number, so
**phe's exponents leak magnitudes**: 0.1 gets -14 and 1e-9 gets -21, while every whole number gets 0. Numbers here have
one public unit for all, ``2^-fraction_bits``. Let the sender fix phe's exponent as well, by encrypting every number with
the same ``precision`` (``key.encrypt(value, precision=2**-40)``); what it has sent already has told its magnitude.

>>> from fate_dp.crypto.paillier import keypair_of_any_length
>>> from tests.support.paillier import signed
>>> from tests.support.phe_numbers import from_phe, to_phe
>>> public_key, private_key = keypair_of_any_length(256)  # for tests only: real keys have at least 2048 bits
>>> number = to_phe(public_key).encrypt(-2.5)
>>> signed(private_key, from_phe(number, fraction_bits=60)) / 2**60
-2.5
>>> (ciphertext,) = private_key.encryption().encrypt([-5])
>>> to_phe(private_key).decrypt(to_phe(ciphertext, fraction_bits=4))
-0.3125
"""

from __future__ import annotations

import gmpy2
import phe
from gmpy2 import mpz
from phe import EncryptedNumber, PaillierPrivateKey, PaillierPublicKey

from fate_dp.crypto.paillier import Ciphertext, EncryptedSum, PrivateKey, PublicKey

_BITS_OF_BASE = 4
"""phe counts exponents to the base 16."""


def from_phe(
    item: PaillierPublicKey | PaillierPrivateKey | EncryptedNumber, fraction_bits: int = 0
) -> PublicKey | PrivateKey | EncryptedSum:
    """A key or an encrypted number of phe, as this package has it.

    A key of phe has no blinding base: ciphertexts under it are blinded with a full ``r^n``, which takes longer. Nor does
    it bring a proof of its modulus, so take a public key only from a party that you trust to have made it well. Most
    private keys of phe cannot prove theirs (`PrivateKey.to_wire`), since their primes are not 3 modulo 4.

    Args:
        item: a public key, a private key or a number.
        fraction_bits: the plaintext of a number will be in units of ``2^-fraction_bits``: at least -4 times phe's
            exponent, and the same for all numbers, or it tells what phe's exponent told.

    Returns:
        The key; or a sum, which must be blinded before it leaves the party, as nobody knows whether phe has blinded it.
        Its plaintext must be below n / 2 in magnitude in the new unit, which nobody can see under encryption; the bound
        that `PrivateKey.decrypt_signed` takes tells nearly all that are not.

    Raises:
        TypeError: the item is none of these three.
        ValueError: the number does not fit the unit, or is no ciphertext under its key.
    """
    if isinstance(item, phe.PaillierPublicKey):
        return PublicKey(int(item.n))
    if isinstance(item, phe.PaillierPrivateKey):
        return PrivateKey(from_phe(item.public_key), int(item.p), int(item.q))
    if not isinstance(item, phe.EncryptedNumber):
        raise TypeError(f"A {type(item).__name__} is neither a key nor an encrypted number of phe.")
    key, shift = from_phe(item.public_key), _BITS_OF_BASE * item.exponent + fraction_bits
    # Nobody can divide under encryption, and what exceeds the key is an attempt to keep this party busy.
    if not 0 <= shift < key.key_length:
        raise ValueError(
            f"The number has phe's exponent {item.exponent}, which fraction_bits {fraction_bits} does not fit; it must "
            f"be at least {-_BITS_OF_BASE * item.exponent} and leave room in a key of {key.key_length} bits."
        )
    # With be_secure phe would blind here, which what leaves the party must be anew anyway.
    value = mpz(item.ciphertext(be_secure=False))
    if not 0 < value < key.modulus_squared or gmpy2.gcd(value, key.modulus) != 1:
        raise ValueError("The number must be invertible modulo n^2, got one that was not made under its key.")
    return EncryptedSum(value, key).times(1 << shift)


def to_phe(
    item: PublicKey | PrivateKey | Ciphertext, fraction_bits: int = 0
) -> PaillierPublicKey | PaillierPrivateKey | EncryptedNumber:
    """A key or an encrypted number of this package, as phe has it.

    A public key loses its blinding base. The exponent of a number is ``-fraction_bits / 4`` whatever the number is, and
    leaks nothing; what phe makes of it by multiplication has the exponents of phe's factors again.

    Args:
        item: a public key, a private key or a ciphertext. Sums must be blinded first, since phe may send the number.
        fraction_bits: the plaintext of a ciphertext is in units of ``2^-fraction_bits``; a multiple of 4.

    Returns:
        What phe takes. phe decrypts numbers below n / 3 in magnitude and raises OverflowError for larger ones.

    Raises:
        TypeError: the item is none of these three, such as a sum without blinding.
        ValueError: a private key of three primes, which phe does not know, or a unit that phe cannot tell.
    """
    if isinstance(item, PublicKey):
        return phe.PaillierPublicKey(item.n)
    if isinstance(item, PrivateKey):
        if len(item._primes) != 2:
            raise ValueError(f"The private key has {len(item._primes)} primes; phe knows keys of 2 primes only.")
        return phe.PaillierPrivateKey(to_phe(item.public_key), *map(int, item._primes))
    if not isinstance(item, Ciphertext):
        raise TypeError(f"A {type(item).__name__} is neither a key nor a Ciphertext; blind sums with fully_blinded().")
    if fraction_bits % _BITS_OF_BASE:
        raise ValueError(
            f"fraction_bits must be a multiple of 4, since phe counts to the base 16, got {fraction_bits}."
        )
    return phe.EncryptedNumber(to_phe(item.public_key), int(item.value), -fraction_bits // _BITS_OF_BASE)
