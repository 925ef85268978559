"""The update rule of one party: FATE's optimiser and learning-rate schedule on the party's own float64 weights.

Every optimiser FATE offers works coordinate by coordinate, so each party may run its own on its part of the gradient
and the joint model is the one that a single optimiser over all weights would give. No weight has to leave its party.
"""
import copy
import math
import warnings

import numpy as np


# Beyond this nothing is learned; the bound also keeps the penalty's part of the loss within the encrypted sums.
LARGEST_PENALTY = 1e6
# Errors shrink by e to minus this, to less than a hundredth, in the epochs of a training.
SETTLING = 5.0


class PartyOptimizer:
    """Weights of one party and their optimiser's state; per batch ``regularise`` then ``step``, and ``next_epoch``.

    Written for FATE's own dictionaries: ``optimizer = {"method", "penalty", "alpha", "optimizer_params"}`` and
    ``learning_rate_scheduler = {"method", "scheduler_params"}``. The penalty never touches the intercept, which is the
    last weight of a party that has one.
    """

    def __init__(self, initial_weights, optimizer, learning_rate_scheduler, fit_intercept=False):
        """
        :param initial_weights: the m weights to start from, any shape of m numbers.
        :param fit_intercept: whether the last weight is an intercept.
        """
        from fate.ml.utils._optimizer import LRScheduler, Optimizer
        import torch

        self.weights = torch.tensor(np.asarray(initial_weights, dtype=np.float64).reshape(-1, 1))
        self.fit_intercept = fit_intercept
        self._optimizer = Optimizer(
            optimizer["method"], optimizer["penalty"], optimizer["alpha"], optimizer["optimizer_params"]
        )
        self._optimizer.init_optimizer(model_parameter_length=len(self.weights), dtype=torch.float64)
        self._scheduler = LRScheduler(learning_rate_scheduler["method"], learning_rate_scheduler["scheduler_params"])
        self._scheduler.init_scheduler(optimizer=self._optimizer.optimizer)
        # FATE counts from 0 and its l1 shrinkage divides by the root of the count: a first epoch of all zeros.
        self._optimizer.set_iters(1)

    def regularise(self, gradient):
        """Return the gradient (m, 1) plus alpha times the weights under an l2 penalty, unchanged otherwise."""
        return self._optimizer.add_regular_to_grad(_column(gradient), self.weights, self.fit_intercept)

    def step(self, gradient):
        """Move the weights by one step along the regularised gradient (m, 1)."""
        self._optimizer.step(_column(gradient))
        change = self._optimizer.get_delta_gradients()
        self.weights = self._optimizer.update_weights(self.weights, change, self.fit_intercept, self._scheduler.lr)

    def next_epoch(self):
        """Tell the schedule that another epoch begins."""
        with warnings.catch_warnings():
            # Torch expects its own optimiser to have made a step; weights that are trained as shares are moved elsewhere.
            warnings.filterwarnings("ignore", module="torch.optim.lr_scheduler")
            self._scheduler.step()
        self._optimizer.set_iters(self._optimizer.iters + 1)

    def place(self, weights):
        """Take weights that were updated elsewhere."""
        import torch

        self.weights = torch.tensor(np.asarray(weights, dtype=np.float64).reshape(-1, 1))

    def learning_rates(self, epochs):
        """The step sizes of the next ``epochs`` epochs, as the schedule has them."""
        ahead, rates = copy.deepcopy(self), []
        for _ in range(epochs):
            rates.append(ahead._optimizer.optimizer.param_groups[0]["lr"])
            ahead.next_epoch()
        return rates

    def penalty_loss(self):
        """The penalty's term of the loss: alpha / 2 |w|_2^2 or alpha |w|_1, without the intercept."""
        weights = self.weights[:-1] if self.fit_intercept else self.weights
        if self._optimizer.l2_penalty:
            return 0.5 * self._optimizer.alpha * float((weights**2).sum())
        if self._optimizer.l1_penalty:
            return self._optimizer.alpha * float(weights.abs().sum())
        return 0.0

    def state(self):
        """All that ``restore`` needs, in numbers, lists and dictionaries."""
        # FATE's state_dict turns the tensors of the living optimiser into lists: hence the copy.
        return {
            "weights": self.weights.flatten().tolist(),
            "iters": self._optimizer.iters,
            "optimizer": copy.deepcopy(self._optimizer).state_dict(),
            "lr_scheduler": copy.deepcopy(self._scheduler.state_dict()),
        }

    def restore(self, state):
        """Continue exactly where the ``state`` was taken; ``state`` is left unchanged."""
        import torch

        self.weights = torch.tensor(state["weights"], dtype=torch.float64).reshape(-1, 1)
        self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        self._optimizer.set_iters(state["iters"])
        self._scheduler.load_state_dict(copy.deepcopy(state["lr_scheduler"]), self._optimizer.optimizer)
        self._restore_precision(state["optimizer"]["optimizer"])

    def _restore_precision(self, saved):
        """Undo what FATE's loading does: it reads buffers as float32, and a new schedule scales the learning rate."""
        import torch

        for group, saved_group in zip(self._optimizer.optimizer.param_groups, saved["param_groups"], strict=True):
            group["lr"] = saved_group["lr"]
        buffers = self._optimizer.optimizer.state[self._optimizer.model_parameter]
        for name, value in saved["state"].get(0, {}).items():
            if isinstance(value, list):
                buffers[name] = torch.tensor(value, dtype=torch.float64)


def default_optimizer(
    records, features, epsilon, sigmoid="taylor", family="binomial", *, epochs, batches=1, classes=2
):
    """Optimiser settings in FATE's format, from public numbers alone, for standardised features.

    - alpha = 1.5 m / (n s^2), s = (e^epsilon - 1) / (e^epsilon + k - 1): flips among k classes scale the signal in the
      labels by s, the chance to keep a label less that to become a given other one, and leave the noise, so the best
      ridge penalty, noise over signal variance, grows by its inverse square. With two classes s is 1 - 2q = tanh(epsilon / 2).
      With more it is that of each class against the rest. The factor was chosen by cross-validation against flipped
      labels, see bench/label_dp.py; 1 to 3 do about as well. With the exact sigmoid it is 1 (chosen in the same way;
      0.75 does as well), and for linear regression, where it is right
      if features explain half of the variance.
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

    :param records: number n of training records.
    :param features: number m of features of all parties together, the intercept among them.
    :param epsilon: epsilon (nats) of the flipped labels; infinity without flips.
    :param sigmoid: "taylor" or "exact"; only for family binomial.
    :param family: "binomial" or "gaussian".
    :param epochs: epochs of the training.
    :param batches: batches of an epoch.
    :param classes: number k of classes that labels are flipped among.
    """
    gaussian = family == "gaussian"
    signal = max(flipped_signal(epsilon, classes) ** 2, 1 / LARGEST_PENALTY)
    factor = 1.0 if gaussian or sigmoid == "exact" else 1.5
    alpha = min(LARGEST_PENALTY, factor * features / records / signal)
    curvature = (features if gaussian else features / 4) + alpha
    return {
        "method": "sgd",
        "penalty": "l2",
        "alpha": alpha,
        "optimizer_params": {"lr": 1.0 / curvature, **_momentum(alpha / curvature, epochs, batches)},
    }


def flipped_signal(epsilon, classes):
    """(e^epsilon - 1) / (e^epsilon + k - 1): what flips among k classes leave of how labels follow features."""
    return -math.expm1(-epsilon) / (1 + (classes - 1) * math.exp(-epsilon))


def _momentum(flatness, epochs, batches):
    """Torch's parameters for the momentum; ``flatness`` is the least curvature over the largest."""
    if batches > 1:
        return {"momentum": 0.3}
    root = max(math.sqrt(flatness), SETTLING / epochs)
    # Torch takes no Nesterov's momentum of 0.
    return {"momentum": (1 - root) / (1 + root), "nesterov": True} if root < 1 else {}


def constant_learning_rate():
    """Settings in FATE's format of a learning rate that stays what the optimiser says."""
    return {"method": "constant", "scheduler_params": {"factor": 1.0, "total_iters": 0}}


def kaiming_uniform(features, generator, fit_intercept=False):
    """Initial weights of one party, uniform between -1 / sqrt(m) and 1 / sqrt(m); the intercept, last, starts at 0.

    This is what ``torch.nn.Linear`` draws: Kaiming's uniform rule with a = sqrt(5). Reference: K. He et al., "Delving
    Deep into Rectifiers" (2015).

    :param features: number m of the party's features, the intercept not counted.
    :param generator: a ``numpy.random.Generator``; initial weights are no secret noise.
    """
    weights = generator.uniform(-1.0, 1.0, size=features) / math.sqrt(features)
    return np.append(weights, 0.0) if fit_intercept else weights


def _column(gradient):
    import torch

    return torch.as_tensor(gradient, dtype=torch.float64).reshape(-1, 1)
