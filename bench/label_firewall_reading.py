"""What a host received of FATE's own tasks, as the views that the attacks on labels read (`fate_dp.attacks.label_ciphertexts`)."""

import pickle
from typing import Any

import numpy as np

from bench.attack_methods.label_ciphertexts import fitted_shares, guessed_labels, share_signs
from bench.attack_methods.label_views import GuessView, ShareView
from bench.label_firewall_parties import UNREAD, HostView
from fate_dp.attacks import label_ciphertexts
from fate_dp.attacks.label_ciphertexts import Ciphertext, CiphertextView
from tests.protocol.messages import rust_ciphertexts, rust_modulus


def compare_with_guesses(view: HostView) -> np.ndarray:
    """Labels 0 and 1 that `hetero_feature_binning` sends, by encrypting both as the guest does."""
    if not view.named("enc_y"):
        return np.full(len(view.ids), UNREAD)
    import torch

    parts = [part for _, part in sorted(view.named("enc_y")[0].shardings._data.collect())]
    (key,), (coder,) = view.named("pk"), view.named("coder")
    both = key.encrypt_encoded(coder.encode_tensor(torch.tensor([0, 1], dtype=parts[0].dtype)), obfuscate=False)
    sealed = tuple(_bytes_of(part.data, row) for part in parts for row in range(part.shape[0]))
    return guessed_labels(GuessView(sealed=sealed, guesses=(_bytes_of(both, 0), _bytes_of(both, 1))))


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
    vectors = [blocks[place] for _, blocks in sorted(frame.block_table.collect())]
    message = tuple(Ciphertext(*each) for vector in vectors for each in rust_ciphertexts(vector))
    return label_ciphertexts.residual_signs(CiphertextView(modulus=rust_modulus(key.pk), messages=(message,)))


def signs_of_residuals(view: HostView) -> np.ndarray:
    """Labels by the signs of what `coordinated_lr` sends in the first epoch."""
    return label_ciphertexts.residual_signs(residuals_of(view))


def fit_residuals(view: HostView, step: float) -> np.ndarray:
    """Labels by what `coordinated_lr` (``step`` 1) and `coordinated_linr` send of all epochs."""
    return label_ciphertexts.fitted_residuals(residuals_of(view), step)


def fit_shares(view: HostView) -> np.ndarray:
    """Labels by the guest's share of the residual, which SSHE sends unblinded, and the host's own, of all epochs."""
    return fitted_shares(shares_of(view))


def signs_of_shares(view: HostView) -> np.ndarray:
    """Labels by the signs of the same residuals in the first epoch."""
    return share_signs(shares_of(view))


def residuals_of(view: HostView) -> CiphertextView:
    """What the coordinated regressions send as `half_d`, one message an epoch."""
    modulus, messages = _of_tensors(view.named("half_d"))
    return CiphertextView(modulus=modulus, messages=messages)


def shares_of(view: HostView) -> ShareView:
    """The guest's shares of residuals, which SSHE sends, beside the host's own."""
    own = tuple(tuple(int(share) for share in shares) for shares, _ in view.shares)
    modulus, messages = _of_tensors([view.received[place][2] for _, place in view.shares])
    return ShareView(modulus=modulus, messages=messages, shares=own, columns=view.features)


def _of_tensors(tensors: list) -> tuple[int, tuple[tuple[Ciphertext, ...], ...]]:
    """Modulus and messages of FATE's distributed tensors, rows in the order of their parts."""
    parts = [[part for _, part in sorted(tensor.shardings._data.collect())] for tensor in tensors]
    messages = tuple(
        tuple(Ciphertext(*each) for part in of_one for each in rust_ciphertexts(part.data)) for of_one in parts
    )
    return rust_modulus(parts[0][0].pk.pk), messages


def leaves(view: HostView) -> np.ndarray:
    """The leaf of every row in the first tree, which `hetero_secureboost` tells hosts layer by layer."""
    last: dict[str, str] = {}
    for layer in view.named("new_sample_pos"):
        rows = layer.as_pd_df()
        last.update(zip(rows["id"], rows["node_idx"].astype(str)))
    numbers = {leaf: number for number, leaf in enumerate(sorted(set(last.values())))}
    return np.array([numbers[last[row]] for row in view.ids], dtype=float)
