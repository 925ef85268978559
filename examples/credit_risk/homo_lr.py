"""FATE's HomoLR as the study runs it: its settings, and the pipeline that trains, tests and evaluates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from examples.pipelines import Federation, StudyTables, held_out_reader, training_reader
from fate_dp.pipelines.jobs.ready import evaluation, new_pipeline
from fate_dp.privacy.validation import InvalidArgument, is_finite, is_whole

if TYPE_CHECKING:
    from fate_client.pipeline import FateFlowPipeline

OPTIMIZERS = ("adam", "rmsprop", "sgd")
EARLY_STOPS = ("abs", "diff")
# More rows than a party of this study can have. Not more than that: torch reserves eight bytes for each of them.
FULL_BATCH = 1_000_000


@dataclass(frozen=True)
class HomoLRSettings:
    """What FATE's HomoLR is told, by default the source's values, and the stopping rule that FATE 2.2 has no place for.

    HomoLR of FATE 2.2 runs a fixed number of epochs: `tol` and `early_stop` of FATE 1.x are gone from the component,
    although fate_client still takes them. They are kept here and applied to the recorded losses afterwards
    (`stop_epoch`), so that a report can say where FATE 1.x would have stopped; they change no model.

    `alpha` is the strength of the l2 penalty, added to every gradient, that of the bias included. `batch_size` rows make
    one step. At least as many as the largest party has make every epoch one step on all rows, followed by one average
    over the parties. Weights begin at zero, so that nothing is drawn and the same rows give the same model, up to
    rounding: RMSprop enlarges that of gradients that would vanish, as the bias' does at first where classes are balanced,
    which the later epochs take back.
    """

    epochs: int = 20
    learning_rate: float = 0.01
    alpha: float = 1.0
    optimizer: str = "rmsprop"
    tol: float = 1e-4
    early_stop: str = "diff"
    threshold: float = 0.5
    batch_size: int = FULL_BATCH

    def __post_init__(self) -> None:
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
                raise InvalidArgument.of(f"The HomoLR setting {name}", value, allowed)
        # Numbers of numpy stand in no DAG file and in no result.json.
        for item in fields(self):
            kind: Any = type(item.default)
            object.__setattr__(self, item.name, kind(getattr(self, item.name)))

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

    def stop_epoch(self, losses: Sequence[float]) -> int | None:
        """The epoch, counted from 1, after which the rule ends training on these losses; None where it never does.

        `diff`: the loss differs from the one before by less than `tol`; `abs`: the loss itself is at most `tol`.
        """
        if self.early_stop == "abs":
            ends = [abs(loss) <= self.tol for loss in losses]
        else:
            ends = [False, *(abs(loss - before) < self.tol for before, loss in zip(losses, losses[1:]))]
        return ends.index(True) + 1 if True in ends else None


def study_pipeline(federation: Federation, tables: StudyTables, settings: HomoLRSettings) -> FateFlowPipeline:
    """reader_0 -> homo_lr_0 over all parties; reader_1 -> homo_lr_1 at the guest alone; evaluation_0 of both scores."""
    from fate_client.pipeline.components.fate import HomoLR

    training, test = training_reader(federation, tables), held_out_reader(federation, tables)
    model = HomoLR("homo_lr_0", train_data=training.outputs["output_data"], **settings.for_fate())
    # A model that everybody holds needs nobody's help to predict, and the hosts need not see the test rows.
    tested = HomoLR(
        "homo_lr_1",
        runtime_parties={"guest": federation.guest},
        test_data=test.outputs["output_data"],
        input_model=model.outputs["output_model"],
        batch_size=settings.batch_size,
        threshold=settings.threshold,
    )
    scores = model.outputs["train_output_data"], tested.outputs["test_output_data"]
    return new_pipeline(federation).add_tasks([training, model, test, tested, evaluation(federation, *scores)])
