"""What pipelines are made of, and the demo's; `examples/pipelines.py` makes those of the other jobs in conf/ of it.
*Vertical*: guest and host have different columns of the same records, joined by PSI or as shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fate_client.pipeline import FateFlowPipeline
    from fate_client.pipeline.components.fate import PSI, Evaluation, Reader


class Members(Protocol):
    """The party ids of a job."""

    @property
    def guest(self) -> str: ...
    @property
    def arbiter(self) -> str | None: ...
    @property
    def all_hosts(self) -> list[str]: ...


@dataclass(frozen=True)
class Parties:
    """Party ids of a vertical job; without an arbiter where that is None."""

    guest: str = "9999"
    host: str = "10000"
    arbiter: str | None = "10001"

    @property
    def all_hosts(self) -> list[str]:
        return [self.host]

    def data_parties(self) -> dict[str, Any]:
        """As fate_client's `runtime_parties`."""
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


def new_pipeline(parties: Members) -> FateFlowPipeline:
    """An empty pipeline of these parties."""
    from fate_client.pipeline import FateFlowPipeline

    return FateFlowPipeline().set_parties(guest=parties.guest, host=parties.all_hosts, arbiter=parties.arbiter)


def reader_of(name: str, namespace: str, guest: tuple[str, str], *hosts: tuple[str, str]) -> Reader:
    """A reader of one table at the guest and at each of the hosts, given as pairs of party id and table."""
    from fate_client.pipeline.components.fate import Reader

    parties: dict[str, Any] = {"guest": guest[0], **({"host": [party_id for party_id, _ in hosts]} if hosts else {})}
    reader = Reader(name, runtime_parties=parties)
    reader.guest.task_parameters(namespace=namespace, name=guest[1])
    for number, (_, table) in enumerate(hosts):
        reader.hosts[number].task_parameters(namespace=namespace, name=table)
    return reader


def evaluation(parties: Members, *scored: object, kind: str = "binary") -> Evaluation:
    """FATE's Evaluation of scores at the guest, who alone gets it; ``kind`` is binary or multi."""
    from fate_client.pipeline.components.fate import Evaluation

    return Evaluation(
        "evaluation_0", runtime_parties={"guest": parties.guest}, default_eval_setting=kind, input_datas=list(scored)
    )


@dataclass(frozen=True)
class TrainingPlan:
    """What to train: epsilon None means no flips, on labels that the guest's operator declared public.

    ``training`` and ``alignment`` are further parameters of the client that trains and of `clients.Align`. With
    ``train_scores`` the training rows' scores are evaluated, against the labels that were trained on.
    """

    parties: Parties
    tables: Tables
    epsilon: float | None
    training: dict[str, Any] = field(default_factory=dict)
    alignment: dict[str, Any] = field(default_factory=dict)


def training_pipeline(plan: TrainingPlan) -> FateFlowPipeline:
    """reader -> psi -> [label_flip] -> dp_hetero_lr [-> evaluation]."""
    from ..clients import DPHeteroLR

    reader, psi = joined_tables(plan.parties, plan.tables)
    flips, joined, source = flipped(plan, psi.outputs["output_data"], plan.parties.data_parties())
    model = DPHeteroLR("dp_hetero_lr_0", train_data=joined, **{**plan.training, **source})
    return new_pipeline(plan.parties).add_tasks([reader, psi, *flips, model, *evaluated(plan, model)])


def flipped(
    plan: TrainingPlan, rows: object, parties: dict[str, Any] | None = None
) -> tuple[list, object, dict[str, Any]]:
    """The task that flips labels, if any; the rows to train on; and where nothing is flipped, whose labels they have."""
    from ..clients import LabelFlip

    source = {"label_source": plan.tables.label_source()}
    if plan.epsilon is None:
        return [], rows, source
    flip = LabelFlip("label_flip_0", runtime_parties=parties, epsilon=plan.epsilon, input_data=rows, **source)
    return [flip], flip.outputs["output_data"], {}


def evaluated(plan: TrainingPlan, model: Any) -> list:
    scored = plan.training.get("train_scores")
    return [evaluation(plan.parties, model.outputs["train_output_data"])] if scored else []


def prediction_pipeline(trained: FateFlowPipeline, parties: Parties, tables: Tables) -> FateFlowPipeline:
    """reader -> psi -> deployed dp_hetero_lr -> evaluation, for a pipeline that `run_job` has trained."""
    trained.deploy([trained.psi_0, trained.dp_hetero_lr_0])
    deployed, reader = trained.get_deployed_pipeline(), both_tables(parties, tables)
    deployed.psi_0.input_data = reader.outputs["output_data"]
    # The client looks back over one task that is not deployed, not over label_flip and flipback.
    deployed.dp_hetero_lr_0.test_data = deployed.psi_0.outputs["output_data"]
    scored = deployed.dp_hetero_lr_0.outputs["test_output_data"]
    return new_pipeline(parties).add_tasks([reader, deployed, evaluation(parties, scored)])


def joined_tables(parties: Parties, tables: Tables) -> tuple[Reader, PSI]:
    """The reader of both sides and the PSI that joins them."""
    from fate_client.pipeline.components.fate import PSI

    reader = both_tables(parties, tables)
    return reader, PSI("psi_0", runtime_parties=parties.data_parties(), input_data=reader.outputs["output_data"])


def both_tables(parties: Parties, tables: Tables) -> Reader:
    return reader_of("reader_0", tables.namespace, (parties.guest, tables.guest), (parties.host, tables.host))
