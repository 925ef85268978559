"""torch's optimisers and learning-rate schedules under FATE's names, for flat weights."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from fate_dp.privacy.validation import InvalidArgument

from ...protocols.noisy_rounds.contribution import NoisyMean, next_clip
from ...protocols.noisy_rounds.terms import RoundTerms
from .client import NotFinite

NAMED = "Adadelta Adagrad Adam AdamW Adamax ASGD NAdam RAdam RMSprop Rprop SGD"
OPTIMIZERS = {name.lower(): getattr(torch.optim, name) for name in NAMED.split()}
SCHEDULERS = {
    "constant": torch.optim.lr_scheduler.ConstantLR,
    "step": torch.optim.lr_scheduler.StepLR,
    "linear": torch.optim.lr_scheduler.LinearLR,
    "exponential": torch.optim.lr_scheduler.ExponentialLR,
    "cosine": torch.optim.lr_scheduler.CosineAnnealingLR,
}
PENALTIES = ("l1", "l2", "none", None)


def make_optimizer(parameter: torch.nn.Parameter, optimizer: Mapping[str, Any]) -> torch.optim.Optimizer:
    """The torch optimiser of FATE's dictionary ``{"method", "penalty", "alpha", "optimizer_params"}``."""
    method, penalty = optimizer.get("method", "sgd"), optimizer.get("penalty")
    if penalty not in PENALTIES:
        raise InvalidArgument.of("optimizer.penalty", penalty, "l1, l2 or none")
    return _made("optimizer", OPTIMIZERS, method, [parameter], optimizer.get("optimizer_params") or {})


def make_scheduler(
    optimizer: torch.optim.Optimizer, learning_rate_scheduler: Mapping[str, Any] | None
) -> torch.optim.lr_scheduler.LRScheduler | None:
    """The torch schedule of FATE's ``{"method", "scheduler_params"}``, one step per round; None without one.

    As in FATE the names stand for torch's classes with torch's defaults, except that ``constant`` without parameters
    leaves the learning rate alone (torch's own starts at a third of it).
    """
    if not learning_rate_scheduler:
        return None
    params = learning_rate_scheduler.get("scheduler_params") or {}
    method = learning_rate_scheduler.get("method", "constant")
    if method == "constant" and not params:
        return None
    return _made("learning_rate_scheduler", SCHEDULERS, method, optimizer, params)


def _made(
    name: str, kinds: Mapping[str, Callable[..., Any]], method: str, subject: Any, params: Mapping[str, Any]
) -> Any:
    if method not in kinds:
        raise InvalidArgument.of(f"{name}.method", method, f"one of {', '.join(kinds)}")
    try:
        return kinds[method](subject, **params)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{name} {method} refuses its parameters {params!r}: {error}.") from error


class Server:
    """Weights (d,), optimiser and the clip of the next round; everything in it follows from released values.

    ``sgd`` of learning rate 1 on clients' updates is federated averaging. Noisy means are multiplied by ``step_factor``.
    ``averaging`` is the part of the planned steps, the last ones, whose weights `final_weights` is the mean of. Single
    weights carry the noise of the steps just made, of which their mean has less; it follows from released values, too.
    """

    def __init__(
        self,
        terms: RoundTerms,
        weights: np.ndarray,
        optimizer: Mapping[str, Any],
        learning_rate_scheduler: Mapping[str, Any] | None = None,
        step_factor: float = 1.0,
        averaging: float = 0.0,
    ) -> None:
        weights = np.array(weights, dtype=np.float64).ravel()
        if len(weights) != terms.dimension:
            raise InvalidArgument.of("number of weights", len(weights), str(terms.dimension))
        _check_finite("start weights", weights)
        self.terms, self._step_factor = terms, step_factor
        self.rounds_run: list[int] = []
        self.rounds_aborted: list[int] = []
        self._parameter = torch.nn.Parameter(torch.tensor(weights))
        self._penalty, self._alpha = optimizer.get("penalty"), optimizer.get("alpha") or 0.0
        self._optimizer = make_optimizer(self._parameter, optimizer)
        self._scheduler = make_scheduler(self._optimizer, learning_rate_scheduler)
        self._followed_clip = terms.clips[0]
        self._steps, self._averaged_from = 0, round(terms.rounds * (1 - averaging))
        self._sum, self._averaged = np.zeros(terms.dimension), 0

    @property
    def final_weights(self) -> np.ndarray:
        """What the training ends with, float64 (d,): the mean of the last steps' weights, or the last ones."""
        return self._sum / self._averaged if self._averaged else self.weights

    @property
    def weights(self) -> np.ndarray:
        """Of the next round, float64 (d,), a copy; public."""
        return self._parameter.detach().numpy().copy()

    @property
    def learning_rate(self) -> float:
        return self._optimizer.param_groups[0]["lr"]

    def clip(self, round_number: int) -> float:
        """The clip of a round: the schedule's, or the one that follows the quantile."""
        return self.terms.clip_of(round_number) if self.terms.clip_quantile is None else self._followed_clip

    def step(self, mean_gradient: NoisyMean | np.ndarray) -> np.ndarray:
        """Move along a noisy mean gradient (d,), or a ``NoisyMean``; returns the new flat weights.

        The penalty reads public weights only, so it needs neither clip nor noise: l2 adds alpha times the weights, l1
        shrinks them towards zero by learning rate times alpha after the step. NotFinite where gradient or new weights hold
        NaN or an infinity; the weights stay what they were.
        """
        mean = mean_gradient if isinstance(mean_gradient, NoisyMean) else NoisyMean(mean_gradient)
        _check_finite("noisy mean gradient", mean.gradient)
        before = self._parameter.detach().clone()
        self._parameter.grad = torch.tensor(np.asarray(mean.gradient, dtype=np.float64) * self._step_factor)
        if self._penalty == "l2":
            self._parameter.grad += self._alpha * before
        rate = self.learning_rate
        self._optimizer.step()
        if self._penalty == "l1":
            with torch.no_grad():
                shrunk = torch.clamp(self._parameter.abs() - rate * self._alpha, min=0)
                self._parameter.copy_(torch.sign(self._parameter) * shrunk)
        if not torch.isfinite(self._parameter).all():
            with torch.no_grad():
                self._parameter.copy_(before)
            raise NotFinite(
                "The weights became infinite or NaN in a step: training has diverged; lower the learning rate."
            )
        self._advance(mean.share_below)
        self._steps += 1
        if self._steps > self._averaged_from:
            self._sum += self.weights
            self._averaged += 1
        return self.weights

    def _advance(self, share_below: float | None) -> None:
        if self._scheduler is not None:
            with warnings.catch_warnings():
                # ConstantLR and LinearLR warn of their own way to set rates.
                warnings.filterwarnings("ignore", module="torch.optim.lr_scheduler")
                self._scheduler.step()
        quantile, first = self.terms.clip_quantile, self.terms.clips[0]
        if share_below is not None and quantile is not None:
            self._followed_clip = next_clip(self._followed_clip, share_below, quantile, first)


def _check_finite(name: str, values: np.ndarray) -> None:
    if not np.isfinite(values).all():
        raise NotFinite(f"There is NaN or an infinity in the {name}: training has diverged; lower the learning rate.")
