"""Do FATE-Flows answer, to whom, with which broker and fence, and do their tasks find the components?"""

import http.client
import locale
import os
import socket
import stat
import urllib.error
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from ..fate_patches import fence as rules
from ..flow.client import FlowAddress, ask_broker, client_settings, credentials_for, speaks_amqp
from ..flow.server import ANSWERS, FOREIGN, REFUSES, SILENT, state_of
from ..flow.unfinished import cores_in_use
from ..warm_start.control import WarmStart
from .findings import (
    ENVIRONMENT,
    PEER,
    PROBLEM,
    PROVIDERS,
    SITE,
    UNSEEN,
    WARM,
    WARNING,
    Finding,
    check,
    ok,
    problem,
    run_checks,
    unseen,
    warning,
)
from .gathering import (
    LOOPBACK,
    TUNNEL,
    Environment,
    FlowSite,
    Provider,
    addresses_of,
    answer_of,
    is_beside,
    is_here,
    listeners,
    unseen_settings,
)
from .own_checks import FATE_VERSION, OTHERS

THERE = "Run the doctor on the server's machine, as the user who runs FATE-Flow, while it runs."
LOCALE_WORDS = ("LC_ALL", "LC_CTYPE", "LANG")
START = "Start it (`fate-dp up` the embedded one, `fate_flow start` an installed one), or name it with --flow HOST:PORT"
# The sources of FATE-Flow 2.2.0 call themselves so where a server tells its version, and 2.2.0 in their modules.
WRITTEN_BY_THE_SOURCES = "2.1.0"
SWITCHES = (("clients", "client"), ("sites", "site"))
PATIENCE_SECONDS = 3.0
# RabbitMQ's own, and what FATE's examples have.
KNOWN_PASSWORDS = ("guest", "fate")
BROKER_CLIENT = "pika"
EVERY_ADDRESS = {"0.0.0.0", "::"}
OURS, RULES = Path(rules.__file__).parent, Path(rules.__file__).name
CUSTOMISATION = "sitecustomize.py"
HARM = "every other party, and whoever can write to the broker, can run programs in its tasks"
# Providers of ours are told by their version, because FATE-Flow runs no provider whose name is not `fate`.
PLUGIN_PREFIX = "dp"
MOST_URGENT_FIRST = (PROBLEM, WARNING, UNSEEN)


@check(SITE, "FATE-Flow")
def answers(site: FlowSite) -> Finding:
    if site.address is None:
        return unseen("No FATE-Flow is known here.", f"{START}.")
    if site.state == ANSWERS and site.version == FATE_VERSION:
        return ok(f"FATE-Flow {site.version} answers at {site.address}.")
    if site.state == ANSWERS and (site.version, site.modules_version) == (WRITTEN_BY_THE_SOURCES, FATE_VERSION):
        return ok(f"FATE-Flow {FATE_VERSION} answers at {site.address}; its fateflow.env says {site.version}.")
    if site.state == ANSWERS:
        return problem(
            f"FATE-Flow {site.version} answers at {site.address}, but FATE-DP is made for {FATE_VERSION}.",
            f"Install FATE-Flow {FATE_VERSION} there, and FATE {FATE_VERSION} with it.",
        )
    if site.state == REFUSES:
        return unseen(
            f"FATE-Flow at {site.address} refuses to answer: {site.reason}.",
            f"Run `flow init --ip {site.address.host} --port {site.address.port} --app-id ID --app-token TOKEN` with "
            "the credentials of its client authentication, then the doctor again.",
        )
    if site.state == FOREIGN:
        return problem(
            f"What answers at {site.address} is not FATE-Flow: {site.reason}.",
            f"{START}; if another program has the port, change it in service_conf.yaml.",
        )
    return problem(f"No FATE-Flow answers at {site.address}: {site.reason}.", f"{START}.")


@check(SITE, "service_conf.yaml")
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


@check(SITE, "ports")
def ports(site: FlowSite) -> Finding:
    """The server's ports are its own, and found by whichever of its addresses somebody comes."""
    if not site.is_here:
        return unseen(f"The ports of {site.address} are on another machine.", "Run the doctor there.")
    if site.address is None:
        return ok("No port is in use.")
    heard = {each.ip for each in site.listeners if site.runs and each.port == site.address.port}
    unheard = {ip for ip in site.addresses if not ip.startswith(LOOPBACK)} - heard
    if heard and unheard and not heard & EVERY_ADDRESS:
        return problem(
            f"{site.address.host} is also {' and '.join(sorted(unheard))}, but FATE-Flow listens at {' and '.join(heard)} "
            "only: a router that uses the other address is refused, and other parties with it.",
            "Set fateflow.host in service_conf.yaml to 0.0.0.0, as FATE-DP's container does by itself, or to the one address "
            "that the router uses, and start FATE-Flow again.",
        )
    if site.state in (ANSWERS, REFUSES) or not site.listeners:
        return ok(", ".join(f"{name} {port}" for name, port in site.ports().items()) + ".")
    taken = site.listeners[0]
    who = f"{taken.program} (process {taken.pid})" if taken.pid else "a program of another user"
    return problem(
        f"Port {taken.port}, meant for FATE-Flow, is taken by {who}.",
        f"End that program (`ss -ltnp 'sport = :{taken.port}'` shows it), or give FATE-Flow another port: "
        "`fate-dp up --port PORT`, or http_port and grpc_port in service_conf.yaml.",
    )


@check(SITE, "jobs")
def jobs(site: FlowSite) -> Finding:
    """Which jobs hold the server's cores: one whose processes died may hold them for good."""
    if site.jobs is None:
        return unseen("Which jobs hold cores is not known here.", THERE) if site.runs else ok("No FATE-Flow runs jobs.")
    told = f"{' '.join(map(str, site.jobs)) or 'No job is unfinished.'} {cores_in_use(site.jobs, site.settings)}"
    return warning(told, "Stop one that makes no progress with `fate-dp stop JOB`.") if site.jobs else ok(told)


@check(SITE, "reach")
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
    harm = (
        "fetch models, learn where tables are and change the state of tasks, because the pages /v2/worker/... never require "
        "a signature"
    )
    cure = (
        "Set fateflow.host to 127.0.0.1 in service_conf.yaml, start FATE-Flow again, and let other machines in "
        "only through a router that forwards /v2/partner and /v2/scheduler and nothing else"
    )
    if not site.settings:
        told = "who must authenticate cannot be seen" if not on else "authentication is on for clients at least"
        return warning(f"FATE-Flow listens on {beyond}, and {told}: whoever reaches the port can {harm}.", f"{cure}.")
    if len(on) < len(SWITCHES):
        harm = f"run jobs, {'' if 'clients' in on else 'read its settings, passwords among them, '}{harm}"
        cure = f"{cure}; set authentication.client and authentication.site to true as well"
    return warning(
        f"FATE-Flow listens on {beyond}, and authentication is on for {_listed(on)}: whoever reaches the "
        f"port can {harm}.",
        f"{cure}.",
    )


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


@check(SITE, "authentication")
def authentication(site: FlowSite) -> Finding:
    """FATE-Flow's authentication is on in a way that it can start with, and that keeps somebody out."""
    on = _switched_on(site)
    if not on:
        return ok("Authentication is off.") if site.settings else unseen_settings(site, "Whether authentication is on")
    if not site.runs and site.settings.get("party_id") == "":
        return problem(
            "Authentication is on but party_id is empty, so FATE-Flow ends while it starts.",
            "Set party_id in service_conf.yaml to this site's own, and take a new database: the first "
            "start has left half of its rights in the old one.",
        )
    if site.takes_the_known_key:
        return problem(
            "FATE-Flow accepts the administrator's key of its published source, so its authentication keeps nobody out.",
            "Set ADMIN_KEY in fate_flow/settings.py of the server to a secret of your own (`openssl rand -hex 16`), "
            "keep the file to its owner (`chmod 600`), and start FATE-Flow again.",
        )
    if not site.runs:
        return unseen(
            f"Authentication is on for {_listed(on)} in service_conf.yaml; whether FATE-Flow accepts the published "
            "administrator's key shows only while it runs.",
            "Run the doctor again when FATE-Flow runs.",
        )
    return ok(f"Authentication is on for {_listed(on)}{'' if site.settings else '; for sites it cannot be seen'}.")


@check(SITE, "client's token")
def client_token(site: FlowSite) -> Finding:
    """Whether `flow init` can keep an app's token for this user, and for nobody else."""
    if site.client is None or not site.client.is_file():
        return ok("No fate_client is here, so no token is kept.")
    status = site.client.stat()
    if client_settings(site.client).get("app_token") and status.st_mode & OTHERS:
        return problem(
            f"{site.client} holds the token of an app and has mode {stat.S_IMODE(status.st_mode):04o}, open to "
            "group or others.",
            f"Run `chmod 600 {site.client.resolve()}`, and give the app a new token if anybody else has an account here.",
        )
    if "clients" in _switched_on(site) and not os.access(site.client, os.W_OK):
        return warning(
            f"{site.client} belongs to user {status.st_uid}, so `flow init` of this user {os.geteuid()} fails.",
            f"Run `chown {os.geteuid()} {site.client.resolve()}` and `chmod 600` as the owner, or use an environment of "
            "your own.",
        )
    return ok(f"{site.client} holds no token that others may read.")


@check(SITE, "broker")
def broker(site: FlowSite) -> Finding:
    """The broker's port."""
    settings = _rabbitmq(site)
    if settings is None:
        return _no_broker(site)
    where = f"{settings.get('host')}:{settings.get('port')}"
    try:
        speaks = speaks_amqp(settings["host"], int(settings["port"]))
    except (OSError, KeyError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return problem(
            f"RabbitMQ does not answer at {where}: {reason}.",
            "Start it, and the tunnel to it where there is one (with docker, `docker compose up --detach`), or correct "
            "federation.rabbitmq.host and .port in service_conf.yaml.",
        )
    if not speaks:
        return problem(
            f"What answers at {where} does not speak AMQP 0-9-1, as RabbitMQ does.",
            "Correct federation.rabbitmq.port in service_conf.yaml (5672 unless configured; 15672 is mng_port).",
        )
    return ok(f"RabbitMQ answers at {where}.")


@check(SITE, "broker's user")
def broker_user(site: FlowSite) -> Finding:
    """The management interface, through which FATE makes queues, and FATE's user there."""
    settings = _rabbitmq(site)
    if settings is None:
        return _no_broker(site)
    where, user = f"{settings.get('host')}:{settings.get('mng_port')}", settings.get("user")
    try:
        tags = ask_broker(where, "whoami", user, settings.get("password"), PATIENCE_SECONDS)["tags"]
        tags = tags.split(",") if isinstance(tags, str) else tags
        if "administrator" in tags:
            return ok(f"RabbitMQ's management at {where} lets {user!r} in.")
        return problem(
            f"RabbitMQ's user {user!r} is not an administrator, but FATE makes virtual hosts.",
            f"Run `rabbitmqctl set_user_tags {user} administrator`.",
        )
    except urllib.error.HTTPError as error:
        if error.code == 401:
            return problem(
                f"RabbitMQ at {where} refuses user {user!r} with the password of service_conf.yaml.",
                f"Run `rabbitmqctl add_user {user} PASSWORD` or `change_password`, and write it to "
                "federation.rabbitmq.password.",
            )
        reason: object = f"HTTP status {error.code}"
    except urllib.error.URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
    except (OSError, ValueError, TypeError, KeyError, http.client.HTTPException) as error:
        reason = error
    return problem(
        f"RabbitMQ's management does not answer at {where}: {reason}.",
        "Run `rabbitmq-plugins enable rabbitmq_management`, or correct federation.rabbitmq.mng_port in "
        "service_conf.yaml.",
    )


@check(SITE, "broker's reach")
def broker_reach(site: FlowSite) -> Finding:
    """Whether messages leave this machine in clear: FATE's client speaks no TLS, so all that is not loopback does."""
    settings = _rabbitmq(site)
    if settings is None:
        return _no_broker(site)
    host, where = str(settings.get("host")), f"{settings.get('host')}:{settings.get('port')}"
    if host.startswith(LOOPBACK) or host == "localhost":
        ports = tuple(int(settings[name]) for name in ("port", "mng_port") if str(settings.get(name)).isdigit())
        found = listeners(ports) if site.is_here else ()
        where_else = sorted({f"{each.ip}:{each.port}" for each in found if not each.is_local})
        if not where_else:
            return ok(f"Messages go to {where}, which only this machine reaches.")
        where = " and ".join(where_else)
    elif (site.variables or {}).get(TUNNEL) == "on" and site.is_here and is_beside(host):
        return ok(f"Messages go to {where}, the tunnel of this party, which {TUNNEL} names and which is beside it.")
    own_password = settings.get("password") not in (None, "", *KNOWN_PASSWORDS)
    unguarded = "" if own_password else f" Its user {settings.get('user')!r} has no password of its own."
    return problem(
        f"RabbitMQ at {where} is reached over the network without TLS: anyone on the way can read every message and insert "
        f"others.{unguarded}",
        "Let it listen for TLS with certificates only, and set federation.rabbitmq.host to a tunnel on 127.0.0.1 "
        '(deploy/README.md, "TLS for the broker"; with docker, compose.tls.yaml).',
    )


def _no_broker(site: FlowSite) -> Finding:
    return ok("No broker is in use.") if site.settings else unseen_settings(site, "Whether a broker is in use")


def _rabbitmq(site: FlowSite) -> dict[str, Any] | None:
    """The broker's settings; None where parties talk otherwise."""
    if site.section("default_engines").get("federation") != "rabbitmq":
        return None
    return site.section("federation").get("rabbitmq") or {}


@check(SITE, "fence")
def fence(site: FlowSite) -> Finding:
    """What Python runs first in the server, and in each provider's tasks, whose folder comes before the server's."""
    if site.variables is None:
        return unseen("Whether tasks read other parties' messages through the fence cannot be seen here.", THERE)
    path = site.variables.get("PYTHONPATH", "")
    if not is_fenced(path):
        return problem(
            f"FATE-Flow is not fenced: {HARM}.",
            f"Start it with `fate-dp up`, or with this in its environment: `export PYTHONPATH={OURS}:$PYTHONPATH`.",
        )
    for provider in site.providers or ():
        if not is_fenced(os.pathsep.join(filter(None, (provider.path, path)))):
            return problem(
                f"The provider {provider.name} is not fenced, because {provider.path} has a {CUSTOMISATION} of its "
                f"own: {HARM}.",
                f"Move that file away, or run `fate-dp provider remove {provider.version}`.",
            )
    names = site.variables.get(rules.ALLOW, "").replace(",", " ").split()
    wrong = [sentence for sentence in map(rules.wrong_name, names) if sentence]
    if wrong:
        return problem(
            f"Tasks fail at the first name that the fence does not know: {wrong[0]}",
            f"Correct {rules.ALLOW} in FATE-Flow's environment and start it again.",
        )
    if names:
        return warning(
            f"Other parties may also send {', '.join(names)}, which this server's {rules.ALLOW} lets in.",
            "Keep only classes that do no harm whatever a peer puts into their fields.",
        )
    return ok("Tasks read other parties' messages through the fence, which runs nothing in them.")


@check(SITE, "text")
def text(site: FlowSite) -> Finding:
    """In which encoding the server reads tables that are uploaded past `fate-dp upload`, and names of columns."""
    if site.variables is None:
        return unseen("The encoding in which FATE-Flow reads tables cannot be seen here.", THERE)
    name = next((value for word in LOCALE_WORDS if (value := site.variables.get(word))), "C")
    utf8 = (
        "UTF-8" in locale.normalize(name).upper() or name in ("C", "POSIX") and site.variables.get("PYTHONUTF8") != "0"
    )
    if utf8 or site.variables.get("PYTHONUTF8") == "1":
        return ok("FATE-Flow reads tables as UTF-8.")
    return problem(
        f"FATE-Flow reads tables in the encoding of its locale, {name}: ids and names of columns in other letters are garbled, "
        "join with nobody, and count as new records.",
        "Start it again with `fate-dp up`, or with this in its environment: `export PYTHONUTF8=1`.",
    )


@check(SITE, "parameters")
def parameters(site: FlowSite) -> Finding:
    """Whether the server looks at jobs before it takes them, which it was asked by a job that it must refuse."""
    if site.refuses_paths:
        return ok(
            "FATE-Flow refuses jobs that name code, files or addresses here, except its own and what policies allow."
        )
    if site.refuses_paths is None:
        return unseen(
            "Whether FATE-Flow checks what other parties' jobs name cannot be seen: it accepts no job from this client.",
            "The line on the fence says whether it was started with our folder; if so, it does.",
        )
    return problem(
        "FATE-Flow accepts jobs whose parameters name programs, files and addresses: every other party can run programs here.",
        f"Start it again with `fate-dp up`, or with this in its environment: `export PYTHONPATH={OURS}:$PYTHONPATH`.",
    )


def is_fenced(python_path: str) -> bool:
    """Whether the first customisation on a module path is ours."""
    folders = [Path(each) for each in python_path.split(os.pathsep) if each]
    first = next((each for each in folders if (each / CUSTOMISATION).is_file()), None)
    return first is not None and (first / RULES).is_file()


@check(WARM, "warm start")
def warm_start(found: WarmStart) -> Finding:
    """Whether tasks start from a fork server, and how many did; that they start cold costs time, and nothing else."""
    if found.trouble:
        return warning(found.sentence(), f"Run `chmod 700 {found.folder}`, as the user who runs FATE-Flow.")
    if not found.off and found.refusal:
        return warning(found.sentence(), f"Fix that, or choose `fate-dp up --cold`; {found.folder}/log says more.")
    return ok(found.sentence())


@check(PROVIDERS, "default provider")
def default_provider(site: FlowSite, own: Environment | None) -> Finding:
    """The environment of tasks that choose no provider."""
    if site.providers is None:
        return _not_told("Which environment tasks run in")
    provider = next((each for each in site.providers if each.name == site.default_provider), None)
    if provider is None:
        return problem(
            f"FATE-Flow has no provider {site.default_provider}, which would run tasks that choose none.",
            "Set default_provider in service_conf.yaml to one that `fate-dp provider list` shows.",
        )
    finding = holds_plugin(provider, own)
    ours = [
        each.name
        for each in site.providers
        if each.version.startswith(PLUGIN_PREFIX) and not holds_plugin(each, own).cure
    ]
    if finding.cure and ours:
        return warning(
            f"{finding.said} Only jobs that choose {ours[0]} find the components.",
            f'Choose it: `pipeline.conf.set("task", {{"provider": "{ours[0]}"}})`.',
        )
    return finding


@check(PROVIDERS, "providers of FATE-DP")
def plugin_providers(site: FlowSite, own: Environment | None) -> Finding:
    """The environments that `fate-dp provider register` made known."""
    if site.providers is None:
        return _not_told("Which providers are registered")
    ours = [each for each in site.providers if each.version.startswith(PLUGIN_PREFIX)]
    remarks = [finding for finding in (_registered(each, site, own) for each in ours) if finding.cure]
    if remarks:
        return min(remarks, key=lambda finding: MOST_URGENT_FIRST.index(finding.state))
    return ok(", ".join(each.name for each in ours) + "." if ours else "None is registered, and none is needed.")


@check(PROVIDERS, "broker's client")
def broker_client(site: FlowSite, own: Environment | None) -> Finding:
    """FATE-Flow starts and takes jobs without pika, which pip brings by an extra only; then every task of theirs fails."""
    if _rabbitmq(site) is None:
        return _no_broker(site)
    looked_into = [(each, each.environment) for each in site.providers or () if each.environment is not None]
    for provider, environment in looked_into:
        if environment.version(BROKER_CLIENT) is None:
            return problem(
                f"The provider {provider.name} lacks {BROKER_CLIENT}, without which its tasks cannot reach RabbitMQ.",
                f"Run {environment.pip_install(BROKER_CLIENT)}.",
            )
    if not looked_into:
        return _not_told(f"Whether tasks have {BROKER_CLIENT}, with which they reach RabbitMQ,")
    return ok(f"Tasks have {BROKER_CLIENT}, with which they reach RabbitMQ.")


def _not_told(what: str) -> Finding:
    return unseen(f"{what} cannot be seen while FATE-Flow does not say.", "Fix the line about FATE-Flow first.")


def _registered(provider: Provider, site: FlowSite, own: Environment | None) -> Finding:
    """One of another version harms nobody who does not choose it: an upgrade leaves the old one beside the new one."""
    other = _other_version(provider, own)
    if provider.name == site.default_provider or not other:
        return holds_plugin(provider, own)
    return warning(
        other, f"Run `fate-dp provider remove {provider.version}` when no job of any party chooses it any longer."
    )


def _other_version(provider: Provider, own: Environment | None) -> str:
    """A sentence where the provider has another version of FATE-DP than is installed here; else empty."""
    there, here = provider.environment and provider.environment.plugin, own and own.plugin
    if not there or not here or there.version == here.version:
        return ""
    return f"The provider {provider.name} has FATE-DP {there.version}, but {here.version} is installed here."


def holds_plugin(provider: Provider, own: Environment | None) -> Finding:
    """The provider's files are there, and FATE-DP among them, in the version that is installed here."""
    again = (
        "run `fate-dp provider register --python PYTHON` with one that is there, or "
        f"`fate-dp provider remove {provider.version}`."
    )
    if provider.trouble:
        return problem(f"The provider {provider.name} cannot run: {provider.trouble}.", f"Bring it back, or {again}")
    environment = provider.environment
    if environment is None:
        return unseen(
            f"The provider {provider.name} was not examined: {provider.unseen}.",
            "Run the doctor where it is, as the user who runs FATE-Flow.",
        )
    if environment.plugin is None:
        return problem(
            f"The provider {provider.name} has no FATE-DP in {provider.python}.",
            f"Run {environment.install_plugin()}, or register one that has: `fate-dp provider register`.",
        )
    other = _other_version(provider, own)
    if other and own is not None and own.plugin is not None:
        return problem(other, f"Run {environment.install_plugin()}, of version {own.plugin.version}.")
    troubles = [each for each in run_checks(ENVIRONMENT, environment) if each.state == PROBLEM]
    if troubles:
        return problem(f"The provider {provider.name} cannot run the components. {troubles[0].said}", troubles[0].cure)
    return ok(f"{provider.name} has FATE-DP {environment.plugin.version} in {provider.python}.")


# What can be seen of another party's site.
#
# FATE-Flow has no question that tells which packages a peer's tasks have. What a peer's FATE-Flow tells a client, where
# its port is reachable and its client authentication off, is its own version and the names of its providers; those that
# `fate-dp provider register` made carry the version of FATE-DP in their name.

OPERATORS_WORD = "its operator to run `fate-dp doctor` there and compare the line `FATE-DP`"


@check(PEER, "peer")
def peer_answers(address: FlowAddress, own: Environment | None) -> Finding:
    found = state_of(address)
    if found.state == SILENT:
        said = f"No FATE-Flow answers at {address}: {found.reason}."
        if is_here(address.host):
            return problem(
                said,
                "Have it started, or correct --peer; where parties reach each other through a router only, leave "
                "--peer out.",
            )
        if not addresses_of(address.host, socket.AF_UNSPEC):
            return problem(said, f"Correct the name {address.host} of --peer, or make it known to this machine.")
        # A port that is closed to other machines is as it should be, and looks as a server that is down does.
        return unseen(
            said,
            "Compare --peer with the host and port that its operator names. Where its FATE-Flow is reached through a "
            f"router only, as is best, ask {OPERATORS_WORD}; else have it started, or its port opened to this machine.",
        )
    if found.state == FOREIGN:
        return problem(f"What answers at {address} is not FATE-Flow: {found.reason}.", "Correct the port of --peer.")
    if found.state == ANSWERS and found.version != FATE_VERSION:
        return problem(
            f"FATE-Flow {found.version} answers at {address}, but this site needs {FATE_VERSION}.",
            f"Have FATE {FATE_VERSION} installed there.",
        )
    return ok(
        f"FATE-Flow {found.version} answers at {address}."
        if found.state == ANSWERS
        else f"FATE-Flow answers at {address}, but gives details only to clients that it knows."
    )


@check(PEER, "peer's FATE-DP")
def peer_plugin(address: FlowAddress, own: Environment | None) -> Finding:
    """The peer's version of FATE-DP, where a provider's name tells it."""
    rows = answer_of(address, "provider/query?name=fate", credentials_for(address))
    names = sorted(row["version"] for row in rows or [] if row["version"].startswith(PLUGIN_PREFIX))
    versions = {name: version for name in names if (version := _version(name.removeprefix(PLUGIN_PREFIX)))}
    if not versions:
        return unseen(
            f"Which FATE-DP the tasks of {address} have cannot be seen: FATE-Flow lists no packages, and no provider there "
            "names its version.",
            f"Ask {OPERATORS_WORD}.",
        )
    if own is not None and own.plugin is not None and _version(own.plugin.version) not in versions.values():
        return problem(
            f"The peer at {address} has registered {', '.join(versions)}, but FATE-DP here is {own.plugin.version}.",
            "Install one version at all parties, and register it where it is a provider (`fate-dp provider register`).",
        )
    return ok(
        f"The peer at {address} has registered {', '.join(versions)}; what its jobs use without a provider cannot be seen."
    )


def _version(text: str) -> Version | None:
    """The version that a text is; None where it is none, as in FATE's own provider or one that somebody named."""
    try:
        return Version(text)
    except InvalidVersion:
        return None
