"""Who can reach the site's FATE-Flow, and is reaching it enough to give it orders?"""
from __future__ import annotations

from fate_dp.deploy.flow_state import ANSWERS, REFUSES

from .finding import Finding, ok, problem, unseen, warning
from .flow_site import FlowSite


def reach(site: FlowSite) -> Finding:
    """Who can open a connection, and whether that is enough to give orders."""
    if site.address is None:
        return ok("Nothing listens.")
    on, beyond = _switched_on(site), _beyond_loopback(site)
    if not beyond:
        return ok(f"Only this machine reaches FATE-Flow; authentication is on for {', '.join(on) or 'nobody'}.")
    if len(on) == 2:
        return ok(f"FATE-Flow listens on {beyond}; authentication is on for {' and '.join(on)}.")
    if not site.settings:
        return unseen(f"FATE-Flow listens on {beyond}; whether it authenticates cannot be seen.",
                      "Run the doctor on the server's machine with --home FOLDER.")  # fmt: skip
    return warning(
        f"FATE-Flow listens on {beyond}, and authentication is on for {', '.join(on) or 'nobody'}: whoever reaches the "
        "port can run jobs and read its settings, passwords among them.",
        "Set authentication.client and authentication.site to true in service_conf.yaml, or fateflow.host to "
        "127.0.0.1, "
        "and start FATE-Flow again.",
    )


def _switched_on(site: FlowSite) -> list:
    return [name for name, key in (("clients", "client"), ("sites", "site")) if site.section("authentication").get(key)]


def _beyond_loopback(site: FlowSite) -> str:
    """The addresses, other than the loopback interface's, on which it listens; empty where there are none."""
    if not site.is_here:
        return str(site.address)
    if site.listeners and site.state in (ANSWERS, REFUSES):
        return ", ".join(sorted({f"{each.ip}:{each.port}" for each in site.listeners if not each.is_local}))
    host = str(site.section("fateflow").get("host", "127.0.0.1"))
    return "" if host.startswith("127.") or host in ("localhost", "::1") else host


def authentication(site: FlowSite) -> Finding:
    """FATE-Flow's authentication is on in a way that it can start with, and that keeps somebody out."""
    if not _switched_on(site) and site.state != REFUSES:
        return ok("Authentication is off.")
    if site.state not in (ANSWERS, REFUSES) and site.settings.get("party_id") == "":
        return problem("Authentication is on but party_id is empty, with which FATE-Flow ends while it starts.",
                       "Set party_id in service_conf.yaml to this site's own, and take a new database: the first "
                       "start has "
                       "left half of its rights in the old one.")  # fmt: skip
    if site.takes_the_known_key:
        return problem(
            "FATE-Flow takes the administrator's key that stands in its published source, so its authentication keeps "
            "nobody out.",
            "Set ADMIN_KEY in fate_flow/settings.py of the server to a secret of your own (`openssl rand -hex 16`), "
            "keep "
            "the file to its owner (`chmod 600`), and start FATE-Flow again.",
        )
    return ok(f"Authentication is on for {' and '.join(_switched_on(site)) or 'clients'}.")
