"""Files that only their owner may read, written so that a crash leaves the old content, the new one, or no file."""
import os
import secrets
from contextlib import contextmanager
from pathlib import Path


def publish_if_absent(path, content):
    """Create ``path`` (mode 0600, its folder 0700) with ``content`` unless it exists; the first of several wins.

    The file appears under its name complete and durable, or not at all.
    """
    with _written_beside(path, content) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
        _sync_folder(Path(path).parent)


def replace_file(path, content):
    """Write ``content`` to ``path`` (mode 0600, its folder 0700) in one step, in place of what was there."""
    with _written_beside(path, content) as temporary:
        os.replace(temporary, path)
        _sync_folder(Path(path).parent)


@contextmanager
def _written_beside(path, content):
    path = Path(path)
    _make_private_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _make_private_folder(folder):
    if folder.is_dir():
        return
    _make_private_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return
    _sync_folder(folder.parent)


def _sync_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
