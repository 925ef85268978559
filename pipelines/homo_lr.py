"""The study's job: FATE's HomoLR over a guest, its hosts and an arbiter, tested on a table that the guest holds."""
from __future__ import annotations

from dataclasses import dataclass

from fate_dp.data_prep.lending_club.options import PARTY_ID

from .homo_lr_settings import HomoLRSettings


class InvalidFederation(ValueError):
    """Party ids that name no federation; the message is one sentence."""


@dataclass(frozen=True)
class Federation:
    """Party ids of a job; every data party holds rows of its own with the same columns and the label."""

    guest: str = "9999"
    hosts: tuple[str, ...] = ("10000", "9998")
    arbiter: str = "10001"

    def __post_init__(self):
        if not isinstance(self.hosts, (tuple, list)) or not self.hosts:
            raise InvalidFederation(f"The hosts are {self.hosts!r}; allowed is a list of at least one party id.")
        object.__setattr__(self, "hosts", tuple(self.hosts))
        members = self.data_parties()
        for role, party_id in (*members, ("arbiter", self.arbiter)):
            if not isinstance(party_id, str) or not PARTY_ID.fullmatch(party_id):
                raise InvalidFederation(
                    f"The {role}'s party id is {party_id!r}; allowed are 1 to 64 letters, digits and underscores.")
        if len({party_id for _, party_id in members}) < len(members):
            raise InvalidFederation(
                f"The data parties are {', '.join(party_id for _, party_id in members)}; their ids must not repeat.")

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


def study_pipeline(federation: Federation, tables: StudyTables, settings: HomoLRSettings):
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


def prediction_pipeline(trained, federation: Federation, tables: StudyTables):
    """reader_1 -> deployed homo_lr_0 at the guest alone, for a study pipeline that `run_job` has trained."""
    trained.deploy([trained.homo_lr_0])
    deployed = trained.get_deployed_pipeline()
    reader = guest_reader("reader_1", federation, tables)
    deployed.homo_lr_0.runtime_parties = {"guest": federation.guest}
    deployed.homo_lr_0.test_data = reader.outputs["output_data"]
    return new_pipeline(federation).add_tasks([reader, deployed])


def new_pipeline(federation: Federation):
    from fate_client.pipeline import FateFlowPipeline

    return FateFlowPipeline().set_parties(
        guest=federation.guest, host=list(federation.hosts), arbiter=federation.arbiter)


def training_reader(name: str, federation: Federation, tables: StudyTables):
    """The reader of every data party's training table."""
    from fate_client.pipeline.components.fate import Reader

    reader = Reader(name, runtime_parties=federation.training_parties())
    sides = (reader.guest, *(reader.hosts[number] for number in range(len(federation.hosts))))
    for side, party in zip(sides, federation.data_parties()):
        side.task_parameters(namespace=tables.namespace, name=tables.training(*party))
    return reader


def guest_reader(name: str, federation: Federation, tables: StudyTables):
    """The reader of the test table at the guest."""
    from fate_client.pipeline.components.fate import Reader

    reader = Reader(name, runtime_parties={"guest": federation.guest})
    reader.guest.task_parameters(namespace=tables.namespace, name=tables.test)
    return reader
