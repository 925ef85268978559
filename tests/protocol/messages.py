"""Received messages in plain builtins and arrays, and attacks on them."""
from typing import NamedTuple

import numpy as np


class Ciphertexts(NamedTuple):
    """Paillier ciphertexts of FATE's own tensors, with the modulus that came along."""

    n: int
    values: list


def plain_form(value):
    """The value without FATE's objects, so that it outlives the party's process."""
    from fate.arch.computing.api import KVTable
    from fate.arch.tensor import DTensor
    from fate.arch.tensor.phe._tensor import PHETensor

    if isinstance(value, DTensor):
        parts = [plain_form(part) for _, part in sorted(value.shardings._data.collect())]
        if all(isinstance(part, Ciphertexts) for part in parts):
            return Ciphertexts(parts[0].n, [ciphertext for part in parts for ciphertext in part.values])
        return [np.asarray(part) for part in parts]
    if isinstance(value, PHETensor):
        return Ciphertexts(_rust_modulus(value._pk.pk), _rust_ciphertexts(value._data))
    if isinstance(value, tuple):
        return tuple(plain_form(part) for part in value)
    if isinstance(value, KVTable):
        return sorted(value.collect(), key=str)
    if type(value).__module__.startswith(("fate.", "fate_utils.")):
        return type(value).__name__
    return value


def _rust_bytes(rust_object) -> bytes:
    return bytes(rust_object.__reduce_ex__(2)[2])


def _rust_integer(state: bytes, at: int):
    """A big integer as Rust writes it: radix (4 bytes), length (8), digits with a sign; and where it ends."""
    radix, length = int.from_bytes(state[at : at + 4], "little"), int.from_bytes(state[at + 4 : at + 12], "little")
    end = at + 12 + length
    return int(state[at + 12 : end], radix), end


def _rust_modulus(public_key) -> int:
    return _rust_integer(_rust_bytes(public_key), 0)[0]


def _rust_ciphertexts(vector) -> list:
    state, at, found = _rust_bytes(vector), 8, []
    for _ in range(int.from_bytes(state[:8], "little")):
        ciphertext, at = _rust_integer(state, at)
        found.append(ciphertext)
        at += 4  # the exponent
    return found


def names(received) -> set:
    """{(role of the sender, name)} of the messages."""
    return {(sender.split("-")[0], name) for sender, name, _ in received}


def public_modulus(received) -> int:
    """The n of the public key that came in the messages, from our own arbiter or inside FATE's tensors."""
    for _, name, value in received:
        if isinstance(value, Ciphertexts):
            return value.n
        if name == "public_key":
            return value["n"]
    raise LookupError("no public key among the messages")


def labels_readable(received, labels) -> list:
    """Names of the messages from which whoever received them reads the labels, knowing the public key alone.

    Tries the plaintext of unblinded Paillier ciphertexts, c = 1 + m n, and every vector of numbers sent in clear: each
    gives the labels away if it agrees with them in sign throughout, or correlates with them above 0.99.
    """
    n = public_modulus(received)
    return sorted({name for _, name, value in received
                   if any(_tells(vector, labels) for vector in _vectors(value, n, len(labels)))})


def columns_readable(received, columns) -> list:
    """Names of the messages that hold a vector correlating above 0.99 with a column of the table."""
    n = public_modulus(received)
    return sorted({name for _, name, value in received for vector in _vectors(value, n, len(columns))
                   if any(_correlation(vector, column) > 0.99 for column in columns.T)})


def unblinded_ciphertexts(received) -> list:
    """Names of the messages with a ciphertext of the form 1 + m n, which anybody decrypts."""
    n = public_modulus(received)
    return sorted({name for _, name, value in received if any((c - 1) % n == 0 for c in _ciphertexts(value, n))})


def _ciphertexts(value, n) -> list:
    if isinstance(value, Ciphertexts):
        return value.values
    width = (2 * n.bit_length() + 7) // 8
    blob = b"".join(_byte_strings(value))
    return [int.from_bytes(blob[at : at + width], "big") for at in range(0, len(blob), width)]


def _byte_strings(value) -> list:
    if isinstance(value, bytes):
        return [value]
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in _byte_strings(part)]
    return []


def _vectors(value, n, length) -> list:
    """Every vector of ``length`` numbers that the public key gives."""
    found = []
    ciphertexts = _ciphertexts(value, n)
    if len(ciphertexts) == length and all((c - 1) % n == 0 for c in ciphertexts):
        plaintexts = [(c - 1) // n % n for c in ciphertexts]
        found.append(np.array([float(m - n if m > n // 2 else m) for m in plaintexts]))
    # The raw numbers themselves, scaled into a float's range.
    if len(ciphertexts) == length:
        found.append(np.array([c / n**2 for c in ciphertexts]))
        found.append(np.array([c % n / n for c in ciphertexts]))
    numbers = np.array(_numbers(value), dtype=float)
    if len(numbers) and len(numbers) % length == 0:
        found.extend([*numbers.reshape(length, -1).T, *numbers.reshape(-1, length)])
    return found


def _numbers(value) -> list:
    if isinstance(value, Ciphertexts) or isinstance(value, (bytes, str)) or value is None:
        return []
    if isinstance(value, dict):
        return [number for item in value.values() for number in _numbers(item)]
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()
    if hasattr(value, "numpy"):
        return value.detach().numpy().ravel().tolist()
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and isinstance(value[0], int) and isinstance(value[1], (np.ndarray, bytes)):
            return _numbers(value[1])  # a table's (key, block)
        return [number for item in value for number in _numbers(item)]
    return [float(value)] if isinstance(value, (int, float)) and abs(value) < 1e300 else []


def _tells(vector, labels) -> bool:
    signs, wanted = np.sign(vector), np.sign(labels - 0.5)
    return bool((signs == wanted).all() or (signs == -wanted).all() or _correlation(vector, labels) > 0.99)


def _correlation(first, second) -> float:
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    # Scaled first, since numbers such as m / n underflow when they are squared.
    return abs(float(np.corrcoef(first / np.abs(first).max(), second)[0, 1]))
