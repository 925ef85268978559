"""The YAML files from which FATE-Board knows the ports of a component, and their way into its ``dag/`` folder."""

import json
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fate_dp.privacy.declared import YamlReader

from ..flow.programs import FlowServerError

# The board serves ``dag/<component>.yaml`` of its working directory, as JSON, and draws a job's graph only if it finds
# the file of every component in it. From a file it reads ``component.input_artifacts`` and ``output_artifacts``: of each
# artifact under ``data`` and ``model`` the lists ``roles`` and ``stages``, and ``is_multi``. One that lacks a list stops
# the drawing of every job with that component (FATE-Board 2.1.0: JobDetailService.getComponentStaticInfo,
# utils/portCongifurationExplain.ts, utils/dagExplaination.ts).
SUFFIX = ".yaml"
PORT_KINDS = ("data", "model")


def read_descriptions(folder: Path) -> dict[str, str]:
    """The text of each description in `folder`, by component; raises FlowServerError if the board cannot read one."""
    found = {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob(f"*{SUFFIX}"))}
    for component, text in found.items():
        wrong = flaw_of(component, text)
        if wrong:
            raise FlowServerError(f"The description {component}{SUFFIX} in {folder} {wrong}; install fate-dp again.")
    return found


def flaw_of(component: str, text: str) -> str | None:
    """What keeps the board from drawing jobs with this description, as the end of a sentence; None if nothing does."""
    document = _loaded(text)
    if _name_in(document) != component:
        return f"describes no component {component}"
    try:
        # Not `json.dumps`, which FATE-Flow replaces where it is imported by one that takes dates.
        json.JSONEncoder(allow_nan=False).encode(document)
    except (TypeError, ValueError):
        return "holds values that JSON cannot"
    for side in ("input_artifacts", "output_artifacts"):
        artifacts = document["component"].get(side)
        if not isinstance(artifacts, dict):
            return f"has no {side}"
        for kind in PORT_KINDS:
            for name, port in (artifacts.get(kind) or {}).items():
                if not isinstance(port, dict) or not all(
                    isinstance(port.get(key), list) for key in ("roles", "stages")
                ):
                    return f"gives the artifact {name} no list of roles and stages"
    return None


def _name_in(document: object) -> str | None:
    component = document.get("component") if isinstance(document, dict) else None
    return component.get("name") if isinstance(component, dict) else None


def _loaded(text: str) -> Any:
    try:
        return yaml.load(text, YamlReader)
    except yaml.YAMLError:
        return None


# A file of ours begins with a stamp, a comment that the board's YAML reader skips; only such files are ever replaced, each in
# one step. What a later version no longer ships stays: old jobs in the board still need it to be drawn.
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
    """What the folder holds of each description, with the text that belongs there; FlowServerError where it is no
    board's, or a file with the name of a component of ours is not ours."""
    dag = checked_folder(Path(dag_folder))
    found = []
    for component, text in read_descriptions(descriptions).items():
        path, stamped = dag / f"{component}{SUFFIX}", f"{STAMP}{version}\n{text}"
        found.append(InstalledDescription(component, path, _state(path, text, stamped), stamped))
    return found


def install(dag_folder: str | os.PathLike, descriptions: Path, version: str) -> list[InstalledDescription]:
    """Write what is missing or of another version; returns what was found before, and raises as `compare`."""
    found = compare(dag_folder, descriptions, version)
    for item in found:
        if item.state != CURRENT:
            _replace(item.path, item.text)
    return found


def checked_folder(dag: Path) -> Path:
    """The folder itself if it is a board's ``dag/``."""
    if not dag.is_dir():
        raise FlowServerError(f"{dag} is not a folder; give the dag/ folder in the working directory of FATE-Board.")
    if any(_name_in(_loaded(_read(dag / f"{name}{SUFFIX}"))) == name for name in FATE_COMPONENTS):
        return dag
    nearby = dag / "dag"
    hint = f"did you mean {nearby}?" if nearby.is_dir() else "it holds a description of each of FATE's components."
    names = ", ".join(f"{name}{SUFFIX}" for name in FATE_COMPONENTS)
    raise FlowServerError(f"{dag} is not the dag/ folder of a FATE-Board (none of {names} in it); {hint}")


def _state(path: Path, text: str, stamped: str) -> str:
    if not path.exists() and not path.is_symlink():
        return MISSING
    content = _read(path)
    if content == stamped:
        return CURRENT
    # Copied by hand, as earlier versions asked for: the same description, only without the stamp.
    if content.startswith(STAMP) or content == text:
        return OTHER_VERSION
    raise FlowServerError(
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
        raise FlowServerError(
            f"{path} could not be written: {error.strerror}; run `fate-dp board install` as a user who may write there; a "
            "second run goes on where this one ended."
        ) from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
