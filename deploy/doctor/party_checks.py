"""Is what a party keeps to itself sound, and closed to others?"""
from __future__ import annotations

import os
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

from fate_dp.privacy.ledger.errors import LedgerUnavailable
from fate_dp.privacy.ledger.schema import SCHEMA_VERSION, version_of
from fate_dp.privacy.party_files import KEY_FILE, LEDGER_FILE, POLICY_FILE
from fate_dp.privacy.policy import InvalidPolicy, load_policy, unused_names
from fate_dp.privacy.secret_key import UnsafeKeyFile, load_or_create_key

from .finding import Finding, ok, problem, unseen
from .folder_checks import OTHERS, mode_of

BUSY_SECONDS = 2.0
INTEGRITY_SECONDS = 20.0


def files(party: Path) -> Finding:
    """Every file of the party is its owner's alone; what the files say is looked at by other checks."""
    for path in sorted(party.iterdir()):
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return problem(f"{path} is no regular file, as all in this folder are.",
                           f"Find out who put it there, and move it out of {party}.")  # fmt: skip
        if status.st_uid != os.geteuid():
            return problem(f"{path} belongs to user {status.st_uid}, but this is user {os.geteuid()}.",
                           f"Run `chown USER {path}`, USER being who runs FATE-Flow.")  # fmt: skip
        if status.st_mode & OTHERS:
            return problem(f"{path} has mode {mode_of(status)}, open to group or others.", f"Run `chmod 600 {path}`.")
    return ok("All files are open to their owner only.")


def key(party: Path) -> Finding:
    """The key, which is not made here."""
    path = party / KEY_FILE
    if not os.path.lexists(path):
        return ok("There is no key yet; it is made when it is first needed.")
    try:
        load_or_create_key(path)
    except UnsafeKeyFile as error:
        return problem(
            str(error),
            f"Run `chmod 600 {path}` if only its mode is wrong and nobody has read it; else restore {path} from a "
            "backup "
            "(with a new key, flips are new ones and are charged anew).",
        )
    return ok(f"{path} is a whole key.")


def ledger(party: Path) -> Finding:
    """The ledger opens, is of a version that can be read, and passes SQLite's integrity check.

    Nothing is upgraded; what a crash left unfinished is undone, as at any next use.
    """
    path = party / LEDGER_FILE
    if not path.exists():
        return ok("There is no ledger yet; it is made when something is first released.")
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=BUSY_SECONDS)) as connection:
            return _ledger_content(path, connection)
    except (sqlite3.Error, LedgerUnavailable) as error:
        if "locked" in str(error):
            return unseen(f"{path} is being written.", "Run the doctor again when the job that runs has ended.")
        if "interrupted" in str(error):
            return unseen(f"{path} opens, but checking all of it takes longer than {INTEGRITY_SECONDS:.0f} seconds.",
                          f"Run `sqlite3 {path} 'PRAGMA integrity_check'` when no job runs.")  # fmt: skip
        return _damaged(path, str(error))


def _ledger_content(path: Path, connection) -> Finding:
    deadline = time.monotonic() + INTEGRITY_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
    version = version_of(connection)
    if version > SCHEMA_VERSION:
        return problem(f"{path} has version {version}, but this FATE-DP reads versions up to {SCHEMA_VERSION}.",
                       "Install the FATE-DP that wrote it, or a later one; an older one must not charge this ledger.")
    (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        return _damaged(path, verdict)
    return ok(f"{path} opens and is whole (version {version}).")


def _damaged(path: Path, reason: str) -> Finding:
    return problem(
        f"The ledger {path} cannot be used: {' '.join(reason.split())}.",
        f"Stop FATE-Flow, keep a copy of {path}, and restore the last backup; what was released since then must be "
        "charged "
        "by hand, so ask for no further release from these data before.",
    )


def policy(party: Path) -> Finding:
    """The operator's policy."""
    path = party / POLICY_FILE
    if not path.exists():
        return ok("There is no policy, so the default caps hold and no label source is declared.")
    try:
        found = load_policy(path)
    except InvalidPolicy as error:
        return problem(str(error), f"Correct it in {path}; conf/policy.example.yaml shows all that may stand there.")
    except OSError as error:
        return problem(f"{path} cannot be read: {error.strerror}.", f"Run `chmod 600 {path}` as its owner.")
    for key, name in unused_names(found):
        return problem(
            f"In {path}, {key} names {name!r}, but no component calls a dataset so, and the line holds nothing.",
            "Name the dataset by its columns: `fate-dp declare-table` writes it, `fate-dp ledger` shows those that were used.",
        )
    declared = len(found.label_sources)
    return ok(f"{path} is valid; it declares {declared} label source{'s' if declared != 1 else ''}.")
