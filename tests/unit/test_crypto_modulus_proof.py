"""Moduli from the wire: sound ones pass, and those under which masks or blinding would not hide are refused."""

import secrets
from functools import lru_cache
from math import prod

import gmpy2
import pytest

from fate_dp.crypto import modulus_proof
from fate_dp.crypto.modulus_proof import MAX_PRIMES, ROOTS, SQUARE_ROOTS, check_modulus, prove
from fate_dp.crypto.paillier import PublicKey, generate_keypair, keypair_of_any_length

WIDTH = 256
"""Bytes of a number of 2048 bits."""
FACTORS = 2
LENGTH = (ROOTS + SQUARE_ROOTS) * WIDTH + FACTORS


@lru_cache(maxsize=1)
def sound():
    return generate_keypair(2048)[1].to_wire()


def prime(bits):
    return int(gmpy2.next_prime(secrets.randbits(bits) | 3 << bits - 2))


def refused(n, sentence, proof=None, base=None):
    proof = bytes(LENGTH) if proof is None else proof
    with pytest.raises(ValueError, match=sentence):
        PublicKey.from_wire({"n": int(n), "blinding_base": base, "proof": proof})


@pytest.mark.parametrize("primes", [2, 3])
def test_honest_keys_pass_with_a_proof_of_7_kilobytes(primes):
    for length in (512, 2048):
        wire = keypair_of_any_length(length, primes)[1].to_wire()
        check_modulus(wire["n"], wire["proof"])
    assert PublicKey.from_wire(wire).n == wire["n"] and len(wire["proof"]) == LENGTH == 6658


def test_the_square_of_a_prime_is_refused():
    """Under n = P^2 no mask and no r^n touches (1 + P)^e: its owner read 33 rows of a column from one answer."""
    refused(prime(1024) ** 2, "product of different primes, got a power")
    refused(prime(683) ** 3, "product of different primes, got a power")


def test_a_small_factor_is_refused():
    refused(3 * prime(2047), "got a factor below 2\\^16")
    refused(65_521 * prime(2033), "got a factor below 2\\^16")


def test_even_and_prime_numbers_are_refused():
    refused(2 * prime(2047), "got an even number or a prime")
    refused(prime(2048), "got an even number or a prime")


def with_common_factor():
    """n = p q r with p a divisor of q - 1; their product with a square would be refused alike."""
    p = prime(512)
    q = next(candidate for k in range(1 << 511, 1 << 512) if gmpy2.is_prime(candidate := 2 * k * p + 1))
    return p, int(q), prime(2049 - (p * q).bit_length())


def test_no_proof_is_found_for_a_modulus_that_has_a_factor_in_common_with_its_phi():
    primes = with_common_factor()
    n = prod(primes)
    phi = prod(factor - 1 for factor in primes)
    assert n.bit_length() >= 2048 and gmpy2.gcd(n, phi) == primes[0]
    with pytest.raises(ZeroDivisionError):
        prove(n, primes)
    # The best that its owner can do is to show roots where there are some.
    exponent = int(gmpy2.invert(n // primes[0], phi // primes[0]))
    width = (n.bit_length() + 7) // 8
    roots = b"".join(int(gmpy2.powmod(at + 2, exponent, n)).to_bytes(width, "big") for at in range(ROOTS))
    refused(n, "without a sound proof that n and phi", roots + bytes(SQUARE_ROOTS * width + FACTORS))


def test_the_proof_of_another_modulus_or_an_altered_one_does_not_hold():
    wire, other = sound(), generate_keypair(2048)[1].to_wire()
    flipped = bytes([wire["proof"][0] ^ 1]) + wire["proof"][1:]
    swapped = wire["proof"][WIDTH:] + wire["proof"][:WIDTH]
    for wrong in (other["proof"], flipped, swapped, wire["proof"][:-WIDTH], b"", None, 5, wire["proof"].hex()):
        with pytest.raises(ValueError, match="without a (sound )?proof"):
            check_modulus(wire["n"], wrong)


def test_each_of_the_roots_counts():
    """A root is raised by a multiple of n's order nowhere: one wrong among all is seen."""
    wire = sound()
    for at in range(ROOTS + SQUARE_ROOTS):
        root = int.from_bytes(wire["proof"][at * WIDTH : (at + 1) * WIDTH], "big")
        wrong = ((root + 1) % wire["n"]).to_bytes(WIDTH, "big")
        with pytest.raises(ValueError, match="no common factor" if at < ROOTS else "at most 10 prime factors"):
            check_modulus(wire["n"], wire["proof"][: at * WIDTH] + wrong + wire["proof"][(at + 1) * WIDTH :])


def test_square_roots_of_nothing_are_no_proof():
    """With a factor of 0 every challenge would have the root 0."""
    wire = sound()
    for factors in (b"\0\0", b"\0\3", b"\1\0"):
        with pytest.raises(ValueError, match="at most 10 prime factors"):
            check_modulus(wire["n"], wire["proof"][: ROOTS * WIDTH] + bytes(SQUARE_ROOTS * WIDTH) + factors)


def primes_from(start, count):
    """The next primes that are 3 modulo 4; none divides another one less 1, since the last is below twice the first."""
    found, at = [], start
    while len(found) < count:
        at = int(gmpy2.next_prime(at))
        found += [at] if at % 4 == 3 else []
    return found


def test_a_modulus_of_many_primes_has_no_proof():
    """Blinding by 48 bases cannot reach all residues under n of a hundred primes: its owner saw which record came back."""
    primes = primes_from(1 << 20, 103)
    n, width = prod(primes), (prod(primes).bit_length() + 7) // 8
    assert n.bit_length() > 2048 and gmpy2.gcd(n, prod(p - 1 for p in primes)) == 1
    with pytest.raises(ValueError, match="must have two or three primes"):
        prove(n, primes)
    # All that was asked for once, and square roots of what is a square.
    exponent = gmpy2.invert(n, prod(p - 1 for p in primes))
    roots = [
        gmpy2.powmod(challenge, exponent, n) for challenge in modulus_proof._challenges(n, modulus_proof._DOMAIN, ROOTS)
    ]
    assert modulus_proof._are_roots(roots, n)
    proof = b"".join(int(root).to_bytes(width, "big") for root in [*roots, *range(2, 2 + SQUARE_ROOTS)])
    refused(n, "at most 10 prime factors", proof + bytes([2, 3]))


def test_a_challenge_has_a_square_multiple_for_three_primes_always_and_for_more_rarely():
    """Of eight multiples one is a square with a chance of 2^(3 - k) for k primes, so eighteen bound k by ten at 2^-128.

    The prover chooses the multiples by two factors of a byte each.
    """
    for count, least, most in ((2, 200, 200), (3, 200, 200), (6, 10, 40), (11, 0, 3)):
        primes = primes_from(1 << 64, count)
        factors = modulus_proof._factors_of(primes) if count <= 3 else bytes([2, 3])
        n = prod(primes)
        challenges = modulus_proof._challenges(n, b"test" + factors, 200)
        squares = sum(
            any(
                all(gmpy2.legendre(number, prime) == 1 for prime in primes)
                for number in modulus_proof._multiples(challenge, factors, n)
            )
            for challenge in challenges
        )
        assert least <= squares <= most
    assert (2.0 ** (3 - (MAX_PRIMES + 1))) ** SQUARE_ROOTS * 2.0 ** (8 * FACTORS) == 2.0**-128


def test_square_roots_show_no_second_root_of_one_number():
    """Two roots of one square would be a factor of n."""
    private = generate_keypair(2048)[1]
    assert prove(private.public_key.n, private._primes) == private.to_wire()["proof"]


def test_primes_that_are_1_modulo_4_are_not_proved():
    with pytest.raises(ValueError, match="must be 3 modulo 4"):
        prove(13 * 1_000_003, (13, 1_000_003))
