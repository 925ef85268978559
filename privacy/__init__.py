"""Mechanisms, accounting and the ledger of what they spend; knows neither FATE nor any network.

Names are loaded on first use: a component that only flips labels must not wait for the accounting libraries.
"""
from importlib import import_module

HOMES = {
    "label_flips": ("InvalidLabel", "InvalidMatchId"),
    "ledger.errors": (
        "BudgetExceeded",
        "ClassesChanged",
        "CorrectedLabel",
        "DuplicateRecord",
        "LedgerError",
        "LedgerUnavailable",
        "ScoreCapExceeded",
        "UnknownRelease",
    ),
    "ledger.ledger": ("Ledger",),
    "mechanisms.randomized_response": (
        "InvalidClasses",
        "InvalidEpsilon",
        "flip_probability",
        "keep_probability",
        "label_posterior",
    ),
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
