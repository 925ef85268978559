"""Running all checks, in the order in which their findings are shown."""

import os
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fate_dp.deploy.fate_patches.warm_handover import folder_of
from fate_dp.deploy.warm_start import control
from fate_dp.privacy import private_files
from fate_dp.privacy.validation import InvalidArgument

from ..flow.client import FlowAddress
from . import flow_checks, limits, own_checks  # noqa: F401  # their checks are on the list once they are imported
from .findings import ENVIRONMENT, PARTIES, PARTY, PEER, PROBLEM, PROVIDERS, SITE, WARM, Finding, problem, run_checks
from .gathering import Environment, FlowSite, examine, gather


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
        environment, trouble = examine(sys.executable, ""), ""
    except InvalidArgument as error:
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
    return home / "parties" if is_home else private_files.parties_folder()


def findings(examined: Examined) -> list[Finding]:
    """Every check's finding, in order."""
    own, folder = examined.environment, examined.parties
    if own is not None:
        results = run_checks(ENVIRONMENT, own)
    else:
        cure = "Repair this Python, or run the doctor of another installation."
        results = [replace(problem(examined.environment_trouble, cure), check="Python")]
    results += run_checks(PARTIES, folder)
    # A folder that cannot be read is a finding of its own already.
    with suppress(OSError):
        for party_id in private_files.party_ids(folder):
            results += run_checks(PARTY, private_files.party_folder(folder, party_id), suffix=f" of party {party_id}")
    results += run_checks(SITE, examined.site) + run_checks(PROVIDERS, examined.site, own)
    if examined.warm is not None:
        results += run_checks(WARM, examined.warm)
    for peer in examined.peers:
        results += run_checks(PEER, peer, own)
    return results


def has_problem(results: list[Finding]) -> bool:
    return any(each.state == PROBLEM for each in results)
