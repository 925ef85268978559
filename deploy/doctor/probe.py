"""A program for any Python: what is installed there, and which components FATE finds there; one line of JSON.

It is run as a file by the interpreter of a server or a provider, in which this package may be missing: it needs the
standard library only, and Python 3.8. Components are looked up as FATE does it, through `pkg_resources`.
"""

import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import sys
from typing import Any
from urllib.parse import unquote, urlparse

PLUGIN = "fate-dp"
GROUP = "fate.ext.component_desc"
PARTS = ("components", "pipelines", "deploy")
# FATE's standalone image has folders with these packages on PYTHONPATH, and no record that they were installed.
FATE_PACKAGES = {"pyfate": "fate", "fate-flow": "fate_flow", "fate-client": "fate_client"}
# What pyfate and fate_flow 2.2.0 require in one version alone; extras aside. Who changes one runs FATE as nobody tried it.
FATE_PINS = dict(
    re.findall(
        r"([\w-]+)==([\w.]+)",
        """
    accelerate==0.27.2 cachetools==3.0.0 cloudpickle==2.1.0 cos-python-sdk-v5==1.9.27 filelock==3.3.1 flask==2.2.5
    grpcio==1.62.1 grpcio-tools==1.62.1 lmdb==1.4.1 mmh3==3.0.0 peewee==3.17.1 protobuf==4.24.4 pydantic==1.10.12
    python-dotenv==0.13.0 rich==13.7.1 ruamel-yaml==0.16 safetensors==0.4.1 scikit-learn==1.4.1.post1
    transformers==4.37.2 typing-extensions==4.8.0 urllib3==1.26.18
    """,
    )
)
VERSION = re.compile(r"^__version__\s*=\s*[\"']([^\"']+)[\"']", re.MULTILINE)


def main() -> None:
    del sys.path[0]  # the folder of this file, which no task has on its path
    distributions = installed()
    unrecorded = {name: importable(package) for name, package in FATE_PACKAGES.items() if name not in distributions}
    unrecorded = {name: found for name, found in unrecorded.items() if found}
    recorded = {
        name: [[each.version, str(each.locate_file(""))] for each in found] for name, found in distributions.items()
    }
    report = {
        "executable": sys.executable,
        "python": list(sys.version_info[:3]),
        "distributions": {**recorded, **unrecorded},
        "unrecorded": sorted(unrecorded),
        "plugins": [plugin(each) for each in distributions.get(PLUGIN, [])],
        "folders": {part: folder_of("fate_dp." + part) for part in PARTS},
        "lookup": lookup(),
        "kernel": kernel(),
    }
    print(json.dumps(report))


def installed() -> dict[str, Any]:
    """Every distribution on the path, by its normalised name; the first of a name is the one that is used."""
    found: dict[str, Any] = {}
    seen = set()
    for distribution in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        place = (name, os.path.realpath(str(distribution.locate_file(""))), distribution.version)
        if place not in seen:
            seen.add(place)
            found.setdefault(name, []).append(distribution)
    return found


def importable(package: str) -> list:
    """[[version, place]] of a package that lies on the path, as its own files tell; empty where there is none."""
    folder = folder_of(package)
    if folder is None:
        return []
    for name in ("_info.py", "__init__.py"):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                told = VERSION.search(file.read())
            if told:
                return [[told.group(1), os.path.dirname(folder)]]
    return [["unknown", os.path.dirname(folder)]]


def plugin(distribution: importlib.metadata.Distribution) -> dict[str, Any]:
    """What one installation of the plugin says about itself."""
    return {
        "version": distribution.version,
        "location": str(distribution.locate_file("")),
        "source": editable_source(distribution),
        "requires": distribution.requires or [],
        "announces": sorted(entry.name for entry in distribution.entry_points if entry.group == GROUP),
    }


def editable_source(distribution: importlib.metadata.Distribution) -> str | None:
    """The folder that an editable installation points to; None where the files themselves were installed."""
    text = distribution.read_text("direct_url.json")
    described = json.loads(text) if text else {}
    if not described.get("dir_info", {}).get("editable"):
        return None
    return unquote(urlparse(described["url"]).path)


def folder_of(package: str) -> str | None:
    """Where a package is imported from; None where it cannot be found."""
    try:
        specification = importlib.util.find_spec(package)
    except ImportError:
        return None
    return os.path.dirname(specification.origin) if specification and specification.origin else None


def lookup() -> dict[str, Any]:
    """What FATE finds: {"found": {entry name: [component name, why it does not load]}} or {"error": sentence}."""
    try:
        import pkg_resources
    except ImportError as error:
        return {"error": str(error)}
    return {"found": {entry.name: loaded(entry) for entry in pkg_resources.iter_entry_points(group=GROUP)}}


def kernel() -> list | None:
    """[whether the native kernel is in use, a sentence that says why]; None where FATE-DP cannot be imported."""
    try:
        found = importlib.import_module("fate_dp.crypto.kernel").kernel()
    except Exception:  # what is missing is another check's business
        return None
    return [found.library is not None, found.sentence]


def loaded(entry: Any) -> list:
    try:
        return [entry.load().name, None]
    except Exception as error:  # FATE, too, goes on with the next one, whatever it was
        return [None, f"{type(error).__name__}: {error}"]


if __name__ == "__main__":
    main()
