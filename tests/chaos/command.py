"""`python -m tests.chaos.command WORDS`: the command fate-dp, whose servers get the preloaded clock of this process, too.

Of its own accord a server inherits no LD_PRELOAD.
"""

from __future__ import annotations

import os
import sys

from fate_dp.deploy.flow import server
from fate_dp.deploy.flow.home import FlowHome
from fate_dp.pipelines.cli.main import main

of_product = server.server_environment


def with_clock(home: FlowHome) -> dict[str, str]:
    return {**of_product(home), "LD_PRELOAD": os.environ.get("LD_PRELOAD", "")}


if __name__ == "__main__":
    server.server_environment = with_clock
    sys.exit(main(sys.argv[1:]))
