"""Masks that cancel in the sum of all present parties, from keys that every two parties share: a secure sum.

X25519 is RFC 7748, the derivation HKDF-SHA256 of RFC 5869; both come from the package cryptography. Public keys are not
authenticated here: whoever carries them must not replace them (semi-honest), or they must be compared on another way.

Every two parties agree on a key (`AgreementKey`), from which each round takes a ChaCha20 keystream of d words. In
each pair the party whose name sorts first adds the words to its vector and the other one subtracts them, modulo 2^64.
So what all present parties send adds up to the sum of their vectors modulo 2^64, while the vectors of honest parties,
as long as one of them is missing, are uniform and independent for everybody else, if X25519 and ChaCha20 hold
(K. Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", CCS 2017, section 4, the
masks only: there are no secret shares, so a party that is lost after masked vectors left makes the sum unreadable).

What each side learns (semi-honest parties): the server, which relays the public keys, learns the sum of all present
parties' vectors and nothing else. Parties that collude with it learn the sum of the others' vectors. **With two parties
a sum and one's own vector tell the other's**: a secure sum of n = 2 hides nothing between them beyond the noise in it.
Masks protect no released sum: noise does, which is the caller's affair.
"""

from collections.abc import Collection, Mapping
from hashlib import sha256
from numbers import Integral
from typing import NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from .powers import IntArray

KEY_BYTES = 32
_PURPOSE = b"fate-dp key of a pair"
WordArray = npt.NDArray[np.uint64]


class AgreementKey:
    """One party's key pair for one session; made from the operating system's entropy, never pickled or copied."""

    __slots__ = ("_private", "public_bytes")

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public_bytes: bytes = self._private.public_key().public_bytes_raw()

    def shared_with(self, public_key: bytes, session: str, whose: str = "the other party") -> bytes:
        """32 bytes that the owner of ``public_key``, neither malformed nor one's own, derives, too; others each session."""
        if public_key == self.public_bytes:
            raise ValueError(f"The public key of {whose} is one's own. Every party makes its own key.")
        secret = _exchange(self._private, public_key, whose)
        name = session.encode("utf-8")
        both = b"".join(sorted((self.public_bytes, bytes(public_key))))
        info = b"".join((_PURPOSE, len(name).to_bytes(8, "little"), name, both))
        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(secret)

    def __repr__(self) -> str:
        return f"AgreementKey(public {self.public_bytes.hex()})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret key is never pickled or copied: it stays in the process that made it.")


def check_public_key(public_key: bytes, whose: str) -> bytes:
    """The 32 bytes of an X25519 public key, which nobody can have chosen so that shared secrets are known to all.

    ValueError for another length or another type, or a low order.
    """
    _exchange(X25519PrivateKey.generate(), public_key, whose)
    return bytes(public_key)


def _exchange(private: X25519PrivateKey, public_key: bytes, whose: str) -> bytes:
    if not isinstance(public_key, (bytes, bytearray)) or len(public_key) != KEY_BYTES:
        raise ValueError(f"The public key of {whose} must be {KEY_BYTES} bytes, which it is not.")
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(bytes(public_key)))
    except ValueError as error:
        # The product is zero: RFC 7748, section 6.1.
        raise ValueError(f"The public key of {whose} has a low order, which no honest one has.") from error


# Masked vectors

MAX_WORDS = 2**27
"""2^30 bytes of keystream of one key, far from where the 32-bit counter of RFC 8439's blocks would wrap around."""
_MASK_PURPOSE = b"fate-dp mask of a round"


class PairwiseMasks:
    """One party's masks of one session; secret, and never pickled or copied, since a copy could use masks twice.

    A keystream depends on the session, the pair, the round and the set of present parties, and is used once: a party masks
    one vector for one set in a round. The sums over two *sets* would differ by what one party gave.

    All parties pass the same session, the name of the job; ``public_keys`` are those of all, this one among them, by name.
    Raises ValueError where a key is malformed, of low order, used by two parties, or this party's is not its own.
    """

    def __init__(self, name: str, key: AgreementKey, public_keys: Mapping[str, bytes], session: str) -> None:
        if public_keys.get(name) != key.public_bytes:
            raise ValueError(f"The public keys list another key for {name} than its own; they were changed.")
        if len(set(public_keys.values())) != len(public_keys):
            raise ValueError("Two parties sent one public key. Every party makes its own.")
        self.name = name
        self._pair_keys = {
            other: key.shared_with(public_key, session, other)
            for other, public_key in public_keys.items()
            if other != name
        }
        self._given: dict[int, bytes] = {}

    def masked(self, steps: IntArray, round_number: int, present: Collection[str]) -> WordArray:
        """Private ``steps``, int64 (d,), plus this party's masks modulo 2^64: uint64 (d,), fit to be sent to the server.

        The server will add the vectors of all ``present`` parties, this one among them, at least two; rounds count from 0.
        Raises ValueError where an argument is wrong, or other steps, or steps for another set, were masked in this round.
        """
        steps = _checked_steps(steps)
        others = sorted(self._checked_present(present) - {self.name})
        occasion = _occasion(round_number, {self.name, *others})
        digest = sha256(occasion + steps.astype("<i8", copy=False).tobytes()).digest()
        if self._given.setdefault(int(round_number), digest) != digest:
            raise ValueError("Another vector, or one for another set, was masked in this round; masks hide one only.")
        result, zeros, words = steps.view(np.uint64).copy(), bytes(steps.nbytes), np.empty(len(steps), dtype="<u8")
        for other in others:
            _keystream(self._pair_keys[other], occasion, zeros, words)
            (np.add if self.name < other else np.subtract)(result, words, out=result)
        return result

    def _checked_present(self, present: Collection[str]) -> set[str]:
        names = set(present)
        unknown = sorted(names - {self.name, *self._pair_keys})
        if unknown:
            raise ValueError(f"{unknown[0]} is named as present, but it sent no public key in this session.")
        if len(names) != len(present):
            raise ValueError("A party is named as present twice; each may be named once.")
        if self.name not in names or len(names) < 2:
            raise ValueError(f"{self.name} and at least one other party must be present to hide it.")
        return names

    def __repr__(self) -> str:
        return f"PairwiseMasks({self.name} and {len(self._pair_keys)} others)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Masks are never pickled or copied: a copy could use them for a second vector.")


def _checked_steps(steps: IntArray) -> IntArray:
    steps = np.asarray(steps)
    if steps.dtype != np.int64 or steps.ndim != 1 or not 0 < len(steps) <= MAX_WORDS:
        raise ValueError(
            f"steps must be an int64 vector, 1 to {MAX_WORDS} long, got {steps.dtype} of shape {steps.shape}."
        )
    return np.ascontiguousarray(steps)


def check_round(number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, Integral) or not 0 <= number < 1 << 63:
        raise ValueError(f"round_number must be a whole number from 0 to 2^63 - 1, got {number!r}.")


def _occasion(round_number: int, names: set[str]) -> bytes:
    """What a keystream is for."""
    check_round(round_number)
    encoded = (name.encode("utf-8") for name in sorted(names))
    names_digest = sha256(b"".join(len(name).to_bytes(8, "little") + name for name in encoded)).digest()
    return names_digest + int(round_number).to_bytes(8, "little")


def _keystream(pair_key: bytes, occasion: bytes, zeros: bytes, words: WordArray) -> None:
    """Fill ``words`` with the keystream (RFC 8439, nonce 0: every key is used for one stream)."""
    key = HKDFExpand(algorithm=SHA256(), length=KEY_BYTES, info=_MASK_PURPOSE + occasion).derive(pair_key)
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    cipher.update_into(zeros, words.view(np.uint8).data)
