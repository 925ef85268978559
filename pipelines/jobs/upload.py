"""Upload a CSV file as a table that FATE's reader finds by namespace and name."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from fate_dp.data_prep.lending_club.columns import ID, LABEL
from fate_dp.data_prep.lending_club.written import verify
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.privacy.validation import InvalidArgument

from .csv_files import CsvTable, TableMeta, read_csv_file
from .flow import connect
from .job import JobFailed, JobResult, Progress, Watch, follow_job, reason_of
from .populations import Owner

PARTITIONS, UPLOAD_SECONDS = 4, 600.0


def upload_table(
    address: FlowAddress,
    csv_file: str | os.PathLike,
    namespace: str,
    name: str,
    meta: TableMeta = TableMeta(),
    progress: Progress = lambda task, status, seconds: None,
    home: str | os.PathLike | None = None,
    stop: Event | None = None,
    owner: Owner = Owner(),
) -> JobResult:
    """Check a CSV file, declare whom its ids name and its labels, and upload it; a table of that name is replaced.

    From `progress` to `stop` it is as in `Watch`; the embedded server's `home` has those of the parties.
    """
    begin = time.monotonic()
    table = check_table(csv_file, meta, lambda told: progress("check", f"running, {told}", time.monotonic() - begin))
    client = connect(address, patience=UPLOAD_SECONDS)
    owner.declare(client, home, f"{namespace}/{name}", table)
    with TemporaryDirectory(prefix="fate-dp-upload-") as folder:
        written = Path(folder) / "table.csv"
        response = client.data.upload_file(
            file=str(written),
            head=True,
            partitions=PARTITIONS,
            meta=table.write(written).for_fate(),
            namespace=namespace,
            name=name,
            extend_sid=True,
        )
        if response.get("code") != 0:
            raise JobFailed(f"FATE-Flow at {address} refused the upload of {csv_file}: {reason_of(response)}.")
        watch = Watch(progress, UPLOAD_SECONDS, home, stop or Event())
        uploaded = follow_job(connect(address), response["job_id"], "local", "0", watch)
    for note in table.notes:
        owner.tell(note)
    return uploaded


def check_table(
    csv_file: str | os.PathLike, meta: TableMeta, tell: Callable[[str], None] = lambda told: None
) -> CsvTable:
    """The file as FATE shall read it; raises InvalidArgument for what it would read wrongly, drop or stumble over."""
    table = read_csv_file(csv_file, meta, tell)
    label = meta.label_name
    # Asked here, at the guest alone, since in a job the other parties would see the answer.
    if label is not None and (found := table.frame[label].nunique()) < meta.least_classes:
        raise InvalidArgument(
            f"The table {csv_file} has {found} different label in {label!r}; training needs at least {meta.least_classes}."
        )
    return table


# Upload the tables of a prepared folder, once every file of it is as its manifest says.

NAMESPACE = "lending_club"


def upload_prepared(
    address: FlowAddress,
    folder: str | os.PathLike,
    namespace: str = NAMESPACE,
    progress: Callable[[str, str, str, float], None] = lambda table, task, status, seconds: None,
    home: str | os.PathLike | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> dict[str, str]:
    """Upload each party's training rows as ``<role>_<party>_train`` and the test rows as ``test``.

    In a vertical split each party's part of the test rows is ``<role>_<party>_test``. ``progress`` is called with a
    table's name and what `upload_table` says, ``tell`` as `Owner` does. Returns the table's name for each file. Raises InvalidArgument for a folder
    that is no preparation or was changed.
    """
    folder = Path(folder)
    files = verify(folder)["files"]
    tables = {path: entry for path, entry in files.items() if "table" in entry}
    for path, entry in tables.items():
        name, owner = entry["table"], Owner(entry.get("party_id"), tell=tell)
        told = partial(progress, name)
        meta = TableMeta(ID, LABEL if LABEL in entry["columns"] else None)
        upload_table(address, folder / path, namespace, name, meta, home=home, progress=told, owner=owner)
    return {path: entry["table"] for path, entry in tables.items()}
