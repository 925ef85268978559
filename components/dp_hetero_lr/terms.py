"""What all parties agree on before training starts: checks at each party, and the terms that the guest sets."""
import secrets
from functools import partial
from math import inf, isclose
from typing import Callable, NamedTuple, Optional, Sequence

import numpy as np

from fate_dp.components.common.frame_checks import check_guest_table, check_host_table, distinct_labels
from fate_dp.components.common.frames import label_blocks
from fate_dp.components.common.record_stream import alignment_digest
from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS
from fate_dp.crypto.fixed_point import MAXIMUM_HOSTS

from .classes import BINARY, accept_classes, class_names, models_of
from .cross_product.public_sizes import steps_between_checks, update_rule
from .few_values import refusal, shows_few_values
from .majorisation import correction_epochs
from .model import check_header, has_intercept, header_of
from .noised.descent import check_ridge, first_fit_terms, noisy_optimizer
from .noised.joint_noise import FIRST_FIT, check_own_part, fits_of
from .noised.own_noise import OwnNoise
from .score_release import ScoreRelease
from .settings import TrainSettings, batch_bounds, check_batches
from .solvers import CROSS_PRODUCT, solver_of
from .updates import PartyOptimizer, default_optimizer
from .warm_start import check_same_classes


def check_guest(frame, settings: TrainSettings, warm_start: Optional[dict]) -> None:
    """The guest's table, and whether a model to go on from fits it. Labels are checked once their privacy is known."""
    check_guest_table(frame)
    if warm_start is not None:
        check_header(header_of(warm_start), frame.schema.columns)
        had, wanted = has_intercept(warm_start), settings.init_param["fit_intercept"]
        if had != wanted:
            raise ValueError(f"init_param.fit_intercept is {wanted}, but warm_start_model was trained with {had}.")


def check_labels(frame, family: str, classes: Sequence[float] = BINARY) -> None:
    """Labels must differ; for family binomial they are 0 and 1, flipped or public, or soft ones in [0, 1] from flipback.

    Of more than two declared classes every one must occur, and nothing else.
    """
    if len(classes) > 2:
        _check_occurring(distinct_labels(frame, limit=len(classes)), classes)
        return
    low, high = label_blocks(frame).mapValues(_label_range).reduce(_merge_range)
    if not np.isfinite(high - low):
        raise ValueError("A label is not finite; dp_hetero_lr trains on finite numbers.")
    if family == "binomial" and (low < 0 or high > 1):
        raise ValueError(
            "A label lies outside 0 to 1; dp_hetero_lr with family binomial trains on labels 0 and 1, and on others where "
            "classes lists all of them, such as classes=[0, 1, 2, 3]."
        )
    if len(distinct_labels(frame, limit=2)) == 1:
        raise ValueError("All labels are of one class; both 0 and 1 must occur.")


def _check_occurring(found: set, classes: Sequence[float]) -> None:
    strange, missing = sorted(found - set(classes)), [value for value in classes if value not in found]
    if strange:
        (label,) = class_names(strange[:1])
        raise ValueError(f"classes is {class_names(classes)}, but a training label is {label}; list all label values.")
    if missing:
        (label,) = class_names(missing[:1])
        raise ValueError(
            f"classes is {class_names(classes)}, but no training label is {label}; each of more than two classes must occur."
        )


def check_host(frame, settings: TrainSettings, warm_start: Optional[dict]) -> None:
    """A host's table, whether a model to go on from fits it, and batches that do not give its gradient away."""
    check_host_table(frame)
    if warm_start is not None:
        check_header(header_of(warm_start), frame.schema.columns)
    check_batches(frame.shape[0], settings.batch_size, len(frame.schema.columns))


def host_facts(frame, release: ScoreRelease, rows) -> dict:
    """What the guest needs to know of a host; ``rows`` are the blocks of ``frame``."""
    return {
        "rows": frame.shape[0],
        "features": len(frame.schema.columns),
        "digest": alignment_digest(frame),
        "score_releases_left": release.left(),
        "few_valued": shows_few_values(release.home, release.dataset, rows, frame.shape[0]),
    }


def check_hosts(frame, hosts: dict, planned_scores: int, shows_afterwards: bool = False) -> None:
    """At the guest: rows must be aligned, and every host must still consent to the planned score releases.

    Those that a training rests on, that is: ``shows_afterwards`` are scores of the trained model, which are left out
    where none is left.
    """
    if len(hosts) > MAXIMUM_HOSTS:
        raise ValueError(f"The job names {len(hosts)} hosts; at most {MAXIMUM_HOSTS} can take part.")
    check_aligned(frame, {name: facts["digest"] for name, facts in hosts.items()})
    for name, facts in hosts.items():
        if (planned_scores or shows_afterwards) and facts["few_valued"]:
            raise ValueError(refusal(name))
        if facts["score_releases_left"] < planned_scores:
            raise ValueError(
                f"This job would show the guest joint scores of {planned_scores} models, but {name} allows only "
                f"{facts['score_releases_left']} more; use fewer flipback or sigmoid rounds, or ask its operator, who changes "
                "that with `fate-dp cap`."
            )


def check_aligned(frame, digests: dict) -> None:
    """At the guest: every host must hold the same ids in the same blocks and order."""
    own = alignment_digest(frame)
    for name, digest in digests.items():
        if digest != own:
            raise ValueError(f"The rows of guest and {name} are not the same ids in the same order; run psi before.")


def feature_counts(frame, fit_intercept: bool, hosts: dict) -> list:
    """Features of all data parties, the guest's first, its intercept among them."""
    return [len(frame.schema.columns) + int(fit_intercept), *(facts["features"] for facts in hosts.values())]


def score_epochs(settings: TrainSettings, flipback_epochs: list, warm_start: Optional[dict]) -> list:
    """Epochs (from 0) that begin with joint scores at the guest: rounds of flipback and corrections of the sigmoid."""
    return sorted({*flipback_epochs, *corrections(settings, warm_start)})


def corrections(settings: TrainSettings, warm_start: Optional[dict]) -> list:
    """Epochs (from 0) that begin with a correction of the Taylor sigmoid."""
    if settings.sigmoid != "exact":
        return []
    return correction_epochs(settings.epochs, settings.sigmoid_rounds, warm_start is not None)


def training_terms(
    settings: TrainSettings, rows: int, features: list, epsilon: float, warm_start, flipback_epochs, mean_square_bits=0,
    noise: Optional[dict] = None, classes: Sequence[float] = BINARY,
) -> dict:  # fmt: skip
    """Public numbers that direct a training; ``features`` are the counts of all data parties, the guest's first.

    ``mean_square_bits`` is the largest of all data parties, see `cross_product.mean_squares`; ``noise`` are the terms
    of noise, None without; ``classes`` are the declared ones.
    """
    check_batches(rows, settings.batch_size, max(features))
    optimizer = _optimizer(settings, rows, features, epsilon, warm_start, noise, len(classes))
    learning_rates = _checked_learning_rates(optimizer, settings)
    terms = {
        "rows": rows,
        "batches": batch_bounds(rows, settings.batch_size),
        "optimizer": optimizer,
        "flipback_epochs": flipback_epochs,
        "correction_epochs": corrections(settings, warm_start),
        "score_epochs": score_epochs(settings, flipback_epochs, warm_start),
        "features": list(features),
        "mean_square_bits": mean_square_bits,
        "run": secrets.token_hex(8),
        "noise": noise,
        "classes": list(classes),
    }
    if solver_of(settings) == CROSS_PRODUCT:
        steps_between_checks(settings, terms, update_rule(terms, learning_rates))
    if noise and FIRST_FIT in fits_of(noise):
        _check_first_fit(settings, first_fit_terms(terms))
    return terms


def _check_first_fit(settings: TrainSettings, terms: dict) -> None:
    rates = _checked_learning_rates(terms["optimizer"], settings)
    steps_between_checks(settings, terms, update_rule(terms, rates))


def _optimizer(settings: TrainSettings, rows: int, features: list, epsilon: float, warm_start, noise, classes: int) -> dict:
    if warm_start is not None:
        return warm_start["meta"]["optimizer_param"]
    default = _default_optimizer(settings, rows, features, classes)(epsilon)
    if noise:
        return noisy_optimizer(settings.optimizer, default["alpha"], noise, rows)
    return settings.optimizer or default


def _default_optimizer(settings: TrainSettings, rows: int, features: list, classes: int) -> Callable[[float], dict]:
    """The default optimiser by the epsilon of the labels."""
    return partial(
        default_optimizer, rows, sum(features), sigmoid=settings.sigmoid, family=settings.family, epochs=settings.epochs,
        batches=len(batch_bounds(rows, settings.batch_size)), classes=classes,
    )  # fmt: skip


_NO_FLIPS = 100.0
"""From this epsilon on no label is flipped, as far as a float can tell."""


class OwnPart(NamedTuple):
    """What a host told the guest of itself.

    Attributes:
        position: among the data parties, the guest first.
        features: of its table.
        mean_square_bits: of its columns.
    """

    position: int
    features: int
    mean_square_bits: int


def accept_terms(
    terms: dict, settings: TrainSettings, rows: int, warm_start: Optional[dict], own: OwnPart,
    noise: Optional[OwnNoise] = None,
) -> None:  # fmt: skip
    """At a host: what the guest sets must be what the job's parameters say; a host does not rely on the guest.

    ``noise`` is this host's own part in it, None without.
    """
    _check_sizes(terms, rows, own)
    accept_classes(settings, terms)
    if not _is_agreed_optimizer(terms, settings, warm_start):
        raise ValueError("The guest's optimizer is not that of the job's parameters; this host does not train with others.")
    check_same_classes(warm_start, terms["classes"])
    if terms["flipback_epochs"] not in ([], settings.flipback.planned_epochs(settings.epochs)[: len(terms["flipback_epochs"])]):
        raise ValueError("The guest plans more flipback rounds, or other ones, than max_rounds and epochs allow.")
    if terms["flipback_epochs"] and models_of(terms["classes"]) > 1:
        raise ValueError("The guest plans rounds of flipback with more than two classes; this host does not train with them.")
    if terms["correction_epochs"] != corrections(settings, warm_start):
        raise ValueError("The guest plans other corrections of the sigmoid than sigmoid_rounds gives.")
    if [tuple(bounds) for bounds in terms["batches"]] != batch_bounds(rows, settings.batch_size):
        raise ValueError("The guest's batches are not those of batch_size; this host does not train on others.")
    if terms["score_epochs"] != score_epochs(settings, terms["flipback_epochs"], warm_start):
        raise ValueError("The guest plans other epochs with joint scores than flipback and sigmoid_rounds give.")
    check_own_part(terms["noise"], noise and noise.facts, noise and noise.position, terms["features"])
    if noise is not None:
        check_ridge(terms)


def _check_sizes(terms: dict, rows: int, own: OwnPart) -> None:
    """Rows, features and bounds, on which widths of slots and masks rest."""
    features, bits = terms["features"], terms["mean_square_bits"]
    sound = isinstance(features, list) and all(type(count) is int and count > 0 for count in features)
    if terms["rows"] != rows or not sound or len(features) <= own.position or features[own.position] != own.features:
        raise ValueError("The guest's numbers of rows and features are not those of this host; it does not train on others.")
    if type(bits) is not int or not own.mean_square_bits <= bits <= MEAN_SQUARE_BITS:
        raise ValueError("The guest's bound on mean squares is not one of this host's columns; it does not train under it.")


def _is_agreed_optimizer(terms: dict, settings: TrainSettings, warm_start: Optional[dict]) -> bool:
    """The warm start's, the job's, or the default one; what epsilon that follows from, the guest alone knows."""
    if warm_start is not None:
        return terms["optimizer"] == warm_start["meta"]["optimizer_param"]
    if terms["noise"]:
        # Its ridge penalty is checked against the noise; the rest is as in `noisy_optimizer`.
        return True
    if settings.optimizer is not None:
        return terms["optimizer"] == settings.optimizer
    return _is_default_optimizer(terms, settings)


def _is_default_optimizer(terms: dict, settings: TrainSettings) -> bool:
    """Whether some epsilon gives it: the penalty falls with epsilon, so that the one with its alpha is found by halving."""
    default = _default_optimizer(settings, terms["rows"], terms["features"], len(terms["classes"]))
    sent, low, high = terms["optimizer"], 0.0, _NO_FLIPS
    for _ in range(200):
        middle = (low + high) / 2
        above = default(middle)["alpha"] > sent.get("alpha", 0.0)
        low, high = (middle, high) if above else (low, middle)
    found = [default(epsilon) for epsilon in (low, high, inf)]
    return any(_alike(sent, one) for one in found)


def _alike(sent, expected) -> bool:
    """Equal, numbers but for the rounding of two machines."""
    if isinstance(expected, dict):
        return isinstance(sent, dict) and sent.keys() == expected.keys() and all(_alike(sent[k], expected[k]) for k in expected)
    if isinstance(expected, float):
        return isinstance(sent, float) and isclose(sent, expected, rel_tol=1e-6)
    return type(sent) is type(expected) and sent == expected


def _checked_learning_rates(optimizer: dict, settings: TrainSettings) -> list:
    """The step size of every epoch; lets torch judge names and ranges of its parameters before work starts."""
    try:
        return PartyOptimizer([0.0], optimizer, settings.learning_rate_scheduler).learning_rates(settings.epochs)
    except (TypeError, ValueError) as error:
        raise ValueError(f"optimizer_params or scheduler_params do not fit their method: {error}.") from error


def _label_range(labels):
    return float(np.min(labels, initial=np.inf)), float(np.max(labels, initial=-np.inf))


def _merge_range(first, second):
    return min(first[0], second[0]), max(first[1], second[1])
