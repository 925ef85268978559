"""How a training moves: the update rule of one party, its batches, when it ends, and the sigmoid's corrections.

The update rule is FATE's optimiser and learning-rate schedule on the party's own float64 weights.
Every optimiser FATE offers works coordinate by coordinate, so each party may run its own on its part of the gradient
and the joint model is the one that a single optimiser over all weights would give. No weight has to leave its party.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from ..common.federation import Document
from ..common.preflight import Refusal

if TYPE_CHECKING:
    import torch

# Beyond this nothing is learned; the bound also keeps the penalty's part of the loss within the encrypted sums.
MAX_PENALTY = 1e6
ROWS_PER_FEATURE = 10
ROWS_PER_FEATURE_OF_FEW_VALUES = 40
# Errors shrink by e to minus this in the epochs of a training, and what they add to the loss to less than a hundredth.
SETTLING = 2.5


class PartyOptimizer:
    """Weights of one party and their optimiser's state; per batch ``regularise`` then ``step``, and ``next_epoch``.

    Written for FATE's own dictionaries: ``optimizer = {"method", "penalty", "alpha", "optimizer_params"}`` and
    ``learning_rate_scheduler = {"method", "scheduler_params"}``. The penalty never touches the intercept, which is the
    last weight of a party that has one.
    """

    weights: torch.Tensor

    def __init__(
        self,
        initial_weights: ArrayLike,
        optimizer: Document,
        learning_rate_scheduler: Document,
        fit_intercept: bool = False,
    ) -> None:
        """``initial_weights`` are m numbers in any shape."""
        import torch
        from fate.ml.utils._optimizer import LRScheduler, Optimizer

        self.place(initial_weights)
        self.fit_intercept = fit_intercept
        self._optimizer = Optimizer(
            optimizer["method"], optimizer["penalty"], optimizer["alpha"], optimizer["optimizer_params"]
        )
        self._optimizer.init_optimizer(model_parameter_length=len(self.weights), dtype=torch.float64)
        self._scheduler = LRScheduler(learning_rate_scheduler["method"], learning_rate_scheduler["scheduler_params"])
        self._scheduler.init_scheduler(optimizer=self._optimizer.optimizer)
        # FATE counts from 0 and its l1 shrinkage divides by the root of the count: a first epoch of all zeros.
        self._optimizer.set_iters(1)

    def regularise(self, gradient: ArrayLike) -> torch.Tensor:
        """Return the gradient (m, 1) plus alpha times the weights under an l2 penalty, unchanged otherwise."""
        return self._optimizer.add_regular_to_grad(_column(gradient), self.weights, self.fit_intercept)

    def step(self, gradient: ArrayLike | torch.Tensor) -> None:
        """Move the weights by one step along the regularised gradient (m, 1)."""
        self._optimizer.step(_column(gradient))
        change = self._optimizer.get_delta_gradients()
        self.weights = self._optimizer.update_weights(self.weights, change, self.fit_intercept, self._scheduler.lr)

    def next_epoch(self) -> None:
        with warnings.catch_warnings():
            # Torch expects its own optimiser to have made a step; weights that are trained as shares are moved elsewhere.
            warnings.filterwarnings("ignore", module="torch.optim.lr_scheduler")
            self._scheduler.step()
        self._optimizer.set_iters(self._optimizer.iters + 1)

    def place(self, weights: ArrayLike) -> None:
        """Take weights from elsewhere, m numbers in any shape."""
        self.weights = _column(np.array(weights, dtype=np.float64))

    def learning_rates(self, epochs: int) -> list[float]:
        """The step sizes of the next ``epochs`` epochs, as the schedule has them."""
        ahead, rates = copy.deepcopy(self), []
        for _ in range(epochs):
            rates.append(ahead._optimizer.optimizer.param_groups[0]["lr"])
            ahead.next_epoch()
        return rates

    def penalty_loss(self) -> float:
        """The penalty's term of the loss: alpha / 2 |w|_2^2 or alpha |w|_1, without the intercept."""
        weights = self.weights[:-1] if self.fit_intercept else self.weights
        if self._optimizer.l2_penalty:
            return 0.5 * self._optimizer.alpha * float((weights**2).sum())
        if self._optimizer.l1_penalty:
            return self._optimizer.alpha * float(weights.abs().sum())
        return 0.0

    def state(self) -> dict[str, object]:
        # FATE's state_dict turns the tensors of the living optimiser into lists: hence the copy.
        return {
            "weights": self.weights.flatten().tolist(),
            "iters": self._optimizer.iters,
            "optimizer": copy.deepcopy(self._optimizer).state_dict(),
            "lr_scheduler": copy.deepcopy(self._scheduler.state_dict()),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue exactly where the ``state`` was taken; ``state`` is left unchanged."""
        import torch

        self.place(state["weights"])
        self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self._optimizer.set_iters(state["iters"])
        self._scheduler.load_state_dict(copy.deepcopy(state["lr_scheduler"]), self._optimizer.optimizer)
        # Undo what FATE's loading does: it reads buffers as float32, and a new schedule scales the learning rate.
        saved = state["optimizer"]["optimizer"]
        for group, saved_group in zip(self._optimizer.optimizer.param_groups, saved["param_groups"], strict=True):
            group["lr"] = saved_group["lr"]
        buffers = self._optimizer.optimizer.state[self._optimizer.model_parameter]
        for name, value in saved["state"].get(0, {}).items():
            if isinstance(value, list):
                buffers[name] = torch.tensor(value, dtype=torch.float64)


def default_optimizer(
    records: int,
    features: int,
    epsilon: float,
    family: str = "binomial",
    *,
    epochs: int,
    batches: int = 1,
    classes: int = 2,
) -> Document:
    """Optimiser settings in FATE's format, from public numbers alone, for features of mean square 1.

    - alpha = (1/8 + 3/2 (1 - s)^(3/2) / s^2) m / n, s = (e^epsilon - 1) / (e^epsilon + k - 1): flips among k classes scale the
      signal in the labels by s, the chance to keep a label less that to become a given other one, and leave their variance.
      With two classes s is 1 - 2q = tanh(epsilon / 2), with more it is that of each class against the rest. The best
      penalty is the variance that features do not explain over that of a weight, m (1 / (s^2 R^2) - 1) / (4 n) were weights
      alike and R^2 the part that they explain. Few flips take R^2 to be 2/3: too much of a penalty costs far more than too
      little where columns are correlated and small directions count. Many take it to be 1/6, since then no more than the
      main directions can be learned; chosen by cross-validation against flipped labels, see bench/label_dp.py and
      bench/defaults.py. For linear regression alpha is m / (n s^2), which is right if features explain half of the variance.
    - learning rate = 1 / L, L = m / 4 + alpha: the quadratic loss of m standardised features curves by L at most, so
      plain gradient descent at this rate never overshoots. Linear regression has m in place of m / 4.
    - Nesterov's momentum (1 - r) / (1 + r). With r^2 = alpha / L, the best one for a loss that curves by alpha at least,
      every error shrinks by 1 - r in an epoch. Where that is too slow for the epochs that there are, r is
      `SETTLING` / ``epochs``: all but the flattest directions, in which the loss hardly differs, get there as soon. A
      constant momentum with this r forgets after 1 / r epochs, which is what restarts are for.
    - With several batches, whose gradients differ, momentum is 0.3: an epoch makes a step for each of them, and much
      momentum would add up how they differ.

    Reference: Y. Nesterov, "Introductory Lectures on Convex Optimization" (2004), section 2.2.1; B. O'Donoghue,
    E. Candes, "Adaptive restart for accelerated gradient schemes", Foundations of Computational Mathematics 15 (2015).

    Here n is ``records``, m ``features`` of all parties with the intercept, and k ``classes`` that labels are flipped among
    at ``epsilon`` (nats; infinity without flips). ``batches`` are of an epoch.
    """
    gaussian, kept = family == "gaussian", flipped_signal(epsilon, classes)
    signal = max(kept**2, 1 / MAX_PENALTY)
    factor = 1 / signal if gaussian else 0.125 + 1.5 * (1 - kept) ** 1.5 / signal
    alpha = min(MAX_PENALTY, factor * features / records)
    curvature = (features if gaussian else features / 4) + alpha
    return {
        "method": "sgd",
        "penalty": "l2",
        "alpha": alpha,
        "optimizer_params": {"lr": 1.0 / curvature, **_momentum(alpha / curvature, epochs, batches)},
    }


def flipped_signal(epsilon: float, classes: int) -> float:
    """(e^epsilon - 1) / (e^epsilon + k - 1): what flips among k classes leave of how labels follow features."""
    return -math.expm1(-epsilon) / (1 + (classes - 1) * math.exp(-epsilon))


def _momentum(flatness: float, epochs: int, batches: int) -> dict[str, float | bool]:
    """Torch's parameters for the momentum; ``flatness`` is the least curvature over the largest."""
    if batches > 1:
        return {"momentum": 0.3}
    root = max(math.sqrt(flatness), SETTLING / epochs)
    # Torch takes no Nesterov's momentum of 0.
    return {"momentum": (1 - root) / (1 + root), "nesterov": True} if root < 1 else {}


def constant_learning_rate() -> Document:
    return {"method": "constant", "scheduler_params": {"factor": 1.0, "total_iters": 0}}


def kaiming_uniform(features: int, generator: np.random.Generator, fit_intercept: bool = False) -> np.ndarray:
    """Initial weights of one party, uniform between -1 / sqrt(m) and 1 / sqrt(m); the intercept, last, starts at 0.

    This is what ``torch.nn.Linear`` draws: Kaiming's uniform rule with a = sqrt(5). Reference: K. He et al., "Delving
    Deep into Rectifiers" (2015). The m ``features`` count without the intercept; initial weights are no secret noise.
    """
    weights = generator.uniform(-1.0, 1.0, size=features) / math.sqrt(features)
    return np.append(weights, 0.0) if fit_intercept else weights


def _column(gradient: ArrayLike | torch.Tensor) -> torch.Tensor:
    import torch

    return torch.as_tensor(gradient, dtype=torch.float64).reshape(-1, 1)


def check_few_valued_batches(rows: int, size: int | None, features: int) -> None:
    """Refuse batches from whose losses a guest could find a host's column of few values.

    Losses and own weights can determine the products of such a column with each of the guest's, to some 30 bits. Where a
    batch has 40 rows for every feature, these hold fewer bits than the column has values.

    ``features`` are of all data parties together; the targets of more than two classes count, all but one, since they are
    further columns that the guest knows.
    """
    _check_size(
        rows,
        size,
        ROWS_PER_FEATURE_OF_FEW_VALUES * features,
        f"{ROWS_PER_FEATURE_OF_FEW_VALUES} times all parties' features, where a host has columns of few values, or "
        "losses could show them; its operator may name the table in few_valued_scores of the policy.",
    )


def check_batches(rows: int, size: int | None, largest_feature_count: int) -> None:
    """Refuse batches from whose exact gradient a party could solve for every residual as for a real number.

    Labels are bits: on few rows a lattice finds them from less. Only their flip protects them from a host.
    """
    why = "times the largest feature count of a party, or a host could solve for every residual"
    _check_size(rows, size, ROWS_PER_FEATURE * largest_feature_count, f"{ROWS_PER_FEATURE} {why}")


def _check_size(rows: int, size: int | None, needed: int, why: str) -> None:
    if (rows if size is None else min(size, rows)) < needed:
        given = f"None (all {rows} rows)" if size is None else size
        raise Refusal(f"batch_size must be at least {needed}, {why}, got {given}.")


def batch_bounds(rows: int, size: int | None) -> list[tuple[int, int]]:
    """[(first row, row after the last), ...]: consecutive, the same in every epoch, the remainder in the last one."""
    if size is None or size >= rows:
        return [(0, rows)]
    starts = list(range(0, rows - size + 1, size))
    return list(zip(starts, [*starts[1:], rows]))


GOES_ON, CONVERGED, EXHAUSTED = "goes on", "converged", "exhausted"
DIVERGED = "diverged"
SETTLED = 1e-4


def refuse_divergence(state: str | None) -> None:
    """What every party raises where the guest's word is that the loss left all bounds."""
    if state == DIVERGED:
        raise ValueError("The loss left all bounds, so the training diverged; lower the learning rate or alpha.")


def in_words(converged: bool, losses: Sequence[float]) -> str:
    """For a summary: whether training converged, and if not, by how much the loss still changed; without losses nobody knows."""
    if converged and losses and abs(losses[0] - losses[-1]) < 20 * SETTLED:
        return (
            f"the loss settled, but changed by {abs(losses[0] - losses[-1]):.2g} in all, hardly more than can be told"
        )
    if converged:
        return "yes"
    if not losses:
        return "not known without losses"
    changed = f": the loss still changed by {abs(losses[-2] - losses[-1]):.2g} in the last epoch" if losses[1:] else ""
    return f"no{changed}; more epochs may give another model"


class Convergence:
    """When training ends, decided by the guest from the loss on flipped labels or from the change of all weights.

    FATE's criteria: ``diff`` (change of the loss below tol), ``abs`` (loss at most tol), ``weight_diff`` (l2 norm of
    the change of all parties' weights in an epoch below tol).

    With tol 0 ``diff`` lets all epochs run; then training converged if the mean loss of their last tenth differs by less
    than `SETTLED` from that of the tenth before.
    """

    def __init__(self, criterion: str, tol: float):
        self._criterion, self._tol = criterion, tol
        self._losses: list[float] = []

    def state(self, epoch: int, epochs: int, loss: float | None, squared_change: float | None) -> str:
        """One of `GOES_ON`, `CONVERGED`, `EXHAUSTED`; ``squared_change`` is for ``weight_diff``, ``loss`` None if not shown."""
        last = epoch + 1 == epochs
        if loss is None:
            return EXHAUSTED if last else GOES_ON
        self._losses.append(loss)
        if self._reached(squared_change) or last and self._settled():
            return CONVERGED
        return EXHAUSTED if last else GOES_ON

    def _reached(self, squared_change: float | None) -> bool:
        if self._criterion == "abs":
            return self._losses[-1] <= self._tol
        if self._criterion == "weight_diff":
            return squared_change is not None and squared_change**0.5 < self._tol
        return len(self._losses) > 1 and abs(self._losses[-2] - self._losses[-1]) < self._tol

    def _settled(self) -> bool:
        tenth = max(1, len(self._losses) // 10)
        before, after = self._losses[-2 * tenth : -tenth], self._losses[-tenth:]
        all_ran = self._criterion == "diff" and self._tol == 0
        return all_ran and bool(before) and abs(fmean(before) - fmean(after)) < SETTLED


# Exact logistic regression on the quadratic engine: a quadratic that bounds the logistic loss, moved a few times.
#
# The loss of one record, log(1 + e^z) - y z, curves by sigmoid(z) (1 - sigmoid(z)) <= 1/4 everywhere. So the quadratic of
# curvature 1/4 that touches it at a point z_0 lies above it everywhere:
#
#     log(1 + e^z) - y z <= z^2 / 8 - t z + c
#     t = z_0 / 4 + y - sigmoid(z_0),   c = log(1 + e^z_0) - z_0 sigmoid(z_0) + z_0^2 / 8
#
# A training that lowers the right-hand side from z = z_0 on lowers the loss. Its Hessian X^T X / 4 is the same for every
# z_0; moving z_0 to the present scores replaces the target t alone. At z_0 = 0 the quadratic is the Taylor loss and t is
# y - 1/2: so a fresh training begins with a phase for which nobody needs a score, and every round after it is one
# correction of the target at the joint scores of that moment, which the guest gets to see.
#
# Reference: D. Boehning and B. G. Lindsay, "Monotonicity of quadratic-approximation algorithms", Annals of the Institute
# of Statistical Mathematics 40 (1988).


def correction_epochs(epochs: int, rounds: int, warm_start: bool = False) -> list[int]:
    """Epochs (from 0) that begin with a correction: the ends of phases of equal length, the last phase the shortest.

    100 epochs with 3 rounds give 25, 50 and 75, which is when flipback runs by default: one release of joint scores then
    serves both. There are fewer rounds where the epochs do not hold ``rounds`` phases and one epoch more.

    After a ``warm_start`` from a trained model the first round is at epoch 0, since a phase on the Taylor loss would lead
    away from its weights.
    """
    phases, first = (rounds, 0) if warm_start else (rounds + 1, 1)
    length = math.ceil(epochs / phases)
    return list(range(first * length, epochs, length))


def corrected_target(labels: np.ndarray, joint_scores: np.ndarray) -> np.ndarray:
    """The target t = z / 4 + y - sigmoid(z) whose quadratic touches the logistic loss at z, for labels y from 0 to 1.

    Joint scores z = sum over the parties of X_p w_p; zeros give the Taylor loss's y - 1/2.
    """
    return joint_scores / 4 + labels - expit(joint_scores)


def majoriser_constants(joint_scores: np.ndarray) -> np.ndarray:
    """The constant c of the quadratic, one per record: log 2 where z is 0, and the same for every label."""
    return np.logaddexp(0, joint_scores) - joint_scores * expit(joint_scores) + joint_scores**2 / 8
