"""Jobs of a FATE-Flow that have not ended, and their end by FATE-Flow's own means.

A job keeps its cores until it ends. Nothing in FATE-Flow ends one whose processes died with their server: it stays
`running` or `waiting` for good, and after four of them no job starts any more.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .client import FlowAddress, FlowSilent, ask, credentials_for
from .programs import FlowServerError, wait_until

UNFINISHED = ("ready", "waiting", "running")
SECONDS_TO_END = 30.0
# FATE-Flow's code where it has no job of that kind.
NO_JOB = 1001


@dataclass(frozen=True)
class UnfinishedJob:
    """A job that holds `cores` at this server's parties; `seconds` is its age, None where FATE-Flow does not tell."""

    job_id: str
    status: str
    cores: int
    seconds: float | None

    def __str__(self) -> str:
        since = "" if self.seconds is None else f" for {self.seconds:.0f} s"
        return f"Job {self.job_id} is {self.status}{since} and holds {self.cores} cores."


def unfinished_jobs(address: FlowAddress) -> tuple[UnfinishedJob, ...]:
    """The jobs that FATE-Flow counts as unfinished, the oldest first; FlowServerError where it does not tell."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for status in UNFINISHED:
        for row in _asked(address, f"job/query?status={status}") or []:
            rows.setdefault(row["job_id"], []).append(row)
    return tuple(_job(job_id, rows[job_id]) for job_id in sorted(rows))


def _job(job_id: str, rows: list[dict[str, Any]]) -> UnfinishedJob:
    cores = sum(row.get("cores") or 0 for row in rows if row.get("resource_in_use"))
    begun = [row["create_time"] for row in rows if row.get("create_time")]
    # FATE-Flow's times are milliseconds of this machine's clock, which may have been set back since.
    seconds = max(0.0, time.time() - min(begun) / 1000) if begun else None
    return UnfinishedJob(job_id, max((row["status"] for row in rows), key=UNFINISHED.index), cores, seconds)


def cores_in_use(jobs: Iterable[UnfinishedJob], settings: Mapping[str, Any]) -> str:
    """How many cores jobs hold, of those that a FATE-Flow has by its settings."""
    engine = (settings.get("default_engines") or {}).get("computing")
    all_of_it = ((settings.get("computing") or {}).get(engine) or {}).get("cores", "an unknown number of")
    return f"{sum(job.cores for job in jobs)} of {all_of_it} cores are in use."


def settings_of(address: FlowAddress) -> dict[str, Any]:
    """The settings with which a FATE-Flow started."""
    settings = _asked(address, "server/query/all")
    return {name.lower(): value for name, value in settings.items()} if isinstance(settings, dict) else {}


def stop_job(address: FlowAddress, job_id: str) -> None:
    """End a job and free its cores, as FATE-Flow's own `job stop` does; refused where it has ended or is unknown."""
    if job_id not in {job.job_id for job in unfinished_jobs(address)}:
        raise FlowServerError(f"JOB must be one that has not ended, got {job_id}; `fate-dp status` lists those.")
    _asked(address, "job/stop", {"job_id": job_id})


def end_unfinished(address: FlowAddress) -> tuple[UnfinishedJob, ...]:
    """End every unfinished job and wait until all have ended; returns those that were ended."""
    found = unfinished_jobs(address)
    for job in found:
        _asked(address, "job/stop", {"job_id": job.job_id})
    wait_until(lambda: not unfinished_jobs(address), lambda: True, SECONDS_TO_END if found else 0.0)
    return found


def _asked(address: FlowAddress, page: str, body: dict[str, Any] | None = None) -> Any:
    try:
        answer = ask(address, page, body, credentials_for(address), patience=SECONDS_TO_END)
    except FlowSilent as silence:
        raise FlowServerError(f"FATE-Flow at {address} does not answer {page}: {silence}.") from silence
    if answer.code not in (0, NO_JOB):
        raise FlowServerError(f"FATE-Flow at {address} refuses {page}: {answer.message.rstrip('.')}.")
    return answer.data
