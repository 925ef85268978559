"""A Python environment as its own interpreter sees it: this one, a server's, or a provider's."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

PROBE = Path(__file__).with_name("probe.py")
PROBE_SECONDS = 60


class NotExamined(Exception):
    """The interpreter could not be run or did not answer; the message is one sentence."""


@dataclass(frozen=True)
class Plugin:
    """One installation of FATE-DP; `source` is the folder of an editable one."""

    version: str
    location: str
    source: str | None
    requires: tuple
    announces: tuple


@dataclass(frozen=True)
class Environment:
    """What the probe reports; `lookup` has each entry point's [component, why it does not load], or an error.

    `unrecorded` names those of FATE's distributions whose packages lie on the path without a record of installation.
    """

    executable: str
    python: tuple
    distributions: dict
    plugins: tuple
    folders: dict
    lookup: dict
    unrecorded: tuple = ()

    def version(self, name: str) -> str | None:
        """The version of the distribution that is used; None where it is not installed."""
        found = self.distributions.get(name)
        return found[0][0] if found else None

    @property
    def plugin(self) -> Plugin | None:
        """The installation of FATE-DP that is used."""
        return self.plugins[0] if self.plugins else None

    def pip_install(self, *requirements: str) -> str:
        """The command that installs something here."""
        return f"`{self.executable} -m pip install " + " ".join(f'"{each}"' for each in requirements) + "`"

    def install_plugin(self) -> str:
        """The command that installs FATE-DP here, anew where it is; pip knows no index that has it."""
        options = "--force-reinstall --no-deps " if self.plugins else ""
        return (f"`{self.executable} -m pip install {options}WHEEL`, WHEEL being the file fate_dp-*.whl, "
                "or -e and a checkout")  # fmt: skip


def examine(python: str = sys.executable, path: str = "") -> Environment:
    """Run the probe in an interpreter, with the folder `path` in front of its module path as FATE-Flow puts it there.

    :raises NotExamined: when there is no such interpreter, or it fails.
    """
    return _examined(python, path)


@lru_cache(maxsize=None)
def _examined(python: str, path: str) -> Environment:
    variables = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
    if path:
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))
    try:
        done = subprocess.run([python, str(PROBE)], env=variables, cwd="/", capture_output=True, text=True,
                              timeout=PROBE_SECONDS)  # fmt: skip
    except OSError as error:
        raise NotExamined(f"The Python {python} cannot be run: {error.strerror}.") from error
    except subprocess.TimeoutExpired as error:
        raise NotExamined(f"The Python {python} did not answer within {PROBE_SECONDS} seconds.") from error
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        reason = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise NotExamined(f"The Python {python} could not list what is installed: {reason}.")
    return environment_from(json.loads(lines[-1]))


def environment_from(report: dict) -> Environment:
    """The environment that a probe's report describes."""
    tuples = {name: tuple(report[name]) for name in ("python", "unrecorded")}
    plugins = tuple(Plugin(**{**each, "requires": tuple(each["requires"]), "announces": tuple(each["announces"])})
                    for each in report["plugins"])  # fmt: skip
    return Environment(**{**report, **tuples, "plugins": plugins})
