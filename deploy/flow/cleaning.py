"""What ended jobs left in the home of an embedded FATE-Flow, and its removal; FATE-Flow itself removes next to nothing.

Models need no table of the job that trained them. Kept are also FATE-Flow's records of its jobs, and every table that somebody
named: an uploaded one lies among those of the job that uploaded it.

A job is as old as its number says, which begins with the time of its submission, and no older than any job before it: after
a clock was set back, younger jobs have older numbers. What has no number is as old as its file.
"""

import json
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path

from fate_dp.privacy.private_files import DRAFT, PARTY_PREFIX
from fate_dp.privacy.validation import InvalidArgument

from .home import BESIDE_ITS_MODULES, FlowHome
from .server import locked
from .unfinished import UNFINISHED

BUSY_SECONDS = 30.0
DRAFTS, REMOVED = "upload", ".removed"
"""Where FATE-Flow keeps a table between the two tasks of an upload; where all goes on its way out."""


def _database(home: FlowHome) -> sqlite3.Connection:
    uri = f"{(home.root / BESIDE_ITS_MODULES['SQLITE_FILE_NAME']).as_uri()}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)


def leftovers(home: FlowHome, days: float) -> dict[str, list[Path]]:
    """By kind what ended more than ``days`` ago and nothing needs; nothing where no FATE-Flow has run. Raises InvalidArgument."""
    if not 0 <= days <= 36_500:
        raise InvalidArgument.of("--older-than", days, "a number of days from 0 to 36500")
    if not (home.root / BESIDE_ITS_MODULES["SQLITE_FILE_NAME"]).is_file():
        return {}
    with closing(_database(home)) as database:
        jobs = database.execute("SELECT f_job_id, f_status FROM t_job ORDER BY rowid").fetchall()
        scheduled = database.execute("SELECT f_job_id, f_status FROM t_schedule_job").fetchall()
        tables = database.execute("SELECT f_namespace, f_name, f_address FROM t_storage_table_meta").fetchall()
        outputs = database.execute("SELECT f_namespace, f_name, f_job_id FROM t_tracking_data_output").fetchall()
    unfinished = {job for job, status in (*jobs, *scheduled) if status in UNFINISHED}
    numbers, limit = list(dict(jobs)), datetime.now() - timedelta(days=days)
    ages = accumulate(numbers, max)
    old = {job for job, age in zip(numbers, ages) if age < f"{limit:%Y%m%d%H%M%S%f}"} - unfinished
    places = [((space, name), json.loads(address)) for space, name, address in tables]
    named = {place for own, at in places if (place := (at.get("namespace"), at.get("name"))) != own}
    kept = named | {(space, name) for space, name, job in outputs if job not in old}
    written = {(space, name) for space, name, _ in outputs}

    def of_old_jobs(folder: str) -> list[Path]:
        return [path for path in sorted((home.root / folder).glob("*")) if path.name.partition("_")[0] in old]

    def is_old(path: Path) -> bool:
        return not unfinished and path.lstat().st_mtime < limit.timestamp()

    logs = [*of_old_jobs("logs"), *filter(is_old, home.logs.glob("fate_flow/*.log.*"))]
    unneeded: list[Path] = []
    for folder in of_old_jobs("data"):
        own = {path: (folder.name, path.name) in kept for path in folder.glob("*")}
        unneeded += [path for path, stays in own.items() if not stays] if any(own.values()) else [folder]
    # A draft that is a ledger's second name is as young as the ledger.
    killed = [*filter(is_old, (*(home.root / "temps").glob("*"), *home.parties.glob(f"{PARTY_PREFIX}*/{DRAFT}")))]
    for path in (home.root / "data" / DRAFTS).glob("*"):
        table = (DRAFTS, path.name)
        killed += [path] if table not in kept and (table in written or is_old(path)) else []
    kinds = {
        "logs": logs,
        "folders of tasks": of_old_jobs("jobs"),
        "tables of tasks": unneeded,
        "drafts of killed commands": killed,
    }
    return {kind: paths for kind, paths in kinds.items() if paths}


def clean_home(home: FlowHome, days: float, delete: bool) -> dict[str, list[int]]:
    """The sizes on the disk (bytes) of all `leftovers` by kind, which are gone afterwards with ``delete``.

    A run that is killed leaves each of them whole, or out of all use, and the next one ends its work.
    """
    found = leftovers(home, days)
    sizes = {
        kind: [sum(each.lstat().st_blocks * 512 for each in (path, *path.rglob("*"))) for path in paths]
        for kind, paths in found.items()
    }
    if delete and (found or (home.root / REMOVED).exists()):
        with locked(home):
            _remove(home, [path for paths in leftovers(home, days).values() for path in paths])
    return sizes


def _remove(home: FlowHome, paths: list[Path]) -> None:
    removed, data = home.root / REMOVED, home.root / "data"
    shutil.rmtree(removed, ignore_errors=True)
    removed.mkdir(mode=0o700)
    # First no record tells of a table, then it goes: the other way round a job could be given half of one.
    with closing(_database(home)) as database, database:
        for folder, *name in (path.relative_to(data).parts for path in paths if path.is_relative_to(data)):
            for table in ("t_storage_table_meta", "t_tracking_data_output"):
                named = " AND f_name = ?" if name else ""
                database.execute(f"DELETE FROM {table} WHERE f_namespace = ?{named}", (folder, *name))
    for number, path in enumerate(paths):
        path.rename(removed / str(number))
    shutil.rmtree(removed)
