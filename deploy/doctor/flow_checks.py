"""Does the site's FATE-Flow answer, on ports of its own, and do its tasks start warm?"""
from __future__ import annotations

from fate_dp.deploy.flow_state import ANSWERS, FOREIGN, REFUSES

from fate_dp.deploy.warm_start.control import WarmStart

from .finding import Finding, ok, problem, unseen, warning
from .flow_site import FlowSite
from .version_checks import FATE_VERSION

START = "Start it (`fate-dp up` the embedded one, `fate_flow start` an installed one), or name it with --flow HOST:PORT"


def answers(site: FlowSite) -> Finding:
    if site.address is None:
        return unseen("No FATE-Flow is known here.", f"{START}.")
    if site.state == ANSWERS and site.version == FATE_VERSION:
        return ok(f"FATE-Flow {site.version} answers at {site.address}.")
    if site.state == ANSWERS:
        return problem(f"FATE-Flow {site.version} answers at {site.address}, but FATE-DP is made for {FATE_VERSION}.",
                       f"Install FATE-Flow {FATE_VERSION} there, and FATE {FATE_VERSION} with it.")  # fmt: skip
    if site.state == REFUSES:
        return unseen(
            f"FATE-Flow at {site.address} refuses to answer: {site.reason}.",
            f"Run `flow init --ip {site.address.host} --port {site.address.port} --app-id ID --app-token TOKEN` with "
            "the "
            "credentials of its client authentication, then the doctor again.",
        )
    if site.state == FOREIGN:
        return problem(f"What answers at {site.address} is no FATE-Flow: {site.reason}.",
                       f"{START}; a port that another program has is changed in service_conf.yaml.")  # fmt: skip
    return problem(f"No FATE-Flow answers at {site.address}: {site.reason}.", f"{START}.")


def configuration(site: FlowSite) -> Finding:
    """service_conf.yaml of the home; a server that runs has the settings of when it started."""
    if site.unreadable:
        return problem(site.unreadable, "Run the doctor as the user who runs FATE-Flow.")
    if not site.settings_trouble:
        return ok("The settings can be read." if site.settings else "There is no service_conf.yaml in the home.")
    return problem(
        site.settings_trouble,
        "Correct it (conf/service_conf.yaml of the installed fate_flow shows its form), or let `fate-dp up` write it "
        "anew where the server is the embedded one.",
    )


def ports(site: FlowSite) -> Finding:
    """The server's ports are its own."""
    if not site.is_here:
        return unseen(f"The ports of {site.address} are on another machine.", "Run the doctor there.")
    if site.address is None:
        return ok("No port is in use.")
    if site.state in (ANSWERS, REFUSES) or not site.listeners:
        return ok(", ".join(f"{name} {port}" for name, port in site.ports().items()) + ".")
    taken = site.listeners[0]
    who = f"{taken.program} (process {taken.pid})" if taken.pid else "a program of another user"
    return problem(
        f"Port {taken.port}, which is to be FATE-Flow's, is taken by {who}.",
        f"End that program (`ss -ltnp 'sport = :{taken.port}'` shows it), or give FATE-Flow another port: "
        "`fate-dp up --port PORT`, or http_port and grpc_port in service_conf.yaml.",
    )


def warm_start(found: WarmStart) -> Finding:
    """Whether tasks start from a fork server, and how many did; that they start cold costs time, and nothing else."""
    if found.trouble:
        return warning(found.sentence(), f"Run `chmod 700 {found.folder}`, as the user who runs FATE-Flow.")
    if not found.off and found.refusal:
        return warning(found.sentence(), f"Mend that, or choose it: `fate-dp up --cold`; {found.folder}/log says more.")
    return ok(found.sentence())
