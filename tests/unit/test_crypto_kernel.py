"""What the native kernel refuses, and how a process does without it. That its numbers are right: `tests/kernels`."""

import ctypes
import logging
from types import SimpleNamespace

import numpy as np
import pytest
from gmpy2 import mpz

from fate_dp.crypto import kernel as module
from fate_dp.crypto import powers
from fate_dp.crypto.kernel import Kernel, Ring, checked, fits, kernel, ring_for
from fate_dp.crypto.paillier import keypair_of_any_length

LIBRARY = kernel().library
needs_kernel = pytest.mark.skipif(LIBRARY is None, reason=kernel().sentence)


@needs_kernel
def test_a_modulus_of_more_limbs_than_there_are_or_an_even_one_is_refused():
    modulus = (1 << 52 * LIBRARY.kernel_max_limbs() - 2) - 1
    assert fits(modulus, LIBRARY) and not fits(4 * modulus + 1, LIBRARY) and ring_for(4 * modulus + 1) is None
    assert not fits(2**64, LIBRARY)
    with pytest.raises(ValueError, match="odd moduli"):
        Ring(2**64, LIBRARY)


@needs_kernel
@pytest.mark.parametrize("exponent", [2**70000, 2**65536 - 1, 15, 16, 0], ids=["zeros", "ones", "15", "16", "0"])
def test_a_power_is_that_of_integers_however_long_the_exponent_and_its_runs_of_zeros(exponent):
    ring = Ring(1009, LIBRARY)
    assert ring.leave(ring.powers(ring.enter([mpz(3), mpz(0)]), exponent)) == [pow(3, exponent, 1009), not exponent]


SQUARE, ZEROS = 1009**2, np.zeros((1, 1, 1), dtype=np.uint16)
REFUSED = {
    "a negative number": lambda ring, rows: ring.enter([mpz(-1)]),
    "a number above the modulus": lambda ring, rows: ring.enter([mpz(SQUARE + 1)]),
    "a fewer partner": lambda ring, rows: ring.products(rows, rows[:1]),
    "shorter rows": lambda ring, rows: ring.products(rows[:, :5], rows[:, :5]),
    "numbers of another type": lambda ring, rows: ring.products(rows.astype(float), rows),
    "signed rows": lambda ring, rows: ring.powers(rows.astype(np.int64), 2),
    "a list of rows": lambda ring, rows: ring.leave(rows.tolist()),
    "one row where there are several": lambda ring, rows: ring.powers(rows[0], 2),
    "rows with an axis more": lambda ring, rows: ring.products(rows[None], rows[None]),
    "tables with an axis less": lambda ring, rows: ring.table_products(rows, np.zeros((1, 1, 2), dtype=np.uint16), 1),
    "no tables": lambda ring, rows: ring.table_products(rows[None][:0], ZEROS[..., :0], 1),
    "no steps": lambda ring, rows: ring.table_products(rows[None], ZEROS[:, :0], 1),
    "entries that are not there": lambda ring, rows: ring.table_products(rows[None], ZEROS + 2, 1),
    "a digit of 17 bits": lambda ring, rows: ring.table_products(rows[None], np.array([[[65537]]]), 1),
    "a negative digit": lambda ring, rows: ring.table_products(rows[None], np.array([[[-65536]]]), 1),
    "a broken digit": lambda ring, rows: ring.table_products(rows[None], ZEROS + 0.5, 1),
    "digits for another number of tables": lambda ring, rows: ring.table_products(
        rows[None], np.zeros((1, 1, 2), int), 1
    ),
    "digits without steps": lambda ring, rows: ring.table_products(rows[None], ZEROS[0], 1),
    "too many squarings": lambda ring, rows: ring.table_products(rows[None], ZEROS, 65536),
    "a comb with an axis less": lambda ring, rows: ring.comb_products(rows, ZEROS),
    "a comb of too many tables": lambda ring, rows: ring.comb_products(
        np.stack([rows] * 1025), np.zeros((1, 1, 1025), int)
    ),
    "a comb with a digit of 17 bits": lambda ring, rows: ring.comb_products(rows[None], np.array([[[65536]]])),
    "entries and inverses of other shapes": lambda ring, rows: ring.comb_entries(rows[None], rows[None, :1]),
    "a comb without a square": lambda ring, rows: Ring(1009, LIBRARY).comb_products(rows[None, :, :8], ZEROS),
    "an order beyond the rows": lambda ring, rows: ring.group_products(
        rows, np.array([2]), np.array([0]), np.array([1])
    ),
    "an order of broken numbers": lambda ring, rows: ring.group_products(
        rows, np.array([0.5]), np.array([0]), np.array([1])
    ),
    "a group beyond the order": lambda ring, rows: ring.group_products(
        rows, np.array([1]), np.array([0]), np.array([2])
    ),
    "a group that ends before it starts": lambda ring, rows: ring.group_products(
        rows, np.array([1]), np.array([1]), np.array([0])
    ),
    "more starts than ends": lambda ring, rows: ring.group_products(
        rows, np.array([1]), np.array([0, 0]), np.array([1])
    ),
    "an order with an axis more": lambda ring, rows: ring.group_products(
        rows, np.array([[1]]), np.array([0]), np.array([1])
    ),
    "buckets with an axis less": lambda ring, rows: ring.weighted_products(rows),
    "no buckets": lambda ring, rows: ring.weighted_products(rows[None, :0]),
    "a negative exponent": lambda ring, rows: ring.powers(rows, -1),
}


@needs_kernel
@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_would_read_beyond_an_array_or_give_a_wrong_number_is_refused(call):
    ring = Ring(SQUARE, LIBRARY)
    with pytest.raises(ValueError, match=r"must .*, got "):
        call(ring, ring.enter([mpz(3), mpz(4)]))


@needs_kernel
def test_the_refusal_of_a_digit_does_not_tell_it():
    ring = Ring(SQUARE, LIBRARY)
    with pytest.raises(ValueError) as refused:
        ring.table_products(ring.enter([mpz(3)])[None], np.array([[[4711]]]), 1)
    assert "4711" not in str(refused.value)


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
    monkeypatch.setenv(module.SWITCH, "off")
    assert "switched off by FATE_DP_KERNEL" in module._found().sentence
    monkeypatch.setenv(module.SWITCH, "no")
    with pytest.raises(ValueError, match="FATE_DP_KERNEL must be on .* or off, got 'no'"):
        module._found()
    monkeypatch.setenv(module.SWITCH, "")
    monkeypatch.setattr(module.importlib, "import_module", lambda name: SimpleNamespace(__file__="kernel.so"))
    monkeypatch.setattr(module.ctypes, "CDLL", lambda path: SimpleNamespace(kernel_supported=lambda: 0))
    assert module._found() == Kernel(
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
