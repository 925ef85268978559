"""What all parties agree on before training starts: checks at each party, and the terms that the guest sets."""
import secrets
from typing import Optional

import numpy as np

from fate_dp.components.common.frame_checks import check_guest_table, check_host_table, distinct_labels
from fate_dp.components.common.frames import label_blocks
from fate_dp.components.common.record_stream import ids_digest
from fate_dp.crypto.fixed_point import MAXIMUM_HOSTS

from .cross_product.public_sizes import steps_between_checks, update_rule
from .majorisation import correction_epochs
from .model import check_header
from .noised.descent import check_ridge, first_fit_terms, noisy_optimizer
from .noised.joint_noise import FIRST_FIT, check_own_part, fits_of
from .noised.own_noise import OwnNoise
from .score_release import ScoreRelease
from .settings import TrainSettings, batch_bounds, check_batches
from .solvers import CROSS_PRODUCT, solver_of
from .updates import PartyOptimizer, default_optimizer


def check_guest(frame, settings: TrainSettings, warm_start: Optional[dict]) -> None:
    """The guest's table, and whether a model to go on from fits it. Labels are checked once their privacy is known."""
    check_guest_table(frame)
    if warm_start is not None:
        check_header(warm_start["data"]["estimator"]["header"], frame.schema.columns)
        had, wanted = warm_start["data"]["estimator"]["fit_intercept"], settings.init_param["fit_intercept"]
        if had != wanted:
            raise ValueError(f"init_param.fit_intercept is {wanted}, but warm_start_model was trained with {had}.")


def check_labels(frame, family: str) -> None:
    """Labels must differ; for family binomial they are 0 and 1, flipped or public, or soft ones in [0, 1] from flipback."""
    low, high = label_blocks(frame).mapValues(_label_range).reduce(_merge_range)
    if not np.isfinite(high - low):
        raise ValueError("A label is not finite; dp_hetero_lr trains on finite numbers.")
    if family == "binomial" and (low < 0 or high > 1):
        raise ValueError("A label lies outside 0 to 1; dp_hetero_lr with family binomial trains on labels 0 and 1.")
    if len(distinct_labels(frame, limit=2)) == 1:
        raise ValueError("All labels are of one class; both 0 and 1 must occur.")


def check_host(frame, settings: TrainSettings, warm_start: Optional[dict]) -> None:
    """A host's table, whether a model to go on from fits it, and batches that do not give its gradient away."""
    check_host_table(frame)
    if warm_start is not None:
        check_header(warm_start["data"]["estimator"]["header"], frame.schema.columns)
    check_batches(frame.shape[0], settings.batch_size, len(frame.schema.columns))


def host_facts(frame, release: ScoreRelease) -> dict:
    """What the guest needs to know of a host."""
    return {
        "rows": frame.shape[0],
        "features": len(frame.schema.columns),
        "digest": ids_digest(frame),
        "score_releases_left": release.left(),
    }


def check_hosts(frame, hosts: dict, planned_scores: int) -> None:
    """At the guest: rows must be aligned, and every host must still consent to the planned score releases."""
    if len(hosts) > MAXIMUM_HOSTS:
        raise ValueError(f"The job names {len(hosts)} hosts; at most {MAXIMUM_HOSTS} can take part.")
    check_aligned(frame, {name: facts["digest"] for name, facts in hosts.items()})
    for name, facts in hosts.items():
        if facts["score_releases_left"] < planned_scores:
            raise ValueError(
                f"This job would show the guest joint scores of {planned_scores} models, but {name} allows only "
                f"{facts['score_releases_left']} more; use fewer flipback or sigmoid rounds, or train_scores false, or ask "
                "its operator to raise score_caps."
            )


def check_aligned(frame, digests: dict) -> None:
    """At the guest: every host must hold the same ids in the same blocks and order."""
    own = ids_digest(frame)
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
    noise: Optional[dict] = None,
) -> dict:  # fmt: skip
    """Public numbers that direct a training; ``features`` are the counts of all data parties, the guest's first.

    ``mean_square_bits`` is the largest of all data parties, see `cross_product.mean_squares`; ``noise`` are the terms
    of noise, None without.
    """
    check_batches(rows, settings.batch_size, max(features))
    optimizer = _optimizer(settings, rows, features, epsilon, warm_start, noise)
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
    }
    if solver_of(settings) == CROSS_PRODUCT:
        steps_between_checks(settings, terms, update_rule(terms, learning_rates))
    if noise and FIRST_FIT in fits_of(noise):
        _check_first_fit(settings, first_fit_terms(terms))
    return terms


def _check_first_fit(settings: TrainSettings, terms: dict) -> None:
    rates = _checked_learning_rates(terms["optimizer"], settings)
    steps_between_checks(settings, terms, update_rule(terms, rates))


def _optimizer(settings: TrainSettings, rows: int, features: list, epsilon: float, warm_start, noise) -> dict:
    if warm_start is not None:
        return warm_start["meta"]["optimizer_param"]
    default = default_optimizer(rows, sum(features), epsilon, settings.sigmoid, settings.family)
    if noise:
        return noisy_optimizer(settings.optimizer, default["alpha"], noise, rows)
    return settings.optimizer or default


def accept_terms(
    terms: dict, settings: TrainSettings, rows: int, warm_start: Optional[dict], noise: Optional[OwnNoise] = None
) -> None:
    """At a host: what the guest sets must be what the job's parameters say; a host does not rely on the guest.

    ``noise`` is this host's own part in it, None without.
    """
    if [tuple(bounds) for bounds in terms["batches"]] != batch_bounds(rows, settings.batch_size):
        raise ValueError("The guest's batches are not those of batch_size; this host does not train on others.")
    if len(terms["flipback_epochs"]) > settings.flipback.planned_rounds(settings.epochs):
        raise ValueError("The guest plans more flipback rounds than max_rounds and epochs allow.")
    if terms["score_epochs"] != score_epochs(settings, terms["flipback_epochs"], warm_start):
        raise ValueError("The guest plans other epochs with joint scores than flipback and sigmoid_rounds give.")
    check_own_part(terms["noise"], noise and noise.facts, noise and noise.position, terms["features"])
    if noise is not None:
        check_ridge(terms)


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
