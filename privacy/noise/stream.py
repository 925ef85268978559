"""Streams of random words: where all noise of this package comes from.

A stream is passed as an argument; there is no module-level generator, and neither numpy's nor torch's is ever read.
``open_stream(None)`` opens the operating system's entropy. A mechanism asks its stream ``private``: noise from a stream
that another person could repeat protects nothing, so such a run is recorded as not private.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
from abc import ABC, abstractmethod
from fractions import Fraction
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..validation import InvalidArgument, is_whole, whole, within

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

Rng: TypeAlias = "Stream | None"
"""Whence a function draws: a stream, or None for the operating system's entropy."""
Size: TypeAlias = int | tuple[int, ...] | list[int]
Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

KEY_BYTES = 32
WORD_BITS = 64
# One key yields at most 2^38 bytes before ChaCha20's 32-bit block counter would wrap around.
BYTES_PER_KEY = 2**30


class Stream(ABC):
    """A source of independent, uniformly distributed 64-bit words."""

    #: Whether nobody else can repeat the words. A kind of stream that does not say so is not private.
    private = False

    @abstractmethod
    def words(self, count: int) -> NDArray[np.uint64]:
        """The next ``count`` words as a new uint64 array."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.private else 'not private'})"

    def integer(self, bits: int) -> int:
        """A uniform Python integer from 0 to 2^bits - 1."""
        count = -(-bits // WORD_BITS)
        return int.from_bytes(self.words(count).tobytes(), "little") >> (count * WORD_BITS - bits)


class SystemStream(Stream):
    """Words that nobody can predict or repeat: ChaCha20 keystream under keys from the operating system.

    Every call takes a fresh 256-bit key from ``os.urandom``, and a long call a further one for every 2^30 bytes; none
    is kept. So the object holds no state that a forked or spawned process, another thread or a pickled copy could
    repeat, as long as the operating system does not repeat itself (a virtual machine that is restored twice from one
    snapshot may). The words are independent and uniform if ChaCha20 (D. J. Bernstein 2008, RFC 8439) is pseudo-random.
    """

    private = True

    def words(self, count: int) -> NDArray[np.uint64]:
        result = np.zeros(count, dtype=np.uint64)
        content = result.view(np.uint8).data
        for start in range(0, len(content), BYTES_PER_KEY):
            part = content[start : start + BYTES_PER_KEY]
            # Zeros become the keystream, in place.
            _keystream(os.urandom(KEY_BYTES)).update_into(part, part)
        return result


class KeystreamStream(Stream):
    """Words of ChaCha20 keystreams, one after the other: asking for 3 and then 2 words gives the same as asking for 5.

    Threads that share a stream never get the same words. A pickled copy would, so streams refuse to be pickled.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._parts_used = 0
        self._left = 0
        self._cipher: CipherContext | None = None

    def words(self, count: int) -> NDArray[np.uint64]:
        result = np.zeros(count, dtype=np.uint64)
        content = result.view(np.uint8).data
        with self._lock:
            while content:
                if self._cipher is None or not self._left:
                    self._cipher, self._left = self._keystream_of(self._parts_used), BYTES_PER_KEY
                    self._parts_used += 1
                part = content[: self._left]
                self._cipher.update_into(part, part)
                self._left -= len(part)
                content = content[len(part) :]
        return result

    @abstractmethod
    def _keystream_of(self, part: int) -> CipherContext:
        """The keystream of a part of ``BYTES_PER_KEY`` bytes."""


class ReproducibleStream(KeystreamStream):
    """Words that the same seed gives again, for tests and simulations; never private.

    The words are ChaCha20 keystreams under hashes of the seed, which is a whole number or bytes.
    """

    def __init__(self, seed: int | bytes) -> None:
        if isinstance(seed, bool) or not isinstance(seed, (int, bytes)):
            raise InvalidArgument.of("type of seed", type(seed).__name__, "a whole number or bytes")
        super().__init__()
        content = seed if isinstance(seed, bytes) else str(seed).encode("ascii")
        self._seed = hashlib.sha256(type(seed).__name__.encode("ascii") + b":" + content).digest()

    def _keystream_of(self, part: int) -> CipherContext:
        return _keystream(hashlib.sha256(self._seed + part.to_bytes(8, "little")).digest())


class KeyedStream(KeystreamStream):
    """Words that the same secret key and label give again: for work that a cluster may do twice.

    A lost Spark partition is computed anew; with fresh noise, or another sample, it would be a second release. With
    this stream it is the same one. The words are the ChaCha20 keystream under HMAC-SHA256(key, label), so they are
    private as long as (a) the ``key``, 32 bytes, comes from ``os.urandom``, stays with its party and is used for one
    job, and (b) each ``label``, a public text, is used for one thing, for instance 'round 3 partition 7 noise'. Two
    streams of one key and label give the same words, whose difference shows what the noise hides: (b) is not checked
    here.
    """

    private = True

    def __init__(self, key: bytes, label: str) -> None:
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise InvalidArgument(f"key must be {KEY_BYTES} bytes from the operating system's entropy.")
        if not isinstance(label, str) or not label:
            raise InvalidArgument.of("label", label, "a text that says what the words are for")
        super().__init__()
        self._key = hmac.digest(key, label.encode("utf-8"), "sha256")

    def _keystream_of(self, part: int) -> CipherContext:
        return _keystream(self._key, part)


def open_stream(rng: Rng = None) -> Stream:
    """The stream that an argument ``rng`` stands for: None for the operating system's entropy, a `Stream` for itself.
    InvalidArgument for anything else, among them seeds and numpy's generators."""
    if rng is None:
        return SystemStream()
    if isinstance(rng, Stream):
        return rng
    allowed = "None (the operating system's entropy), or a stream such as SystemStream() or ReproducibleStream(seed) for tests"
    cure = "Use one of these, since other generators are not cryptographic."
    raise InvalidArgument.of("type of rng", type(rng).__name__, allowed, cure)


def _keystream(key: bytes, part: int = 0) -> CipherContext:
    """ChaCha20 under ``key`` from block 0 on; ``part`` is the nonce, 0 where every keystream has a key of its own."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    return Cipher(algorithms.ChaCha20(key, bytes(4) + part.to_bytes(12, "little")), mode=None).encryptor()


# Uniform integers and coins: nothing here rounds, given ideal words. No protection against timing is claimed.

MAX_VECTOR_BOUND = 2**63


def check_size(size: Size) -> tuple[int, ...]:
    """Return ``size`` as a tuple of ints if it is one or several whole numbers of at least 0."""
    shape = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    if not all(is_whole(length) and length >= 0 for length in shape):
        raise InvalidArgument.of("size", size, "a whole number of at least 0, or a tuple of such numbers")
    return tuple(map(int, shape))


def uniform_below(bound: int, size: Size, rng: Rng = None) -> Integers:
    """Independent uniform integers from 0 to ``bound`` - 1, at most 2^63, as an int64 array.

    A word is kept if it lies below the largest multiple of ``bound`` that 64 bits hold, and reduced modulo ``bound``.
    """
    bound = whole("bound", bound, 1, MAX_VECTOR_BOUND, "a whole number from 1 to 2^63")
    shape, stream = check_size(size), open_stream(rng)
    count = math.prod(shape)
    kept = np.empty(0, dtype=np.uint64)
    last = np.uint64(2**WORD_BITS - 2**WORD_BITS % bound - 1)
    while len(kept) < count:
        words = stream.words(count - len(kept))
        kept = np.concatenate([kept, words[words <= last]])
    return (kept % np.uint64(bound)).astype(np.int64).reshape(shape)


def uniform_integer_below(bound: int, rng: Rng = None) -> int:
    """One uniform Python integer from 0 to ``bound`` - 1, for a bound of any length."""
    bound, stream = whole("bound", bound, 1), open_stream(rng)
    while True:
        value = stream.integer((bound - 1).bit_length())
        if value < bound:
            return value


def bernoulli(probability: float, size: Size, rng: Rng = None) -> NDArray[np.bool_]:
    """Independent coins as a bool array, each True with exactly the ``probability`` from 0 to 1.

    The word of a coin is compared with the first 64 binary digits of the probability; only a tie needs more.
    """
    shape, stream = check_size(size), open_stream(rng)
    scaled = Fraction(check_probability(probability)) * 2**WORD_BITS
    threshold, rest = divmod(scaled, 1)
    words = stream.words(math.prod(shape))
    if threshold == 2**WORD_BITS:
        return np.ones(shape, dtype=bool)
    coins = words < np.uint64(threshold)
    for position in np.flatnonzero(words == np.uint64(threshold)):
        coins[position] = bernoulli_of_fraction(rest, stream)
    return coins.reshape(shape)


def bernoulli_of_fraction(probability: Fraction, rng: Rng = None) -> bool:
    """One coin that is True with exactly the probability of a ``Fraction`` from 0 to 1."""
    return uniform_integer_below(probability.denominator, rng) < probability.numerator


def check_probability(probability: object) -> float:
    """Return ``probability`` as a float if it is a number from 0 to 1."""
    return within("probability", probability, 0, 1)
