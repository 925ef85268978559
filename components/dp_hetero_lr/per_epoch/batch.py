"""One batch of the encrypted protocol, as kernels over blocks.

With u_p = X_p w_p / 4 at a host and u_g = X_g w_g / 4 - (y - 1/2) at the guest, the Taylor gradient of party p is
X_p^T sum_q u_q / n. A party knows its own u_p, so only the sum of the others' columns is encrypted. The last column of
a product is the party's own u_p: it gives the encrypted cross terms of the loss.
"""
from functools import partial, reduce
from typing import NamedTuple, Tuple

import numpy as np
from gmpy2 import mpz

from fate_dp.crypto.encrypted_column import encrypt_column, sum_of_columns
from fate_dp.crypto.fixed_point import encode_features, encode_scores
from fate_dp.crypto.multi_exponentiation import powers_product
from fate_dp.crypto.paillier import PublicKey


class Slice(NamedTuple):
    """The rows of one block that fall into a batch: int64 features (rows, m), float64 quarter scores u (rows,).

    ``received`` are encrypted columns of other parties for the same rows.
    """

    features: np.ndarray
    quarter_scores: np.ndarray
    own_loss: float
    received: Tuple[bytes, ...] = ()


class Sums(NamedTuple):
    """Sums over the rows of a batch: encrypted products with the other parties' column, and the party's own part.

    ``encrypted`` are ciphertexts (integers) of X^T u_others, then of u_own^T u_others; ``own_gradient`` are exact
    integers X^T u_own in units of 2^-64; ``own_loss`` is the part of the loss that the party can compute alone.
    """

    encrypted: tuple
    own_gradient: tuple
    own_loss: float


def slice_batch(rows, weights: np.ndarray, first: int, last: int):
    """Table of `Slice`: the batch's rows with this party's quarter scores under ``weights``."""
    return rows.mapValues(partial(_slice, weights=weights, first=first, last=last))


def encrypted_scores(batch, public_key: PublicKey):
    """Table of encrypted columns (bytes): what this party sends to the other data parties."""
    return batch.mapValues(partial(_encrypt, public_key=public_key))


def batch_sums(batch, received: list, public_key: PublicKey) -> Sums:
    """`Sums` of a batch given the encrypted columns that the other data parties sent."""
    *earlier, last = received
    batch = reduce(lambda table, columns: table.join(columns, _attach), earlier, batch)
    parts = batch.join(last, partial(_multiply, public_key=public_key))
    return parts.reduce(partial(_merge, modulus=public_key.modulus_squared))


def _slice(block, weights, first, last):
    rows = block.within(first, last)
    quarter = rows.quarter_scores(weights)
    if rows.labels is None:
        return Slice(rows.features, quarter, 2.0 * float(quarter @ quarter))
    score, target = 4.0 * quarter, rows.labels - 0.5
    own_loss = float(score @ score) / 8 - float(target @ score)
    return Slice(rows.features, quarter - target, own_loss)


def _encrypt(batch, public_key):
    return encrypt_column(encode_scores(batch.quarter_scores), public_key)


def _attach(batch, column):
    return batch._replace(received=(*batch.received, column))


def _multiply(batch, column, public_key):
    ciphertexts = sum_of_columns([*batch.received, column], public_key)
    if len(ciphertexts) != len(batch.features):
        raise ValueError(f"Received {len(ciphertexts)} encrypted scores for {len(batch.features)} rows; rows must agree.")
    exponents = np.column_stack([batch.features, encode_features(batch.quarter_scores)])
    products = powers_product(ciphertexts, exponents, public_key.modulus_squared)
    # Python integers: the exact sums need up to 118 bits, more than int64 holds.
    own = batch.features.astype(object).T @ encode_scores(batch.quarter_scores).astype(object)
    return Sums(tuple(map(int, products)), tuple(map(int, own)), batch.own_loss)


def _merge(first: Sums, second: Sums, modulus: mpz) -> Sums:
    return Sums(
        tuple(int(a * mpz(b) % modulus) for a, b in zip(first.encrypted, second.encrypted)),
        tuple(a + b for a, b in zip(first.own_gradient, second.own_gradient)),
        first.own_loss + second.own_loss,
    )
