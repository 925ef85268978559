"""Paillier primitives at 2048 bits: python-paillier, fate_utils (the Rust library that FATE calls) and ours.

Operations per CPU second, each the median of several runs. Encryption is blinded on every side. A multiply-add is one
element of the product X^T c of plaintext features with encrypted numbers, in the form that each side's trainer has:
floats for python-paillier, integers in units of 2^-23 for FATE, of 2^-24 for ours, which shares buckets among the rows.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bench.epoch_task import KEY_LENGTH

RUNS = 3
OPERATIONS = ("encrypt", "decrypt", "multiply-add")
FATE_FRACTION_BITS = 23
OUR_ROWS, OUR_COLUMNS = 10_000, 4


class Work(NamedTuple):
    """Something to run, and how many operations it is."""

    operations: int
    run: Callable[[], Any]


def rate_table(console):
    """Measures all sides."""
    from rich.table import Table

    table = Table(title=f"Operations per CPU second, {KEY_LENGTH}-bit keys")
    table.add_column()
    rates = {}
    for name, prepare in (("phe", _phe), ("fate_utils", _fate_utils), ("ours", _ours)):
        table.add_column(name, justify="right")
        with console.status(f"primitives: {name}"):
            rates[name] = [rate(work) for work in prepare()]
    for operation, *row in zip(OPERATIONS, *rates.values()):
        table.add_row(operation, *(f"{value:,.0f}" for value in row))
    table.caption = "Ours encrypts as the owner of the key."
    return table


def rate(work: Work) -> float:
    """Operations per CPU second: the median of `RUNS` runs after one that is not counted."""
    work.run()
    seconds = []
    for _ in range(RUNS):
        start = time.process_time()
        work.run()
        seconds.append(time.process_time() - start)
    return work.operations / statistics.median(seconds)


def _phe():
    from phe import generate_paillier_keypair

    public_key, private_key = generate_paillier_keypair(n_length=KEY_LENGTH)
    values, features = _values(64), _values(64)
    encrypted = [public_key.encrypt(value) for value in values]

    def multiply_add():
        products = (number * feature for number, feature in zip(encrypted, features))
        return sum(products, next(products))

    return (
        Work(len(values), lambda: [public_key.encrypt(value) for value in values]),
        Work(len(values), lambda: [private_key.decrypt(number) for number in encrypted]),
        Work(len(values), multiply_add),
    )


def _fate_utils():
    from fate_utils.paillier import keygen

    private_key, public_key, coder = keygen(KEY_LENGTH)
    rows, columns = 200, 10
    values = coder.encode_f64_vec(np.array(_values(rows)))
    features = np.rint(np.array(_values(columns * rows)) * 2**FATE_FRACTION_BITS).astype(np.int64)
    encoded = coder.encode_i64_vec(features)
    encrypted = public_key.encrypt_encoded(values, True)
    return (
        Work(rows, lambda: public_key.encrypt_encoded(values, True)),
        Work(rows, lambda: private_key.decrypt_to_encoded(encrypted)),
        # The matrix (columns, rows) times the encrypted column (rows, 1), which stands on the right.
        Work(columns * rows, lambda: encrypted.rmatmul(public_key, encoded, [rows, 1], [columns, rows])),
    )


def _ours():
    from fate_dp.crypto.paillier import generate_keypair
    from fate_dp.crypto.powers import powers_product
    from fate_dp.crypto.slots import encode_features

    public_key, private_key = generate_keypair(KEY_LENGTH)
    encryption, few = private_key.encryption(), 400
    plaintexts = [int(value) for value in encode_features(np.array(_values(OUR_ROWS)))]
    encrypted = encryption.encrypt(plaintexts, OUR_ROWS)
    powers = [ciphertext.value for ciphertext in encrypted]
    features = encode_features(np.array(_values(OUR_ROWS * OUR_COLUMNS))).reshape(OUR_ROWS, OUR_COLUMNS)
    return (
        Work(few, lambda: encryption.encrypt(plaintexts[:few], OUR_ROWS)),
        Work(few, lambda: [private_key.decrypt(value) for value in powers[:few]]),
        Work(features.size, lambda: powers_product(powers, features, public_key.modulus_squared)),
    )


def _values(count):
    return np.random.default_rng(count).normal(size=count).tolist()
