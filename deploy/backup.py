"""Copies of what a party cannot do without: its key, its ledger and its policy."""
from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from fate_dp.privacy.party_files import KEY_FILE, LEDGER_FILE, POLICY_FILE, party_folder, party_ids
from fate_dp.privacy.private_file import replace_file


class BackupRefused(ValueError):
    """Nothing was copied that looks like a backup; the message is one sentence for the operator."""


@dataclass(frozen=True)
class Backup:
    """What was copied of a party, and the new folder where it lies."""

    party_id: str
    folder: Path
    files: tuple[str, ...]


def back_up(parties: Path, target: Path, now: datetime | None = None) -> list[Backup]:
    """Copy key, ledger and policy of every party below `parties` into a new folder each below `target`.

    A ledger may be in use. A folder appears under its name, `party-ID-` and the time in UTC, when all in it is on the
    disk and the copy of the ledger has passed SQLite's check; older backups are left alone.

    :raises BackupRefused: there is nothing to copy, or it cannot be read, or the target cannot be written.
    """
    if target.resolve().is_relative_to(parties.resolve()):
        raise BackupRefused(f"The folder {target} lies among the parties' own in {parties}; choose one outside it.")
    ids = [party_id for party_id in party_ids(parties) if _files_of(parties, party_id)]
    if not ids:
        raise BackupRefused(f"No party has a key, a ledger or a policy in {parties}; name the right folder with --home.")
    stamp = (now or datetime.now(timezone.utc)).strftime("%Y%m%dT%H%M%SZ")
    return [_back_up_party(parties, party_id, target / f"party-{party_id}-{stamp}") for party_id in ids]


def _files_of(parties: Path, party_id: str) -> tuple[str, ...]:
    folder = party_folder(parties, party_id)
    return tuple(name for name in (KEY_FILE, LEDGER_FILE, POLICY_FILE) if (folder / name).is_file())


def _back_up_party(parties: Path, party_id: str, folder: Path) -> Backup:
    files = _files_of(parties, party_id)
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    try:
        if folder.exists():
            raise BackupRefused(f"The backup {folder} exists already; wait a second and try again.")
        for name in files:
            copy = _copy_ledger if name == LEDGER_FILE else _copy_file
            copy(party_folder(parties, party_id) / name, draft / name)
        draft.rename(folder)
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise BackupRefused(f"Party {party_id} could not be copied to {folder}: {reason}.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Backup(party_id, folder, files)


def _copy_file(source: Path, target: Path) -> None:
    replace_file(target, source.read_bytes())


def _copy_ledger(source: Path, target: Path) -> None:
    """SQLite's own copy of a database in use; opened for writing, since a crash may have left a journal to roll back."""
    replace_file(target, b"")
    with closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=rw", uri=True)) as ledger:
        with closing(sqlite3.connect(target)) as copy:
            ledger.backup(copy)
            (verdict,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        raise BackupRefused(f"The ledger {source} is damaged ({verdict}); keep it and its older backups as they are.")
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
