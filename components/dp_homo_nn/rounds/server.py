"""The server: public weights, moved along noisy means by an optimiser; it sees no record and adds no noise."""
import warnings

import numpy as np
import torch

from .client import NotFinite
from .optimizers import make_optimizer, make_scheduler
from .private_clip import next_clip


class Server:
    """Weights, optimiser and the clip of the next round; everything in it follows from released values.

    :param terms: ``RoundTerms``.
    :param weights: flat weights to start from, (d,).
    :param optimizer: FATE's dictionary ``{"method", "penalty", "alpha", "optimizer_params"}``. ``sgd`` of learning
        rate 1 on clients' updates is federated averaging.
    :param learning_rate_scheduler: FATE's ``{"method", "scheduler_params"}``; None for a constant learning rate. It
        counts rounds.
    :param step_factor: public; a noisy mean gradient is multiplied by it.
    :raises InvalidOptimizer, NotFinite: one sentence.
    """

    def __init__(self, terms, weights, optimizer, learning_rate_scheduler=None, step_factor=1.0):
        weights = np.array(weights, dtype=np.float64).ravel()
        if len(weights) != terms.dimension:
            raise ValueError(f"weights have {len(weights)} numbers but must have {terms.dimension}.")
        _check_finite("start weights", weights)
        self.terms, self._step_factor = terms, step_factor
        self.rounds_run, self.rounds_aborted = [], []
        self._parameter = torch.nn.Parameter(torch.tensor(weights))
        self._penalty, self._alpha = optimizer.get("penalty"), optimizer.get("alpha") or 0.0
        self._optimizer = make_optimizer(self._parameter, optimizer)
        self._scheduler = make_scheduler(self._optimizer, learning_rate_scheduler)
        self._followed_clip = terms.clips[0]

    @property
    def weights(self):
        """The weights of the next round, float64 (d,), a copy; public."""
        return self._parameter.detach().numpy().copy()

    @property
    def learning_rate(self):
        """Of the next step."""
        return self._optimizer.param_groups[0]["lr"]

    def clip(self, round_number):
        """The clip of a round: the schedule's, or the one that follows the quantile."""
        return self.terms.clip_of(round_number) if self.terms.clip_quantile is None else self._followed_clip

    def step(self, mean_gradient):
        """Move along a noisy mean gradient (d,), or a ``NoisyMean``; returns the new flat weights.

        The penalty reads public weights only, so it needs neither clip nor noise: l2 adds alpha times the weights, l1
        shrinks them towards zero by learning rate times alpha after the step.

        :raises NotFinite: gradient or new weights hold NaN or an infinity; the weights stay what they were.
        """
        gradient = getattr(mean_gradient, "gradient", mean_gradient)
        _check_finite("noisy mean gradient", gradient)
        before = self._parameter.detach().clone()
        self._parameter.grad = torch.tensor(np.asarray(gradient, dtype=np.float64) * self._step_factor)
        if self._penalty == "l2":
            self._parameter.grad += self._alpha * before
        rate = self.learning_rate
        self._optimizer.step()
        if self._penalty == "l1":
            self._shrink(rate * self._alpha)
        if not torch.isfinite(self._parameter).all():
            with torch.no_grad():
                self._parameter.copy_(before)
            raise NotFinite(
                "The weights became infinite or NaN in a step: training has diverged; lower the learning rate."
            )
        self._advance(getattr(mean_gradient, "share_below", None))
        return self.weights

    def _shrink(self, by):
        with torch.no_grad():
            self._parameter.copy_(torch.sign(self._parameter) * torch.clamp(self._parameter.abs() - by, min=0))

    def _advance(self, share_below):
        if self._scheduler is not None:
            with warnings.catch_warnings():
                # ConstantLR and LinearLR warn of their own way to set rates.
                warnings.filterwarnings("ignore", module="torch.optim.lr_scheduler")
                self._scheduler.step()
        if share_below is not None:
            quantile, first = self.terms.clip_quantile, self.terms.clips[0]
            self._followed_clip = next_clip(self._followed_clip, share_below, quantile, first)


def _check_finite(name, values):
    if not np.isfinite(values).all():
        raise NotFinite(f"There is NaN or an infinity in the {name}: training has diverged; lower the learning rate.")
