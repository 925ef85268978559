"""A provider of FATE's components as FATE-Flow has it registered, and what is installed where it points."""
from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from .environment import Environment, NotExamined, examine
from .this_machine import is_trusted


@dataclass(frozen=True)
class Provider:
    """A registered provider; without an `environment`, `trouble` says what is wrong or `unseen` why nobody looked."""

    name: str
    version: str
    path: str
    python: str
    environment: Environment | None = None
    trouble: str = ""
    unseen: str = ""


def provider_from(row: dict, examined: bool) -> Provider:
    """A provider as FATE-Flow describes it."""
    metadata = row.get("metadata") or {}
    path, python = metadata.get("path") or "", metadata.get("venv") or ""
    provider = Provider(row["provider_name"], row["version"], path, python)
    if not examined or row.get("device") != "local":
        return replace(provider, unseen="it is on another machine or in a container")
    try:
        return _looked_into(provider)
    except PermissionError as error:
        return replace(provider, unseen=f"{error.filename or python} cannot be looked at ({error.strerror})")


def _looked_into(provider: Provider) -> Provider:
    """A provider of this machine with what is installed there."""
    path, python = provider.path, provider.python
    if path and not Path(path).is_dir():
        return replace(provider, trouble=f"its folder {path} is gone")
    if not Path(python).is_file():
        return replace(provider, trouble=f"its Python {python} is gone")
    if not all(map(is_trusted, filter(None, (path, python)))):
        # Whoever has the port while FATE-Flow is down could name any program to run.
        return replace(provider, unseen="another user could have put its files there, so they are not run")
    try:
        return replace(provider, environment=examine(python, path))
    except NotExamined as error:
        return replace(provider, trouble=f"its Python does not answer: {str(error).rstrip('.')}")
