"""Losses of single records, under the names of ``torch.nn.functional``, and what a model's outputs mean under them.

A penalty on the weights is no part of a loss here: it needs no data, so it is the optimiser's ``weight_decay``, and
neither clipped nor paid for.
"""
import torch
from torch.nn import functional


def cross_entropy(outputs, labels):
    """Loss per record, in nats; a model with one output gives the log-odds of class 1, and labels may be soft then.

    A label that is no class number has the loss NaN and the gradient zero: one record's label stops no training.
    """
    if outputs.shape[-1] == 1:
        targets = labels.to(outputs.dtype)
        is_class = (targets >= 0) & (targets <= 1)
        targets = torch.where(is_class, targets, 0.0)
        losses = functional.binary_cross_entropy_with_logits(outputs.squeeze(-1), targets, reduction="none")
    else:
        is_class = (labels >= 0) & (labels < outputs.shape[-1]) & (labels == torch.floor(labels))
        targets = torch.where(is_class, labels, 0).long()
        losses = functional.cross_entropy(outputs, targets, reduction="none")
    return torch.where(is_class, losses, torch.nan)


def mse_loss(outputs, labels):
    """Squared error per record of a model with one output."""
    return functional.mse_loss(outputs.squeeze(-1), labels.to(outputs.dtype), reduction="none")


LOSSES = {"cross_entropy": cross_entropy, "mse_loss": mse_loss}


def predictions(loss, outputs):
    """Probabilities (n, classes) under 'cross_entropy', the values (n, 1) themselves under 'mse_loss'."""
    if loss == "mse_loss":
        return outputs
    if outputs.shape[1] == 1:
        return torch.cat([torch.sigmoid(-outputs), torch.sigmoid(outputs)], dim=1)
    return torch.softmax(outputs, dim=1)
