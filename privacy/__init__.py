"""Mechanisms and the ledger of what they spend; knows neither FATE nor any network."""
from fate_dp.privacy.label_flips import InvalidLabel, InvalidMatchId
from fate_dp.privacy.ledger import Ledger
from fate_dp.privacy.ledger_errors import (
    BudgetExceeded,
    ClassesChanged,
    CorrectedLabel,
    DuplicateRecord,
    LedgerError,
    LedgerUnavailable,
    ScoreCapExceeded,
    UnknownRelease,
)
from fate_dp.privacy.policy import InvalidPolicy
from fate_dp.privacy.randomized_response import (
    InvalidClasses,
    InvalidEpsilon,
    flip_probability,
    keep_probability,
    label_posterior,
)
from fate_dp.privacy.secret_key import UnsafeKeyFile

__all__ = [
    "BudgetExceeded",
    "ClassesChanged",
    "CorrectedLabel",
    "DuplicateRecord",
    "InvalidClasses",
    "InvalidEpsilon",
    "InvalidLabel",
    "InvalidMatchId",
    "InvalidPolicy",
    "Ledger",
    "LedgerError",
    "LedgerUnavailable",
    "ScoreCapExceeded",
    "UnknownRelease",
    "UnsafeKeyFile",
    "flip_probability",
    "keep_probability",
    "label_posterior",
]
