"""The numbers that training by cross products keeps from its parties, computed in the clear."""

from typing import NamedTuple

import numpy as np

from .attacks import Secret

SUMS, WEIGHTS, LOSSES, SLOPES = (48, 44, 40), (40, 30, 22), (61, 60, 30), (84, 30)
"""Fractional bits that the protocol gives numbers of a kind."""


class Path(NamedTuple):
    """Joint weights (steps + 1, m); of every step the loss without its constant, gradient, and H w + alpha w - 2 b."""

    weights: np.ndarray
    losses: np.ndarray
    gradients: np.ndarray
    slopes: np.ndarray


def protected_numbers(
    parts: dict[str, np.ndarray], targets, batches: list[tuple[int, int]], optimizer: dict, start, steps: int
) -> dict[str, Secret]:
    """Everything that some party must not see.

    Args:
        parts: {party: float (n, m_p)}, the guest's first, its intercept as its last column.
        targets: (n,) targets +-1/2.
        start: joint weights before the first step.
        steps: steps to follow, batches in turn.
    """
    ends = np.cumsum([0, *(part.shape[1] for part in parts.values())])
    columns = {party: slice(*edges) for party, edges in zip(parts, zip(ends, ends[1:]))}
    joint, intercept = np.column_stack(list(parts.values())), ends[1] - 1
    penalties = np.where(np.arange(ends[-1]) == intercept, 0.0, optimizer["alpha"])
    factors = np.column_stack([joint, targets])
    sums = [(joint[first:last].T @ factors[first:last], last - first) for first, last in batches]
    path = _descent(sums, penalties, optimizer["optimizer_params"], start, steps)
    for matrix, _ in sums:
        matrix[intercept, intercept] = 0.0  # the number of rows, which is public
    means = [matrix / divisor for matrix, rows in sums for divisor in (1, rows, 4 * rows)]
    secrets = {"losses": Secret([path.losses, 2 * path.losses], LOSSES)}
    for party, own in columns.items():
        secrets |= {
            f"weights of {party}": Secret(path.weights[[0, -1]][:, own], WEIGHTS),
            f"weights on the way of {party}": Secret(path.weights[1:-1, own], WEIGHTS),
            f"steps of {party}": Secret(np.diff(path.weights, axis=0)[:, own], WEIGHTS),
            f"gradients of {party}": Secret(path.gradients[:, own], SLOPES),
            f"slopes of {party}": Secret(path.slopes[:, own], SLOPES),
            f"labels x {party}": Secret([matrix[own, -1] for matrix in means], SUMS),
        }
        for other, others in columns.items():
            secrets[f"{other} x {party}"] = Secret([matrix[others, own] for matrix in means], SUMS)
    return secrets


def kept_from(party: str, secrets: dict[str, Secret]) -> dict[str, Secret]:
    """What a party must not see: all but its own data, its first and last weights, and at the guest the losses."""
    known = {f"{party} x {party}", f"weights of {party}"}
    if party == "guest":
        known |= {"losses", "labels x guest"}
    return {name: secret for name, secret in secrets.items() if name not in known}


def _descent(sums, penalties, params: dict, start, steps: int) -> Path:
    weights, velocity, found = np.array(start, dtype=float), None, []
    for step in range(steps):
        matrix, rows = sums[step % len(sums)]
        hessian, linear = matrix[:, :-1] / (4 * rows), matrix[:, -1] / rows
        pull = hessian @ weights + penalties * weights
        found.append((weights, weights @ pull / 2 - linear @ weights, pull - linear, pull - 2 * linear))
        gradient, momentum = pull - linear, params.get("momentum", 0.0)
        velocity = gradient if velocity is None else momentum * velocity + gradient
        direction = gradient + momentum * velocity if params.get("nesterov") else velocity
        weights = weights - params["lr"] * direction
    before, losses, gradients, slopes = map(np.array, zip(*found))
    return Path(np.vstack([before, weights]), losses, gradients, slopes)
