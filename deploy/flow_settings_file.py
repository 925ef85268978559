"""FATE-Flow's `settings.py`, a program that holds what no configuration file can say."""
from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from fate_dp.privacy.private_file import replace_file


class UnfitSettings(Exception):
    """FATE-Flow's settings are not those of 2.2.0; the message is one sentence for the operator."""


def set_settings(path: Path, values: Mapping[str, str]) -> None:
    """Assign texts to names that `path` assigns once each, in one step; the file is then its owner's alone.

    :raises UnfitSettings: a name is assigned more or less often, and nothing was changed.
    """
    text = path.read_text(encoding="utf-8")
    for name, value in values.items():
        line = f"{name} = {value!r}"
        text, found = re.subn(rf"^{name} = .*$", lambda _, line=line: line, text, flags=re.MULTILINE)
        if found != 1:
            raise UnfitSettings(f"{path} sets {name} {found} times; FATE-Flow 2.2.0 sets it once.")
    replace_file(path, text.encode())
