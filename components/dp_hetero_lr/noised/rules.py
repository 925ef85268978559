"""What can go with noise on second moments: only what never reads a row again. No FATE in here."""
from dataclasses import replace

from ..settings import TrainSettings
from ..solvers import PER_EPOCH, solver_of

NONE, ADAPTIVE = "none", "adaptive"


def is_noised(settings: TrainSettings) -> bool:
    return settings.noise != NONE


def check_settings(settings: TrainSettings, warm_start=None) -> None:
    """Refuse settings under which noise would not protect what it promises to.

    Raises:
        ValueError: one sentence.
    """
    if not is_noised(settings):
        if settings.noise_epsilon is not None:
            raise ValueError(
                f"noise_epsilon is {settings.noise_epsilon:g}, but noise is none, which protects no record; set noise "
                "to uniform or adaptive, at all parties."
            )
        return
    hindrance = _hindrance(settings, warm_start)
    if hindrance:
        raise ValueError(f"noise is {settings.noise}, but {hindrance}.")


def refuse_folds(settings: TrainSettings) -> None:
    """Cross-validation trains on every record several times and scores it: no single release of second moments."""
    if is_noised(settings):
        raise ValueError(
            f"noise is {settings.noise}, but cross-validation reads the rows again in every fold; set noise to none, "
            "or train with noise on one split."
        )


def without_flipback(settings: TrainSettings) -> TrainSettings:
    """With noise, flipback auto means none."""
    if is_noised(settings) and settings.flipback.mode == "auto":
        return replace(settings, flipback=replace(settings.flipback, mode="none"))
    return settings


def _hindrance(settings: TrainSettings, warm_start) -> str:
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
