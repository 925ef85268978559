"""A sound site for the doctor's tests: a whole installation, a party with key, ledger and policy, and a server."""

import os
import re
import shutil
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

from fate_dp.deploy.doctor.examination import Examined
from fate_dp.deploy.doctor.gathering import FlowSite, Listener, Provider, environment_from
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.server import ANSWERS, FATE_PATCHES
from fate_dp.privacy import Ledger
from fate_dp.privacy.ledger.policy import declare_source
from fate_dp.privacy.private_files import load_or_create_key

ADDRESS = FlowAddress("127.0.0.1", 9380)
COMPONENTS = ("flipback", "label_flip")
REQUIRES = ["numpy<2", "setuptools<81", "scipy>=1.10", 'phe; extra == "test"']


def package(folder):
    """The two folders of an installed FATE-DP that the checks read."""
    for name in COMPONENTS:
        component = folder / "components" / name / "component.py"
        component.parent.mkdir(parents=True)
        component.touch()
        described = folder / "pipelines" / "clients" / f"{name}.yaml"
        described.parent.mkdir(parents=True, exist_ok=True)
        described.write_text(f"component:\n  name: {name}\n  roles: [guest]\n")
    return folder


def report(folder):
    """What the probe reports of a sound environment whose FATE-DP lies in `folder`/fate_dp."""
    versions = {
        "pyfate": "2.2.0",
        "fate-flow": "2.2.0",
        "fate-client": "2.2.0",
        "numpy": "1.26.4",
        "pydantic": "1.10.12",
        "setuptools": "80.1",
        "pika": "1.2.1",
        "scipy": "1.15.3",
        "fate-dp": "0.2.0",
    }
    plugin = {
        "version": "0.2.0",
        "location": str(folder),
        "source": None,
        "requires": REQUIRES,
        "announces": COMPONENTS,
    }
    return {
        "executable": "/opt/fate/bin/python",
        "python": [3, 11, 7],
        "distributions": {name: [[version, str(folder)]] for name, version in versions.items()},
        "plugins": [plugin],
        "folders": {part: str(folder / "fate_dp" / part) for part in ("components", "pipelines")},
        "lookup": {"found": {name: [name, None] for name in COMPONENTS}},
        "unrecorded": [],
        "kernel": [True, "The native kernel computes products, with AVX-512 IFMA."],
    }


def unrecorded_fate(folder):
    """An interpreter, and a folder for its path with all that is installed here, as in FATE's standalone image.

    FATE's packages are there, the records of their installation are not.
    """
    python, site, installed = folder / "bin" / "python", folder / "site", Path(sysconfig.get_path("purelib"))
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    site.mkdir()
    for entry in installed.iterdir():
        if not re.match(r"(pyfate|fate_flow|fate_client|fate_dp)-.*\.dist-info$", entry.name):
            (site / entry.name).symlink_to(entry)
    (record,) = installed.glob("fate_dp-*.dist-info")
    shutil.copytree(record, site / record.name)
    # The record of an editable installation names a finder, which an interpreter without site-packages never reads.
    if not (site / "fate_dp").exists():
        (site / "fate_dp").mkdir()
        for part in ("privacy", "crypto", "components", "attacks", "pipelines", "conf", "data_prep", "deploy"):
            (site / "fate_dp" / part).symlink_to(Path(__file__).parents[2] / part)
    return str(python), str(site)


def party(parties):
    """A party that has drawn a key, spent something, and declared a label source."""
    home = parties / "party-9999"
    load_or_create_key(home / "flip.key")
    Ledger(home / "ledger.sqlite").entries()
    declare_source(home / "policy.yaml", "bank/loans/y", cap=4)
    return home


def server(environment):
    """A server that answers, listens on the loopback interface, and has an environment with FATE-DP."""
    provider = Provider("fate:2.2.0@local", "2.2.0", "", environment.executable, environment)
    return FlowSite(
        ADDRESS,
        ANSWERS,
        version="2.2.0",
        providers=(provider,),
        settings={
            "fateflow": {"host": "127.0.0.1", "http_port": 9380, "grpc_port": 9360},
            "default_engines": {"federation": "standalone", "computing": "standalone"},
            "computing": {"standalone": {"cores": 32}},
            "authentication": {"client": False, "site": False},
        },
        listeners=(Listener("127.0.0.1", 9380, os.getpid(), "python"),),
        variables={"PYTHONPATH": str(FATE_PATCHES)},
        refuses_paths=True,
        jobs=(),
    )


def sound_site(folder):
    """What the doctor gathers where nothing is wrong."""
    package(folder / "site" / "fate_dp")
    environment = environment_from(report(folder / "site"))
    party(folder / "parties")
    return Examined(environment, "", folder / "parties", server(environment))


def with_environment(examined, **changes):
    """The same site with another environment."""
    return replace(examined, environment=replace(examined.environment, **changes))


def with_versions(examined, **versions):
    """The same site with other packages; None takes one away."""
    named = {name.replace("_", "-"): version for name, version in versions.items()}
    kept = {name: found for name, found in examined.environment.distributions.items() if name not in named}
    changed = {name: [[version, "/site"]] for name, version in named.items() if version is not None}
    return with_environment(examined, distributions={**kept, **changed})


def with_plugin(examined, **changes):
    """The same site with FATE-DP installed otherwise."""
    return with_environment(examined, plugins=(replace(examined.environment.plugin, **changes),))


def with_site(examined, **changes):
    """The same site with another state of its server."""
    return replace(examined, site=replace(examined.site, **changes))


def with_settings(examined, **changes):
    """The same site with other settings of its server."""
    return with_site(examined, settings={**examined.site.settings, **changes})


def with_provider(examined, **changes):
    """The same site with another default provider."""
    return with_site(examined, providers=(replace(examined.site.providers[0], **changes),))
