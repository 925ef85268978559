"""Who can reach the site's FATE-Flow, and is reaching it enough to give it orders?"""
from __future__ import annotations

from fate_dp.deploy.flow_state import REFUSES

from .finding import Finding, ok, problem, unseen, warning
from .flow_site import FlowSite
from .unseen_settings import unseen_settings

SWITCHES = (("clients", "client"), ("sites", "site"))


def reach(site: FlowSite) -> Finding:
    """Who can open a connection, which is enough for some orders whatever the switches of authentication are."""
    beyond = _beyond_loopback(site)
    if beyond is None:
        return unseen_settings(site, "Who can reach FATE-Flow")
    if beyond:
        return _open_to_others(site, beyond)
    if not site.settings:
        return unseen_settings(site, "Only this machine reaches FATE-Flow, but whether it authenticates")
    return ok(f"Only this machine reaches FATE-Flow; authentication is on for {_listed(_switched_on(site))}.")


def _open_to_others(site: FlowSite, beyond: str) -> Finding:
    """FATE-Flow checks signatures on its pages for clients and sites only; its gRPC port hands on to all pages."""
    on = _switched_on(site)
    harm = ("fetch models, learn where tables are and change the state of tasks, because the pages /v2/worker/... "
            "never ask for a signature")  # fmt: skip
    cure = ("Set fateflow.host to 127.0.0.1 in service_conf.yaml, start FATE-Flow again, and let other machines in "
            "only through a router that forwards /v2/partner and /v2/scheduler and nothing else")  # fmt: skip
    if not site.settings:
        told = "for whom authentication is on is not seen" if not on else "authentication is on for clients at least"
        return warning(f"FATE-Flow listens on {beyond}, and {told}: whoever reaches the port can {harm}.", f"{cure}.")
    if len(on) < len(SWITCHES):
        harm = f"run jobs, {'' if 'clients' in on else 'read its settings, passwords among them, '}{harm}"
        cure = f"{cure}; set authentication.client and authentication.site to true as well"
    return warning(f"FATE-Flow listens on {beyond}, and authentication is on for {_listed(on)}: whoever reaches the "
                   f"port can {harm}.", f"{cure}.")  # fmt: skip


def _switched_on(site: FlowSite) -> list:
    """For whom authentication is on; a server that refuses to answer shows itself that it is for clients."""
    settings = site.section("authentication")
    return [name for name, key in SWITCHES if settings.get(key) or (key == "client" and site.state == REFUSES)]


def _listed(on: list) -> str:
    return " and ".join(on) or "nobody"


def _beyond_loopback(site: FlowSite) -> str | None:
    """The addresses, other than the loopback interface's, on which it listens; empty for none, None if not seen."""
    if not site.is_here:
        return str(site.address) if site.runs else None
    if site.listeners and site.runs:
        return ", ".join(sorted({f"{each.ip}:{each.port}" for each in site.listeners if not each.is_local}))
    if not site.settings:
        return None
    host = str(site.section("fateflow").get("host", "127.0.0.1"))
    return "" if host.startswith("127.") or host in ("localhost", "::1") else host


def authentication(site: FlowSite) -> Finding:
    """FATE-Flow's authentication is on in a way that it can start with, and that keeps somebody out."""
    on = _switched_on(site)
    if not on:
        return ok("Authentication is off.") if site.settings else unseen_settings(site, "Whether authentication is on")
    if not site.runs and site.settings.get("party_id") == "":
        return problem("Authentication is on but party_id is empty, with which FATE-Flow ends while it starts.",
                       "Set party_id in service_conf.yaml to this site's own, and take a new database: the first "
                       "start has left half of its rights in the old one.")  # fmt: skip
    if site.takes_the_known_key:
        return problem(
            "FATE-Flow takes the administrator's key that stands in its published source, so its authentication keeps "
            "nobody out.",
            "Set ADMIN_KEY in fate_flow/settings.py of the server to a secret of your own (`openssl rand -hex 16`), "
            "keep the file to its owner (`chmod 600`), and start FATE-Flow again.",
        )
    if not site.runs:
        return unseen(f"Authentication is on for {_listed(on)} in service_conf.yaml; whether FATE-Flow takes the "
                      "published administrator's key shows only while it runs.",
                      "Run the doctor again when FATE-Flow runs.")  # fmt: skip
    return ok(f"Authentication is on for {_listed(on)}{'' if site.settings else '; for sites it is not seen'}.")
