"""A key of its own for the administrator of a FATE-Flow, in place of the one that stands in its published source.

With authentication on, whoever has this key may let in others. FATE-Flow takes it from its `settings.py` only.
"""
from __future__ import annotations

import re
import secrets
from pathlib import Path

from fate_dp.privacy.private_file import publish_if_absent, replace_file

KEY_FILE = "administrator.key"
ASSIGNMENT = re.compile(r"^ADMIN_KEY = .*$", re.MULTILINE)
KEY = re.compile(r"[A-Za-z0-9_-]{16,}")


class UnfitKey(Exception):
    """The key cannot be used; the message is one sentence for the operator."""


def install_administrator_key(settings: Path, key_file: Path) -> None:
    """Make `settings`, FATE-Flow's settings.py, name the key in `key_file`, which is made if it is not there.

    :raises UnfitKey: the file holds something else, or FATE-Flow's settings have no such key.
    """
    publish_if_absent(key_file, secrets.token_urlsafe(24).encode())
    key = key_file.read_text(encoding="utf-8", errors="replace").strip()
    if not KEY.fullmatch(key):
        raise UnfitKey(f"{key_file} holds no administrator's key; it must be 16 or more letters, digits, - and _.")
    text, found = ASSIGNMENT.subn(f'ADMIN_KEY = "{key}"', settings.read_text(encoding="utf-8"))
    if found != 1:
        raise UnfitKey(f"{settings} sets ADMIN_KEY {found} times; FATE-Flow 2.2.0 sets it once.")
    replace_file(settings, text.encode())
