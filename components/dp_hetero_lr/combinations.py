"""Which settings of a training go together: solver, noise and classes. No FATE in here: the client asks the same.

Every function raises ValueError with one sentence, or says nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..protocols.training_terms import BINARY, class_names
from .settings import TrainSettings, hindrance_to_cross_product

CROSS_PRODUCT, PER_EPOCH = "cross_product", "per_epoch"
NONE = "none"
_OF_MORE = (
    "more than two are trained with solver cross_product, sigmoid taylor, flipback.mode auto or none, and noise none"
)


def solver_of(settings: TrainSettings) -> str:
    """Which solver trains: the one that was asked for, or the cross product wherever its arithmetic allows.

    The cross product keeps the weights shared between the parties, so that its update rule must be linear in them.

    Returns:
        `CROSS_PRODUCT` or `PER_EPOCH`.

    Raises:
        ValueError: the settings ask for what the solver they name, or the only one they leave, cannot do.
    """
    hindrance = hindrance_to_cross_product(settings)
    needed = "sigmoid exact" if settings.sigmoid == "exact" else ""
    needed = "family gaussian" if settings.family == "gaussian" else needed
    if settings.solver == PER_EPOCH and needed:
        raise ValueError(f"solver is per_epoch, but {needed} needs solver cross_product.")
    if hindrance and (needed or settings.solver == CROSS_PRODUCT):
        reason = needed or "solver cross_product"
        raise ValueError(
            f"{hindrance}, which {reason} cannot have: its weights stay shared, and only sgd is linear in them."
        )
    return settings.solver or (PER_EPOCH if hindrance else CROSS_PRODUCT)


def check_settings(settings: TrainSettings, warm_start: dict | None = None) -> None:
    """Refuse settings under which noise would not protect what it promises to: only what never reads a row again."""
    if settings.noise == NONE:
        if settings.noise_epsilon is not None:
            raise ValueError(
                f"noise_epsilon is {settings.noise_epsilon:g}, but noise is none, which protects no record; set noise "
                "to uniform or adaptive, at all parties."
            )
        return
    hindrance = _hindrance_to_noise(settings, warm_start)
    if hindrance:
        raise ValueError(f"noise is {settings.noise}, but {hindrance}.")


def refuse_folds(settings: TrainSettings) -> None:
    """Cross-validation trains on every record several times and scores it: no single release of second moments."""
    if settings.noise != NONE:
        raise ValueError(
            f"noise is {settings.noise}, but cross-validation reads the rows again in every fold; set noise to none, "
            "or train with noise on one split."
        )


def _hindrance_to_noise(settings: TrainSettings, warm_start: dict | None) -> str:
    if settings.family != "binomial":
        return "family is gaussian, whose loss would need noise on the squared targets, too; it is offered for binomial"
    if settings.sigmoid != "taylor":
        return "sigmoid is exact, which reads the rows again for joint scores; it must be taylor"
    if solver_of(settings) == PER_EPOCH:
        return (
            "these settings need solver per_epoch, which reads the rows in every epoch and would need the square root "
            "of their number times more noise; use solver cross_product, optimizer.method sgd and early_stop diff or abs"
        )
    if settings.flipback.mode not in ("none", "auto"):
        mode = settings.flipback.mode
        return f"flipback.mode is {mode}, which reads the rows again for joint scores; it must be none"
    if settings.train_scores:
        return "train_scores is true, which reads the training rows again; it must be false"
    if settings.batch_size is not None:
        return f"batch_size is {settings.batch_size}; it must be None, since noise goes once to the sums over all rows"
    if warm_start is not None:
        return "warm_start_model is given, whose training may have read the same rows; start anew"
    return ""


def check_classes(settings: TrainSettings, classes: Sequence[float] | None = None) -> None:
    """Refuse classes that these settings do not train.

    Args:
        settings: of the training.
        classes: of the flips, or those that were agreed on; None for the parameter alone.
    """
    if settings.classes is not None:
        _check_parameter(settings.family, settings.classes, classes)
    told = settings.classes if classes is None else classes
    if told is None or len(told) == 2 or settings.family != "binomial":
        return
    if not all(float(value).is_integer() and abs(value) < 2**31 for value in told):
        raise ValueError(
            f"There are {len(told)} classes, {class_names(told)}; more than two must be whole numbers below 2^31."
        )
    hindrance = _hindrance_to_classes(settings)
    if hindrance:
        raise ValueError(f"There are {len(told)} classes, {class_names(told)}, but {hindrance}; {_OF_MORE}.")


def accept_classes(settings: TrainSettings, classes: Sequence[float]) -> None:
    """At a host: the agreed classes must be ones that the job's parameters train."""
    check_classes(settings, None if settings.family != "binomial" else classes)
    if settings.family != "binomial" and tuple(classes) != BINARY:
        raise ValueError(f"The guest plans {len(classes)} classes, but family {settings.family} has none.")


def _check_parameter(family: str, own: Sequence[float], classes: Sequence[float] | None) -> None:
    given = class_names(own)
    if family != "binomial":
        raise ValueError(f"classes is {given}, but family is {family}, which fits numbers; leave classes out.")
    if len(given) == 2 and own != BINARY:
        raise ValueError(f"classes is {given}; two classes must be 0 and 1.")
    if classes is not None and own != tuple(classes):
        raise ValueError(f"classes is {given}, but the training's are {class_names(classes)}; both must be the same.")


def _hindrance_to_classes(settings: TrainSettings) -> str:
    if settings.noise != NONE:
        return f"noise is {settings.noise}"
    if settings.sigmoid != "taylor":
        return f"sigmoid is {settings.sigmoid}"
    if settings.flipback.mode not in ("auto", "none"):
        return f"flipback.mode is {settings.flipback.mode}"
    if solver_of(settings) == PER_EPOCH:
        return hindrance_to_cross_product(settings) or "solver is per_epoch"
    return ""
