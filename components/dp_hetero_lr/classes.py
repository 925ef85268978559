"""The classes that a training tells apart, which are declared and never found in labels, and how many models that takes.

With two classes there is one model, of P(y = 1). With k > 2 there are k, one for each class against the rest, as in FATE's
CoordinatedLR: model c is trained on the target 1 where the label is c, and 0 elsewhere. All of them share X^T X and the one
pass over encrypted rows; only X^T t is one column for each.

Flips among k classes leave (e^epsilon - 1) / (e^epsilon + k - 1) of every target's signal and add the same constant to all
of them, so that the class with the largest score is the same in expectation.

No FATE in here: the client checks with it before submission.
"""
from typing import Optional, Sequence, Tuple

import numpy as np

from .settings import TrainSettings, hindrance_to_cross_product
from .solvers import PER_EPOCH, solver_of

BINARY = (0.0, 1.0)
_OF_MORE = "more than two are trained with solver cross_product, sigmoid taylor, flipback.mode auto or none, and noise none"


def models_of(classes: Sequence[float]) -> int:
    """How many models tell the classes apart."""
    return 1 if len(classes) == 2 else len(classes)


def class_names(classes: Sequence[float]) -> list:
    """As FATE's models and predictions name them: whole numbers without a point."""
    return [int(value) if float(value).is_integer() else float(value) for value in classes]


def one_vs_rest(labels: np.ndarray, classes: Sequence[float]) -> np.ndarray:
    """float64 (rows, models): labels from 0 to 1 as they are for two classes, else 1 where the label is the class."""
    return labels[:, None] if len(classes) == 2 else (labels[:, None] == np.asarray(classes)).astype(np.float64)


def check_classes(settings: TrainSettings, classes: Optional[Sequence[float]] = None) -> None:
    """Refuse classes that these settings do not train.

    :param classes: of the flips, or those that were agreed on; None for the parameter alone.
    :raises ValueError: one sentence.
    """
    if settings.classes is not None:
        _check_parameter(settings, classes)
    told = settings.classes if classes is None else classes
    if told is None or len(told) == 2 or settings.family != "binomial":
        return
    if not all(float(value).is_integer() and abs(value) < 2**31 for value in told):
        raise ValueError(f"There are {len(told)} classes, {class_names(told)}; more than two must be whole numbers below 2^31.")
    hindrance = _hindrance(settings)
    if hindrance:
        raise ValueError(f"There are {len(told)} classes, {class_names(told)}, but {hindrance}; {_OF_MORE}.")


def declared_classes(home, settings: TrainSettings, privacy) -> Tuple[float, ...]:
    """At the guest: those of the flips by its ledger, of the parameter for public labels; `BINARY` without either.

    :param privacy: `LabelPrivacy` of the labels.
    :raises ValueError: the settings do not train them.
    """
    flipped = None if settings.family != "binomial" else _flipped_among(home, privacy)
    check_classes(settings, flipped)
    if settings.family != "binomial":
        return BINARY
    return flipped or settings.classes or BINARY


def check_hosts_classes(classes: Sequence[float], hosts: dict) -> None:
    """At the guest: a host whose own parameter lists other classes would train on no others."""
    for name, facts in hosts.items():
        if facts["classes"] not in (None, list(classes)):
            own, agreed = class_names(facts["classes"]), class_names(classes)
            raise ValueError(f"classes is {own} at {name}, but the training's are {agreed}; both must be the same.")


def parameter_of(settings: TrainSettings) -> Optional[list]:
    """At a host: the parameter as `check_hosts_classes` reads it."""
    return None if settings.classes is None else list(settings.classes)


def accept_classes(settings: TrainSettings, terms: dict) -> None:
    """At a host: the agreed classes must be ones that the job's parameters train.

    :raises ValueError: one sentence.
    """
    classes = terms["classes"]
    sound = isinstance(classes, list) and len(classes) >= 2 and all(type(value) is float for value in classes)
    if not sound or any(not first < second for first, second in zip(classes, classes[1:])):
        raise ValueError("The guest's classes are not two or more numbers in ascending order; this host trains on no others.")
    check_classes(settings, None if settings.family != "binomial" else tuple(classes))
    if settings.family != "binomial" and tuple(classes) != BINARY:
        raise ValueError(f"The guest plans {len(classes)} classes, but family {settings.family} has none.")


def _check_parameter(settings: TrainSettings, classes: Optional[Sequence[float]]) -> None:
    given = class_names(settings.classes)
    if settings.family != "binomial":
        raise ValueError(f"classes is {given}, but family is {settings.family}, which fits numbers; leave classes out.")
    if len(given) == 2 and settings.classes != BINARY:
        raise ValueError(f"classes is {given}; two classes must be 0 and 1.")
    if classes is not None and settings.classes != tuple(classes):
        raise ValueError(f"classes is {given}, but the training's are {class_names(classes)}; both must be the same.")


def _hindrance(settings: TrainSettings) -> str:
    if settings.noise != "none":
        return f"noise is {settings.noise}"
    if settings.sigmoid != "taylor":
        return f"sigmoid is {settings.sigmoid}"
    if settings.flipback.mode not in ("auto", "none"):
        return f"flipback.mode is {settings.flipback.mode}"
    if solver_of(settings) == PER_EPOCH:
        return hindrance_to_cross_product(settings) or "solver is per_epoch"
    return ""


def _flipped_among(home, privacy) -> Optional[Tuple[float, ...]]:
    """Declared classes of the flips that the labels are, None for public ones, revised ones and numbers."""
    release = privacy.flips
    if release is None or release.bounds is not None:
        return None
    if release.classes == 2:
        return BINARY
    # A ledger that was written by other means than label_flip may name none: then the parameter does.
    return tuple(sorted(map(float, home.ledger.class_labels(release.entry_id)))) or None
