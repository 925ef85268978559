"""Whether this container's FATE-Flow answers and, where it has one, its broker: exit status 0 or 1.

With the argument ``server`` FATE-Flow alone is asked: a new start would bring no broker back.
"""

import os
import socket
import sys

from ..flow.client import FlowAddress, speaks_amqp
from ..flow.server import state_of
from .configure import BROKER, FLOW_HTTP


def main(arguments: list[str]) -> int:
    host = os.environ.get("FATE_DP_HOST") or socket.gethostname()
    found = state_of(FlowAddress(host, FLOW_HTTP))
    if not found.runs:
        print(f"FATE-Flow does not answer at {host}:{FLOW_HTTP}: {found.reason}.")
        return 1
    broker = os.environ.get("FATE_DP_BROKER")
    if "server" in arguments or not broker:
        return 0
    try:
        speaks = speaks_amqp(broker, BROKER)
    except OSError as error:
        print(f"The broker does not answer at {broker}:{BROKER}: {error.strerror or error}.")
        return 1
    if not speaks:
        print(f"What answers at {broker}:{BROKER} is not a broker.")
    return 0 if speaks else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
