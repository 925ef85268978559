"""Ready-made pipelines: horizontal training with differential privacy over guest, hosts and arbiter, and prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .homo_lr import Federation, StudyTables, guest_reader, training_reader

if TYPE_CHECKING:
    from fate_client.pipeline import FateFlowPipeline
    from fate_client.pipeline.components.fate import Evaluation, Reader

    from ..clients import DPHomoNN


EXAMPLE = {
    "dp_homo_nn_0": {
        "model": {"name": "logistic_regression"},
        "rounds": 50,
        "batch_size": 2000,
        "records": 20000,
        "epsilon": 2.0,
        "delta": 1e-5,
        "clip": 1.0,
        "aggregation": "secure_sum",
        "optimizer": {"method": "sgd", "optimizer_params": {"lr": 1.0}},
        "class_weights": {"prior": [0.15, 0.85], "maximum": 5.0},
    }
}
"""What conf/private_homo_nn.yaml trains: on loans without synthetic rows; about 15 in 100 are not paid back, class 0."""


@dataclass(frozen=True)
class HomoNNParties(Federation):
    """Party ids of a job; ``shuffler`` is a host without data, which takes part with aggregation shuffle only."""

    shuffler: str = "9997"

    def at_training(self, trust: str) -> dict:
        """All parties of a training as fate_client's `runtime_parties`."""
        hosts = [*self.hosts, self.shuffler] if trust == "shuffle" else list(self.hosts)
        return {"guest": self.guest, "host": hosts, "arbiter": self.arbiter}


def training_pipeline(
    parties: HomoNNParties, tables: StudyTables, trainings: dict, evaluate: bool = True
) -> FateFlowPipeline:
    """reader_0 -> one dp_homo_nn per training -> evaluation_0 at the guest, of the scores of its own training rows.

    Args:
        trainings: parameters of `clients.DPHomoNN` by task name, for example ``{"dp_homo_nn_0": {...}}``.
    """
    reader = training_reader("reader_0", parties, tables)
    tasks = [training_task(name, parties, reader, parameters) for name, parameters in trainings.items()]
    pipeline = pipeline_of(parties).add_tasks([reader, *tasks])
    if evaluate:
        pipeline.add_tasks(
            [evaluation(parties, [task.outputs["train_output_data"] for task in tasks], tasks[0].classes)]
        )
    return pipeline


def training_task(name: str, parties: HomoNNParties, reader: Reader, parameters: dict) -> DPHomoNN:
    from ..clients import DPHomoNN

    trust = parameters.get("aggregation", "secure_sum")
    given = {"shuffler": parties.shuffler, **parameters} if trust == "shuffle" else parameters
    return DPHomoNN(name, runtime_parties=parties.at_training(trust), train_data=reader.outputs["output_data"], **given)


def prediction_pipeline(
    trained: FateFlowPipeline, task: str, parties: HomoNNParties, tables: StudyTables
) -> FateFlowPipeline:
    """reader_1 -> the deployed task at the guest alone, for a pipeline that `run_job` has trained."""
    trained.deploy([trained.tasks[task]])
    deployed = trained.get_deployed_pipeline()
    reader, predicting = guest_reader("reader_1", parties, tables), deployed.tasks[task]
    # All data parties hold the model, so nobody else is needed, and nobody else sees the rows.
    predicting.runtime_parties = {"guest": parties.guest}
    predicting.test_data = reader.outputs["output_data"]
    return pipeline_of(parties).add_tasks([reader, deployed])


def evaluation(parties: HomoNNParties, scores: list, classes: object) -> Evaluation:
    """FATE's Evaluation at the guest."""
    from fate_client.pipeline.components.fate import Evaluation

    kind = "multi" if isinstance(classes, int) and classes > 2 else "binary"
    return Evaluation(
        "evaluation_0", runtime_parties={"guest": parties.guest}, default_eval_setting=kind, input_datas=scores
    )


def pipeline_of(parties: HomoNNParties | ShuffledParties) -> FateFlowPipeline:
    from fate_client.pipeline import FateFlowPipeline

    return FateFlowPipeline().set_parties(
        guest=parties.guest, host=[*parties.hosts, parties.shuffler], arbiter=parties.arbiter
    )


# Ready-made pipeline: private statistics of columns over all parties' records, mixed by a host without data.


@dataclass(frozen=True)
class ShuffledParties:
    """Party ids of a job: guest and ``hosts`` bring records, ``shuffler`` mixes messages, ``arbiter`` is the server."""

    guest: str = "9999"
    hosts: tuple[str, ...] = ("9998",)
    shuffler: str = "10000"
    arbiter: str = "10001"

    def with_records(self) -> dict:
        return {"guest": self.guest, "host": list(self.hosts)}


def statistics_pipeline(
    parties: ShuffledParties, namespace: str, tables: dict, requests: list, **settings: Any
) -> FateFlowPipeline:
    """reader at the parties with records -> shuffler at all.

    Args:
        namespace, tables: where each party's table is: party id -> name.
        requests: statistics, as `clients.Shuffler` takes them.
        settings: its further parameters: min_messages, epsilon or epsilon0, delta.
    """
    from ..clients import Shuffler

    reader = reader_of(parties, namespace, tables)
    task = Shuffler(
        "shuffler_0", requests=requests, shuffler=parties.shuffler, input_data=reader.outputs["output_data"], **settings
    )
    return pipeline_of(parties).add_tasks([reader, task])


def reader_of(parties: ShuffledParties, namespace: str, tables: dict) -> Reader:
    from fate_client.pipeline.components.fate import Reader

    reader = Reader("reader_0", runtime_parties=parties.with_records())
    reader.guest.task_parameters(namespace=namespace, name=tables[parties.guest])
    for number, party_id in enumerate(parties.hosts):
        reader.hosts[number].task_parameters(namespace=namespace, name=tables[party_id])
    return reader
