"""Streams of random words: where all noise of this package comes from.

A stream is passed as an argument; there is no module-level generator, and neither numpy's nor torch's is ever read.
``open_stream(None)`` opens the operating system's entropy. A mechanism asks its stream ``private``: noise from a stream
that another person could repeat protects nothing, so such a run is recorded as not private.
"""
import hashlib
import hmac
import os
from abc import ABC, abstractmethod
from threading import Lock

import numpy as np

KEY_BYTES = 32
WORD_BITS = 64
WORD_BYTES = 8
# One key yields at most 2^38 bytes before ChaCha20's 32-bit block counter would wrap around.
BYTES_PER_KEY = 2**30


class InvalidRandomness(ValueError):
    """The source of randomness is neither None nor a stream of this module."""


class Stream(ABC):
    """A source of independent, uniformly distributed 64-bit words."""

    #: Whether nobody else can repeat the words. A kind of stream that does not say so is not private.
    private = False

    @abstractmethod
    def words(self, count):
        """The next ``count`` words as a new uint64 array."""

    def integer(self, bits):
        """A uniform Python integer from 0 to 2^bits - 1."""
        count = -(-bits // WORD_BITS)
        return int.from_bytes(self.words(count).tobytes(), "little") >> (count * WORD_BITS - bits)


class SystemStream(Stream):
    """Words that nobody can predict or repeat: ChaCha20 keystream under keys from the operating system.

    Every call takes a fresh 256-bit key from ``os.urandom``, and a long call a further one for every 2^30 bytes; none
    is kept. So the object holds no state that a forked or spawned process, another thread or a pickled copy could
    repeat, as long as the operating system does not repeat itself (a virtual machine that is restored twice from one
    snapshot may). The words are independent and uniform under the assumption that ChaCha20 (D. J. Bernstein 2008,
    RFC 8439) is a pseudo-random generator.
    """

    private = True

    def words(self, count):
        result = np.zeros(count, dtype=np.uint64)
        content = memoryview(result.view(np.uint8))
        for start in range(0, len(content), BYTES_PER_KEY):
            _fill(_keystream(os.urandom(KEY_BYTES)), content[start : start + BYTES_PER_KEY])
        return result

    def __repr__(self):
        return "SystemStream()"


class KeystreamStream(Stream):
    """Words of ChaCha20 keystreams, one after the other: asking for 3 and then 2 words gives the same as asking for 5.

    Threads that share a stream never get the same words. A pickled copy would, so streams refuse to be pickled.
    """

    def __init__(self):
        self._lock = Lock()
        self._parts_used = 0
        self._left = 0
        self._cipher = None

    def words(self, count):
        result = np.zeros(count, dtype=np.uint64)
        content = memoryview(result.view(np.uint8))
        with self._lock:
            while content:
                if not self._left:
                    self._cipher, self._left = self._keystream_of(self._parts_used), BYTES_PER_KEY
                    self._parts_used += 1
                part = content[: self._left]
                _fill(self._cipher, part)
                self._left -= len(part)
                content = content[len(part) :]
        return result

    @abstractmethod
    def _keystream_of(self, part):
        """The keystream of a part of ``BYTES_PER_KEY`` bytes."""


class ReproducibleStream(KeystreamStream):
    """Words that the same seed gives again, for tests and simulations; never private.

    The words are ChaCha20 keystreams under hashes of the seed. The seed may be a whole number or bytes.
    """

    def __init__(self, seed):
        if isinstance(seed, bool) or not isinstance(seed, (int, bytes)):
            raise InvalidRandomness(f"seed is of type {type(seed).__name__} but must be a whole number or bytes.")
        super().__init__()
        content = seed if isinstance(seed, bytes) else str(seed).encode("ascii")
        self._seed = hashlib.sha256(type(seed).__name__.encode("ascii") + b":" + content).digest()

    def _keystream_of(self, part):
        return _keystream(hashlib.sha256(self._seed + part.to_bytes(8, "little")).digest())

    def __repr__(self):
        return "ReproducibleStream(not private)"


class KeyedStream(KeystreamStream):
    """Words that the same secret key and label give again: for work that a cluster may do twice.

    A lost Spark partition is computed anew; with fresh noise, or another sample, it would be a second release. With
    this stream it is the same one. The words are the ChaCha20 keystream under HMAC-SHA256(key, label), so they are
    private as long as (a) the key comes from ``os.urandom``, stays with its party and is used for one job, and (b) each
    label is used for one thing, for instance 'round 3 partition 7 noise'. Two streams of one key and label give the
    same words, whose difference shows what the noise hides: (b) is the caller's duty and is not checked here.

    :param key: 32 bytes; secret.
    :param label: text; public.
    :raises InvalidRandomness: unless they are.
    """

    private = True

    def __init__(self, key, label):
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise InvalidRandomness(f"key must be {KEY_BYTES} bytes from the operating system's entropy.")
        if not isinstance(label, str) or not label:
            raise InvalidRandomness(f"label is {label!r} but must be a text that says what the words are for.")
        super().__init__()
        self._key = hmac.digest(key, label.encode("utf-8"), "sha256")

    def _keystream_of(self, part):
        return _keystream(self._key, part)

    def __repr__(self):
        return "KeyedStream()"


def open_stream(random=None):
    """The stream that an argument ``random`` stands for.

    :param random: None for the operating system's entropy, or a ``Stream``, which is returned as it is.
    :raises InvalidRandomness: for anything else, among them seeds and numpy's generators.
    """
    if random is None:
        return SystemStream()
    if isinstance(random, Stream):
        return random
    raise InvalidRandomness(
        f"random is of type {type(random).__name__} but must be None (the operating system's entropy) or a stream "
        "such as SystemStream() or, for tests, ReproducibleStream(seed): other generators are not cryptographic."
    )


def _keystream(key, part=0):
    """ChaCha20 under ``key`` from block 0 on; ``part`` is the nonce, 0 where every keystream has a key of its own."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    return Cipher(algorithms.ChaCha20(key, bytes(4) + part.to_bytes(12, "little")), mode=None).encryptor()


def _fill(cipher, zeros):
    """Turn a buffer of zeros into the next bytes of the keystream, in place."""
    cipher.update_into(zeros, zeros)
