"""Install the component descriptions into a FATE-Board's ``dag/`` folder.

A file of ours begins with a stamp, a comment that the board's YAML reader skips; only such files are ever replaced.
What a later version no longer ships stays: old jobs in the board still need it to be drawn. All files are looked at
before the first is written, and each is replaced in one step, so that a board that reads meanwhile never sees half.
"""
from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .board_error import BoardError
from .descriptions import SUFFIX, described_component, read_descriptions

STAMP = "# Installed by fate-dp "
# FATE's own, in every board since 2.0; a folder without a description of any of them is not a board's.
FATE_COMPONENTS = ("reader", "psi", "evaluation")
# The board may run as another user, and the descriptions are public.
FILE_MODE = 0o644

CURRENT, MISSING, OTHER_VERSION = "current", "missing", "of another version"


@dataclass(frozen=True)
class InstalledDescription:
    """One of our descriptions in a board's folder; `state` is what was found there, before any writing."""

    component: str
    path: Path
    state: str
    text: str


def compare(dag_folder: str | os.PathLike, descriptions: Path, version: str) -> list[InstalledDescription]:
    """What the folder holds of each description, with the text that belongs there.

    :raises BoardError: the folder is no board's, or a file that is not ours has the name of one of our components.
    """
    dag = checked_folder(Path(dag_folder))
    found = []
    for component, text in read_descriptions(descriptions).items():
        path, stamped = dag / f"{component}{SUFFIX}", f"{STAMP}{version}\n{text}"
        found.append(InstalledDescription(component, path, _state(path, text, stamped), stamped))
    return found


def install(dag_folder: str | os.PathLike, descriptions: Path, version: str) -> list[InstalledDescription]:
    """Write what is missing or of another version; returns what was found before.

    :raises BoardError: as `compare`, or a file cannot be written.
    """
    found = compare(dag_folder, descriptions, version)
    for item in found:
        if item.state != CURRENT:
            _replace(item.path, item.text)
    return found


def checked_folder(dag: Path) -> Path:
    """The folder itself if it is a board's ``dag/``."""
    if not dag.is_dir():
        raise BoardError(f"{dag} is not a folder; give the dag/ folder in the working directory of FATE-Board.")
    if any(described_component(_read(dag / f"{name}{SUFFIX}")) == name for name in FATE_COMPONENTS):
        return dag
    nearby = dag / "dag"
    hint = f"did you mean {nearby}?" if nearby.is_dir() else "it holds a description of each of FATE's components."
    names = ", ".join(f"{name}{SUFFIX}" for name in FATE_COMPONENTS)
    raise BoardError(f"{dag} is not the dag/ folder of a FATE-Board (none of {names} in it); {hint}")


def _state(path: Path, text: str, stamped: str) -> str:
    if not path.exists() and not path.is_symlink():
        return MISSING
    content = _read(path)
    if content == stamped:
        return CURRENT
    # Copied by hand, as earlier versions asked for: the same description, only without the stamp.
    if content.startswith(STAMP) or content == text:
        return OTHER_VERSION
    raise BoardError(
        f"{path} was not installed by fate-dp and is left alone; if it is an old copy of ours, remove it and run "
        "`fate-dp board install` again, else jobs with the two components of this name cannot share a board."
    )


def _read(path: Path) -> str:
    """The text of a file, empty where there is none that can be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _replace(path: Path, text: str) -> None:
    # The folder may be another user's: a name that could be foreseen, or a link there, would be theirs to choose.
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), FILE_MODE)
            file.write(text)
        os.replace(unfinished, path)
    except OSError as error:
        raise BoardError(
            f"{path} could not be written: {error.strerror}; run `fate-dp board install` as a user who may write "
            "there, a second run goes on where this one ended."
        ) from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
