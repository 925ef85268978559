"""Which solver trains: the one that was asked for, or the cross product wherever its arithmetic allows.

The cross product keeps the weights shared between the parties, so that its update rule must be linear in them.
"""
from types import ModuleType
from typing import NamedTuple

from .settings import TrainSettings, hindrance_to_cross_product

CROSS_PRODUCT, PER_EPOCH = "cross_product", "per_epoch"


class Roles(NamedTuple):
    """What each role does in one solver: ``guest.train``, ``host.train`` and ``arbiter.serve_training``."""

    guest: ModuleType
    host: ModuleType
    arbiter: ModuleType


def solver_of(settings: TrainSettings) -> str:
    """`CROSS_PRODUCT` or `PER_EPOCH`.

    Raises:
        ValueError: the settings ask for what the solver they name, or the only one they leave, cannot do.
    """
    needed, hindrance = _needs_cross_product(settings), hindrance_to_cross_product(settings)
    if settings.solver == PER_EPOCH and needed:
        raise ValueError(f"solver is per_epoch, but {needed} needs solver cross_product.")
    if hindrance and (needed or settings.solver == CROSS_PRODUCT):
        reason = needed or "solver cross_product"
        raise ValueError(f"{hindrance}, which {reason} cannot have: its weights stay shared, and only sgd is linear in them.")
    return settings.solver or (PER_EPOCH if hindrance else CROSS_PRODUCT)


def roles_of(settings: TrainSettings) -> Roles:
    """The modules of the solver that trains."""
    if solver_of(settings) == CROSS_PRODUCT:
        from .cross_product import arbiter, guest, host
    else:
        from .per_epoch import arbiter, guest, host
    return Roles(guest, host, arbiter)


def _needs_cross_product(settings: TrainSettings) -> str:
    if settings.family == "gaussian":
        return "family gaussian"
    return "sigmoid exact" if settings.sigmoid == "exact" else ""
