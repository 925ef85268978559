"""A result that appears under its name complete, or not at all."""
from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


class ResultNotWritten(ValueError):
    """The result could not be written; the message is one sentence."""


def write_whole(path: str | os.PathLike, text: str) -> None:
    """Write a file beside `path`, which then takes its name; on any failure it is removed, and what was there stays."""
    path = Path(path)
    unfinished = path.with_name(f"{path.name}.part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        reason = error.strerror or error
        raise ResultNotWritten(f"{path} could not be written: {reason}; what was there is kept.") from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
