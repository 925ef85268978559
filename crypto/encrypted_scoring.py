"""Scores of encrypted rows, E(x) -> E(w.x + b): the one who asks learns its scores, the one who answers learns nothing.

The asker encrypts its feature rows under its own key (`encrypt_queries`), the owner of the weights multiplies, adds and
blinds with a full ``r^n`` (`score_queries`), the asker decrypts (`open_scores`). Both are semi-honest.

What the asker learns is its scores. Each is one linear equation for the weights, so **m + 1 independent queries solve
for all of them**, and about half as many do by lattice reduction where weights are multiples of 2^-22, since an open score
is exact. How many it may ask is the answering party's decision, not this file's. An asker that does not keep to the
protocol learns more at once: it can encrypt numbers far above 2^20, so far apart that one score shows several weights side
by side. It can also time the answers: nothing here runs in constant time.

Sums cannot overflow: features and weights lie strictly inside +-2^20, features in units of 2^-24, weights of 2^-40, so
a score over m features and an intercept is below (m + 1) 2^104 in units of 2^-64. Scores travel packed, in slots of one
width whatever the weights, and a slot holds nothing that a ciphertext for each score would not. An answer differs from
the exact score by at most ``2^-25 sum |w_j| + 2^-41 (1 + sum |x_j|)`` before it is rounded to a float.
"""

import hashlib
import struct

import numpy as np
import numpy.typing as npt

from . import paillier
from .paillier import Ciphertext, EncryptedSum, OwnerEncryption, PrivateKey, PublicKey
from .powers import few_bases_products
from .slots import (
    FEATURE_FRACTION_BITS,
    MAGNITUDE_BITS,
    SCORE_FRACTION_BITS,
    FloatArray,
    decode_product,
    encode_features,
    packed_sums,
)

_TERM_BITS = FEATURE_FRACTION_BITS + SCORE_FRACTION_BITS + 2 * MAGNITUDE_BITS
_SPARE_BITS = 40
"""Plaintext bits left empty above the slots: what was not made for this key fills them, but for a chance of 2^-40."""
_HEADER = struct.Struct(">32sII")


def encrypt_queries(features: npt.ArrayLike, encryption: OwnerEncryption) -> bytes:
    """The asker's rows, float (rows, m), standardised as the model's, each number a ciphertext under its own key.

    ValueError for another shape, or a value that is not finite or too large.
    """
    rows: FloatArray = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] < 1:
        raise ValueError(f"features must be (rows, m) with m of at least 1, got shape {rows.shape}.")
    plaintexts = encode_features(rows).ravel().tolist()
    ciphertexts = encryption.encrypt(plaintexts, expected=len(plaintexts))
    return _with_header(encryption.public_key, rows.shape[0], rows.shape[1], ciphertexts)


def score_queries(encrypted: bytes, weights: npt.ArrayLike, public_key: PublicKey, intercept: float = 0.0) -> bytes:
    """Encrypted scores ``w.x + b`` of the rows that `encrypt_queries` made, fully blinded, for the owner of the key.

    ValueError for weights that do not fit, or a message that was not made under this key.
    """
    rows, columns, ciphertexts = _without_header(encrypted, public_key)
    floats: FloatArray = np.asarray(weights, dtype=np.float64)
    if floats.shape != (columns,) or len(ciphertexts) != rows * columns:
        raise ValueError(
            f"{len(ciphertexts)} ciphertexts, {rows} rows and weights of shape {floats.shape} do not fit each other; "
            f"each row of the query has {columns} features."
        )
    given = np.array([*floats, intercept])
    if not np.all(np.abs(given) < 2.0**MAGNITUDE_BITS):
        raise ValueError(f"Weights and intercept must be finite and below 2^{MAGNITUDE_BITS} in magnitude.")
    *exponents, constant = map(int, np.rint(given * 2.0**SCORE_FRACTION_BITS))
    constant <<= FEATURE_FRACTION_BITS
    scores: list[EncryptedSum] = []
    for first in range(0, rows * columns, columns):
        bases = [ciphertext.value for ciphertext in ciphertexts[first : first + columns]]
        (product,) = few_bases_products(bases, [exponents], public_key.modulus_squared)
        scores.append(EncryptedSum(product, public_key).plus(constant))
    slots, width = _slots(columns, public_key), _slot_bits(columns)
    answers = []
    for first in range(0, rows, slots):
        chunk = scores[first : first + slots]
        offset = sum(1 << width * at + width - 1 for at in range(len(chunk)))
        answers.append(packed_sums(chunk, width).plus(offset).fully_blinded())
    return _with_header(public_key, rows, columns, answers)


def open_scores(encrypted: bytes, private_key: PrivateKey) -> FloatArray:
    """The asker's scores, float (rows,); ValueError for a message of another key, or whose plaintexts hold no scores."""
    public_key = private_key.public_key
    rows, columns, ciphertexts = _without_header(encrypted, public_key)
    slots, width = _slots(columns, public_key), _slot_bits(columns)
    if len(ciphertexts) != -(-rows // slots):
        raise ValueError(f"{len(ciphertexts)} ciphertexts cannot hold {rows} scores; {slots} fit into each.")
    scores: list[int] = []
    for plaintext in private_key.decrypt_all(ciphertexts):
        count = min(slots, rows - len(scores))
        if plaintext >> (width * count):
            raise ValueError("The plaintext of a score is too large; it was changed or made under another key.")
        scores.extend(int(plaintext >> width * at) % (1 << width) - (1 << width - 1) for at in range(count))
    return np.array([decode_product(score) for score in scores], dtype=np.float64)


def _slot_bits(columns: int) -> int:
    """A signed sum of m products and an intercept, made positive by an offset of half the slot."""
    return _TERM_BITS + (columns + 1).bit_length() + 1


def _slots(columns: int, public_key: PublicKey) -> int:
    slots = (public_key.key_length - 1 - _SPARE_BITS) // _slot_bits(columns)
    if slots < 1:
        raise ValueError(f"A key of {public_key.key_length} bits holds no score of {columns} features; lengthen it.")
    return slots


def _with_header(public_key: PublicKey, rows: int, columns: int, ciphertexts: list[Ciphertext]) -> bytes:
    return _HEADER.pack(_digest(public_key), rows, columns) + paillier.column_to_bytes(ciphertexts)


def _without_header(message: bytes, public_key: PublicKey) -> tuple[int, int, list[Ciphertext]]:
    if len(message) < _HEADER.size:
        raise ValueError(f"A scoring message must have at least {_HEADER.size} bytes, got {len(message)}.")
    digest, rows, columns = _HEADER.unpack_from(message)
    if digest != _digest(public_key):
        raise ValueError("The scoring message was made under another public key. Both sides use the asker's.")
    if columns < 1:
        raise ValueError("Rows of the scoring message must have at least one feature, got none.")
    return rows, columns, paillier.column_from_bytes(message[_HEADER.size :], public_key)


def _digest(public_key: PublicKey) -> bytes:
    """Tells keys apart; a ciphertext alone does not show under which key it was made."""
    return hashlib.sha256(public_key.n.to_bytes(public_key.ciphertext_bytes, "big")).digest()
