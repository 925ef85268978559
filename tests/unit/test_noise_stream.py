"""Where noise comes from: nothing repeats, nothing is kept, no other generator is read, and tests can repeat."""

import hashlib
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from fate_dp.privacy.noise import stream as stream_module
from fate_dp.privacy.noise.discrete import discrete_gaussian
from fate_dp.privacy.noise.stream import KeyedStream, ReproducibleStream, Stream, SystemStream, open_stream
from fate_dp.privacy.validation import InvalidArgument

# First 16 bytes of the keystream of key 0, nonce 0, block 0: RFC 8439, appendix A.1, test vector 1.
RFC_8439 = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28")


def test_the_keystream_is_chacha20(monkeypatch):
    monkeypatch.setattr(os, "urandom", bytes)
    assert SystemStream().words(2).tobytes() == RFC_8439


def test_every_call_takes_a_key_of_its_own(monkeypatch):
    lengths = []
    monkeypatch.setattr(os, "urandom", lambda length: lengths.append(length) or bytes([len(lengths)] * length))
    first, second = SystemStream(), SystemStream()
    drawn = [first.words(3).tobytes(), first.words(3).tobytes(), second.words(3).tobytes()]
    assert lengths == [32, 32, 32] and len(set(drawn)) == 3


def test_a_long_call_changes_the_key_before_the_keystream_ends(monkeypatch):
    assert stream_module.BYTES_PER_KEY <= 2**38
    monkeypatch.setattr(stream_module, "BYTES_PER_KEY", 64)
    keys = []
    monkeypatch.setattr(os, "urandom", lambda length: keys.append(length) or bytes([len(keys)] * length))
    words = SystemStream().words(20)
    assert len(keys) == 3 and len(set(words.tolist())) == 20


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_two_processes_never_repeat(method):
    """A pickled copy of one stream, in two children, and the parent: no word of the one occurs at the other."""
    stream = SystemStream()
    stream.words(5)
    drawn = [stream.words(1000)]
    for _ in range(2):
        with multiprocessing.get_context(method).Pool(1) as pool:
            drawn.append(pool.apply(stream.words, (1000,)))
            # So wide that independent draws have a number in common with a chance below 1e-9.
            noise = pool.apply(discrete_gaussian, (2.0**50, 1000))
        assert not set(noise) & set(discrete_gaussian(2.0**50, 1000))
    assert len(np.unique(np.concatenate(drawn))) == 3000


def test_a_child_forked_in_the_middle_does_not_continue_the_parent():
    stream = SystemStream()
    stream.words(5)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, stream.words(100).tobytes())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        words = np.frombuffer(pipe.read(), dtype=np.uint64)
    os.waitpid(child, 0)
    assert len(words) == 100 and not set(words) & set(stream.words(100))


def test_a_forked_reproducible_stream_does_continue_the_parent():
    """So the tests above can fail: a stream with state repeats after a fork."""
    stream = ReproducibleStream(1)
    with multiprocessing.get_context("fork").Pool(1, _keep, (stream,)) as pool:
        assert pool.apply(_draw_kept, (10,)) == stream.words(10).tolist()


def _keep(stream):
    _keep.stream = stream


def _draw_kept(count):
    return _keep.stream.words(count).tolist()


def test_threads_sharing_a_stream_never_repeat():
    for stream in (SystemStream(), ReproducibleStream(1)):
        drawn = []
        threads = [threading.Thread(target=lambda: drawn.extend(stream.words(500))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(drawn)) == len(drawn) == 4000


def test_no_key_is_kept_shown_or_pickled():
    stream = SystemStream()
    stream.words(3)
    assert vars(stream) == {} and repr(stream) == "SystemStream()" and len(pickle.dumps(stream)) < 100
    seeded = ReproducibleStream(b"seed of a test")
    seeded.words(3)
    assert repr(seeded) == "ReproducibleStream(not private)"
    with pytest.raises(TypeError):
        pickle.dumps(seeded)


def test_a_reproducible_stream_repeats_whatever_the_portions(monkeypatch):
    monkeypatch.setattr(stream_module, "BYTES_PER_KEY", 64)
    whole = ReproducibleStream(7).words(40)
    stream = ReproducibleStream(7)
    parts = np.concatenate([stream.words(count) for count in (0, 3, 8, 1, 20, 8)])
    assert (whole == parts).all() and len(set(whole)) == 40


def test_different_seeds_give_different_words():
    seeds = (0, 1, -1, b"1", b"", b"0", 2**200)
    assert len({ReproducibleStream(seed).words(1)[0] for seed in seeds}) == len(seeds)


def test_a_keyed_stream_repeats_for_the_same_key_and_label_only(monkeypatch):
    monkeypatch.setattr(stream_module, "BYTES_PER_KEY", 64)
    key = bytes(range(32))
    whole = KeyedStream(key, "round 1 noise").words(40)
    stream = KeyedStream(key, "round 1 noise")
    parts = np.concatenate([stream.words(count) for count in (0, 3, 8, 1, 20, 8)])
    assert (whole == parts).all() and len(set(whole)) == 40
    others = [KeyedStream(key, "round 2 noise"), KeyedStream(bytes(32), "round 1 noise"), SystemStream()]
    assert not any(set(whole) & set(other.words(40)) for other in others)


def test_a_keyed_stream_is_chacha20_under_a_hash_of_key_and_label():
    """HMAC-SHA256 and ChaCha20 by other means: hashlib alone, and the keystream of the system stream."""
    key, label = bytes(range(32)), "noise"
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in key.ljust(64, b"\0")) + label.encode()).digest()
    derived = hashlib.sha256(bytes(b ^ 0x5C for b in key.ljust(64, b"\0")) + inner).digest()
    expected = Cipher(algorithms.ChaCha20(derived, bytes(16)), mode=None).encryptor().update(bytes(80))
    assert KeyedStream(key, label).words(10).tobytes() == expected


def test_a_keyed_stream_neither_shows_nor_pickles_its_key():
    stream = KeyedStream(bytes(range(32)), "noise")
    assert repr(stream) == "KeyedStream()" and stream.private
    with pytest.raises(TypeError):
        pickle.dumps(stream)


@pytest.mark.parametrize("key, label", [(bytes(31), "a"), ("k" * 32, "a"), (bytes(32), ""), (bytes(32), None)])
def test_a_keyed_stream_refuses_other_keys_and_labels(key, label):
    with pytest.raises(InvalidArgument, match="key must be 32 bytes|label must be"):
        KeyedStream(key, label)


def test_streams_are_private_only_where_they_say_so():
    class Homemade(Stream):
        def words(self, count):
            return np.zeros(count, dtype=np.uint64)

    assert SystemStream().private and not ReproducibleStream(1).private and not Homemade().private


def test_an_integer_takes_the_bits_asked_for():
    class Ones(Stream):
        def words(self, count):
            return np.full(count, 2**64 - 1, dtype=np.uint64)

    assert [Ones().integer(bits) for bits in (0, 1, 63, 64, 65, 130)] == [2**b - 1 for b in (0, 1, 63, 64, 65, 130)]


def test_none_opens_a_new_system_stream_and_a_stream_stays_itself():
    seeded = ReproducibleStream(1)
    assert open_stream(seeded) is seeded
    assert isinstance(open_stream(None), SystemStream) and open_stream(None) is not open_stream(None)


@pytest.mark.parametrize("other", [0, 42, True, "seed", np.random.default_rng(1), np.random, np.random.RandomState(1)])
def test_other_generators_are_refused(other):
    with pytest.raises(InvalidArgument) as error:
        open_stream(other)
    assert str(error.value) == (
        "type of rng must be None (the operating system's entropy), or a stream such as SystemStream() or "
        f"ReproducibleStream(seed) for tests, got {type(other).__name__!r}. Use one of these, since other generators are not "
        "cryptographic."
    )


@pytest.mark.parametrize("seed", [True, 1.0, "1", None])
def test_other_seeds_are_refused(seed):
    with pytest.raises(InvalidArgument) as error:
        ReproducibleStream(seed)
    assert str(error.value) == f"type of seed must be a whole number or bytes, got {type(seed).__name__!r}."


def test_no_global_generator_is_read_or_moved():
    """In a fresh process: torch is never loaded by drawing noise, and the states of random and np.random stay."""
    program = """
import random, sys
import numpy as np
from fate_dp.privacy.noise.discrete import discrete_gaussian
from fate_dp.privacy.noise.discrete import discrete_laplace
from fate_dp.privacy.noise.stream import bernoulli, uniform_below

def draw():
    random.seed(42); np.random.seed(42)
    before = random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]
    drawn = [discrete_gaussian(2.0**40, 5), discrete_laplace(2.0**40, 5)]
    drawn += [uniform_below(2**60, 5), bernoulli(0.5, 200)]
    assert before == (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2])
    return drawn

assert not any(np.array_equal(first, second) for first, second in zip(draw(), draw()))
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=600)
