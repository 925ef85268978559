"""Where service_conf.yaml names RabbitMQ as the transport between parties: does it answer, and let FATE in?"""
from __future__ import annotations

import base64
import http.client
import json
import socket
import urllib.error
import urllib.request

from .finding import Finding, ok, problem
from .flow_site import FlowSite
from .this_machine import LOOPBACK, listeners
from .unseen_settings import unseen_settings

PATIENCE_SECONDS = 3.0
# AMQP 0-9-1: the client's greeting, and how the answer of a broker that speaks it begins (a method frame on channel 0).
GREETING, FIRST_FRAME = b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00"
# RabbitMQ's own, and what FATE's examples have.
KNOWN_PASSWORDS = ("guest", "fate")


def broker(site: FlowSite) -> Finding:
    """The broker's port."""
    settings = _rabbitmq(site)
    if settings is None:
        return _no_broker(site)
    where = f"{settings.get('host')}:{settings.get('port')}"
    try:
        with socket.create_connection((settings["host"], int(settings["port"])), PATIENCE_SECONDS) as connection:
            connection.settimeout(PATIENCE_SECONDS)
            connection.sendall(GREETING)
            first = connection.recv(len(FIRST_FRAME))
    except (OSError, KeyError, TypeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return problem(f"RabbitMQ does not answer at {where}: {reason}.",
                       "Start it, or correct federation.rabbitmq.host and .port in service_conf.yaml.")  # fmt: skip
    if first != FIRST_FRAME:
        return problem(f"What answers at {where} does not speak AMQP 0-9-1, as RabbitMQ does.",
                       "Correct federation.rabbitmq.port in service_conf.yaml (5672 unless configured; 15672 is "
                       "mng_port).")
    return ok(f"RabbitMQ answers at {where}.")


def broker_user(site: FlowSite) -> Finding:
    """The management interface, through which FATE makes queues, and FATE's user there."""
    settings = _rabbitmq(site)
    if settings is None:
        return _no_broker(site)
    where, user = f"{settings.get('host')}:{settings.get('mng_port')}", settings.get("user")
    try:
        tags = _tags_of(where, user, settings.get("password"))
    except urllib.error.HTTPError as error:
        if error.code == 401:
            return problem(f"RabbitMQ at {where} refuses user {user!r} with the password of service_conf.yaml.",
                           f"Run `rabbitmqctl add_user {user} PASSWORD` or `change_password`, and write it to "
                           "federation.rabbitmq.password.")  # fmt: skip
        return _no_management(where, f"HTTP status {error.code}")
    except urllib.error.URLError as error:
        return _no_management(where, getattr(error.reason, "strerror", None) or error.reason)
    except (OSError, ValueError, TypeError, KeyError, http.client.HTTPException) as error:
        return _no_management(where, error)
    if "administrator" not in tags:
        return problem(f"RabbitMQ's user {user!r} is no administrator, but FATE makes virtual hosts.",
                       f"Run `rabbitmqctl set_user_tags {user} administrator`.")  # fmt: skip
    return ok(f"RabbitMQ's management at {where} lets {user!r} in.")


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
    own_password = settings.get("password") not in (None, "", *KNOWN_PASSWORDS)
    unguarded = "" if own_password else f" Its user {settings.get('user')!r} has no password of its own."
    return problem(
        f"RabbitMQ at {where} is reached over the network without TLS: who is on the way reads every message, and can "
        f"put in others.{unguarded}",
        "Let it listen for TLS with certificates only, and set federation.rabbitmq.host to a tunnel on 127.0.0.1 "
        "(deploy/README.md, \"TLS for the broker\"; with docker, compose.tls.yaml).",
    )


def _no_broker(site: FlowSite) -> Finding:
    return ok("No broker is in use.") if site.settings else unseen_settings(site, "Whether a broker is in use")


def _no_management(where: str, reason) -> Finding:
    return problem(f"RabbitMQ's management does not answer at {where}: {reason}.",
                   "Run `rabbitmq-plugins enable rabbitmq_management`, or correct federation.rabbitmq.mng_port in "
                   "service_conf.yaml.")  # fmt: skip


def _tags_of(where: str, user, password) -> list:
    """The roles of a user, as RabbitMQ's management names them."""
    login = base64.b64encode(f"{user}:{password}".encode()).decode()
    request = urllib.request.Request(f"http://{where}/api/whoami", headers={"Authorization": f"Basic {login}"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=PATIENCE_SECONDS) as response:
        tags = json.load(response)["tags"]
    return tags.split(",") if isinstance(tags, str) else tags


def _rabbitmq(site: FlowSite) -> dict | None:
    """The broker's settings; None where parties talk otherwise."""
    if site.section("default_engines").get("federation") != "rabbitmq":
        return None
    return site.section("federation").get("rabbitmq") or {}
