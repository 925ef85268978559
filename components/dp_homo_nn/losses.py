"""Losses of single records, under the names of ``torch.nn.functional``, and what a model's outputs mean under them.

A penalty on the weights is no part of a loss here: it needs no data, so it is the optimiser's ``weight_decay``, and
neither clipped nor paid for.
"""
import torch
from torch.nn import functional

from fate_dp.components.dp_homo_nn.record_arithmetic import sigmoid, softmax


def cross_entropy(outputs, labels):
    """Loss per record, in nats; a model with one output gives the log-odds of class 1, and labels may be soft then.

    A label that is no class number has the loss NaN and the gradient zero: one record's label stops no training.
    """
    targets, is_class = _targets(outputs, labels)
    if outputs.shape[-1] == 1:
        losses = functional.binary_cross_entropy_with_logits(outputs.squeeze(-1), targets, reduction="none")
    else:
        losses = functional.cross_entropy(outputs, targets, reduction="none")
    return torch.where(is_class, losses, torch.nan)


def mse_loss(outputs, labels):
    """Squared error per record of a model with one output."""
    return functional.mse_loss(outputs.squeeze(-1), labels.to(outputs.dtype), reduction="none")


LOSSES = {"cross_entropy": cross_entropy, "mse_loss": mse_loss}


def slopes(loss, outputs, labels):
    """Gradient of each record's loss by its outputs, float64 (n, outputs), in the arithmetic of `record_arithmetic`.

    Zero for a label that is no class, and where an output is not finite.

    :param outputs: float64 (n, outputs). :param labels: (n,).
    """
    if loss == "mse_loss":
        found = 2 * (outputs - labels.to(outputs.dtype).unsqueeze(1))
    else:
        targets, is_class = _targets(outputs, labels)
        if outputs.shape[1] == 1:
            found = sigmoid(outputs) - targets.unsqueeze(1)
        else:
            found = softmax(outputs)
            found -= functional.one_hot(targets, outputs.shape[1])
        found = torch.where(is_class.unsqueeze(1), found, 0.0)
    is_usable = torch.isfinite(outputs).all(1, keepdim=True) & torch.isfinite(found).all(1, keepdim=True)
    return torch.where(is_usable, found, 0.0)


def factors_of(factors, labels):
    """Each record's factor (n,), zero for a label that is no class number.

    :param factors: float64 (k,), one for each class. :param labels: (n,).
    """
    is_class = (labels >= 0) & (labels < len(factors)) & (labels == torch.floor(labels))
    return torch.where(is_class, factors[torch.where(is_class, labels, 0).long()], 0.0)


def _targets(outputs, labels):
    """Class numbers, or soft labels for one output, with 0 for those that are none; and which are none."""
    if outputs.shape[-1] == 1:
        targets = labels.to(outputs.dtype)
        is_class = (targets >= 0) & (targets <= 1)
        return torch.where(is_class, targets, 0.0), is_class
    is_class = (labels >= 0) & (labels < outputs.shape[-1]) & (labels == torch.floor(labels))
    return torch.where(is_class, labels, 0).long(), is_class


def predictions(loss, outputs):
    """Probabilities (n, classes) under 'cross_entropy', the values (n, 1) themselves under 'mse_loss'."""
    if loss == "mse_loss":
        return outputs
    if outputs.shape[1] == 1:
        return torch.cat([torch.sigmoid(-outputs), torch.sigmoid(outputs)], dim=1)
    return torch.softmax(outputs, dim=1)
