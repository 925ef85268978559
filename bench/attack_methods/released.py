"""A trained model, as whoever gets it has it: layers and weights, and so its outputs on any record.

The observer of a `ReleasedModel` is the one that guarantees call ``model``: a party that took part and was given the model at
the end, a customer of it, or anybody whom these show it. It saw no message of the training. Attacks on membership read the
model's confidence on records that the observer has; model inversion reads its gradient by the input.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bench.attack_methods.view import Defence
from fate_dp.components.dp_homo_nn.models.spec import load_flat
from fate_dp.privacy.validation import InvalidArgument

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

MODEL = "model"
RECORDS_AT_ONCE = 1024
# Log-odds beyond are those of a probability that float64 does not tell from 0 or 1.
MAX_LOG_ODDS = 35.0


@dataclass(frozen=True, eq=False)
class ReleasedModel:
    """What the observer of a trained model has.

    Attributes:
        module: with the released weights, from float32 (n, m) to (n, k) with k at least 2 logits; a copy of the observer's.
        defence: what stood between the records and the model while it was trained.
    """

    module: nn.Module
    defence: Defence
    observer: str = MODEL

    def __post_init__(self) -> None:
        object.__setattr__(self, "module", deepcopy(self.module).eval())

    @classmethod
    def of(cls, module: nn.Module, weights: Array, defence: Defence) -> ReleasedModel:
        """From flat weights (d,), as ``dp_homo_nn`` releases them; ``module`` stays as it is."""
        loaded = deepcopy(module)
        load_flat(loaded, weights)
        return cls(loaded, defence)

    def log_probabilities(self, features: NDArray[np.float32]) -> Tensor:
        """Of the classes, float64 (n, k)."""
        with torch.no_grad():
            blocks = torch.from_numpy(np.asarray(features, dtype=np.float32)).split(RECORDS_AT_ONCE)
            outputs = torch.cat([self.module(block) for block in blocks]).double()
        if outputs.dim() != 2 or outputs.shape[1] < 2:
            raise InvalidArgument.of("outputs of the released model", outputs, "at least 2 logits a record")
        return torch.log_softmax(outputs, dim=1)

    def confidences(self, features: NDArray[np.float32], labels: Labels) -> Array:
        """Log-odds of each record's own label, float64 (n,): ln p - ln(1 - p), within 35 of 0.

        The statistic of [Carlini2022], section VI A: of members and of others it is nearly normal, which probabilities and
        losses are not.
        """
        logs = self.log_probabilities(features)
        own = torch.from_numpy(np.asarray(labels, dtype=np.int64)).unsqueeze(1)
        others = logs.scatter(1, own, -torch.inf).logsumexp(dim=1)
        odds = logs.gather(1, own).squeeze(1) - others
        return odds.clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS).numpy()

    def accuracy(self, features: NDArray[np.float32], labels: Labels) -> float:
        """Share of records whose likeliest class is their label."""
        return float((self.log_probabilities(features).argmax(dim=1).numpy() == labels).mean())
