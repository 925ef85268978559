"""Blinding factors are n-th residues, fresh each time, and given out once: by a factor, a pool, and after a fork."""

import pickle
from collections import Counter
from math import prod

import gmpy2
import pytest
from gmpy2 import mpz
from scipy.stats import chisquare

from fate_dp.crypto import paillier
from fate_dp.crypto.modulus_proof import MAX_PRIMES
from fate_dp.crypto.paillier import (
    BlindingFactor,
    DrawnBlinding,
    FixedBaseBlinding,
    PublicKey,
    blinding_of,
    drawn_blinding,
    full_blindings,
    keypair_of_any_length,
)
from fate_dp.crypto.powers import FixedBasePowers

pytestmark = pytest.mark.usefixtures("arithmetic")

PUBLIC, PRIVATE = keypair_of_any_length(256)


def test_blinding_factors_are_nth_residues_and_never_repeat():
    fixed = FixedBaseBlinding(PUBLIC)
    factors = [factor.spend() for factor in [*fixed.factors(200), *fixed.factors(1), full_blindings(PUBLIC, 1)[0]]]
    assert len(set(factors)) == 202
    assert all(PRIVATE.decrypt(factor) == 0 for factor in factors)
    assert all(factor % PUBLIC.n != 1 for factor in factors)


def test_blinding_exponents_have_half_the_key_length(monkeypatch):
    monkeypatch.setattr("fate_dp.crypto.powers.secrets.token_bytes", lambda count: b"\xff" * count)
    factor = FixedBaseBlinding(PUBLIC).factors(1)[0]
    assert factor.spend() == gmpy2.powmod(PUBLIC.blinding_base, 2**128 - 1, PUBLIC.modulus_squared)


@pytest.mark.parametrize("height", [4, 11])
def test_drawn_factors_are_nth_residues_of_48_own_bases_and_never_repeat(monkeypatch, height):
    drawn, full = [], paillier.full_blindings
    monkeypatch.setattr(paillier, "full_blindings", lambda key, count: drawn.extend([key] * count) or full(key, count))
    made = DrawnBlinding(PUBLIC, height)
    factors = [factor.spend() for factor in made.factors(100)]
    assert drawn == [PUBLIC] * 48 and made.exponent_bits >= 256 + 80 + 48
    assert len(set(factors)) == 100 and all(PRIVATE.decrypt(factor) == 0 for factor in factors)


P, Q = 9_223_372_036_854_783_571, 9_223_372_036_854_784_411
"""Both are 1 modulo 210, and so large that no residue that is drawn is a multiple of one."""


def classes(factors):
    """How often each pair of classes modulo the sixth powers of both primes occurs."""
    values = [int(factor.spend()) for factor in factors]
    return Counter((pow(value, (P - 1) // 6, P), pow(value, (Q - 1) // 6, Q)) for value in values)


def test_drawn_factors_reach_every_class_of_residues_whatever_base_the_owner_published():
    """The owner chose primes and a base so that powers of the base, or of any one residue, stay within few classes."""
    n = P * Q
    base = pow(1 + P * pow(P, -1, Q) * -2, n, n**2)
    owner = PublicKey(n, base)
    assert pow(base, 2, n**2) == 1
    found = classes(DrawnBlinding(owner, 4).factors(10_000))
    assert len(found) == 36 and chisquare(list(found.values())).pvalue > 1e-9
    assert len({factor.spend() for factor in FixedBaseBlinding(owner).factors(100)}) == 2
    one_base = FixedBasePowers([full_blindings(owner, 1)[0].spend()], mpz(n), 200, 4)
    assert len(classes(BlindingFactor(power, owner) for power in one_base.powers(one_base.random_digits(1000)))) <= 6


def signs(factors, primes):
    """For each factor the primes modulo which it is no square, as bits."""
    values = [int(factor.spend()) for factor in factors]
    return [sum((gmpy2.legendre(value % p, p) == -1) << at for at, p in enumerate(primes)) for value in values]


def dimension(vectors):
    """Of the space that bit vectors span."""
    basis = []
    for vector in vectors:
        for one in basis:
            vector = min(vector, vector ^ one)
        if vector:
            basis.append(vector)
    return len(basis)


@pytest.mark.parametrize("count", [2, MAX_PRIMES, 60])
def test_drawn_factors_reach_all_squares_and_others_under_as_many_primes_as_a_key_may_have(count):
    """Of 60 primes they do not: then an owner saw which of its ciphertexts came back, so such keys are refused."""
    primes, at, draws = [], mpz(1 << 24), count + 60
    while len(primes) < count:
        at = gmpy2.next_prime(at)
        primes += [int(at)] if at % 4 == 3 else []
    owner = PublicKey(prod(primes))
    found = dimension(signs(DrawnBlinding(owner, 4).factors(draws), primes))
    assert found == count if count <= MAX_PRIMES else found <= 48
    assert dimension(signs([full_blindings(owner, 1)[0] for _ in range(draws)], primes)) == count


def test_a_foreign_key_without_a_base_is_blinded_with_a_full_residue(monkeypatch):
    drawn, plain, full = [], PublicKey(PUBLIC.n), paillier.full_blindings
    monkeypatch.setattr(paillier, "full_blindings", lambda key, count: drawn.extend(full(key, count)) or drawn)
    assert FixedBaseBlinding(plain).factors(3) == drawn
    assert len({factor.spend() for factor in drawn}) == 3


def test_a_factor_is_spent_once_and_shows_nothing():
    factor = full_blindings(PUBLIC, 1)[0]
    assert repr(factor) == "BlindingFactor(fresh)"
    factor.spend()
    assert repr(factor) == "BlindingFactor(spent)"
    with pytest.raises(ValueError, match="spent; every ciphertext needs a fresh one"):
        factor.spend()


def test_tables_are_made_once_for_each_key():
    assert blinding_of(PUBLIC) is blinding_of(PublicKey(PUBLIC.n, PUBLIC.blinding_base))
    assert drawn_blinding(PUBLIC, 10) is drawn_blinding(PublicKey(PUBLIC.n, PUBLIC.blinding_base), 10)


def test_a_factor_is_never_pickled():
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(BlindingFactor(1, PUBLIC))
