"""Whether a model to go on from fits this party, this job, and the other parties' models."""
from typing import Optional, Sequence

import numpy as np

from fate_dp.components.common.parties import data_parties

from .classes import class_names
from .model import columns_of, estimators_of
from .settings import LARGEST_START, TrainSettings
from .solvers import CROSS_PRODUCT, solver_of


def check_warm_start(ctx, settings: TrainSettings, warm_start: Optional[dict]) -> None:
    """Refuse, at this party alone, a model of another family, or one whose shares belong to other parties or an order
    of them: a host would get another host's share of the velocity."""
    if warm_start is None:
        return
    family = warm_start["meta"].get("family", "binomial")
    if family != settings.family:
        raise ValueError(f"family is {settings.family}, but warm_start_model was trained with {family}.")
    if solver_of(settings) != CROSS_PRODUCT:
        return
    if not np.all(np.abs(columns_of(warm_start)) <= LARGEST_START):
        raise ValueError(f"warm_start_model has a weight above {LARGEST_START} in magnitude; start nearer to 0.")
    state, parties = _state_of(warm_start), [list(party) for party in data_parties(ctx)]
    if state is not None and state["parties"] != parties:
        raise ValueError(
            f"warm_start_model was trained by {_names(state['parties'])}, but the job names {_names(parties)}; parties and "
            "their order must agree."
        )


def check_same_classes(warm_start: Optional[dict], classes: Sequence[float]) -> None:
    """A model of other classes has other columns of weights, or the same ones for other classes."""
    if warm_start is not None and warm_start["meta"]["labels"] != class_names(classes):
        had, wanted = warm_start["meta"]["labels"], class_names(classes)
        raise ValueError(f"The classes are {wanted}, but warm_start_model was trained on {had}; both must be the same.")


def run_of(warm_start: Optional[dict]) -> Optional[str]:
    """Which training on shares a model comes from, None for another one or none."""
    state = None if warm_start is None else _state_of(warm_start)
    return None if state is None else state["run"]


def check_same_run(own: Optional[dict], hosts: dict) -> None:
    """At the guest: all parties' shares must be of one training, or they add up to noise."""
    for name, facts in hosts.items():
        if facts["warm_start_run"] != run_of(own):
            raise ValueError(f"warm_start_model of the guest and of {name} do not come from the same training.")


def _state_of(document: dict) -> Optional[dict]:
    return estimators_of(document)[0].get("shared_state")


def _names(parties: list) -> str:
    return ", ".join(f"{role} {number}" for role, number in parties)
