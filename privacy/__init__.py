"""Mechanisms, accounting and the ledger of what they spend; knows neither FATE nor any network.

Names are loaded on first use: a component that only flips labels must not wait for the accounting libraries.
"""

from importlib import import_module
from typing import Any

HOMES = {
    "accounting.calibration": ("calibrate_noise_multiplier", "subsampled_gaussian_epsilon"),
    "accounting.composition": ("compose_pure",),
    "accounting.gaussian": ("gaussian_delta", "gaussian_epsilon", "gaussian_sigma", "grouped_gaussian_epsilon"),
    "accounting.shuffling": ("shuffle_epsilon",),
    "events": ("InvalidEvent",),
    "ledger.entries": ("BudgetCap", "BudgetExceeded", "CorrectedLabel", "LedgerError", "LedgerUnavailable"),
    "ledger.ledger": ("Ledger",),
    "ledger.policy": ("InvalidPolicy",),
    "mechanisms.aggregates": ("sample_and_aggregate",),
    "mechanisms.exponential": ("exponential_mechanism",),
    "mechanisms.randomized_response": ("flip_probability", "keep_probability", "label_posterior"),
    "noise.discrete": ("discrete_gaussian", "discrete_laplace"),
    "private_files": ("UnsafeKeyFile",),
    "validation": ("InvalidArgument",),
}
HOME_OF = {name: home for home, names in HOMES.items() for name in names}
__all__ = sorted(HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
