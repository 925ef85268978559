"""Where a job runs: on the cluster, where every party has a server of its own, or on one server that plays them all."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.home import open_home
from fate_dp.deploy.flow.programs import HOST
from fate_dp.pipelines.jobs.job import run_job, task_metrics, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import make_home, party_ledger
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table
from fate_dp.privacy.private_files import KEY_FILE, party_folder

GUEST, HOST_ID, ARBITER, SECOND = "9999", "10000", "10001", "9998"
ROLES = {GUEST: "guest", HOST_ID: "host", ARBITER: "arbiter", SECOND: "host"}


@dataclass(frozen=True)
class Place:
    """Address and home of the server of each party; all the same where one server plays them all."""

    addresses: dict
    homes: dict

    def parties(self, party_id: str) -> Path:
        """The folder of keys and ledgers at a party's server."""
        return open_home(self.homes[party_id]).parties

    def key(self, party_id: str) -> bytes:
        return (party_folder(self.parties(party_id), party_id) / KEY_FILE).read_bytes()

    def ledger(self, party_id: str) -> list:
        return party_ledger(self.parties(party_id), party_id)

    def run(self, pipeline, **options):
        """Run a pipeline as the guest's user would."""
        return run_job(pipeline, self.addresses[GUEST], home=self.homes[GUEST], **options)

    def data(self, job, task: str, party_id: str = GUEST) -> dict:
        """The tables of a task, asked of the party's own server."""
        return task_output_data(self.addresses[party_id], job.job_id, ROLES[party_id], party_id, task)

    def model(self, job, task: str, party_id: str = GUEST, key: str = "output_model") -> dict:
        return task_output_model(self.addresses[party_id], job.job_id, ROLES[party_id], party_id, task)[key]

    def metrics(self, job, task: str, party_id: str = GUEST) -> list:
        return task_metrics(self.addresses[party_id], job.job_id, ROLES[party_id], party_id, task)

    def upload(self, tables: list) -> None:
        """Upload (party id, file, namespace, name, meta) each to the party's own server, side by side."""
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(self._upload, tables))

    def _upload(self, table) -> None:
        party_id, file, namespace, name, meta = table
        upload_table(self.addresses[party_id], file, namespace, name, meta or TableMeta(), home=self.homes[party_id])


def cluster_place(cluster) -> Place:
    servers = {server.party.party_id: server for server in cluster.servers}
    return Place(
        {party_id: FlowAddress(HOST, server.http_port) for party_id, server in servers.items()},
        {party_id: server.folder for party_id, server in servers.items()},
    )


def single_place(home: Path, address: FlowAddress) -> Place:
    return Place(dict.fromkeys(ROLES, address), dict.fromkeys(ROLES, home))


def copy_keys(source: Place, target: Place) -> None:
    """Give the parties of one place the flip keys of another: with them a record's flip is the same."""
    for party_id in ROLES:
        key = party_folder(source.parties(party_id), party_id) / KEY_FILE
        if key.is_file():
            shutil.copy2(key, make_home(target.parties(party_id), party_id) / KEY_FILE)


def auc_of(records: list, task: str) -> float:
    """The AUC in the records of FATE's Evaluation."""
    entries = [entry for part in records[-1]["data"][task].values() for entry in part]
    metrics = [metric for entry in entries for metric in (entry if isinstance(entry, list) else [entry])]
    return next(metric["val"] for metric in metrics if metric["metric"] == "auc")
