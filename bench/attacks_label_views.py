"""What parties of vertical trainings receive, in one process: views of stock FATE's components on true labels or on flips.

Ciphertexts are FATE's own, of its Paillier cipher at 1024 bits, made by the call that its components make: without blinding,
and for ours with it. What is encrypted are the formulas of the components in float32, with gradient descent on all records;
so a view is the strongest that the component shows. The split network and the boosted trees are plain twins: torch, and
scikit-learn's `GradientBoostingClassifier`, whose leaves stand for those that FATE's trees tell to hosts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from fate.arch.protocol.phe.paillier import evaluator, keygen
from fate.arch.tensor.phe import PHETensorCipher
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

from bench.attack_methods.label_ciphertexts import RING, SHARE_SCALE
from bench.attack_methods.label_views import (
    BottomView,
    JointScoreView,
    LeafView,
    LossView,
    RecordGradientView,
    ScoreReleasesView,
    ShareView,
    SumView,
)
from fate_dp.attacks.label_ciphertexts import Ciphertext, CiphertextView, LabelDefence
from fate_dp.deploy.recorder.fate_values import rust_ciphertexts, rust_modulus

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

KEY_BITS = 1024
COLUMNS = 5
STRENGTH = 1.5
EPOCHS, RATE = 20, 0.3
UNITS, HIDDEN, NETWORK_STEPS = 8, 16, 30
TREES, DEPTH = 20, 3
EXACT_ERROR = 1e-9
"""Of sums in float64, generously."""
SCORE_UNIT = 2.0**-46


@dataclass(frozen=True, eq=False)
class LabelTask:
    """Records of a guest and a host, with the law of their labels.

    Attributes:
        guest: columns, float64 (n, 5).
        host: as ``guest``.
        priors: probability of label 1 given all columns, float64 (n,).
        labels: true ones, int64 (n,).
    """

    guest: Array = field(repr=False)
    host: Array = field(repr=False)
    priors: Array = field(repr=False)
    labels: Labels = field(repr=False)

    @classmethod
    def coins(cls, rows: int, ones: float = 0.5, seed: int = 0) -> LabelTask:
        """Labels that are coins, of which a share of ``ones`` is 1, independent of the columns."""
        draws = np.random.default_rng(seed)
        columns = draws.normal(size=(rows, 2 * COLUMNS))
        labels = (draws.random(rows) < ones).astype(np.int64)
        return cls(columns[:, :COLUMNS], columns[:, COLUMNS:], np.full(rows, ones), labels)

    @classmethod
    def learnable(cls, rows: int, seed: int = 0) -> LabelTask:
        """Labels drawn from a logistic law of all columns, some three in ten of which are 1."""
        draws = np.random.default_rng(seed)
        columns = draws.normal(size=(rows, 2 * COLUMNS))
        priors = expit(STRENGTH * columns @ draws.choice((-1.0, 1.0), size=2 * COLUMNS) - STRENGTH)
        labels = (draws.random(rows) < priors).astype(np.int64)
        return cls(columns[:, :COLUMNS], columns[:, COLUMNS:], priors, labels)

    @property
    def columns(self) -> Array:
        return np.column_stack([self.guest, self.host])


class Stock:
    """FATE's tensor cipher with one key: what a guest sends under it."""

    def __init__(self) -> None:
        private, self._public, coder = keygen(KEY_BITS)
        self._encryptor = PHETensorCipher.from_raw_cipher(self._public, coder, private, evaluator).pk

    @cached_property
    def modulus(self) -> int:
        return rust_modulus(self._public.pk)

    def encrypted(self, numbers: NDArray[np.generic], blinded: bool = False) -> tuple[Ciphertext, ...]:
        """Ciphertexts of the numbers, as FATE's components make them unless ``blinded``."""
        sealed = self._encryptor.encrypt_tensor(torch.from_numpy(numbers), obfuscate=blinded)
        return tuple(Ciphertext(*each) for each in rust_ciphertexts(sealed._data))

    def binning(self, given: Labels, defence: LabelDefence, blinded: bool = False) -> CiphertextView:
        """The labels themselves, as ``hetero_feature_binning`` sends them to hosts."""
        return CiphertextView(modulus=self.modulus, messages=(self.encrypted(given, blinded),), defence=defence)

    def regression(
        self, task: LabelTask, given: Labels, defence: LabelDefence, epochs: int = EPOCHS, blinded: bool = False
    ) -> CiphertextView:
        """Residuals of every epoch, as ``coordinated_lr`` sends them, from weights uniform in [0, 1); one epoch from zeros."""
        columns = np.column_stack([np.ones(len(given)), task.columns]).astype(np.float32)
        draws = np.random.default_rng(0)
        weights = draws.random(columns.shape[1]).astype(np.float32) * np.float32(epochs > 1)
        messages = []
        for _ in range(epochs):
            residuals = np.float32(0.25) * (columns @ weights) - np.float32(0.5) * (2 * given - 1).astype(np.float32)
            messages.append(self.encrypted(residuals, blinded))
            weights -= np.float32(RATE) * (columns.T @ residuals) / np.float32(len(given))
        return CiphertextView(modulus=self.modulus, messages=tuple(messages), defence=defence)

    def shares(self, given: Labels, defence: LabelDefence) -> ShareView:
        """The guest's shares of the first residuals, as SSHE sends them from zero weights, beside the host's own."""
        residuals = np.rint((0.5 - given) / len(given) * SHARE_SCALE).astype(np.int64)
        own = np.random.default_rng(0).integers(-(RING >> 3), RING >> 3, size=len(given))
        message = self.encrypted(residuals - own)
        return ShareView(modulus=self.modulus, messages=(message,), shares=(tuple(own.tolist()),), defence=defence)


def network_view(
    task: LabelTask, given: Labels, defence: LabelDefence, known: Labels | None = None
) -> RecordGradientView:
    """Gradients by the host's outputs of a split network of tanh units, after 30 steps on all records."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        bottoms = [nn.Linear(COLUMNS, UNITS), nn.Linear(COLUMNS, UNITS)]
        top = nn.Sequential(nn.Tanh(), nn.Linear(2 * UNITS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
    rows = [torch.from_numpy(part.astype(np.float32)) for part in (task.guest, task.host)]
    targets = torch.from_numpy(given.astype(np.float32))[:, None]
    parts = nn.ModuleList([*bottoms, top])
    optimiser = torch.optim.Adam(parts.parameters(), lr=0.01)
    for _ in range(NETWORK_STEPS):
        optimiser.zero_grad()
        cuts = [bottom(part) for bottom, part in zip(bottoms, rows)]
        nn.functional.binary_cross_entropy_with_logits(top(torch.cat(cuts, dim=1)), targets).backward()
        optimiser.step()
    cuts = [bottom(part).detach().requires_grad_() for bottom, part in zip(bottoms, rows)]
    loss = nn.functional.binary_cross_entropy_with_logits(top(torch.cat(cuts, dim=1)), targets, reduction="sum")
    (gradients,) = torch.autograd.grad(loss, [cuts[1]])
    known = np.zeros(0, np.int64) if known is None else known
    return RecordGradientView(
        gradients=gradients.numpy().astype(np.float64), known=known, known_labels=task.labels[known], defence=defence
    )


def sum_view(task: LabelTask, given: Labels, defence: LabelDefence) -> SumView:
    """The first step of the host's own weights, from zero, as ``dp_hetero_lr`` shows it in one epoch."""
    halves = np.full(len(given), 0.5)
    gradient = task.host.T @ (halves - given) / len(given)
    return SumView(
        columns=task.host, predictions=halves, gradient=gradient, error=EXACT_ERROR / len(given), defence=defence
    )


def loss_view(given: Labels, defence: LabelDefence, evaluations: int = 4, error: float = EXACT_ERROR) -> LossView:
    """Mean losses of several scores that the observer gave, rounded to multiples of ``error``."""
    scores = np.random.default_rng(0).normal(size=(evaluations, len(given))) * 2
    losses = (np.logaddexp(0.0, scores) - scores * given).mean(axis=1)
    return LossView(scores=scores, losses=np.rint(losses / error) * error, error=error, defence=defence)


def leaf_view(task: LabelTask, given: Labels, defence: LabelDefence, known: Labels) -> LeafView:
    """The leaves of 20 boosted trees of depth 3 on all columns, and some true labels."""
    trees = GradientBoostingClassifier(n_estimators=TREES, max_depth=DEPTH, learning_rate=0.3, random_state=0)
    leaves = trees.fit(task.columns, given).apply(task.columns)[:, :, 0].astype(np.int64)
    return LeafView(leaves=leaves, known=known, known_labels=task.labels[known], defence=defence)


def bottom_view(task: LabelTask, given: Labels, defence: LabelDefence, known: Labels) -> BottomView:
    """The host's part of the scores of a logistic regression on all columns, and some true labels."""
    weights = LogisticRegression().fit(task.columns, given).coef_[0, COLUMNS:]
    outputs = (task.host @ weights)[:, None]
    return BottomView(outputs=outputs, known=known, known_labels=task.labels[known], defence=defence)


def raw_view(task: LabelTask, defence: LabelDefence, known: Labels) -> BottomView:
    """The host's own columns instead of its part of a model: what the known labels tell without any training."""
    return BottomView(outputs=task.host, known=known, known_labels=task.labels[known], defence=defence)


def score_view(values: Array, weights: Array, step: float, seed: int | None = None) -> JointScoreView:
    """A host's part of scores, exact in units of 2^-46, or rounded at random to multiples of ``step``."""
    exact = values @ weights
    if seed is None:
        return JointScoreView(scores=exact, step=SCORE_UNIT)
    rounded = np.floor(exact / step + np.random.default_rng(seed).random(len(exact))) * step
    return JointScoreView(scores=rounded, step=SCORE_UNIT)


def releases_view(columns: Array, releases: int, step: float, known: Labels) -> ScoreReleasesView:
    """A host's part of the scores of several models, rounded at random, and its columns of some records."""
    draws = np.random.default_rng(0)
    exact = columns @ (0.4 * draws.normal(size=(columns.shape[1], releases)))
    rounded = np.floor(exact / step + draws.random(exact.shape)) * step
    return ScoreReleasesView(scores=rounded, known=known, known_columns=columns[known])
