"""Upload the tables of a prepared folder, once every file of it is as its manifest says."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Callable

from fate_dp.data_prep.lending_club.manifest import NotPrepared, verify
from fate_dp.deploy.flow_address import FlowAddress

from .upload import TableMeta, upload_table

NAMESPACE = "lending_club"


def upload_prepared(
    address: FlowAddress,
    folder: str | os.PathLike,
    namespace: str = NAMESPACE,
    progress: Callable[[str, str, str, float], None] = lambda table, task, status, seconds: None,
    home: str | os.PathLike | None = None,
) -> dict[str, str]:
    """Upload each party's training rows as ``<role>_<party>_train`` and the test rows as ``test``.

    In a vertical split each party's part of the test rows is ``<role>_<party>_test``. ``progress`` is called with a
    table's name and what `upload_table` says. Returns the table's name for each file. Raises NotPrepared for a folder
    that is no preparation or was changed.
    """
    folder = Path(folder)
    files = verify(folder)["files"]
    tables = {path: entry for path, entry in files.items() if "table" in entry}
    # All of them before the first upload: a job needs every table.
    metas = {path: read_meta(folder / entry["meta"]) for path, entry in tables.items()}
    for path, entry in tables.items():
        name = entry["table"]
        upload_table(
            address, folder / path, namespace, name, metas[path], home=home,
            progress=lambda task, status, seconds, name=name: progress(name, task, status, seconds),
        )  # fmt: skip
    return {path: entry["table"] for path, entry in tables.items()}


def read_meta(path: Path) -> TableMeta:
    """The metadata that was written beside a table."""
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
        return TableMeta(
            id_name=meta["match_id_name"], dtype=meta["dtype"], delimiter=meta["delimiter"],
            label_name=meta.get("label_name"), label_type=meta.get("label_type", TableMeta.label_type),
        )  # fmt: skip
    except (ValueError, KeyError) as error:
        raise NotPrepared(f"{path} is no upload metadata; prepare the loans again.") from error
