"""The manifest of a prepared folder: what was done with which options, and the hash of every file.

It holds no absolute path and no time, so that the same loans and options give the same bytes.
"""
from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from .columns import FEATURES, ID, LABEL, LABEL_VALUES, PUBLIC_LIMITS, PUBLIC_UNITS
from .options import PrepOptions

MANIFEST = "manifest.json"
SCHEMA = "fate-dp/prepared/1"
BLOCK = 1 << 20
NO_RECORD_PRIVACY = (
    "Over-sampled: whatever trains on these files has no record-level guarantee (epsilon infinity), because synthetic "
    "rows mix real ones; class weights with a public maximum are the private route."
)
NOT_OVER_SAMPLED = "Not over-sampled: a record-private component may follow."


class NotPrepared(ValueError):
    """A folder that holds no prepared loans, or other files than it was written with; one sentence."""


def manifest_of(clean, options: PrepOptions, files: dict[str, dict]) -> dict:
    """The manifest of cleaned loans, written as ``files``: their paths in the folder and what is said of them.

    It is what `read_manifest` will read, lists in place of tuples.
    """
    manifest = {
        "schema": SCHEMA,
        "fate_dp_version": version("fate-dp"),
        "source": {"file": clean.source, "sha256": clean.sha256},
        "options": asdict(options),
        "steps": [asdict(step) for step in clean.steps],
        "missing": clean.missing,
        "dropped_columns": clean.dropped_columns,
        "notices": list(clean.notices),
        "id": ID,
        "label": LABEL,
        "label_values": LABEL_VALUES,
        "features": list(FEATURES),
        "units": _UNITS[options.units],
        "record_privacy": NOT_OVER_SAMPLED if options.over_sampling == "none" else NO_RECORD_PRIVACY,
        "files": files,
    }
    return json.loads(json.dumps(manifest))


def manifest_text(manifest: dict) -> str:
    """The manifest as it is written."""
    return json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_manifest(folder: str | os.PathLike) -> dict:
    """The manifest of a prepared folder."""
    path = Path(folder) / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        schema = manifest["schema"]
        is_complete = all(entry["sha256"] and not _leads_away(name) for name, entry in manifest["files"].items())
    except OSError as error:
        raise NotPrepared(f"{folder} has no readable {MANIFEST}; make one with `fate-dp prep lending-club`.") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NotPrepared(f"{path} is no manifest of prepared loans.") from error
    if schema != SCHEMA:
        raise NotPrepared(f"{path} has the schema {schema!r}; {SCHEMA!r} is wanted, prepare the loans again.")
    if not is_complete:
        raise NotPrepared(f"{path} names files without a hash or outside {folder}.")
    return manifest


def verify(folder: str | os.PathLike) -> dict:
    """The manifest of a prepared folder all of whose files are as they were written."""
    manifest = read_manifest(folder)
    for name, entry in manifest["files"].items():
        path = Path(folder) / name
        try:
            found = sha256_of(path)
        except OSError as error:
            raise NotPrepared(f"{path} cannot be read: {error.strerror}; prepare the loans again.") from error
        if found != entry["sha256"]:
            raise NotPrepared(f"{path} was changed after it was written; prepare the loans again.")
    return manifest


def check_replaceable(folder: Path) -> None:
    """Refuse to replace a folder that holds anything but an earlier preparation."""
    try:
        known = {MANIFEST, *read_manifest(folder)["files"]}
    except NotPrepared as error:
        raise NotPrepared(
            f"{folder} holds other things than prepared loans; name a folder that is empty or new.") from error
    for path in sorted(folder.rglob("*")):
        if not path.is_dir() and str(path.relative_to(folder)) not in known:
            raise NotPrepared(f"{path} is not part of the prepared loans and would be lost; move it away first.")


def sha256_of(path: Path) -> str:
    """The hash of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _leads_away(name: str) -> bool:
    return os.path.isabs(name) or ".." in Path(name).parts


_UNITS = {
    "raw": {"name": "raw"},
    "public": {"name": "public", "limits": PUBLIC_LIMITS, "centre_and_spread": PUBLIC_UNITS},
}
