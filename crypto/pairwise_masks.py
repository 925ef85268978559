"""Masks modulo 2^64 that cancel in the sum of all present parties: a secure sum of integer vectors.

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

A keystream is used once. It depends on the session, the pair, the round and the set of present parties, and a party
masks one vector for one set in a round, nothing else: the sums over two *sets* would differ by what one party gave.
"""
from hashlib import sha256
from numbers import Integral
from typing import Collection, Dict, List, Mapping

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from .key_agreement import KEY_BYTES, AgreementKey, InvalidPublicKey

# 2^30 bytes of keystream of one key, far from where the 32-bit counter of RFC 8439's blocks would wrap around.
MOST_WORDS = 2**27
LARGEST_NUMBER = 2**63 - 1
_PURPOSE = b"fate-dp mask of a round"


class InvalidMaskedVector(ValueError):
    """What is to be masked or summed, its round, or the set of present parties is not what it must be."""


class MaskReused(ValueError):
    """A second, different vector was to go out under the masks of an earlier one."""


class PairwiseMasks:
    """One party's masks of one session; secret, and never pickled or copied, since a copy could use masks twice.

    Args:
        name: this party.
        key: its key pair, made for this session.
        public_keys: of all parties of the session, this one among them, by name.
        session: name of the job; all parties pass the same.

    Raises:
        InvalidPublicKey: a key is malformed, of low order, used by two parties, or this party's is not its own.
    """

    def __init__(self, name: str, key: AgreementKey, public_keys: Mapping[str, bytes], session: str):
        if public_keys.get(name) != key.public_bytes:
            raise InvalidPublicKey(f"The public keys list another key for {name} than its own; they were changed.")
        if len(set(public_keys.values())) != len(public_keys):
            raise InvalidPublicKey("Two parties sent one public key; every party must make its own.")
        self.name = name
        self._pair_keys = {
            other: key.shared_with(public_key, session, other)
            for other, public_key in public_keys.items()
            if other != name
        }
        self._given: Dict[int, bytes] = {}

    def masked(self, steps: np.ndarray, round_number: int, present: Collection[str]) -> np.ndarray:
        """``steps`` plus this party's masks modulo 2^64, fit to be sent to the server.

        Args:
            steps: int64 (d,); private.
            round_number: from 0.
            present: names of the parties whose vectors the server will add, this one among them; at least two.

        Returns:
            uint64 (d,).

        Raises:
            InvalidMaskedVector: one sentence on what is wrong.
            MaskReused: other steps, or steps for another set, were masked in this round.
        """
        steps = _checked_steps(steps)
        others = sorted(self._checked_present(present) - {self.name})
        occasion = _occasion(round_number, {self.name, *others})
        self._spend(int(round_number), occasion, steps)
        result, zeros, words = steps.view(np.uint64).copy(), bytes(steps.nbytes), np.empty(len(steps), dtype="<u8")
        for other in others:
            _keystream(self._pair_keys[other], occasion, zeros, words)
            (np.add if self.name < other else np.subtract)(result, words, out=result)
        return result

    def _checked_present(self, present: Collection[str]) -> set:
        names = set(present)
        unknown = sorted(names - {self.name, *self._pair_keys})
        if unknown:
            raise InvalidMaskedVector(f"{unknown[0]} is named as present, but it sent no public key in this session.")
        if len(names) != len(present):
            raise InvalidMaskedVector("A party is named as present twice; each may be named once.")
        if self.name not in names or len(names) < 2:
            raise InvalidMaskedVector(f"{self.name} and at least one other party must be present to hide it.")
        return names

    def _spend(self, round_number: int, occasion: bytes, steps: np.ndarray) -> None:
        digest = sha256(occasion + steps.astype("<i8", copy=False).tobytes()).digest()
        if self._given.setdefault(round_number, digest) != digest:
            raise MaskReused("Another vector, or one for another set, was masked in this round; masks hide one only.")

    def __repr__(self) -> str:
        return f"PairwiseMasks({self.name} and {len(self._pair_keys)} others)"

    def __reduce__(self):
        raise TypeError("Masks are never pickled or copied: a copy could use them for a second vector.")


def sum_of_masked(masked: Mapping[str, np.ndarray], present: Collection[str]) -> np.ndarray:
    """The server's part: the sum of the present parties' steps, int64 (d,).

    It is exact if the true sums lie in [-2^63, 2^63), which the caller's clips and noise must see to.

    Args:
        masked: uint64 (d,) of every present party, by name.
        present: the names that all parties were told.

    Raises:
        InvalidMaskedVector: a vector is missing or surplus, or they differ in type or length.
    """
    if set(masked) != set(present):
        odd = sorted(set(masked) ^ set(present))[0]
        raise InvalidMaskedVector(f"The masked vector of {odd} is missing or surplus; only the full sum can be read.")
    vectors: List[np.ndarray] = [np.asarray(vector) for vector in masked.values()]
    shapes = {vector.shape for vector in vectors}
    if len(shapes) != 1 or any(vector.dtype != np.uint64 or vector.ndim != 1 for vector in vectors):
        raise InvalidMaskedVector("Masked vectors must all be uint64 of one length; these are not.")
    return np.sum(vectors, axis=0, dtype=np.uint64).view(np.int64)


def _checked_steps(steps: np.ndarray) -> np.ndarray:
    steps = np.asarray(steps)
    if steps.dtype != np.int64 or steps.ndim != 1 or not 0 < len(steps) <= MOST_WORDS:
        raise InvalidMaskedVector(
            f"steps are {steps.dtype} of shape {steps.shape}; they must be an int64 vector, 1 to {MOST_WORDS} long."
        )
    return np.ascontiguousarray(steps)


def _occasion(round_number: int, names: set) -> bytes:
    """What a keystream is for."""
    is_number = isinstance(round_number, Integral) and not isinstance(round_number, bool)
    if not is_number or not 0 <= round_number <= LARGEST_NUMBER:
        raise InvalidMaskedVector(f"round_number is {round_number!r}; it must be a whole number from 0 to 2^63 - 1.")
    encoded = (name.encode("utf-8") for name in sorted(names))
    names_digest = sha256(b"".join(len(name).to_bytes(8, "little") + name for name in encoded)).digest()
    return names_digest + int(round_number).to_bytes(8, "little")


def _keystream(pair_key: bytes, occasion: bytes, zeros: bytes, words: np.ndarray) -> None:
    """Fill ``words`` with the keystream (RFC 8439, nonce 0: every key is used for one stream)."""
    key = HKDFExpand(algorithm=SHA256(), length=KEY_BYTES, info=_PURPOSE + occasion).derive(pair_key)
    cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    cipher.update_into(zeros, words.view(np.uint8))
