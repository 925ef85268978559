"""A key of its own for the administrator of a FATE-Flow, in place of the one that stands in its published source.

With authentication on, whoever has this key may let in others. FATE-Flow takes it from its `settings.py` only.
"""
from __future__ import annotations

import re
import secrets
from pathlib import Path

from fate_dp.privacy.private_file import publish_if_absent

from .flow_settings_file import UnfitSettings, set_settings

KEY_FILE = "administrator.key"
KEY = re.compile(r"[A-Za-z0-9_-]{16,}")


class UnfitKey(UnfitSettings):
    """The key cannot be used."""


def install_administrator_key(settings: Path, key_file: Path) -> None:
    """Make `settings`, FATE-Flow's settings.py, name the key in `key_file`, which is made if it is not there.

    :raises UnfitSettings: the file holds something else, or FATE-Flow's settings have no such key.
    """
    set_settings(settings, {"ADMIN_KEY": kept_key(key_file)})


def kept_key(key_file: Path) -> str:
    """The key in a file, drawn at random where the file does not exist yet."""
    publish_if_absent(key_file, secrets.token_urlsafe(24).encode())
    key = key_file.read_text(encoding="utf-8", errors="replace").strip()
    if not KEY.fullmatch(key):
        raise UnfitKey(f"{key_file} holds no administrator's key; it must be 16 or more letters, digits, - and _.")
    return key
