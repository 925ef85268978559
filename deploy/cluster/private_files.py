"""Folders and files of the cluster for their owner's eyes only."""
from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fate_dp.deploy.flow_server_error import FlowServerError
from fate_dp.privacy.private_file import publish_if_absent


@contextmanager
def private_umask() -> Iterator[None]:
    """Meanwhile, whatever this process creates is for its owner's eyes, what others' code creates included."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def make_private_folder(folder: Path) -> None:
    """Create a folder of mode 0700; one that exists and that others may enter is closed to them."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise FlowServerError(
            f"The folder {folder} cannot be made private ({error.strerror}); choose another one with --home."
        ) from error


def kept_secret(path: Path) -> str:
    """The secret in a file, drawn at random where the file does not exist yet; all who ask at once get the same."""
    if not path.is_file():
        publish_if_absent(path, f"{secrets.token_urlsafe(32)}\n".encode())
    return path.read_text(encoding="utf-8").strip()
