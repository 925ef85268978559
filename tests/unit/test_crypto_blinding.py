"""Blinding factors are n-th residues, fresh each time, and given out once: by a factor, a pool, and after a fork."""
import multiprocessing
import pickle
import threading

import gmpy2
import pytest

from fate_dp.crypto import blinding
from fate_dp.crypto.blinding import BlindingFactor, FixedBaseBlinding, blinding_of, full_blinding
from fate_dp.crypto.blinding_pool import BlindingPool
from fate_dp.crypto.paillier import PublicKey, keypair_of_any_length

PUBLIC, PRIVATE = keypair_of_any_length(256)


def test_blinding_factors_are_nth_residues_and_never_repeat():
    fixed = FixedBaseBlinding(PUBLIC)
    factors = [factor.spend() for factor in [*fixed.factors(200), *fixed.factors(1), full_blinding(PUBLIC)]]
    assert len(set(factors)) == 202
    assert all(PRIVATE.decrypt(factor) == 0 for factor in factors)
    assert all(factor % PUBLIC.n != 1 for factor in factors)


@pytest.mark.parametrize("extra_bits", [0, 1, 75])
def test_blinding_exponents_have_half_the_key_length_and_the_extra_bits(monkeypatch, extra_bits):
    monkeypatch.setattr("fate_dp.crypto.fixed_base.secrets.token_bytes", lambda count: b"\xff" * count)
    factor = FixedBaseBlinding(PUBLIC, extra_bits).factors(1)[0]
    exponent = 2 ** (128 + extra_bits) - 1
    assert factor.spend() == gmpy2.powmod(PUBLIC.blinding_base, exponent, PUBLIC.modulus_squared)


@pytest.mark.parametrize("height", [4, 5, 11])
def test_the_height_of_a_table_changes_no_factor(monkeypatch, height):
    monkeypatch.setattr("fate_dp.crypto.fixed_base.secrets.token_bytes", lambda count: b"\xff" * count)
    expected = gmpy2.powmod(PUBLIC.blinding_base, 2 ** (128 + 40) - 1, PUBLIC.modulus_squared)
    assert blinding_of(PUBLIC, 40, height).factors(1)[0].spend() == expected


def test_a_foreign_key_without_a_base_is_blinded_with_a_full_residue(monkeypatch):
    drawn, plain = [], PublicKey(PUBLIC.n)
    monkeypatch.setattr(blinding, "full_blinding", lambda key: drawn.append(full_blinding(key)) or drawn[-1])
    assert FixedBaseBlinding(plain).factors(3) == drawn
    assert len({factor.spend() for factor in drawn}) == 3


def test_a_factor_is_spent_once_and_shows_nothing():
    factor = full_blinding(PUBLIC)
    assert repr(factor) == "BlindingFactor(fresh)"
    factor.spend()
    assert repr(factor) == "BlindingFactor(spent)"
    with pytest.raises(ValueError, match="spent; every ciphertext needs a fresh one"):
        factor.spend()


def test_tables_are_made_once_for_each_key_and_length():
    assert blinding_of(PUBLIC) is blinding_of(PublicKey(PUBLIC.n, PUBLIC.blinding_base))
    assert blinding_of(PUBLIC, 60).exponent_bits == 188 != blinding_of(PUBLIC).exponent_bits


def test_a_pool_gives_out_each_prepared_factor_once_and_then_fresh_ones():
    pool = BlindingPool(PUBLIC)
    pool.prepare(3)
    prepared = list(pool._prepared)
    taken = [pool.take() for _ in range(5)]
    assert taken[:3] == prepared and len(pool) == 0
    assert len({factor.spend() for factor in taken}) == 5


def test_threads_never_take_the_same_factor():
    pool, taken = BlindingPool(PUBLIC), []
    pool.prepare(200)
    threads = [threading.Thread(target=lambda: taken.extend(pool.take() for _ in range(60))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({factor.spend() for factor in taken}) == 240


def take_one(pool, queue):
    queue.put((len(pool), int(pool.take().spend())))


def test_a_forked_process_gets_none_of_the_prepared_factors():
    pool, context = BlindingPool(PUBLIC), multiprocessing.get_context("fork")
    pool.prepare(2)
    queue = context.Queue()
    for _ in range(2):
        context.Process(target=take_one, args=(pool, queue)).start()
    children = [queue.get(timeout=60) for _ in range(2)]
    assert [prepared for prepared, _ in children] == [0, 0]
    assert len({factor for _, factor in children} | {int(pool.take().spend()) for _ in range(2)}) == 4


def test_a_pool_is_never_pickled():
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(BlindingPool(PUBLIC))
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(BlindingFactor(1, PUBLIC))
