"""All checks, in the order in which they are shown, and running them."""
from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from fate_dp.deploy.flow_address import FlowAddress
from fate_dp.deploy.site.warm_handover import folder_of
from fate_dp.deploy.warm_start import control
from fate_dp.privacy import party_files

from . import (
    broker_checks, fence_checks, flow_checks, folder_checks, party_checks, peer_checks, provider_checks, reach_checks,
)  # fmt: skip
from .environment import Environment, NotExamined, examine
from .environment_checks import environment_findings
from .finding import PROBLEM, Finding, problem
from .flow_site import FlowSite, gather
from .run_checks import run_checks

# Of the folder of all parties, and of each party's in it.
FOLDER_CHECKS = (("parties' folder", folder_checks.parties_folder), ("disk", folder_checks.disk))
PARTY_CHECKS = (
    ("folder", folder_checks.folder),
    ("files", party_checks.files),
    ("key", party_checks.key),
    ("ledger", party_checks.ledger),
    ("policy", party_checks.policy),
)
# Of this site's FATE-Flow; those of its providers need to know what is installed here.
SITE_CHECKS = (
    ("FATE-Flow", flow_checks.answers),
    ("service_conf.yaml", flow_checks.configuration),
    ("ports", flow_checks.ports),
    ("reach", reach_checks.reach),
    ("authentication", reach_checks.authentication),
    ("broker", broker_checks.broker),
    ("broker's user", broker_checks.broker_user),
    ("broker's reach", broker_checks.broker_reach),
    ("fence", fence_checks.fence),
)
# Of the fork servers from which its tasks start, where there are any.
WARM_CHECKS = (("warm start", flow_checks.warm_start),)
PROVIDER_CHECKS = (
    ("default provider", provider_checks.default_provider),
    ("providers of FATE-DP", provider_checks.plugin_providers),
)
# Of each peer.
PEER_CHECKS = (("peer", peer_checks.peer_answers), ("peer's FATE-DP", peer_checks.peer_plugin))


@dataclass(frozen=True)
class Examined:
    """What the checks look at; `environment` is None, with a reason, where this Python could not be examined."""

    environment: Environment | None
    environment_trouble: str
    parties: Path
    site: FlowSite
    peers: tuple[FlowAddress, ...] = ()
    warm: control.WarmStart | None = None


def look(home: Path, flow: FlowAddress | None, peers: tuple[FlowAddress, ...]) -> Examined:
    """Gather what the checks need to know."""
    try:
        environment, trouble = examine(), ""
    except NotExamined as error:
        environment, trouble = None, str(error)
    return Examined(environment, trouble, parties_of(home), gather(home, flow), peers, warm_start_of(home))


def warm_start_of(home: Path) -> control.WarmStart | None:
    """What a home's fork servers tell, else those of this user's other FATE-Flows; None where there never were any."""
    folders = (home / "warm", Path(folder_of(os.environ)))
    folder = next(filter(os.path.exists, folders), None)
    return None if folder is None else control.look(folder, os.environ)


def parties_of(home: Path) -> Path:
    """The parties' folder of a server's home, if there is one, else what the environment says."""
    try:
        is_home = (home / "server.json").is_file() or (home / "parties").is_dir()
    except PermissionError:
        # Another user's home: the checks of the folder in it say so.
        is_home = True
    return home / "parties" if is_home else party_files.parties_folder()


def findings(examined: Examined) -> list[Finding]:
    """Every check's finding, in order."""
    own, folder = examined.environment, examined.parties
    results = _of_environment(examined) + run_checks(FOLDER_CHECKS, folder)
    for party_id in _party_ids(folder):
        results += run_checks(PARTY_CHECKS, party_files.party_folder(folder, party_id), suffix=f" of party {party_id}")
    results += run_checks(SITE_CHECKS, examined.site) + run_checks(PROVIDER_CHECKS, examined.site, own)
    if examined.warm is not None:
        results += run_checks(WARM_CHECKS, examined.warm)
    for peer in examined.peers:
        results += run_checks(PEER_CHECKS, peer, own)
    return results


def has_problem(results: list[Finding]) -> bool:
    return any(each.state == PROBLEM for each in results)


def _of_environment(examined: Examined) -> list[Finding]:
    if examined.environment is not None:
        return environment_findings(examined.environment)
    finding = problem(examined.environment_trouble, "Mend this Python, or run the doctor of another installation.")
    return [replace(finding, check="Python")]


def _party_ids(folder: Path) -> list:
    try:
        return party_files.party_ids(folder)
    except OSError:
        return []
