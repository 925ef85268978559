"""torch's optimisers and learning-rate schedules under FATE's names, for flat weights."""
import torch

OPTIMIZERS = {
    "adadelta": torch.optim.Adadelta,
    "adagrad": torch.optim.Adagrad,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adamax": torch.optim.Adamax,
    "asgd": torch.optim.ASGD,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rmsprop": torch.optim.RMSprop,
    "rprop": torch.optim.Rprop,
    "sgd": torch.optim.SGD,
}
SCHEDULERS = {
    "constant": torch.optim.lr_scheduler.ConstantLR,
    "step": torch.optim.lr_scheduler.StepLR,
    "linear": torch.optim.lr_scheduler.LinearLR,
    "exponential": torch.optim.lr_scheduler.ExponentialLR,
    "cosine": torch.optim.lr_scheduler.CosineAnnealingLR,
}
PENALTIES = ("l1", "l2", "none", None)


class InvalidOptimizer(ValueError):
    """An optimiser or a schedule has an unknown name, or parameters that torch refuses: one sentence."""


def make_optimizer(parameter, optimizer):
    """The torch optimiser of FATE's dictionary ``{"method", "penalty", "alpha", "optimizer_params"}``."""
    method, penalty = optimizer.get("method", "sgd"), optimizer.get("penalty")
    if penalty not in PENALTIES:
        raise InvalidOptimizer(f"optimizer.penalty is {penalty!r} but must be l1, l2 or none.")
    return _made("optimizer", OPTIMIZERS, method, [parameter], optimizer.get("optimizer_params") or {})


def make_scheduler(optimizer, learning_rate_scheduler):
    """The torch schedule of FATE's ``{"method", "scheduler_params"}``, one step per round; None without one.

    As in FATE the names stand for torch's classes with torch's defaults, except that ``constant`` without parameters
    leaves the learning rate alone (torch's own starts at a third of it).
    """
    if not learning_rate_scheduler:
        return None
    method, params = (
        learning_rate_scheduler.get("method", "constant"),
        learning_rate_scheduler.get("scheduler_params") or {},
    )
    if method == "constant" and not params:
        return None
    return _made("learning_rate_scheduler", SCHEDULERS, method, optimizer, params)


def _made(name, kinds, method, subject, params):
    if method not in kinds:
        raise InvalidOptimizer(f"{name}.method is {method!r} but must be one of {', '.join(kinds)}.")
    try:
        return kinds[method](subject, **params)
    except (TypeError, ValueError) as error:
        raise InvalidOptimizer(f"{name} {method} refuses its parameters {params!r}: {error}.") from error
