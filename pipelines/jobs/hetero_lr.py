"""Ready-made pipelines: label-private vertical logistic regression, its prediction, and the yardstick without privacy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fate_client.pipeline import FateFlowPipeline
    from fate_client.pipeline.components.fate import PSI, Evaluation, Reader


@dataclass(frozen=True)
class Parties:
    """Party ids of a job."""

    guest: str = "9999"
    host: str = "10000"
    arbiter: str = "10001"

    def data_parties(self) -> dict:
        return {"guest": self.guest, "host": self.host}


@dataclass(frozen=True)
class Tables:
    """Namespace and table names of the two sides of a join."""

    namespace: str
    guest: str
    host: str

    def label_source(self, column: str = "y") -> str:
        """The unit of the guest's label budget."""
        return f"{self.namespace}/{self.guest}/{column}"


@dataclass(frozen=True)
class TrainingPlan:
    """What to train: epsilon None means no flips, on labels that the guest's operator declared public."""

    parties: Parties
    tables: Tables
    epsilon: float | None
    training: dict = field(default_factory=dict)


def training_pipeline(plan: TrainingPlan) -> FateFlowPipeline:
    """reader -> psi -> [label_flip] -> dp_hetero_lr [-> evaluation].

    The evaluation is of the training rows' scores, against the labels that were trained on; it is there with
    ``train_scores`` only.
    """
    from ..clients import DPHeteroLR, LabelFlip

    pipeline = new_pipeline(plan.parties)
    reader, psi = joined_tables(plan.parties, plan.tables)
    tasks, joined, training = [reader, psi], psi.outputs["output_data"], dict(plan.training)
    if plan.epsilon is None:
        training["label_source"] = plan.tables.label_source()
    else:
        flip = LabelFlip(
            "label_flip_0",
            runtime_parties=plan.parties.data_parties(),
            epsilon=plan.epsilon,
            label_source=plan.tables.label_source(),
            input_data=joined,
        )
        tasks.append(flip)
        joined = flip.outputs["output_data"]
    model = DPHeteroLR("dp_hetero_lr_0", train_data=joined, **training)
    tasks.append(model)
    if training.get("train_scores"):
        tasks.append(evaluation(plan.parties, model.outputs["train_output_data"]))
    return pipeline.add_tasks(tasks)


def prediction_pipeline(trained: FateFlowPipeline, parties: Parties, tables: Tables) -> FateFlowPipeline:
    """reader -> psi -> deployed dp_hetero_lr -> evaluation, for a pipeline that `run_job` has trained."""
    trained.deploy([trained.psi_0, trained.dp_hetero_lr_0])
    deployed = trained.get_deployed_pipeline()
    reader = reader_of(parties, tables)
    deployed.psi_0.input_data = reader.outputs["output_data"]
    # The client looks back over one task that is not deployed, not over label_flip and flipback.
    deployed.dp_hetero_lr_0.test_data = deployed.psi_0.outputs["output_data"]
    pipeline = new_pipeline(parties)
    return pipeline.add_tasks(
        [reader, deployed, evaluation(parties, deployed.dp_hetero_lr_0.outputs["test_output_data"])]
    )


def new_pipeline(parties: Parties) -> FateFlowPipeline:
    from fate_client.pipeline import FateFlowPipeline

    return FateFlowPipeline().set_parties(guest=parties.guest, host=[parties.host], arbiter=parties.arbiter)


def joined_tables(parties: Parties, tables: Tables) -> tuple[Reader, PSI]:
    """The reader of both sides and the PSI that joins them."""
    from fate_client.pipeline.components.fate import PSI

    reader = reader_of(parties, tables)
    psi = PSI("psi_0", runtime_parties=parties.data_parties(), input_data=reader.outputs["output_data"])
    return reader, psi


def reader_of(parties: Parties, tables: Tables) -> Reader:
    from fate_client.pipeline.components.fate import Reader

    reader = Reader("reader_0", runtime_parties=parties.data_parties())
    reader.guest.task_parameters(namespace=tables.namespace, name=tables.guest)
    reader.hosts[0].task_parameters(namespace=tables.namespace, name=tables.host)
    return reader


def evaluation(parties: Parties, scored: object) -> Evaluation:
    """FATE's Evaluation at the guest, who alone has labels."""
    from fate_client.pipeline.components.fate import Evaluation

    return Evaluation(
        "evaluation_0", runtime_parties={"guest": parties.guest}, default_eval_setting="binary", input_datas=[scored]
    )
