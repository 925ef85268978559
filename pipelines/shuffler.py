"""Ready-made pipeline: private statistics of columns over all parties' records, mixed by a host without data."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ShuffledParties:
    """Party ids of a job: guest and ``hosts`` bring records, ``shuffler`` mixes messages, ``arbiter`` is the server."""

    guest: str = "9999"
    hosts: tuple[str, ...] = ("9998",)
    shuffler: str = "10000"
    arbiter: str = "10001"

    def with_records(self) -> dict:
        return {"guest": self.guest, "host": list(self.hosts)}


def statistics_pipeline(parties: ShuffledParties, namespace: str, tables: dict, requests: list, **settings):
    """reader at the parties with records -> shuffler at all.

    Args:
        namespace, tables: where each party's table is: party id -> name.
        requests: statistics, as `components.Shuffler` takes them.
        settings: its further parameters: least_messages, epsilon or epsilon0, delta.
    """
    from fate_client.pipeline import FateFlowPipeline

    from .components.shuffler import Shuffler

    reader = reader_of(parties, namespace, tables)
    task = Shuffler(
        "shuffler_0", requests=requests, shuffler=parties.shuffler, input_data=reader.outputs["output_data"], **settings
    )
    pipeline = FateFlowPipeline().set_parties(
        guest=parties.guest, host=[*parties.hosts, parties.shuffler], arbiter=parties.arbiter
    )
    return pipeline.add_tasks([reader, task])


def reader_of(parties: ShuffledParties, namespace: str, tables: dict):
    from fate_client.pipeline.components.fate import Reader

    reader = Reader("reader_0", runtime_parties=parties.with_records())
    reader.guest.task_parameters(namespace=namespace, name=tables[parties.guest])
    for number, party_id in enumerate(parties.hosts):
        reader.hosts[number].task_parameters(namespace=namespace, name=tables[party_id])
    return reader
