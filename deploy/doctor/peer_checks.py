"""What can be seen of another party's site.

FATE-Flow has no question that tells which packages a peer's tasks have. What a peer's FATE-Flow tells a client, where
its port is reachable and its client authentication off, is its own version and the names of its providers; those that
`fate-dp provider register` made carry the version of FATE-DP in their name.
"""
from __future__ import annotations

from fate_dp.deploy.flow_address import FlowAddress
from fate_dp.deploy.flow_credentials import credentials_for
from fate_dp.deploy.flow_requests import FlowSilent, NotFateFlow, ask
from fate_dp.deploy.flow_state import ANSWERS, FOREIGN, SILENT, state_of

from .environment import Environment
from .finding import Finding, ok, problem, unseen
from .provider_checks import PLUGIN_PREFIX
from .version_checks import FATE_VERSION

ASK_OPERATOR = "Ask its operator to run `fate-dp doctor` there and compare the line `FATE-DP`"


def peer_answers(address: FlowAddress, own: Environment | None) -> Finding:
    found = state_of(address)
    if found.state == SILENT:
        return problem(f"No FATE-Flow answers at {address}: {found.reason}.",
                       "Have it started, or its port opened to this machine; where parties reach each other through a "
                       "proxy "
                       "only, leave --peer out.")  # fmt: skip
    if found.state == FOREIGN:
        return problem(f"What answers at {address} is no FATE-Flow: {found.reason}.", "Correct the port of --peer.")
    if found.state == ANSWERS and found.version != FATE_VERSION:
        return problem(f"FATE-Flow {found.version} answers at {address}, but this site's is to be {FATE_VERSION}.",
                       f"Have FATE {FATE_VERSION} installed there.")  # fmt: skip
    return ok(f"FATE-Flow {found.version} answers at {address}." if found.state == ANSWERS
              else f"FATE-Flow answers at {address}, but tells only clients that it knows.")  # fmt: skip


def peer_plugin(address: FlowAddress, own: Environment | None) -> Finding:
    """The peer's version of FATE-DP, where a provider's name tells it."""
    try:
        answer = ask(address, "provider/query?name=fate", credentials=credentials_for(address))
        rows = answer.data if answer.code == 0 else None
    except (FlowSilent, NotFateFlow):
        rows = None
    versions = sorted(row["version"] for row in rows or [] if row["version"].startswith(PLUGIN_PREFIX))
    if not versions:
        return unseen(f"Which FATE-DP the tasks of {address} have cannot be seen: FATE-Flow tells no packages, and no "
                      "provider there names it.", f"{ASK_OPERATOR}.")  # fmt: skip
    wanted = PLUGIN_PREFIX + (own.plugin.version if own is not None and own.plugin else "")
    if own is not None and own.plugin is not None and wanted not in versions:
        return problem(
            f"The peer at {address} has registered {', '.join(versions)}, but FATE-DP here is {own.plugin.version}.",
            "Install one version at all parties, and register it where it is a provider (`fate-dp provider register`).",
        )
    return ok(f"The peer at {address} has registered {', '.join(versions)}; what its jobs use that choose no "
              "provider is not seen.")  # fmt: skip
