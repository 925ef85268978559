"""What FATE's HomoLR is told, by default the source's values, and the stopping rule that FATE 2.2 has no place for.

HomoLR of FATE 2.2 runs a fixed number of epochs: `tol` and `early_stop` of FATE 1.x are gone from the component,
although fate_client still takes them. They are kept here and applied to the recorded losses afterwards (`stop_epoch`),
so that a report can say where FATE 1.x would have stopped; they change no model.
"""
from __future__ import annotations

from dataclasses import dataclass

from fate_dp.privacy.number_kinds import is_finite, is_whole

OPTIMIZERS = ("adam", "rmsprop", "sgd")
EARLY_STOPS = ("abs", "diff")
# More rows than a party of this study can have. Not more than that: torch reserves eight bytes for each of them.
FULL_BATCH = 1_000_000
KINDS = {int: ("epochs", "batch_size"), float: ("learning_rate", "alpha", "tol", "threshold")}


class InvalidHomoLRSettings(ValueError):
    """A setting of HomoLR is not one; the message is one sentence."""


@dataclass(frozen=True)
class HomoLRSettings:
    """`alpha` is the strength of the l2 penalty, added to every gradient, that of the bias included.

    `batch_size` rows make one step. At least as many as the largest party has make every epoch one step on all rows,
    followed by one average over the parties. Weights begin at zero, so that nothing is drawn and the same rows give the
    same model, up to rounding: RMSprop enlarges that of gradients that would vanish, as the bias' does at first where
    classes are balanced, which the later epochs take back.
    """

    epochs: int = 20
    learning_rate: float = 0.01
    alpha: float = 1.0
    optimizer: str = "rmsprop"
    tol: float = 1e-4
    early_stop: str = "diff"
    threshold: float = 0.5
    batch_size: int = FULL_BATCH

    def __post_init__(self):
        checks = (
            ("epochs", is_whole(self.epochs) and self.epochs >= 1, "a whole number of at least 1"),
            ("learning_rate", is_finite(self.learning_rate) and self.learning_rate > 0, "a number above 0"),
            ("alpha", is_finite(self.alpha) and self.alpha >= 0, "a number of at least 0"),
            ("optimizer", self.optimizer in OPTIMIZERS, f"one of {', '.join(OPTIMIZERS)}"),
            ("tol", is_finite(self.tol) and self.tol >= 0, "a number of at least 0"),
            ("early_stop", self.early_stop in EARLY_STOPS, f"one of {', '.join(EARLY_STOPS)}"),
            ("batch_size", is_whole(self.batch_size) and self.batch_size >= 1, "a whole number of at least 1"),
            ("threshold", is_finite(self.threshold) and 0 < self.threshold < 1, "a number between 0 and 1"),
        )
        for name, holds, allowed in checks:
            if not holds:
                value = getattr(self, name)
                raise InvalidHomoLRSettings(f"The HomoLR setting {name} is {value!r}; allowed is {allowed}.")
        # Numbers of numpy stand in no DAG file and in no result.json.
        for kind, names in KINDS.items():
            for name in names:
                object.__setattr__(self, name, kind(getattr(self, name)))

    def for_fate(self) -> dict:
        """The parameters of FATE's component."""
        return {
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "optimizer": {
                "method": self.optimizer,
                "penalty": "l2",
                "alpha": self.alpha,
                "optimizer_params": {"lr": self.learning_rate},
            },
            "init_param": {"method": "zeros", "fit_intercept": True},
            "threshold": self.threshold,
        }

    def stop_epoch(self, losses) -> int | None:
        """The epoch, counted from 1, after which the rule ends training on these losses; None where it never does.

        `diff`: the loss differs from the one before by less than `tol`; `abs`: the loss itself is at most `tol`.
        """
        rule = {"diff": self._differs_little, "abs": self._is_small}[self.early_stop]
        return next((number + 1 for number in range(len(losses)) if rule(losses, number)), None)

    def _differs_little(self, losses, number: int) -> bool:
        return number > 0 and abs(losses[number] - losses[number - 1]) < self.tol

    def _is_small(self, losses, number: int) -> bool:
        return abs(losses[number]) <= self.tol
