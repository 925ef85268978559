"""Free TCP ports on the loopback interface."""
from __future__ import annotations

import random
import socket

from .flow_server_error import FlowServerError

HOST = "127.0.0.1"
LOWEST, HIGHEST = 1024, 65535
# Below Linux's range for outgoing connections (32768 and up): a port that was free stays free.
CHOSEN_FROM = range(20000, 32000)


def is_free(port: int) -> bool:
    """Whether a server could listen on `port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port(besides: tuple[int, ...] = ()) -> int:
    """A free port, drawn at random so that two servers that start together do not meet."""
    for port in random.sample(CHOSEN_FROM, 1000):
        if port not in besides and is_free(port):
            return port
    raise FlowServerError(
        f"No free port was found on {HOST} between {CHOSEN_FROM.start} and {CHOSEN_FROM.stop - 1}; "
        "stop a program that listens there or name a free one with --port."
    )


def check_requested_port(port: int) -> None:
    """Refuse a port that a user asked for and that cannot be had."""
    if not LOWEST <= port <= HIGHEST:
        raise FlowServerError(f"Port {port} is not allowed; choose one from {LOWEST} to {HIGHEST}.")
    if not is_free(port):
        raise FlowServerError(
            f"Port {port} on {HOST} is taken by another program; pass a free one with --port, "
            "or leave --port out to have one chosen."
        )
