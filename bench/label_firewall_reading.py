"""What a party reads in the messages of FATE's own tasks: labels, and whatever has one number a row."""

import json
import pickle
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.attack_methods.label_ciphertexts import _residuals_of_shares, fitted_shares, guessed_labels, share_signs
from bench.attack_methods.label_views import GuessView, ShareView
from bench.label_firewall_parties import UNREAD, PartyView, Reading
from fate_dp.attacks import label_ciphertexts
from fate_dp.attacks.label_ciphertexts import Ciphertext, CiphertextView
from tests.protocol.messages import rust_ciphertexts, rust_modulus

LARGEST_WEIGHT, AGREES = 1e3, 1e-3


def compare_with_guesses(view: PartyView) -> np.ndarray:
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


def read_gradients(view: PartyView) -> np.ndarray:
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


def signs_of_residuals(view: PartyView) -> np.ndarray:
    """Labels by the signs of what `coordinated_lr` sends in the first epoch."""
    return label_ciphertexts.residual_signs(residuals_of(view))


def fit_residuals(view: PartyView, step: float) -> np.ndarray:
    """Labels by what `coordinated_lr` (``step`` 1) and `coordinated_linr` send of all epochs."""
    return label_ciphertexts.fitted_residuals(residuals_of(view), step)


def fit_shares(view: PartyView) -> np.ndarray:
    """Labels by the guest's share of the residual, which SSHE sends unblinded, and the host's own, of all epochs."""
    return fitted_shares(shares_of(view))


def signs_of_shares(view: PartyView) -> np.ndarray:
    """Labels by the signs of the same residuals in the first epoch."""
    return share_signs(shares_of(view))


def residuals_of(view: PartyView) -> CiphertextView:
    """What the coordinated regressions send as `half_d`, one message an epoch."""
    modulus, messages = of_tensors(view.named("half_d"))
    return CiphertextView(modulus=modulus, messages=messages)


def shares_of(view: PartyView) -> ShareView:
    """The guest's shares of residuals, which SSHE sends, beside the host's own."""
    own = tuple(tuple(int(share) for share in shares) for shares, _ in view.shares)
    modulus, messages = of_tensors([view.received[place][2] for _, place in view.shares])
    return ShareView(modulus=modulus, messages=messages, shares=own, columns=view.features)


def of_tensors(tensors: list) -> tuple[int, tuple[tuple[Ciphertext, ...], ...]]:
    """Modulus and messages of FATE's distributed tensors, rows in the order of their parts."""
    parts = [[part for _, part in sorted(tensor.shardings._data.collect())] for tensor in tensors]
    messages = tuple(
        tuple(Ciphertext(*each) for part in of_one for each in rust_ciphertexts(part.data)) for of_one in parts
    )
    return rust_modulus(parts[0][0].pk.pk), messages


def leaves(view: PartyView) -> np.ndarray:
    """The leaf of every row in the first tree, which `hetero_secureboost` tells hosts layer by layer."""
    last: dict[str, str] = {}
    for layer in view.named("new_sample_pos"):
        rows = layer.as_pd_df()
        last.update(zip(rows["id"], rows["node_idx"].astype(str)))
    numbers = {leaf: number for number, leaf in enumerate(sorted(set(last.values())))}
    return np.array([numbers[last[row]] for row in view.ids], dtype=float)


def numbers(view: PartyView, message: str, column: str | None = None) -> np.ndarray:
    """(rows, messages): what the messages of one name hold of every row, in clear or encrypted without blinding."""
    found = [_numbers_of(value, view, column) for value in view.named(message)]
    kept = [each for each in found if each is not None]
    return np.column_stack(kept) if kept else np.full(len(view.ids), UNREAD)


def numbers_of_weights(view: PartyView, message: str) -> np.ndarray:
    """(rows,): what messages of one name that are no distributed tensors, as shares of weights, hold of every row."""
    from fate.arch.tensor import DTensor

    kept = [each for each in view.received if not isinstance(each[2], DTensor)]
    return numbers(PartyView(received=kept, ids=view.ids), message)


def numbers_of_rows(view: PartyView, rows: int) -> np.ndarray:
    """What any message holds of every row: no message of sums has as many numbers as there are rows."""
    asked = PartyView(ids=view.ids or [""] * rows)
    found = [_numbers_of(value, asked, None) for _, _, value in view.received]
    kept = [each for each in found if each is not None and np.isfinite(each).any()]
    return np.column_stack(kept) if kept else np.full(rows, UNREAD)


def _numbers_of(value: Any, view: PartyView, column: str | None) -> np.ndarray | None:
    """(rows,) or (rows, k), None of a message that has none for each row."""
    from fate.arch.dataframe import DataFrame
    from fate.arch.tensor import DTensor
    from fate.arch.tensor.phe._tensor import PHETensor

    rows = len(view.ids)
    if isinstance(value, DTensor):
        parts = [part for _, part in sorted(value.shardings._data.collect())]
        if tuple(value.shape)[0] != rows:
            return None
        if isinstance(parts[0], PHETensor):
            modulus, (message,) = of_tensors([value])
            plains = label_ciphertexts.opened(message, modulus)
            return np.array([UNREAD if plain is None else float(plain) for plain in plains])
        return np.concatenate([np.asarray(part.detach(), dtype=float) for part in parts])
    if isinstance(value, DataFrame):
        table = value.as_pd_df()
        table = table.set_index("id" if "id" in table else table.columns[0])
        known = [name for name in table.columns if column in (None, name) and name not in ("sample_id", "en_gh", "gh")]
        cells = table.reindex(view.ids)[known].map(lambda cell: np.ravel(cell)[0] if np.size(cell) else UNREAD)
        return cells.apply(lambda each: each.map(_as_number)).to_numpy(float) if known else None
    shape = tuple(getattr(value, "shape", ()))
    return np.asarray(value, dtype=float) if shape and shape[0] == rows and not isinstance(value, PHETensor) else None


def _as_number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return UNREAD


def residuals_of_shares(view: PartyView) -> np.ndarray:
    """(rows,): what both shares of the first residual of SSHE add up to."""
    return _residuals_of_shares(shares_of(view), 1)[0]


def named_rows(view: PartyView, message: str) -> np.ndarray:
    """(rows,): 1 for each own row whose sample id a message of this name has."""
    named: set[str] = set()
    for value in view.named(message):
        for table in value if isinstance(value, tuple) else (value,):
            named |= _texts(table)
    return np.array([1.0 if row.replace("person", "row") in named else UNREAD for row in view.ids])


def _texts(table: Any) -> set[str]:
    """Keys of a table and texts in its values."""
    if table is None:
        return set()
    pairs = table if isinstance(table, list) else list(table.collect())
    return {
        text
        for key, value in pairs
        for text in (key, *(value if isinstance(value, tuple) else ()))
        if isinstance(text, str)
    }


def matched_rows(view: PartyView) -> np.ndarray:
    """(rows,): 1 for each own row that psi left in the table, which the other parties have, too."""
    left = set(view.outputs["output_data"].as_pd_df()["id"])
    return np.array([1.0 if row in left else UNREAD for row in view.ids])


def guessed_ids(view: PartyView, message: str) -> np.ndarray:
    """(rows,): 1 for each own id whose point under an exponent of the observer's own is among those that were sent."""
    from fate_utils.psi import Curve25519

    sent = {bytes(point) for value in view.named(message) for _, points in value for point in points}
    own = Curve25519().encrypt_vec([bytes(row, "utf8") for row in view.ids])
    return np.array([1.0 if bytes(point) in sent else UNREAD for point in own])


def unmasked_columns(view: PartyView) -> np.ndarray:
    """(rows, k): the other party's factor of a product of shares, by the random matrix that the observer drew for it."""
    drawn = [each for name, each in view.opened if name == "drawn"]
    if not drawn:
        return np.full(len(view.ids), UNREAD)
    opened = next(each for name, each in view.opened if name == "revealed")
    with np.errstate(over="ignore"):
        return (_local(opened[1]) + _local(drawn[1])).astype(np.int64).astype(float)


def _local(tensor: Any) -> np.ndarray:
    tensor = getattr(tensor, "_tensor", tensor)
    if hasattr(tensor, "shardings"):
        return np.concatenate([np.asarray(part) for _, part in sorted(tensor.shardings._data.collect())])
    return np.asarray(tensor)


def scores_of_gradients(view: PartyView) -> np.ndarray:
    """(rows,): the chance of label 1 before the last tree, of unblinded gradient p - y and curvature p (1 - p) that agree."""
    first, last = (_opened_gradients(frame, view) for frame in (view.named("en_gh")[0], view.named("en_gh")[-1]))
    chances = last[0] + (first[0] < 0)
    return np.where(np.abs(chances * (1 - chances) - last[1]) < AGREES, chances, UNREAD)


def _opened_gradients(frame: Any, view: PartyView) -> np.ndarray:
    key, columns = view.named("en_kit")[0][0], frame.schema.columns.to_list()
    if not {"g", "h"} <= set(columns):
        return np.full((2, len(view.ids)), UNREAD)
    found = []
    for name in ("g", "h"):
        place = frame.data_manager.loc_block(name, with_offset=False)
        vectors = [blocks[place] for _, blocks in sorted(frame.block_table.collect())]
        pairs = [Ciphertext(*each) for vector in vectors for each in rust_ciphertexts(vector)]
        plains = label_ciphertexts.opened(pairs, rust_modulus(key.pk))
        found.append([UNREAD if plain is None else float(plain) for plain in plains])
    return np.array(found)


def own_scores(view: PartyView) -> np.ndarray:
    """(rows,): the scores that the component writes at the guest."""
    written = next(view.outputs[name] for name in ("train_output_data", "test_output_data") if name in view.outputs)
    return written.as_pd_df().set_index("id").loc[view.ids]["predict_score"].astype(float).to_numpy()


def sides(view: PartyView, message: str, column: str) -> np.ndarray:
    """(rows, layers): the node of every row, as a message of every layer tells it."""
    return numbers(view, message, column)


def models_in_clear(view: PartyView, rows: int) -> np.ndarray:
    """(rows,): 1 where a single party's masked model looks like weights, which are no large numbers."""
    mixed = [np.ravel(array) for _, name, value in view.received if "mixed" in name for array in value[0]]
    small = any(np.abs(each.astype(float)).max() < LARGEST_WEIGHT for each in mixed)
    return np.full(rows, 1.0 if small else UNREAD)


def by_batch(view: PartyView, message: str) -> np.ndarray:
    """(rows, k): what the messages of the first epoch of a network hold of every row, in the order in which it takes them."""
    return _by_row(view, [value for _, name, value in view.received if name.startswith(message)])


def _by_row(view: PartyView, sent: list) -> np.ndarray:
    taken = [row for name, row in view.opened if name == "row"][: len(view.ids)]
    if len(set(taken)) < len(view.ids) or not sent:
        return np.full(len(view.ids), UNREAD)
    arrays = [each.detach().numpy() if hasattr(each, "detach") else np.asarray(each) for each in sent]
    numbers = np.concatenate(arrays)[: len(taken)]
    found = np.full((len(view.ids), numbers.shape[1]), UNREAD)
    found[taken] = numbers
    return found


def decrypted_gradients(view: PartyView) -> np.ndarray:
    """(rows, k): the gradients that a host of a split network decrypts with its own key, of the first epoch."""
    return _by_row(view, [each for name, each in view.opened if name == "gradient"])


def layer_outputs(view: PartyView) -> np.ndarray:
    """(rows, k): the outputs of the layer between both parties that open at the guest, of the first epoch."""
    return _by_row(view, [each for name, each in view.opened if name == "output"])


def embeddings(view: PartyView) -> np.ndarray:
    """(rows,): 1 for each row, where a prediction brings a guest as many outputs of the host's or the joint layer."""
    sent = [value for _, name, value in view.received if name.startswith("agglayer_pred")]
    sent += [value for name, value in view.opened if name == "output"]
    return np.full(len(view.ids), 1.0 if sum(len(each) for each in sent) >= len(view.ids) else UNREAD)


def correlations(view: PartyView) -> np.ndarray:
    """(rows,): 1 for each row, should the model that a correlation writes have as many numbers for each pair of columns."""
    pairs = (2 * view.features.shape[1]) ** 2
    written = len(re.findall(r"-?\d\.\d+", json.dumps(view.outputs["output_model"], default=str)))
    return np.full(len(view.ids), UNREAD if written <= 2 * pairs else 1.0)


def sides_of_gradients(view: PartyView, gradients: Reading) -> np.ndarray:
    """Labels (rows,) up to one swap: on which side of zero the gradients of the host's embedding lie."""
    sent = gradients(view)
    if not np.isfinite(sent).all():
        return np.full(len(view.ids), UNREAD)
    return (np.linalg.svd(sent, full_matrices=False)[0][:, 0] > 0).astype(float)


def numbers_of_folds(view: PartyView, message: str) -> np.ndarray:
    """(rows,): 1 for each row of which messages of folds hold a number in clear: all of them where none names its rows."""
    named: set[str] = set()
    count = 0
    for value in view.named(message):
        if hasattr(value, "as_pd_df"):
            named |= set(value.as_pd_df()["id"])
        else:
            count += int(np.isfinite(_local(value).astype(float)).all()) * tuple(value.shape)[0]
    every = count >= 2 * len(view.ids)
    return np.array([1.0 if every or row in named else UNREAD for row in view.ids])


def batches_out_of_order(view: PartyView, message: str) -> np.ndarray:
    """(rows,): 1 for each row that is in another batch than the order of sample ids puts it in."""
    order, at = sorted(row.replace("person", "row") for row in view.ids), 0
    found: dict[str, float] = {}
    for value in view.named(message):
        expected = set(order[at : at + len(value)])
        found |= {sample: UNREAD if sample in expected else 1.0 for sample, _ in value}
        at += len(value)
    return np.array([found[row.replace("person", "row")] for row in view.ids])


def labels_of_places(view: PartyView, messages: Sequence[str]) -> np.ndarray:
    """(rows,): labels of rows that were drawn, by their places in the guest's new table, up to one swap.

    In every part of it the rows of one class stand before those of the other, each in the order of sample ids.
    """
    old = {row.replace("person", "row"): place for place, row in enumerate(view.ids)}
    order = np.array([int(row.split()[1]) for row in view.ids])
    found = np.full(len(view.ids), UNREAD)
    for value in (value for name in messages for value in view.named(name) if value):
        rows = [old[sample] for sample, _ in sorted(value, key=lambda pair: pair[1])]
        found[rows] = np.concatenate([[0], np.cumsum(np.diff(order[rows]) < 0)]) % 2
    return found


def sampled_rows(view: PartyView) -> np.ndarray:
    """(rows,): 1 for each row that has a gradient in the last tree, where not all have."""
    sampled = {row for row, _ in view.named("en_gh")[-1].get_indexer(target="match_id").collect()}
    return np.array([1.0 if row in sampled and len(sampled) < len(view.ids) else UNREAD for row in view.ids])
