"""How a host reads labels off what it received: public keys, its own rows and shares, and arithmetic.

Two facts on FATE 2.2.0 do all the work. A Paillier ciphertext without blinding is c = 1 + m n modulo n^2, so that
m = (c - 1) / n needs no private key. And what a guest encrypts of a row in a regression is a public number times the label
and, added to it, a linear function of features, of which the host gets one for each epoch: their differences are linear in
the same features and have no label in them, so that what remains of the first, when their span is taken out, has two
values, one for each label.
"""

import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bench.label_firewall_parties import UNREAD, HostView
from tests.protocol.messages import rust_ciphertexts, rust_modulus

RING = 1 << 64
"""Shares of SSHE count modulo this."""
SHARE_SCALE = 1 << 24
"""What SSHE counts as 1: `safety.mpc.encoder.precision_bits` of FATE's configuration."""
EXPONENT_BASE = 16
ROUNDS = 50
NOISE = 3.0
"""Directions in which the rows move by less than so many units of the last digit a row are rounding."""


class Plain(NamedTuple):
    """A number without blinding: ``mantissa`` times 16 to ``exponent``."""

    mantissa: int
    exponent: int

    def __float__(self) -> float:
        return float(self.mantissa) * float(EXPONENT_BASE) ** self.exponent


def opened(vector: Any, n: int) -> list[Plain | None]:
    """What the ciphertexts of a vector of FATE's hold, None where they are blinded."""
    return [_opened(ciphertext, exponent, n) for ciphertext, exponent in rust_ciphertexts(vector)]


def _opened(ciphertext: int, exponent: int, n: int) -> Plain | None:
    multiple, remainder = divmod(ciphertext - 1, n)
    if remainder:
        return None
    plaintext = multiple % n
    return Plain(plaintext - n if 2 * plaintext > n else plaintext, exponent)


def opened_tensor(tensor: Any) -> list[Plain | None]:
    """The same of a distributed tensor, rows in the order of its parts."""
    parts = [part for _, part in sorted(tensor.shardings._data.collect())]
    return [plain for part in parts for plain in opened(part.data, rust_modulus(part.pk.pk))]


def compare_with_guesses(view: HostView) -> np.ndarray:
    """Labels 0 and 1, by encrypting both as the guest does and comparing ciphertexts byte by byte.

    For the labels that `hetero_feature_binning` sends. It needs nothing to be known of a cipher, and fails with one that
    draws randomness.
    """
    if not view.named("enc_y"):
        return np.full(len(view.features), UNREAD)
    import torch

    parts = [part for _, part in sorted(view.named("enc_y")[0].shardings._data.collect())]
    (key,), (coder,) = view.named("pk"), view.named("coder")
    both = key.encrypt_encoded(coder.encode_tensor(torch.tensor([0, 1], dtype=parts[0].dtype)), obfuscate=False)
    guesses = {_bytes_of(both, label): label for label in (0, 1)}
    found = [guesses.get(_bytes_of(part.data, row), UNREAD) for part in parts for row in range(part.shape[0])]
    return np.array(found, dtype=float)


def _bytes_of(vector: Any, row: int) -> bytes:
    return pickle.dumps(vector.slice(row, 1))


def read_gradients(view: HostView) -> np.ndarray:
    """Labels by the signs of the gradients of the first tree, all of which start from one score.

    For the column `g` that `hetero_secureboost` sends with `gh_pack: false`; by default gradient and curvature are packed
    into one column.
    """
    frame, key = view.named("en_gh")[0], view.named("en_kit")[0][0]
    column = next(name for name in ("g", "gh") if name in frame.schema.columns.to_list())
    place = frame.data_manager.loc_block(column, with_offset=False)
    n = rust_modulus(key.pk)
    vectors = [blocks[place] for _, blocks in sorted(frame.block_table.collect())]
    found = [plain for vector in vectors for plain in opened(vector, n)]
    return np.array([UNREAD if plain is None else float(plain.mantissa < 0) for plain in found])


def signs_of_residuals(view: HostView) -> np.ndarray:
    """Labels by the signs of what `coordinated_lr` sends in the first epoch: 0.25 x w - 0.5 y, with y 1 or -1."""
    return _by_sign(opened_tensor(view.named("half_d")[0]))


def _by_sign(plains: Sequence[Plain | None]) -> np.ndarray:
    return np.array([UNREAD if plain is None else float(plain.mantissa < 0) for plain in plains])


def fit_residuals(view: HostView, step: float) -> np.ndarray:
    """Labels by what `coordinated_lr` (``step`` 1) and `coordinated_linr` send of all epochs.

    Args:
        step: how much lower a residual is for label 1 than for label 0.
    """
    epochs = [opened_tensor(message) for message in view.named("half_d")]
    if any(plain is None for epoch in epochs for plain in epoch):
        return np.full(len(view.features), UNREAD)
    residuals = np.array([[float(plain) for plain in epoch] for epoch in epochs])
    return two_valued(residuals, np.ones((residuals.shape[1], 1)), step, rounding=np.finfo(np.float32).eps)


def fit_shares(view: HostView) -> np.ndarray:
    """Labels by the guest's share of the residual, which SSHE sends unblinded, and the host's own, of all epochs."""
    residuals = residuals_of_shares(view)
    known = np.column_stack([np.ones(residuals.shape[1]), view.features])
    return two_valued(residuals, known, SHARE_SCALE / residuals.shape[1], rounding=1.0)


def signs_of_shares(view: HostView) -> np.ndarray:
    """Labels by the signs of the same residuals in the first epoch."""
    return (residuals_of_shares(view)[0] < 0).astype(float)


def residuals_of_shares(view: HostView) -> np.ndarray:
    """(epochs, rows) of score minus label, over the number of rows, in units of the last digit."""
    return np.array([_summed(own, view.received[place][2]) for own, place in view.shares], dtype=float)


def _summed(own: np.ndarray, message: Any) -> list[int]:
    sums = [(int(share) + other.mantissa) % RING for share, other in zip(own, opened_tensor(message), strict=True)]
    return [value - RING if 2 * value > RING else value for value in sums]


def two_valued(residuals: np.ndarray, known: np.ndarray, step: float, rounding: float) -> np.ndarray:
    """Labels 0 and 1 from residuals that are linear in unseen features, less ``step`` where the label is 1.

    The span of ``known`` columns and of the residuals' differences is taken out of the first epoch's; which rows then lie
    low is where the labels are 1, up to the part of the labels themselves that went out with it. Fitting the span again
    to residuals with these labels put back brings that part in, until no label changes.

    Args:
        residuals: (epochs, rows).
        rounding: the error of a residual.
    """
    first, moved = residuals[0], (residuals[1:] - residuals[0]).T
    directions, lengths, _ = np.linalg.svd(moved, full_matrices=False)
    noise = NOISE * rounding * np.sqrt(len(first))
    basis = np.column_stack([known, directions[:, lengths > noise]])
    labels = np.zeros(len(first), dtype=bool)
    for _ in range(ROUNDS):
        fitted = basis @ np.linalg.lstsq(basis, first + step * labels, rcond=None)[0]
        rest = first - fitted
        found = rest < (rest.max() + rest.min()) / 2 if not labels.any() else rest < -step / 2
        if (found == labels).all():
            break
        labels = found
    return labels.astype(float)


def leaves(view: HostView) -> np.ndarray:
    """The leaf of every row in the first tree, which `hetero_secureboost` tells hosts layer by layer."""
    last: dict[str, str] = {}
    for layer in view.named("new_sample_pos"):
        rows = layer.as_pd_df()
        last.update(zip(rows["id"], rows["node_idx"].astype(str)))
    numbers = {leaf: number for number, leaf in enumerate(sorted(set(last.values())))}
    return np.array([numbers[last[row]] for row in view.ids], dtype=float)
