"""What can be seen of another party's site.

FATE-Flow has no question that tells which packages a peer's tasks have. What a peer's FATE-Flow tells a client, where
its port is reachable and its client authentication off, is its own version and the names of its providers; those that
`fate-dp provider register` made carry the version of FATE-DP in their name.
"""

from __future__ import annotations

import socket

from packaging.version import InvalidVersion, Version

from ..flow.client import FlowAddress, FlowSilent, ask, credentials_for
from ..flow.server import ANSWERS, FOREIGN, SILENT, state_of
from .findings import PEER, Finding, check, ok, problem, unseen
from .flow_checks import PLUGIN_PREFIX
from .gathering import Environment, is_here
from .own_checks import FATE_VERSION

OPERATORS_WORD = "its operator to run `fate-dp doctor` there and compare the line `FATE-DP`"


@check(PEER, "peer")
def peer_answers(address: FlowAddress, own: Environment | None) -> Finding:
    found = state_of(address)
    if found.state == SILENT:
        return _silent(address, found.reason)
    if found.state == FOREIGN:
        return problem(f"What answers at {address} is no FATE-Flow: {found.reason}.", "Correct the port of --peer.")
    if found.state == ANSWERS and found.version != FATE_VERSION:
        return problem(
            f"FATE-Flow {found.version} answers at {address}, but this site's is to be {FATE_VERSION}.",
            f"Have FATE {FATE_VERSION} installed there.",
        )
    return ok(
        f"FATE-Flow {found.version} answers at {address}."
        if found.state == ANSWERS
        else f"FATE-Flow answers at {address}, but tells only clients that it knows."
    )


def _silent(address: FlowAddress, reason: str) -> Finding:
    """A peer's port that is closed to other machines is as it should be, and looks as a server that is down does."""
    said = f"No FATE-Flow answers at {address}: {reason}."
    if is_here(address.host):
        return problem(
            said,
            "Have it started, or correct --peer; where parties reach each other through a router "
            "only, leave --peer out.",
        )
    if not _is_known(address.host):
        return problem(said, f"Correct the name {address.host} of --peer, or make it known to this machine.")
    return unseen(
        said,
        "Compare --peer with the host and port that its operator names. Where its FATE-Flow is reached through a "
        f"router only, as is best, ask {OPERATORS_WORD}; else have it started, or its port opened to this machine.",
    )


def _is_known(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False


@check(PEER, "peer's FATE-DP")
def peer_plugin(address: FlowAddress, own: Environment | None) -> Finding:
    """The peer's version of FATE-DP, where a provider's name tells it."""
    try:
        answer = ask(address, "provider/query?name=fate", credentials=credentials_for(address))
        rows = answer.data if answer.code == 0 else None
    except FlowSilent:
        rows = None
    names = sorted(row["version"] for row in rows or [] if row["version"].startswith(PLUGIN_PREFIX))
    versions = {name: version for name in names if (version := _version(name.removeprefix(PLUGIN_PREFIX)))}
    if not versions:
        return unseen(
            f"Which FATE-DP the tasks of {address} have cannot be seen: FATE-Flow tells no packages, and no "
            "provider there names its version.",
            f"Ask {OPERATORS_WORD}.",
        )
    if own is not None and own.plugin is not None and _version(own.plugin.version) not in versions.values():
        return problem(
            f"The peer at {address} has registered {', '.join(versions)}, but FATE-DP here is {own.plugin.version}.",
            "Install one version at all parties, and register it where it is a provider (`fate-dp provider register`).",
        )
    return ok(
        f"The peer at {address} has registered {', '.join(versions)}; what its jobs use that choose no "
        "provider is not seen."
    )


def _version(text: str) -> Version | None:
    """The version that a text is; None where it is none, as in FATE's own provider or one that somebody named."""
    try:
        return Version(text)
    except InvalidVersion:
        return None
