"""The secret key from which a party derives its flips and tags; it never leaves that party."""
import errno
import hmac
import os
import secrets
import stat
from pathlib import Path

from fate_dp.privacy.private_file import publish_if_absent

KEY_BYTES = 32


class UnsafeKeyFile(ValueError):
    """The key file could be known to, or have been chosen by, somebody else, or it is damaged."""


def load_or_create_key(path):
    """Return the 32-byte key stored at ``path``; draw it from the operating system's entropy on first use.

    The file has mode 0600 and a folder made for it 0700. Processes that start together agree on one key, and a crash
    leaves a whole key or none.

    :raises UnsafeKeyFile: when the file is a symbolic link, not a regular file, not ours, open to group or others, or
        not 32 bytes long.
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


def key_id(key):
    """Public identifier of a key: 16 hexadecimal digits that reveal nothing else about it."""
    return hmac.digest(key, b"fate-dp key identifier", "sha256")[:8].hex()


def _open_without_following(path):
    try:
        # Non-blocking, because opening a named pipe would otherwise wait for a writer.
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError as error:
        raise UnsafeKeyFile(f"The key file {path} cannot be read by this user and must belong to it.") from error
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UnsafeKeyFile(f"The key file {path} is a symbolic link but must be a regular file.") from error


def _check_file(path, status):
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise UnsafeKeyFile(f"The key file {path} is not a regular file.")
    if status.st_uid != os.geteuid():
        raise UnsafeKeyFile(f"The key file {path} belongs to user {status.st_uid} but must belong to {os.geteuid()}.")
    if mode & 0o077:
        raise UnsafeKeyFile(f"The key file {path} has mode {mode:04o}, open to group or others, but must have 0600.")
    if status.st_size != KEY_BYTES:
        raise UnsafeKeyFile(f"The key file {path} has {status.st_size} bytes but must have {KEY_BYTES}.")
