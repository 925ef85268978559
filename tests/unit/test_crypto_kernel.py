"""The native kernel against Python's integers, at every width; and how a process does without it."""

import ctypes
import logging
import math
from types import SimpleNamespace

import numpy as np
import pytest
from gmpy2 import mpz
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.crypto import kernel as module
from fate_dp.crypto import powers
from fate_dp.crypto.kernel import Kernel, Ring, checked, fits, kernel, ring_for
from fate_dp.crypto.paillier import keypair_of_any_length

LIBRARY = kernel().library
needs_kernel = pytest.mark.skipif(LIBRARY is None, reason=kernel().sentence)


@st.composite
def rings(draw):
    """A ring with an odd modulus, and numbers in it among which 0, 1 and n - 1 are frequent."""
    bits = draw(st.sampled_from([2, 53, 208, 1024, 1344, 2048, 3072, 4096, 8000]))
    modulus = draw(st.integers(1 << bits - 1, (1 << bits) - 1)) | 1
    if draw(st.booleans()):
        modulus = draw(st.sampled_from([(1 << bits) - 1, (1 << bits - 1) | 1]))
    root = max(modulus, 3)
    modulus = root ** draw(st.sampled_from([1, 2]))
    number = st.one_of(st.sampled_from([0, 1, modulus - 1, root % modulus, root - 1]), st.integers(0, modulus - 1))
    return Ring(modulus, LIBRARY), draw(st.lists(number, min_size=1, max_size=19))


def power_product(values, exponents, modulus):
    product = 1
    for value, exponent in zip(values, exponents):
        product = product * pow(value, exponent, modulus) % modulus
    return product


@needs_kernel
@settings(max_examples=60)
@given(rings(), st.data())
def test_products_and_powers_are_those_of_integers(drawn, data):
    ring, values = drawn
    n, rows = int(ring.modulus), ring.enter([mpz(value) for value in values])
    assert ring.leave(rows) == values
    assert ring.leave(ring.products(rows, rows[::-1])) == [a * b % n for a, b in zip(values, values[::-1])]
    assert ring.leave(ring.products(rows, rows[0])) == [a * values[0] % n for a in values]
    exponent = data.draw(st.integers(0, 1 << 40))
    assert ring.leave(ring.powers(rows, exponent)) == [pow(a, exponent, n) for a in values]


@needs_kernel
@settings(max_examples=60)
@given(rings(), st.randoms(use_true_random=False), st.integers(1, 3), st.integers(1, 4), st.integers(0, 3))
def test_tables_groups_and_buckets_are_those_of_integers(drawn, rng, tables, steps, squarings):
    ring, values = drawn
    n, count, rows = int(ring.modulus), len(values), ring.enter([mpz(value) for value in values])
    digits = np.array([rng.randrange(count) for _ in range(10 * steps * tables)]).reshape(10, steps, tables)
    weights = [2 ** (squarings * (steps - 1 - step)) for step in range(steps) for _ in range(tables)]
    walked = [power_product([values[digit] for digit in row], weights, n) for row in digits.reshape(10, -1).tolist()]
    found = ring.table_products(np.stack([rows] * tables), digits.astype(np.uint16), squarings)
    assert ring.leave(found) == walked

    order = np.array([rng.randrange(count) for _ in range(50)])
    starts = np.array([rng.randrange(50) for _ in range(13)])
    ends = np.array([rng.randint(start, 50) for start in starts.tolist()])
    grouped = [power_product([values[at] for at in order[a:b]], [1] * 50, n) for a, b in zip(starts, ends)]
    assert ring.leave(ring.group_products(rows, order, starts, ends)) == grouped
    weighted = [power_product(each, range(1, count + 1), n) for each in (values, values[::-1])]
    assert ring.leave(ring.weighted_products(np.stack([rows, rows[::-1]]))) == weighted


@needs_kernel
@settings(max_examples=60)
@given(rings(), st.randoms(use_true_random=False), st.integers(1, 20), st.integers(1, 8), st.integers(1, 20))
def test_a_comb_of_split_entries_gives_the_products_of_integers(drawn, rng, tables, steps, count):
    ring, values = drawn
    n = int(ring.modulus)
    if not ring.has_pairs:
        with pytest.raises(ValueError, match="modulo a square"):
            ring.comb_products(ring.enter([mpz(1)])[np.newaxis], np.zeros((1, 1, 1), dtype=np.uint16))
        return
    units = [1, n - 1, *(value for value in values if math.gcd(value, n) == 1)]
    entries, inverses = (
        np.stack([ring.enter([mpz(each) for each in given])] * tables)
        for given in (units, [pow(unit, -1, n) for unit in units])
    )
    digits = np.array([rng.randrange(len(units)) for _ in range(count * steps * tables)])
    weights = [2 ** (steps - 1 - step) for step in range(steps) for _ in range(tables)]
    walked = [power_product([units[at] for at in row], weights, n) for row in digits.reshape(count, -1).tolist()]
    split = ring.comb_entries(entries, inverses)
    found = ring.comb_products(split, digits.reshape(count, steps, tables).astype(np.uint16))
    assert ring.leave(found) == walked


@needs_kernel
@pytest.mark.parametrize("bits", [156, 204, 205, 672, 673, 704, 2044, 2048])
def test_squares_repeated_without_leaving_stay_those_of_integers(bits):
    """Widths at both sides of a limb's end, odd and even numbers of limbs; extremes, and long chains of ones."""
    for root in ((1 << bits) - 1, (1 << bits - 1) | 1):
        n = root**2
        values = [0, 1, n - 1, root, root - 1, root * (root - 1), n - root, (1 << 2 * bits - 3) - 1, 1 << bits - 2]
        ring = Ring(n, LIBRARY)
        rows, squares = ring.enter([mpz(value) for value in values]), values
        for _ in range(30):
            rows, squares = ring.products(ring.powers(rows, 2), ring.one), [value * value % n for value in squares]
            assert ring.leave(rows) == squares


def test_windows_of_an_exponent_add_up_to_it():
    for exponent in [0, 1, 2, 30, 31, 32, 33, 2**64, 2**200 - 1, 0b100000100001, *range(34, 300)]:
        squarings, odd = module._windows(exponent)
        found = int(odd[0])
        for again, digit in zip(squarings[1:].tolist(), odd[1:].tolist()):
            found = (found << again) + digit
        assert found == exponent and max(odd) < 32 and all(digit % 2 or not digit for digit in odd.tolist())


@needs_kernel
def test_the_sum_of_partial_products_does_not_run_over_at_the_greatest_width():
    modulus = (1 << 52 * LIBRARY.kernel_max_limbs() - 2) - 1
    ring = Ring(modulus, LIBRARY)
    rows = ring.enter([mpz(modulus - 1), mpz(modulus - 2)])
    assert ring.leave(ring.products(rows, rows)) == [1, 4]
    assert not fits(4 * modulus + 1, LIBRARY) and ring_for(4 * modulus + 1) is None and not fits(2**64, LIBRARY)
    with pytest.raises(ValueError, match="odd moduli"):
        Ring(2**64, LIBRARY)


@needs_kernel
def test_the_sum_of_partial_products_does_not_run_over_at_the_greatest_width_of_pairs():
    root = (1 << 52 * LIBRARY.kernel_max_limbs() // 2 - 4) - 1
    ring = Ring(root**2, LIBRARY)
    rows = ring.enter([mpz(root**2 - 1), mpz(root**2 - 2)])
    assert ring.leave(ring.products(rows, rows)) == ring.leave(ring.powers(rows, 2)) == [1, 4]
    assert ring.leave(ring.products(rows, rows[::-1])) == [2, 2]
    assert not fits((4 * root + 1) ** 2, LIBRARY)


@needs_kernel
def test_what_would_reach_beyond_an_array_is_refused():
    ring = Ring(1009, LIBRARY)
    rows, one, two = ring.enter([mpz(3), mpz(4)]), np.array([1]), np.array([2])
    refused = [
        lambda: ring.enter([mpz(-1)]),
        lambda: ring.enter([mpz(1010)]),
        lambda: ring.products(rows, rows[:1]),
        lambda: ring.products(rows[:, :5], rows[:, :5]),
        lambda: ring.table_products(np.stack([rows]), np.array([[[2]]], dtype=np.uint16), 1),
        lambda: ring.table_products(np.stack([rows]), np.array([[[0, 0]]], dtype=np.uint16), 1),
        lambda: ring.group_products(rows, two, one - 1, one),
        lambda: ring.group_products(rows, one, one - 1, two),
        lambda: ring.group_products(rows, one, one, one - 1),
        lambda: ring.weighted_products(rows[np.newaxis, :0]),
        lambda: ring.powers(rows, -1),
    ]
    for call in refused:
        with pytest.raises(ValueError):
            call()


class Faulty:
    """A library that computes as the kernel does, but for one limb of what one of its functions gives."""

    def __init__(self, name):
        self._name = f"kernel_{name}"

    def __getattr__(self, name):
        function = getattr(LIBRARY, name)
        if name != self._name:
            return function

        def faulty(out, *arguments):
            function(out, *arguments)
            ctypes.cast(out, ctypes.POINTER(ctypes.c_uint64))[0] ^= 1

        return faulty


@needs_kernel
@pytest.mark.parametrize(
    "name", ["products", "powers", "table_products", "group_products", "weighted_products", "to_limbs", "to_words"]
)
def test_a_kernel_that_differs_from_gmpy2_is_not_used_and_the_log_says_so(name, caplog):
    with caplog.at_level(logging.WARNING, logger=module.__name__):
        assert checked(Faulty(name)).library is None
    (line,) = caplog.messages
    assert line == "The native kernel differs from gmpy2 at 1024 bits; gmpy2 computes instead."


@needs_kernel
def test_a_comb_that_differs_from_gmpy2_is_told_where_pairs_are_checked(caplog):
    assert checked(Faulty("comb_products")).library is None
    assert caplog.messages == ["The native kernel differs from gmpy2 in squares at 672 bits; gmpy2 computes instead."]


def test_without_a_kernel_gmpy2_computes_and_one_line_says_why(monkeypatch, caplog):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    kernel.cache_clear()
    try:
        with monkeypatch.context() as patched, caplog.at_level(logging.INFO, logger=module.__name__):
            patched.setattr(module.importlib, "import_module", missing)
            assert ring_for(1009) is None and ring_for(1013) is None
        (line,) = caplog.messages
        assert line.startswith("The native kernel was not built or cannot be loaded (No module named")
    finally:
        kernel.cache_clear()


def test_the_switch_and_the_processor_decide(monkeypatch):
    assert "switched off by FATE_DP_KERNEL" in module._found("off").sentence
    with pytest.raises(ValueError, match="FATE_DP_KERNEL is 'no'; allowed are on .* and off"):
        module._found("no")
    monkeypatch.setattr(module.importlib, "import_module", lambda name: SimpleNamespace(__file__="kernel.so"))
    monkeypatch.setattr(module.ctypes, "CDLL", lambda path: SimpleNamespace(kernel_supported=lambda: 0))
    assert module._found("") == Kernel(
        None, "This processor has no AVX-512 IFMA for the native kernel; gmpy2 computes instead."
    )


@needs_kernel
def test_ciphertexts_and_products_are_the_same_bit_for_bit_with_and_without_the_kernel(monkeypatch):
    """A key of 2048 bits, the entropy of the blinding fixed: what leaves a party does not tell which one computed."""
    public_key, _ = keypair_of_any_length(2048)
    exponents = np.random.default_rng(3).integers(-(2**30), 2**30, size=(40, 3))
    results = []
    for ring in (ring_for, lambda modulus: None):
        with monkeypatch.context() as patched:
            generator = np.random.default_rng(4)
            patched.setattr(powers, "ring_for", ring)
            patched.setattr(powers.secrets, "token_bytes", generator.bytes)
            # Tables belong to an encryption, so each arithmetic has one of its own.
            table = powers.FixedBasePowers([mpz(public_key.blinding_base)], public_key.modulus, 1024, 6)
            blinding = table.powers(table.random_digits(40))
            results.append(
                (
                    blinding,
                    powers.powers_product(blinding, exponents, public_key.modulus_squared),
                    powers.few_bases_products(blinding[:3], exponents[:9].tolist(), public_key.modulus_squared),
                )
            )
    assert results[0] == results[1]


@needs_kernel
def test_a_product_that_the_modulus_divides_leaves_as_zero():
    """Factors that share primes with the modulus: no honest ciphertext has any, and gmpy2 says 0 of their product."""
    first, second = (1 << 521) - 1, (1 << 607) - 1
    ring = Ring(first * second, LIBRARY)
    rows = ring.enter([mpz(first), mpz(second)])
    assert ring.leave(ring.products(rows, rows[::-1])) == [0, 0]
    assert ring.leave(ring.group_products(rows, np.array([0, 1]), np.array([0]), np.array([2]))) == [0]
