"""What all parties agree on before training starts: checks at each party, and the terms that the guest sets."""
from typing import Optional

import numpy as np

from fate_dp.components.common.frame_checks import (
    check_features,
    distinct_labels,
    refuse_label,
    refuse_weight,
    require_distinct_ids,
    require_label,
)
from fate_dp.components.common.frames import label_blocks
from fate_dp.components.common.record_stream import ids_digest
from fate_dp.crypto.fixed_point import MAGNITUDE_BITS, MAXIMUM_HOSTS

from .model import check_header
from .score_release import ScoreRelease
from .settings import TrainSettings, batch_bounds, check_batches
from .updates import PartyOptimizer, default_optimizer

FEATURE_LIMIT = 2.0**MAGNITUDE_BITS


def check_table(frame, warm_start: Optional[dict]) -> None:
    """What guest and host alike must bring to a training."""
    refuse_weight(frame)
    require_distinct_ids(frame)
    check_features(frame, FEATURE_LIMIT)
    check_header(warm_start, frame.schema.columns.to_list())


def check_guest_table(frame, warm_start: Optional[dict]) -> None:
    """Labels must be 0 and 1, or soft ones in [0, 1] from flipback, and not all the same."""
    require_label(frame)
    check_table(frame, warm_start)
    low, high = label_blocks(frame).mapValues(_label_range).reduce(_merge_range)
    found = distinct_labels(frame, limit=2)
    if low < 0 or high > 1:
        raise ValueError("A label lies outside 0 to 1; dp_hetero_lr trains on labels 0 and 1.")
    if len(found) == 1:
        raise ValueError("All labels are of one class; both 0 and 1 must occur.")


def host_facts(frame, warm_start: Optional[dict], release: ScoreRelease) -> dict:
    """A host's checks, and what the guest needs to know of it."""
    refuse_label(frame)
    check_table(frame, warm_start)
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
    for name, facts in hosts.items():
        if facts["rows"] != frame.shape[0] or facts["digest"] != ids_digest(frame):
            raise ValueError(f"The rows of guest and {name} are not the same ids in the same order; run psi before.")
        if facts["score_releases_left"] < planned_scores:
            raise ValueError(
                f"This job would show the guest joint scores of {planned_scores} models, but {name} allows only "
                f"{facts['score_releases_left']} more; use fewer flipback rounds or train_scores false, or ask its "
                "operator to raise score_cap."
            )


def training_terms(settings: TrainSettings, rows: int, features: list, epsilon: float, warm_start, flipback_epochs) -> dict:
    """Public numbers that direct a training; ``features`` are the counts of all data parties."""
    check_batches(rows, settings.batch_size, max(features))
    if warm_start is not None:
        optimizer = warm_start["meta"]["optimizer_param"]
    else:
        optimizer = settings.optimizer or default_optimizer(rows, sum(features), epsilon)
    _check_optimizer(optimizer, settings.learning_rate_scheduler)
    return {
        "rows": rows,
        "batches": batch_bounds(rows, settings.batch_size),
        "optimizer": optimizer,
        "flipback_epochs": flipback_epochs,
    }


def _check_optimizer(optimizer: dict, scheduler: dict) -> None:
    """Let torch judge names and ranges of its parameters before work starts."""
    try:
        PartyOptimizer([0.0], optimizer, scheduler)
    except (TypeError, ValueError) as error:
        raise ValueError(f"optimizer_params or scheduler_params do not fit their method: {error}.") from error


def _label_range(labels):
    return float(np.min(labels)), float(np.max(labels))


def _merge_range(first, second):
    return min(first[0], second[0]), max(first[1], second[1])
