"""Are the parties' folders there, writable, and closed to others?"""
from __future__ import annotations

import os
import stat
from pathlib import Path

from fate_dp.privacy.party_files import HOME_VARIABLE, PARTY_PREFIX, party_ids

from .finding import Finding, ok, problem, warning

OTHERS = stat.S_IRWXG | stat.S_IRWXO
# Room for the ledger's journal and for a training's charges, which are small; a disk with less fills up at any moment.
LEAST_FREE_BYTES = 64 * 2**20


def parties_folder(folder: Path) -> Finding:
    """The folder of all parties, or where it will be made."""
    if not folder.exists():
        above = next(each for each in folder.absolute().parents if each.exists())
        if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
            return _no_party(f"{folder} does not exist")
        return problem(f"{folder} does not exist and cannot be made in {above}.",
                       f"Run `install -d -m 700 {folder}` as the owner of {above}, for the user who runs FATE-Flow, "
                       f"or set {HOME_VARIABLE} to a folder of that user.")  # fmt: skip
    finding = _private_folder(folder)
    return finding if finding.cure or party_ids(folder) else _no_party(f"{folder} has no folder {PARTY_PREFIX}ID in it")


def _no_party(said: str) -> Finding:
    """As it is before the first job, and as it looks to a doctor that was not told where the parties are."""
    return warning(f"{said}, so no party's key and ledger were looked at.",
                   "If a job has run here already, name where its parties are: --home FOLDER, which holds parties/, "
                   f"or {HOME_VARIABLE}; otherwise it is made when a party first needs it.")  # fmt: skip


def folder(party: Path) -> Finding:
    """A party's own folder."""
    return _private_folder(party)


def _private_folder(path: Path) -> Finding:
    if not path.is_dir():
        return problem(f"{path} is not a folder.", f"Move it away: `mv {path} {path}.other`.")
    status = path.stat()
    if status.st_uid != os.geteuid():
        return problem(f"{path} belongs to user {status.st_uid}, but this is user {os.geteuid()}.",
                       f"Run `chown -R USER {path}`, USER being who runs FATE-Flow, and the doctor as that "
                       "user.")  # fmt: skip
    if status.st_mode & OTHERS:
        return problem(f"{path} has mode {mode_of(status)}, open to group or others.", f"Run `chmod 700 {path}`.")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK) and not _read_only(path):
        return problem(f"{path} has mode {mode_of(status)}, with which its owner cannot use it.",
                       f"Run `chmod 700 {path}`.")  # fmt: skip
    return ok(f"{path} is open to its owner only.")


def disk(path: Path) -> Finding:
    """The disk on which the parties' folders are, or will be."""
    existing = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    if _read_only(existing):
        return problem(f"{existing} lies on a disk that is mounted read-only, so that no ledger can be charged.",
                       f"Mount it writable (`findmnt -T {existing}` names it), or set FATE_DP_HOME to another disk.")
    state = os.statvfs(existing)
    free = state.f_bavail * state.f_frsize
    left = f"{free / 2**20:.0f} MiB left"
    if free < LEAST_FREE_BYTES:
        return problem(f"The disk of {existing} has {left}, less than {LEAST_FREE_BYTES / 2**20:.0f} MiB.",
                       f"Make room on it (`df -h {existing}`); a ledger that cannot be written refuses every release.")
    if state.f_files and not state.f_favail:
        return problem(f"The disk of {existing} has no inode left, so that no file can be made there.",
                       f"Delete small files on it (`df -i {existing}`).")  # fmt: skip
    if free < 10 * LEAST_FREE_BYTES:
        return warning(f"The disk of {existing} has {left}.", f"Make room on it (`df -h {existing}`).")
    return ok(f"The disk of {existing} is writable and has {free / 2**30:.0f} GiB left.")


def _read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def mode_of(status: os.stat_result) -> str:
    """The permissions as `chmod` takes them."""
    return f"{stat.S_IMODE(status.st_mode):04o}"
