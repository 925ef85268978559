"""What FATE's messages say, in plain values: arrays for tensors, integers for ciphertexts, lists for tables.

FATE's Paillier library is written in Rust and shows no number of its objects; it is read off the bytes in which they are
pickled: a big integer is a radix (4 bytes), a length (8 bytes) and its digits with a sign.

Only FATE's own classes that attacks read are taken apart; a message that holds another one is left out, with its name.
"""

from typing import Any

import numpy as np

from fate_dp.attacks.recorded_view import Ciphertexts
from fate_dp.components.common.wire import codec
from fate_dp.components.common.wire.codec import NotPlain

RUST_HEAD, RUST_RADIX, RUST_EXPONENT = 8, 4, 4


def plain_form(value: Any, most: int) -> Any:
    """What another party sent, for `codec` or as `Ciphertexts`; NotPlain, a clause that quotes nothing of it, for a
    class that is not taken apart, or beyond ``most`` bytes."""
    from fate.arch.computing.api import KVTable
    from fate.arch.tensor import DTensor

    if isinstance(value, DTensor):
        return _joined([form for _, form in _rows(value.shardings._data, most)])
    if isinstance(value, KVTable):
        return [list(row) for row in _rows(value, most)]
    return local_form(value)


def local_form(value: Any) -> Any:
    """The same of a value that lies in this process as a whole."""
    import torch
    from fate.arch.protocol.phe.paillier import PK
    from fate.arch.tensor.phe._keypair import PHETensorEncryptor
    from fate.arch.tensor.phe._tensor import PHETensor

    if value is None or isinstance(value, (bool, int, float, str, bytes, np.ndarray)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, (list, tuple)):
        return type(value)(_without_ciphertexts(item) for item in value)
    if isinstance(value, dict):
        return {key: _without_ciphertexts(item) for key, item in value.items()}
    if isinstance(value, PHETensor) and isinstance(value._pk, PK):
        return ciphertexts_of(rust_modulus(value._pk.pk), value._data)
    key = value._pk if isinstance(value, PHETensorEncryptor) else value
    if isinstance(key, PK):
        return {"n": rust_modulus(key.pk)}
    raise NotPlain(f"it holds a {type(value).__name__}, which is not taken apart")


def _without_ciphertexts(value: Any) -> Any:
    form = local_form(value)
    if isinstance(form, Ciphertexts):
        raise NotPlain("it holds encrypted numbers among others")
    return form


def _rows(table: Any, most: int) -> list[tuple[Any, Any]]:
    """Keys and forms of the values of a table, in the order of the keys."""
    found, size = [], 0
    for key, value in table.collect():
        form = local_form(value)
        size += size_of(form)
        if size > most:
            raise NotPlain(f"it has more than the {most} bytes that were left")
        found.append((key, form))
    return sorted(found, key=lambda row: (str(type(row[0])), row[0]))


def size_of(form: Any) -> int:
    """About how many bytes a form takes."""
    if isinstance(form, Ciphertexts):
        return len(form.values) * (2 * form.n.bit_length() // 8 + 8)
    return len(codec.encode(form))


def _joined(parts: list[Any]) -> Any:
    """The partitions of one tensor, in the order in which FATE gives them."""
    if parts and all(isinstance(part, Ciphertexts) for part in parts):
        values, exponents = ([getattr(part, name) for part in parts] for name in ("values", "exponents"))
        return Ciphertexts(parts[0].n, np.concatenate(values), np.concatenate(exponents))
    if parts and all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    raise NotPlain("it is a tensor whose parts are neither numbers nor encrypted numbers")


def ciphertexts_of(n: int, vector: Any) -> Ciphertexts:
    found = rust_ciphertexts(vector)
    values = np.empty(len(found), dtype=object)
    values[:] = [ciphertext for ciphertext, _ in found]
    return Ciphertexts(n, values, np.array([exponent for _, exponent in found], dtype=np.int32))


def rust_modulus(public_key: Any) -> int:
    """The n of a public key of that library."""
    return _rust_integer(_rust_bytes(public_key), 0)[0]


def rust_ciphertexts(vector: Any) -> list[tuple[int, int]]:
    """The ciphertexts of a vector of it, each with its exponent: the plaintext counts times 16 to this."""
    state, at = _rust_bytes(vector), RUST_HEAD
    found: list[tuple[int, int]] = []
    for _ in range(int.from_bytes(state[:RUST_HEAD], "little")):
        ciphertext, at = _rust_integer(state, at)
        found.append((ciphertext, int.from_bytes(state[at : at + RUST_EXPONENT], "little", signed=True)))
        at += RUST_EXPONENT
    return found


def _rust_bytes(rust_object: Any) -> bytes:
    return bytes(rust_object.__reduce_ex__(2)[2])


def _rust_integer(state: bytes, at: int) -> tuple[int, int]:
    """A big integer, and where it ends."""
    digits = at + RUST_RADIX + RUST_HEAD
    radix, length = (
        int.from_bytes(part, "little") for part in (state[at : at + RUST_RADIX], state[at + RUST_RADIX : digits])
    )
    return int(state[digits : digits + length], radix), digits + length
