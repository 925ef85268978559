"""The commands that a message tells somebody to type, for the home that the message is about."""
from __future__ import annotations

from pathlib import Path

DEFAULT_HOME = ".fate-dp"


def home_command(words: str, home) -> str:
    """``fate-dp`` with these words, for the embedded server of ``home``: another home must be named, or the command is for the
    server of the default one."""
    is_default = Path(home).resolve() == Path(DEFAULT_HOME).resolve()
    return f"fate-dp {words}" if is_default else f"fate-dp {words} --home {home}"
