"""Files written so that a crash leaves the old content, the new one, or no file, and a party's private ones among them.

What never leaves a party, its key, ledger and policy, lies in one folder per party id below ``$FATE_DP_HOME`` (default
``~/.fate-dp``), because FATE's standalone mode runs all parties on one machine.
"""

import errno
import hmac
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .validation import InvalidArgument, refusal

HOME_VARIABLE = "FATE_DP_HOME"
KEY_FILE, LEDGER_FILE, POLICY_FILE = "flip.key", "ledger.sqlite", "policy.yaml"
# By which other parties know the operator, and those by which the operator knows them.
IDENTITY_FILE, PEERS_FILE = "identity.key", "peers.json"
# Folders of a party, private as the files beside them: what its recorders kept, and coins of its audits.
VIEWS_FOLDER, CALLS_FOLDER, CANARIES_FOLDER = "views", "calls", "canaries"
PARTY_PREFIX = "party-"
DRAFT = ".*.tmp"
"""Files of a party's folder that have no name yet, or never will: their writer was killed."""
KEY_BYTES = 32

AnyPath = str | os.PathLike[str]


def publish_if_absent(path: AnyPath, content: bytes) -> None:
    """Create a file (mode 0600, its folder 0700), complete and durable, unless it exists; the first of several wins."""
    make_closed_folder(Path(path).parent)
    with _written_beside(Path(path), content, 0o600) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
        sync(Path(path).parent)


def replace_file(path: AnyPath, content: bytes) -> None:
    """Write ``content`` to ``path`` (mode 0600, its folder 0700) in one step, in place of what was there."""
    make_closed_folder(Path(path).parent)
    with _written_beside(Path(path), content, 0o600) as temporary:
        os.replace(temporary, path)
        sync(Path(path).parent)


def atomic_write(path: AnyPath, text: str) -> None:
    """Write a result for others in one step, with the mode that the umask gives, into a folder that exists.

    Raises `InvalidArgument` if it could not be written; what was there is kept.
    """
    try:
        with _written_beside(Path(path), text.encode("utf-8"), 0o666) as temporary:
            os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or error
        raise InvalidArgument(f"{path} could not be written: {reason}; what was there is kept.") from error


@contextmanager
def _written_beside(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        # Closed before it gets its name: closing a descriptor of a ledger in use would drop SQLite's locks in this process.
        with _naming(path), os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of a descriptor do not say which file it is."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def make_closed_folder(folder: Path) -> None:
    """Create a folder, and those above it that are missing, with mode 0700."""
    if folder.is_dir():
        return
    make_closed_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    sync(folder.parent)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with _naming(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def parties_folder() -> Path:
    """The folder of all parties of this machine, as the environment says."""
    given = os.environ.get(HOME_VARIABLE)
    if given and not os.path.isabs(given):
        cure = "Each task runs in a folder of its own, and would begin there with a new key and an empty ledger."
        raise InvalidArgument.of(f"${HOME_VARIABLE}", given, "an absolute path", cure)
    return Path(given or Path.home() / ".fate-dp")


def party_folder(folder: AnyPath, party_id: str) -> Path:
    """The folder of one party within that of all."""
    return Path(folder) / f"{PARTY_PREFIX}{party_id}"


def party_ids(folder: AnyPath) -> list[str]:
    """Ids of the parties that have a folder, in order."""
    return sorted(path.name.removeprefix(PARTY_PREFIX) for path in Path(folder).glob(f"{PARTY_PREFIX}*"))


class UnsafeKeyFile(ValueError):
    """The key file could be known to, or have been chosen by, somebody else, or it is damaged."""


def load_or_create_key(path: AnyPath) -> bytes:
    """Return the secret 32-byte key stored at ``path``; draw it from the operating system's entropy on first use.

    A party derives its flips and tags from it, and it never leaves that party. Processes that start together agree on
    one, and a crash leaves a whole key or none. `UnsafeKeyFile` refuses what others could know or have chosen.
    """
    path = Path(path)
    if not os.path.lexists(path):
        publish_if_absent(path, secrets.token_bytes(KEY_BYTES))
    descriptor = _open_without_following(path)
    try:
        _check_file(path, os.fstat(descriptor))
        return os.read(descriptor, KEY_BYTES)
    finally:
        os.close(descriptor)


def key_id(key: bytes) -> str:
    """Public identifier of a key: 16 hexadecimal digits that reveal nothing else about it."""
    return hmac.digest(key, b"fate-dp key identifier", "sha256")[:8].hex()


def _open_without_following(path: Path) -> int:
    try:
        # Non-blocking, because opening a named pipe would otherwise wait for a writer.
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError as error:
        raise UnsafeKeyFile(f"This user cannot read the key file {path}. Make this user its owner.") from error
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UnsafeKeyFile(f"The key file {path} must be a regular file, got a symbolic link.") from error


def _check_file(path: Path, status: os.stat_result) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeKeyFile(f"The key file {path} must be a regular file.")
    if status.st_uid != os.geteuid():
        raise UnsafeKeyFile(refusal(f"The owner of the key file {path}", status.st_uid, f"user {os.geteuid()}"))
    if mode & 0o077:
        raise UnsafeKeyFile(f"The mode of the key file {path} must be 0600, got {mode:04o}. Run chmod 600 on it.")
    if status.st_size != KEY_BYTES:
        raise UnsafeKeyFile(refusal(f"The size of the key file {path}", status.st_size, f"{KEY_BYTES} bytes"))
