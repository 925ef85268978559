"""Component descriptions: the YAML files from which FATE-Board knows the ports of a component.

The board serves ``dag/<component>.yaml`` of its working directory, as JSON, and draws a job's graph only if it finds
the file of every component in it. From a file it reads ``component.input_artifacts`` and ``output_artifacts``: of each
artifact under ``data`` and ``model`` the lists ``roles`` and ``stages``, and ``is_multi``. One that lacks a list stops
the drawing of every job with that component (FATE-Board 2.1.0: JobDetailService.getComponentStaticInfo,
utils/portCongifurationExplain.ts, utils/dagExplaination.ts).
"""
from __future__ import annotations

import json
from pathlib import Path

from .board_error import BoardError

SUFFIX = ".yaml"
PORT_KINDS = ("data", "model")


def read_descriptions(folder: Path) -> dict[str, str]:
    """The text of each description in `folder`, by component.

    :raises BoardError: one of them is not what the board can read.
    """
    found = {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob(f"*{SUFFIX}"))}
    for component, text in found.items():
        wrong = flaw_of(component, text)
        if wrong:
            raise BoardError(f"The description {component}{SUFFIX} in {folder} {wrong}; install fate-dp again.")
    return found


def described_component(text: str) -> str | None:
    """The component that a YAML text describes, None if it describes none."""
    return _name_in(_loaded(text))


def flaw_of(component: str, text: str) -> str | None:
    """What keeps the board from drawing jobs with this description, as the end of a sentence; None if nothing does."""
    document = _loaded(text)
    if _name_in(document) != component:
        return f"describes no component {component}"
    try:
        json.dumps(document, allow_nan=False)
    except (TypeError, ValueError):
        return "holds values that JSON cannot"
    for side in ("input_artifacts", "output_artifacts"):
        artifacts = document["component"].get(side)
        if not isinstance(artifacts, dict):
            return f"has no {side}"
        for kind in PORT_KINDS:
            for name, port in (artifacts.get(kind) or {}).items():
                if not _has_lists(port):
                    return f"gives the artifact {name} no list of roles and stages"
    return None


def _has_lists(port) -> bool:
    return isinstance(port, dict) and all(isinstance(port.get(key), list) for key in ("roles", "stages"))


def _name_in(document) -> str | None:
    component = document.get("component") if isinstance(document, dict) else None
    return component.get("name") if isinstance(component, dict) else None


def _loaded(text: str):
    import yaml

    try:
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError:
        return None
