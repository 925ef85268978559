"""Copies of what a party cannot do without: its key, its ledger and its policy."""

import fcntl
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from fate_dp.privacy.ledger.database import version_of
from fate_dp.privacy.ledger.entries import LedgerUnavailable
from fate_dp.privacy.private_files import (
    IDENTITY_FILE,
    KEY_FILE,
    LEDGER_FILE,
    PARTY_PREFIX,
    PEERS_FILE,
    POLICY_FILE,
    make_closed_folder,
    party_folder,
    replace_file,
)

BUSY_SECONDS = 30.0
NUMBER = re.compile("-no([0-9]+)-")


class BackupRefused(ValueError):
    """Some party was not copied; the message says of each why, and those before and after it were."""


@dataclass(frozen=True)
class Backup:
    """What was copied of a party, and the new folder where it lies."""

    party_id: str
    folder: Path
    files: tuple[str, ...]


def back_up(
    parties: Path, target: Path, now: datetime | None = None, done: Callable[[Backup], None] = lambda backup: None
) -> list[Backup]:
    """Copy key, ledger and policy of every party below `parties` into a new folder each below `target`.

    A ledger may be in use. A folder appears under its name, `party-ID-noNUMBER-TIME` (UTC), when all in it is on the disk
    and the copy of the ledger has been checked; older backups are left alone, drafts of killed ones are removed. Names sort
    by the number, and behind those without one, whatever the clock says.
    `done` is called with each backup as soon as it is there. Raises BackupRefused.
    """
    if target.resolve().is_relative_to(parties.resolve()):
        raise BackupRefused(f"The folder {target} is among the parties' own in {parties}; choose one outside it.")
    files = _files_by_party(parties)
    if not files:
        raise BackupRefused(f"No party has a key, ledger or policy in {parties}; name the right folder with --home.")
    stamp = (now or datetime.now(timezone.utc)).strftime("%Y%m%dT%H%M%SZ")
    backups, refusals = [], []
    with _alone_in(target):
        earlier = (NUMBER.search(path.name) for path in target.glob(f"{PARTY_PREFIX}*"))
        number = 1 + max((int(found[1]) for found in earlier if found), default=0)
        for party_id, names in files.items():
            backup = Backup(party_id, target / f"{PARTY_PREFIX}{party_id}-no{number:06}-{stamp}", names)
            try:
                _back_up_party(party_folder(parties, party_id), backup)
            except BackupRefused as refusal:
                refusals.append(str(refusal))
            else:
                backups.append(backup)
                done(backup)
    if refusals:
        raise BackupRefused(" ".join(refusals))
    return backups


def _files_by_party(parties: Path) -> dict[str, tuple[str, ...]]:
    """Which of its files each party has; parties without any are left out."""
    try:
        ids = sorted(name.removeprefix(PARTY_PREFIX) for name in os.listdir(parties) if name.startswith(PARTY_PREFIX))
        found = {party_id: set(os.listdir(party_folder(parties, party_id))) for party_id in ids}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BackupRefused(
            f"{error.filename} cannot be read ({error.strerror}); run the backup as the user who runs FATE-Flow."
        ) from error
    wanted = (KEY_FILE, LEDGER_FILE, POLICY_FILE, IDENTITY_FILE, PEERS_FILE)
    files = {party_id: tuple(name for name in wanted if name in names) for party_id, names in found.items()}
    return {party_id: names for party_id, names in files.items() if names}


@contextmanager
def _alone_in(target: Path) -> Iterator[None]:
    """Make the folder, refuse a second backup into it at the same time, and remove what a killed one left."""
    try:
        make_closed_folder(target)
        descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise BackupRefused(f"The folder {target} cannot be used: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for draft in target.glob(f".{PARTY_PREFIX}*"):
            shutil.rmtree(draft, ignore_errors=True)
        yield
    except BlockingIOError:
        raise BackupRefused(f"Another backup is being written to {target}; wait for its end.") from None
    finally:
        os.close(descriptor)


def _back_up_party(own: Path, backup: Backup) -> None:
    draft = backup.folder.with_name(f".{backup.folder.name}.{secrets.token_hex(8)}")
    try:
        for name in backup.files:
            if name == LEDGER_FILE:
                _copy_ledger(own / name, draft / name)
            else:
                replace_file(draft / name, (own / name).read_bytes())
        draft.rename(backup.folder)
    except (OSError, sqlite3.Error, LedgerUnavailable) as error:
        reason = getattr(error, "strerror", None) or error
        raise BackupRefused(f"Party {backup.party_id} could not be copied to {backup.folder}: {reason}.") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _copy_ledger(source: Path, target: Path) -> None:
    """SQLite's own copy of a database in use; opened for writing, as a crash may have left a journal to roll back."""
    replace_file(target, b"")
    uri = f"{source.resolve().as_uri()}?mode=rw"
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as ledger:
        # Reading takes the lock for as long as the copy needs it, or gives up; `backup` itself would wait for ever.
        ledger.execute("BEGIN")
        ledger.execute("SELECT count(*) FROM sqlite_master").fetchone()
        with closing(sqlite3.connect(target)) as copy:
            ledger.backup(copy)
            # A copy that would be of no use must not push good ones out of the operator's rotation.
            (verdict,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict != "ok":
                raise BackupRefused(
                    f"The ledger {source} is damaged ({verdict}); keep it and its older backups as they are."
                )
            if not version_of(copy):
                raise BackupRefused(f"{source} is an empty or another database, not a ledger; keep the older backups.")
    with target.open("rb") as file:
        os.fsync(file.fileno())
