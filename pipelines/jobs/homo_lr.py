"""What FATE's HomoLR is told, by default the source's values, and the stopping rule that FATE 2.2 has no place for.

HomoLR of FATE 2.2 runs a fixed number of epochs: `tol` and `early_stop` of FATE 1.x are gone from the component,
although fate_client still takes them. They are kept here and applied to the recorded losses afterwards (`stop_epoch`),
so that a report can say where FATE 1.x would have stopped; they change no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fate_dp.privacy.validation import PARTY_ID, InvalidArgument, is_finite, is_whole

if TYPE_CHECKING:
    from fate_client.pipeline import FateFlowPipeline
    from fate_client.pipeline.components.fate import Reader


OPTIMIZERS = ("adam", "rmsprop", "sgd")
EARLY_STOPS = ("abs", "diff")
# More rows than a party of this study can have. Not more than that: torch reserves eight bytes for each of them.
FULL_BATCH = 1_000_000
KINDS = {int: ("epochs", "batch_size"), float: ("learning_rate", "alpha", "tol", "threshold")}


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
                raise InvalidArgument(f"The HomoLR setting {name} is {value!r}; allowed is {allowed}.")
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

    def stop_epoch(self, losses: Sequence[float]) -> int | None:
        """The epoch, counted from 1, after which the rule ends training on these losses; None where it never does.

        `diff`: the loss differs from the one before by less than `tol`; `abs`: the loss itself is at most `tol`.
        """
        rule = {"diff": self._differs_little, "abs": self._is_small}[self.early_stop]
        return next((number + 1 for number in range(len(losses)) if rule(losses, number)), None)

    def _differs_little(self, losses: Sequence[float], number: int) -> bool:
        return number > 0 and abs(losses[number] - losses[number - 1]) < self.tol

    def _is_small(self, losses: Sequence[float], number: int) -> bool:
        return abs(losses[number]) <= self.tol


# The study's job: FATE's HomoLR over a guest, its hosts and an arbiter, tested on a table that the guest holds.


@dataclass(frozen=True)
class Federation:
    """Party ids of a job; every data party holds rows of its own with the same columns and the label."""

    guest: str = "9999"
    hosts: tuple[str, ...] = ("10000", "9998")
    arbiter: str = "10001"

    def __post_init__(self) -> None:
        if not isinstance(self.hosts, (tuple, list)) or not self.hosts:
            raise InvalidArgument(f"The hosts are {self.hosts!r}; allowed is a list of at least one party id.")
        object.__setattr__(self, "hosts", tuple(self.hosts))
        members = self.data_parties()
        for role, party_id in (*members, ("arbiter", self.arbiter)):
            if not isinstance(party_id, str) or not PARTY_ID.fullmatch(party_id):
                raise InvalidArgument(
                    f"The {role}'s party id is {party_id!r}; allowed are 1 to 64 letters, digits and underscores."
                )
        if len({party_id for _, party_id in members}) < len(members):
            raise InvalidArgument(
                f"The data parties are {', '.join(party_id for _, party_id in members)}; their ids must not repeat."
            )

    def data_parties(self) -> tuple[tuple[str, str], ...]:
        """Pairs of role and party id, the guest first."""
        return (("guest", self.guest), *(("host", host) for host in self.hosts))

    def training_parties(self) -> dict:
        """The data parties as fate_client's `runtime_parties`."""
        return {"guest": self.guest, "host": list(self.hosts)}


@dataclass(frozen=True)
class StudyTables:
    """Where the tables of a study are: `{role}_{party id}_train` of every data party, and `test` at the guest."""

    namespace: str = "lending_club"
    test: str = "test"

    def training(self, role: str, party_id: str) -> str:
        """The name of a party's training table."""
        return f"{role}_{party_id}_train"


def study_pipeline(federation: Federation, tables: StudyTables, settings: HomoLRSettings) -> FateFlowPipeline:
    """reader_0 -> homo_lr_0 over all parties; reader_1 -> homo_lr_1 at the guest alone; evaluation_0 of both scores."""
    from fate_client.pipeline.components.fate import Evaluation, HomoLR

    training, test = training_reader("reader_0", federation, tables), guest_reader("reader_1", federation, tables)
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
    evaluation = Evaluation(
        "evaluation_0",
        runtime_parties={"guest": federation.guest},
        default_eval_setting="binary",
        input_datas=[model.outputs["train_output_data"], tested.outputs["test_output_data"]],
    )
    return new_pipeline(federation).add_tasks([training, model, test, tested, evaluation])


def prediction_pipeline(trained: FateFlowPipeline, federation: Federation, tables: StudyTables) -> FateFlowPipeline:
    """reader_1 -> deployed homo_lr_0 at the guest alone, for a study pipeline that `run_job` has trained."""
    trained.deploy([trained.homo_lr_0])
    deployed = trained.get_deployed_pipeline()
    reader = guest_reader("reader_1", federation, tables)
    deployed.homo_lr_0.runtime_parties = {"guest": federation.guest}
    deployed.homo_lr_0.test_data = reader.outputs["output_data"]
    return new_pipeline(federation).add_tasks([reader, deployed])


def new_pipeline(federation: Federation) -> FateFlowPipeline:
    from fate_client.pipeline import FateFlowPipeline

    return FateFlowPipeline().set_parties(
        guest=federation.guest, host=list(federation.hosts), arbiter=federation.arbiter
    )


def training_reader(name: str, federation: Federation, tables: StudyTables) -> Reader:
    """The reader of every data party's training table."""
    from fate_client.pipeline.components.fate import Reader

    reader = Reader(name, runtime_parties=federation.training_parties())
    sides = (reader.guest, *(reader.hosts[number] for number in range(len(federation.hosts))))
    for side, party in zip(sides, federation.data_parties()):
        side.task_parameters(namespace=tables.namespace, name=tables.training(*party))
    return reader


def guest_reader(name: str, federation: Federation, tables: StudyTables) -> Reader:
    """The reader of the test table at the guest."""
    from fate_client.pipeline.components.fate import Reader

    reader = Reader(name, runtime_parties={"guest": federation.guest})
    reader.guest.task_parameters(namespace=tables.namespace, name=tables.test)
    return reader
