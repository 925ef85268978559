"""The arithmetic of FATE 2.2's HomoLR in one process: the same model without servers, for repeats over many seeds.

In every epoch each party takes one optimiser step on the gradient of its own mean loss over all its rows, with an
optimiser state of its own, and the parameters are then averaged with the parties' numbers of rows as weights. Synthetic
rows count like others there: over-sampling gives a party whose classes are less balanced more weight than its real rows
would. Two facts about FATE are part of it: gradients are clipped to an l2 norm of 1 (the default of the trainer below
HomoLR), and the penalty goes through the optimiser as weight decay, so that it reaches the bias, too, and is not in the
loss. Parameters and gradients are 32-bit, averages 64-bit. One party alone gives the model of that party, or of pooled
rows.
"""
from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import numpy

from .homo_lr_settings import HomoLRSettings

LARGEST_GRADIENT = 1.0


class NotTrainable(ValueError):
    """Rows that HomoLR cannot be trained on."""


@dataclass(frozen=True)
class Trained:
    """``weights`` (m,), ``bias`` and ``losses``: the mean cross-entropy over all rows before each step."""

    weights: numpy.ndarray
    bias: float
    losses: tuple[float, ...]

    def scores(self, features) -> numpy.ndarray:
        """Probabilities (n,) of label 1 for features (n, m)."""
        from scipy.special import expit

        return expit(numpy.asarray(features, dtype=float) @ self.weights + self.bias)


def train(parties, settings: HomoLRSettings = HomoLRSettings()) -> Trained:
    """Train over ``parties``, a list of (features (n, m), labels (n,) of 0 and 1); raises NotTrainable."""
    clients = [_Client(features, labels, settings) for features, labels in _checked(parties, settings)]
    rows = numpy.array([client.rows for client in clients])
    shares, losses = rows / rows.sum(), []
    with one_thread():
        for _ in range(settings.epochs):
            losses.append(float(shares @ [client.step() for client in clients]))
            average = shares @ [client.parameters() for client in clients]
            for client in clients:
                client.accept(average)
    # What every party holds is the average at the clients' precision.
    *weights, bias = clients[0].parameters()
    return Trained(numpy.array(weights), float(bias), tuple(losses))


@contextmanager
def one_thread():
    """Sums in one order on every machine; and 37 columns give several threads little to do but wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Client:
    """One party: its rows, its copy of the parameters (the bias last), and its optimiser with a state of its own."""

    def __init__(self, features, labels, settings: HomoLRSettings):
        import torch

        self.rows = len(labels)
        self._features = torch.tensor(features, dtype=torch.float32)
        self._labels = torch.tensor(labels, dtype=torch.float32)
        self._parameters = torch.zeros(features.shape[1] + 1, requires_grad=True)
        optimizers = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop, "sgd": torch.optim.SGD}
        self._optimizer = optimizers[settings.optimizer](
            [self._parameters], lr=settings.learning_rate, weight_decay=settings.alpha)

    def step(self) -> float:
        """One step on all rows; returns the mean loss before it."""
        import torch

        self._optimizer.zero_grad()
        predicted = torch.sigmoid(self._features @ self._parameters[:-1] + self._parameters[-1])
        loss = torch.nn.functional.binary_cross_entropy(predicted, self._labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([self._parameters], LARGEST_GRADIENT)
        self._optimizer.step()
        return loss.item()

    def parameters(self) -> numpy.ndarray:
        """Weights and then the bias, (m + 1,)."""
        return self._parameters.detach().numpy().astype(float)

    def accept(self, average) -> None:
        """Go on from the average of all parties."""
        import torch

        with torch.no_grad():
            self._parameters.copy_(torch.from_numpy(average))


def _checked(parties, settings: HomoLRSettings) -> list:
    """The parties' rows as arrays, after every refusal."""
    arrays = [(numpy.asarray(features, dtype=float), numpy.asarray(labels)) for features, labels in parties]
    if not arrays:
        raise NotTrainable("Training needs at least one party; there is none.")
    columns = arrays[0][0].shape[1:]
    for number, (features, labels) in enumerate(arrays, start=1):
        if features.ndim != 2 or labels.shape != features.shape[:1] or not labels.size:
            raise NotTrainable(
                f"Party {number} has features of shape {features.shape} and labels of shape {labels.shape}; "
                "allowed are (n, m) and (n,) with n of at least 1."
            )
        if features.shape[1:] != columns or columns[0] < 1:
            raise NotTrainable(
                f"Party {number} has {features.shape[1]} features, party 1 has {columns[0]}; all must have the same.")
        if len(labels) > settings.batch_size:
            raise NotTrainable(
                f"Party {number} has {len(labels)} rows, more than the batch_size of {settings.batch_size}; "
                "here every step is on all rows."
            )
        if not (abs(features) <= numpy.finfo(numpy.float32).max).all():
            raise NotTrainable(f"Party {number} has a feature value that is no finite 32-bit number.")
        if not numpy.isin(labels, (0, 1)).all():
            raise NotTrainable(f"Party {number} has a label other than 0 and 1.")
    return arrays
