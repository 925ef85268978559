"""Where service_conf.yaml names RabbitMQ as the transport between parties: does it answer, and let FATE in?"""
from __future__ import annotations

import base64
import json
import socket
import urllib.error
import urllib.request

from .finding import Finding, ok, problem
from .flow_site import FlowSite
from .unseen_settings import unseen_settings

PATIENCE_SECONDS = 3.0
# AMQP 0-9-1: the client's greeting, and how the answer of a broker that speaks it begins (a method frame on channel 0).
GREETING, FIRST_FRAME = b"AMQP\x00\x00\x09\x01", b"\x01\x00\x00"


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
    except (OSError, ValueError, TypeError, KeyError) as error:
        return _no_management(where, error)
    if "administrator" not in tags:
        return problem(f"RabbitMQ's user {user!r} is no administrator, but FATE makes virtual hosts.",
                       f"Run `rabbitmqctl set_user_tags {user} administrator`.")  # fmt: skip
    return ok(f"RabbitMQ's management at {where} lets {user!r} in.")


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
