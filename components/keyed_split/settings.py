"""Parameters of keyed_split. No FATE in here."""

from dataclasses import dataclass

from ..common.parameters import parameter
from ..common.preflight import Refusal

LONGEST = 200


def salt(value: object) -> str:
    """Text of 1 to 200 characters, which everybody may know."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST:
        raise Refusal(
            f"salt must be text of 1 to {LONGEST} characters, got {value!r}. Write any text, before looking at labels."
        )
    return value


@dataclass(frozen=True)
class Settings:
    """Splits rows by a hash of their match ids: no row's side depends on another row, and all parties agree."""

    salt: str = parameter("public text that decides, with its id, on which side a row lies", check=salt)
    test_share: float = parameter(
        "share of rows for testing, about; with folds it is one in folds", 0.2, above=0, at_most=0.99
    )
    folds: int | None = parameter(
        "number of folds of a cross-validation; None means none", None, at_least=2, at_most=1000
    )
    fold: int | None = parameter("number, from 1, of the fold for testing; None means none", None, at_least=1)

    def __post_init__(self) -> None:
        if (self.folds is None) != (self.fold is None) or (self.fold or 0) > (self.folds or 0):
            raise Refusal(
                f"fold must be one of 1 to folds, got fold {self.fold} and folds {self.folds}. Set both, or neither."
            )

    @property
    def tested(self) -> tuple[float, float]:
        """Of places from 0 to 1, at which of them rows are for testing: from the first, to below the second."""
        if self.folds is None or self.fold is None:
            return 0.0, self.test_share
        return (self.fold - 1) / self.folds, self.fold / self.folds
