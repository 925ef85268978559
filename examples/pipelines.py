"""Pipelines of the jobs in conf/ that are not the demo's, and their predictions; benchmarks and tests run them as well.

Most are *horizontal*: guest and hosts have the same columns of different records, and an arbiter adds up models or
statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fate_dp.pipelines.jobs.ready import (
    Parties,
    Tables,
    TrainingPlan,
    both_tables,
    evaluated,
    evaluation,
    flipped,
    new_pipeline,
    reader_of,
)
from fate_dp.privacy.validation import PARTY_ID, InvalidArgument

if TYPE_CHECKING:
    from fate_client.pipeline import FateFlowPipeline
    from fate_client.pipeline.components.fate import Reader

    from fate_dp.pipelines.clients import DPHomoNN


@dataclass(frozen=True)
class Federation:
    """Party ids of a horizontal job; every data party holds rows of its own with the same columns.

    ``shuffler`` is a host without data that mixes messages, for `clients.Shuffler` and for trainings with aggregation
    shuffle.
    """

    guest: str = "9999"
    hosts: tuple[str, ...] = ("10000", "9998")
    arbiter: str = "10001"
    shuffler: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.hosts, (tuple, list)) or not self.hosts:
            raise InvalidArgument.of("hosts", self.hosts, "a list of at least one party id")
        object.__setattr__(self, "hosts", tuple(self.hosts))
        members = self.data_parties()
        for role, party_id in (*members, ("arbiter", self.arbiter)):
            if not isinstance(party_id, str) or not PARTY_ID.fullmatch(party_id):
                raise InvalidArgument.of(f"party id of the {role}", party_id, "1 to 64 letters, digits and underscores")
        if len({party_id for _, party_id in members}) < len(members):
            ids = tuple(party_id for _, party_id in members)
            raise InvalidArgument.of("ids of the data parties", ids, "different from each other")

    @property
    def all_hosts(self) -> list[str]:
        return [*self.hosts, *([self.shuffler] if self.shuffler else [])]

    def data_parties(self) -> tuple[tuple[str, str], ...]:
        """Pairs of role and party id, the guest first."""
        return (("guest", self.guest), *(("host", host) for host in self.hosts))

    def at_training(self, aggregation: str) -> dict[str, Any]:
        """All parties of a training with differential privacy as fate_client's `runtime_parties`."""
        hosts = self.all_hosts if aggregation == "shuffle" else list(self.hosts)
        return {"guest": self.guest, "host": hosts, "arbiter": self.arbiter}


@dataclass(frozen=True)
class StudyTables:
    """Where the tables of a study are: `{role}_{party id}_train` of every data party, and `test` at the guest."""

    namespace: str = "lending_club"
    test: str = "test"

    def training(self, role: str, party_id: str) -> str:
        """The name of a party's training table."""
        return f"{role}_{party_id}_train"


def joined_training_pipeline(plan: TrainingPlan) -> FateFlowPipeline:
    """reader -> [label_flip] -> align -> share_lr [-> evaluation], of guest and host alone: shares are of two parties."""
    from fate_dp.pipelines.clients import Align, ShareLR

    reader = both_tables(plan.parties, plan.tables)
    flips, rows, source = flipped(plan, reader.outputs["output_data"])
    align = Align("align_0", input_data=rows, **{**plan.alignment, **source})
    model = ShareLR(
        "share_lr_0", train_data=align.outputs["output_data"], alignment=align.outputs["alignment"], **plan.training
    )
    pipeline = new_pipeline(replace(plan.parties, arbiter=None))
    return pipeline.add_tasks([reader, *flips, align, model, *evaluated(plan, model)])


def joined_prediction_pipeline(trained: FateFlowPipeline, parties: Parties, tables: Tables) -> FateFlowPipeline:
    """reader -> align -> deployed share_lr -> evaluation, for a pipeline that `run_job` has trained."""
    from fate_dp.pipelines.clients import Align

    trained.deploy([trained.share_lr_0])
    deployed, reader = trained.get_deployed_pipeline(), both_tables(parties, tables)
    align = Align("align_1", input_data=reader.outputs["output_data"])
    deployed.share_lr_0.test_data = align.outputs["output_data"]
    deployed.share_lr_0.alignment = align.outputs["alignment"]
    scored = deployed.share_lr_0.outputs["test_output_data"]
    pipeline = new_pipeline(replace(parties, arbiter=None))
    return pipeline.add_tasks([reader, align, deployed, evaluation(parties, scored)])


def private_training_pipeline(
    parties: Federation, tables: StudyTables, trainings: dict, evaluate: bool = True
) -> FateFlowPipeline:
    """reader_0 -> one dp_homo_nn per training -> evaluation_0 at the guest, of the scores of its own training rows.

    Args:
        trainings: parameters of `clients.DPHomoNN` by task name, for example ``{"dp_homo_nn_0": {...}}``.
    """
    reader = training_reader(parties, tables)
    tasks = [training_task(name, parties, reader, parameters) for name, parameters in trainings.items()]
    pipeline = new_pipeline(parties).add_tasks([reader, *tasks])
    if evaluate:
        classes, scores = tasks[0].classes, [task.outputs["train_output_data"] for task in tasks]
        kind = "multi" if isinstance(classes, int) and classes > 2 else "binary"
        pipeline.add_tasks([evaluation(parties, *scores, kind=kind)])
    return pipeline


def training_task(name: str, parties: Federation, reader: Reader, parameters: dict) -> DPHomoNN:
    """One dp_homo_nn on what a reader has read."""
    from fate_dp.pipelines.clients import DPHomoNN

    aggregation = parameters.get("aggregation", "secure_sum")
    given = {"shuffler": parties.shuffler, **parameters} if aggregation == "shuffle" else parameters
    runtime_parties = parties.at_training(aggregation)
    return DPHomoNN(name, runtime_parties=runtime_parties, train_data=reader.outputs["output_data"], **given)


def private_trees_pipeline(parties: Federation, tables: StudyTables, parameters: dict) -> FateFlowPipeline:
    """reader_0 -> dp_homo_gbdt_0 -> evaluation_0 at the guest; ``parameters`` are those of `clients.DPHomoGBDT`."""
    from fate_dp.pipelines.clients import DPHomoGBDT

    reader = training_reader(parties, tables)
    trees = DPHomoGBDT(
        "dp_homo_gbdt_0",
        runtime_parties=parties.at_training("secure_sum"),
        train_data=reader.outputs["output_data"],
        **parameters,
    )
    scored = evaluation(parties, trees.outputs["train_output_data"])
    return new_pipeline(parties).add_tasks([reader, trees, scored])


def guest_prediction_pipeline(
    trained: FateFlowPipeline, task: str, parties: Federation, tables: StudyTables
) -> FateFlowPipeline:
    """reader_1 -> the deployed task at the guest alone, for a horizontal pipeline that `run_job` has trained."""
    trained.deploy([trained.tasks[task]])
    deployed, reader = trained.get_deployed_pipeline(), held_out_reader(parties, tables)
    # All data parties hold the model, so nobody else is needed, and nobody else sees the rows.
    deployed.tasks[task].runtime_parties = {"guest": parties.guest}
    deployed.tasks[task].test_data = reader.outputs["output_data"]
    return new_pipeline(parties).add_tasks([reader, deployed])


def statistics_pipeline(
    parties: Federation, namespace: str, tables: dict, requests: list, **settings: Any
) -> FateFlowPipeline:
    """reader at the parties with records -> shuffler at all.

    Args:
        namespace, tables: where each party's table is: party id -> name.
        requests: statistics, as `clients.Shuffler` takes them.
        settings: its further parameters: min_messages, epsilon or epsilon0, delta.
    """
    from fate_dp.pipelines.clients import Shuffler

    pairs = [(party_id, tables[party_id]) for _, party_id in parties.data_parties()]
    reader = reader_of("reader_0", namespace, *pairs)
    rows = reader.outputs["output_data"]
    task = Shuffler("shuffler_0", requests=requests, shuffler=parties.shuffler, input_data=rows, **settings)
    return new_pipeline(parties).add_tasks([reader, task])


def training_reader(federation: Federation, tables: StudyTables) -> Reader:
    """The reader of every data party's training table."""
    pairs = [(party_id, tables.training(role, party_id)) for role, party_id in federation.data_parties()]
    return reader_of("reader_0", tables.namespace, *pairs)


def held_out_reader(federation: Federation, tables: StudyTables) -> Reader:
    """The reader of the held-out table at the guest."""
    return reader_of("reader_1", tables.namespace, (federation.guest, tables.test))
