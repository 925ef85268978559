"""Readings of labels that need all messages of a training at once: paths of weights, leaves of many trees.

Rates and penalties are FATE's defaults, which every party has in the job. Of a party's own weights the last ones are in the
model that it writes, and each step is a message of the arbiter.
"""

import numpy as np

from bench.label_firewall_parties import UNREAD, PartyView
from fate_dp.attacks.label_ciphertexts import opened

RATE, PENALTY = 0.01, 1.0
"""Of FATE's optimizer in coordinated_lr and coordinated_linr: sgd, penalty l2."""
ROUNDS = 50


def residuals(view: PartyView, message: str, of_tensors) -> np.ndarray:
    """(epochs, rows) of what is sent as `half_d` or, of several hosts, `d`; `UNREAD` where it is blinded."""
    modulus, messages = of_tensors(view.named(message))
    plains = [opened(each, modulus) for each in messages]
    return np.array([[UNREAD if plain is None else float(plain) for plain in epoch] for epoch in plains])


def own_weights(view: PartyView) -> np.ndarray:
    """(steps + 1, features): a host's own weights before every step and in the end."""
    steps = np.array([_flat(each) for each in view.named("g")])
    last = _flat(view.outputs["output_model"]["data"]["estimator"]["param"]["coef_"])
    return last + np.vstack([np.cumsum(steps[::-1], axis=0)[::-1], np.zeros_like(last)])


def _flat(values) -> np.ndarray:
    return np.array(getattr(values, "tolist", lambda: values)(), dtype=float).ravel()


def whole_labels(view: PartyView, of_tensors) -> np.ndarray:
    """Whole-number labels (rows,) of `coordinated_linr` from weights at random: full batches, penalty l2, an intercept.

    With u = X w - y of the other parties and r the residual, a step of descent says
    -(u' - u) / rate = Q M Q^T r + penalty (X w - intercept), of which the columns Q span the changes of u. Its unknowns, M and
    the first X w less the intercept, follow by least squares from all steps; u has y then but for the intercept, which begins
    in [0, 1). How many columns count is decided by what labels leave of u outside the span of its changes.
    """
    single = bool(view.named("half_d"))
    sent = residuals(view, "half_d" if single else "d", of_tensors)
    own = own_weights(view)[: len(sent)] @ view.features.T
    others, whole = (sent, sent + own) if single else (sent - own, sent)
    if not np.isfinite(sent).all():
        return np.full(sent.shape[1], UNREAD)
    most = min(len(sent) - 1, sent.shape[1])
    columns = range(1, most)
    near = [_fitted(others, whole, each) for each in columns]
    found = [_refined(others, labels, each) for labels in near for each in columns]
    return min(found, key=lambda pair: pair[0])[1] if found else np.full(sent.shape[1], UNREAD)


def _refined(others: np.ndarray, labels: np.ndarray, columns: int) -> tuple[float, np.ndarray]:
    """Labels moved to the whole numbers that leave least outside the span of the changes, and what they leave."""
    span = np.linalg.svd(np.diff(others, axis=0).T, full_matrices=False)[0][:, :columns]
    basis = np.column_stack([np.ones(len(labels)), span])
    for _ in range(ROUNDS):
        rest = others[0] + labels - basis @ np.linalg.lstsq(basis, others[0] + labels, rcond=None)[0]
        moved = labels - np.round(rest)
        if (moved == labels).all():
            break
        labels = moved
    return float(np.linalg.norm(rest)), labels


def _fitted(others: np.ndarray, whole: np.ndarray, columns: int) -> np.ndarray:
    """Whole-number labels (rows,), of as many columns of the other parties."""
    moved = np.diff(others, axis=0)
    # The intercept moves by the mean residual; what remains of a change is that of the penalised weights' part.
    drift = -RATE * np.concatenate([[0.0], np.cumsum(whole.mean(axis=1))])[: len(whole)]
    span = np.linalg.svd(moved.T, full_matrices=False)[0][:, :columns]
    since = np.vstack([np.zeros(others.shape[1]), np.cumsum(moved, axis=0)])[:-1] - drift[:-1, None]
    known = np.column_stack([(whole @ span)[:-1], np.full(len(moved), PENALTY)])
    wanted = -moved @ span / RATE - PENALTY * since @ span
    first = np.linalg.lstsq(known, wanted, rcond=None)[0][-1]
    labels = span @ first - others[0]
    phase = np.exp(2j * np.pi * labels).mean()
    intercept = (-np.angle(phase) / (2 * np.pi)) % 1.0
    return np.round(labels + intercept)


def leaves_of_trees(view: PartyView) -> np.ndarray:
    """Labels (rows,) up to one swap by the leaves of every row in all trees: the side of their first principal component."""
    by_tree: list[dict[str, str]] = []
    for layer in view.named("new_sample_pos"):
        rows = layer.as_pd_df()
        nodes = rows["node_idx"].astype(str)
        # A tree's first layer has the children of its root alone.
        if set(nodes) <= {"1", "2"}:
            by_tree.append({})
        by_tree[-1].update(zip(rows["id"], nodes))
    table = np.hstack([_indicators([tree[row] for row in view.ids]) for tree in by_tree])
    centred = (table - table.mean(axis=0)) / np.sqrt(table.mean(axis=0))
    return (np.linalg.svd(centred, full_matrices=False)[0][:, 0] > 0).astype(float)


def _indicators(leaves: list[str]) -> np.ndarray:
    return (np.array(leaves)[:, None] == np.array(sorted(set(leaves)))).astype(float)


def lonely_rows(view: PartyView) -> np.ndarray:
    """For each of the guest's rows 1 where a histogram of a host has a split with this row alone on its left, by its gradient.

    The guest knows the gradients of the first tree, the mean label less the label; one that no other row has names it.
    """
    gradients, found = 2 * (view.labels.mean() - view.labels), np.full(len(view.ids), UNREAD)
    histograms = [sums for name, sums in view.opened if name == "histograms"]
    alone = np.concatenate([sums[counts == 1] for sums, _, counts in histograms]) if histograms else ()
    for each in alone:
        rows = np.flatnonzero(np.abs(gradients - each) < 1e-4)
        if len(rows) == 1:
            found[rows[0]] = 1.0
    return found
