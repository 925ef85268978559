"""Whether the FATE-Flow of this container answers: exit status 0 or 1."""

from __future__ import annotations

import os
import socket
import sys

from ..flow.client import FlowAddress
from ..flow.server import state_of
from .configure import FLOW_HTTP


def main() -> int:
    host = os.environ.get("FATE_DP_HOST") or socket.gethostname()
    return 0 if state_of(FlowAddress(host, FLOW_HTTP)).runs else 1


if __name__ == "__main__":
    sys.exit(main())
