"""Mechanisms, accounting and the ledger of what they spend; knows neither FATE nor any network.

Names are loaded on first use: a component that only flips labels must not wait for the accounting libraries.
"""
from importlib import import_module

HOMES = {
    "accounting.analytic_gaussian": ("gaussian_delta", "gaussian_epsilon", "gaussian_sigma"),
    "accounting.calibration": ("calibrate_noise_multiplier",),
    "accounting.grouped_gaussian": ("grouped_gaussian_epsilon",),
    "accounting.privacy_parameters": ("InvalidDelta", "InvalidScale"),
    "accounting.pure_composition": ("compose_pure",),
    "accounting.shuffling": ("shuffle_epsilon",),
    "accounting.subsampled_gaussian": ("subsampled_gaussian_epsilon",),
    "events": ("InvalidEvent",),
    "label_flips": ("InvalidLabel", "InvalidMatchId"),
    "ledger.budget_cap": ("BudgetCap",),
    "ledger.errors": (
        "BudgetExceeded",
        "ClassesChanged",
        "CorrectedLabel",
        "DuplicateRecord",
        "LedgerError",
        "LedgerUnavailable",
        "OtherSource",
        "ReleaseKeyReused",
        "ScoreCapExceeded",
        "TooManyRecords",
        "UnknownRelease",
    ),
    "ledger.ledger": ("Ledger",),
    "ledger.private_steps": ("InvalidStep",),
    "mechanisms.randomized_response": (
        "InvalidClasses",
        "InvalidEpsilon",
        "flip_probability",
        "keep_probability",
        "label_posterior",
    ),
    "mechanisms.exponential": ("exponential_mechanism",),
    "mechanisms.sample_and_aggregate": ("sample_and_aggregate",),
    "noise.discrete_gaussian": ("discrete_gaussian",),
    "noise.discrete_laplace": ("discrete_laplace",),
    "noise.stream": ("InvalidRandomness",),
    "policy": ("InvalidPolicy",),
    "secret_key": ("UnsafeKeyFile",),
}
HOME_OF = {name: home for home, names in HOMES.items() for name in names}
__all__ = sorted(HOME_OF)


def __getattr__(name):
    if name not in HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{HOME_OF[name]}"), name)
    return value


def __dir__():
    return sorted({*globals(), *__all__})
