"""Weights of a module as one flat array, in the order of ``module.parameters()``."""
import numpy as np
import torch


class InvalidWeights(ValueError):
    """Flat weights are not as many finite numbers as the module has parameters: one sentence."""


def dimension(module):
    """Number d of parameters."""
    return sum(parameter.numel() for parameter in module.parameters())


def flat_weights(module):
    """All parameters as a new float64 array (d,)."""
    parts = [parameter.detach().cpu().numpy().ravel() for parameter in module.parameters()]
    return np.concatenate(parts).astype(np.float64)


def load_flat(module, weights):
    """Set the parameters to ``weights``, real numbers (d,), rounded to the module's own precision.

    :raises InvalidWeights: one sentence.
    """
    weights = np.asarray(weights)
    if weights.shape != (dimension(module),) or weights.dtype.kind not in "fiu":
        raise InvalidWeights(
            f"weights have shape {weights.shape} and type {weights.dtype} but must be {dimension(module)} real numbers."
        )
    if not np.isfinite(weights).all():
        raise InvalidWeights("weights hold a NaN or an infinity but must be finite.")
    start = 0
    with torch.no_grad():
        for parameter in module.parameters():
            part = weights[start : start + parameter.numel()]
            parameter.copy_(torch.from_numpy(part.astype(np.float64)).view_as(parameter))
            start += parameter.numel()
