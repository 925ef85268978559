#!/data/projects/fate/env/python/venv/bin/python
"""The client of FATE-Flow, as pip makes it a command."""

import sys

from fate_client.flow_cli.flow import flow_cli

sys.exit(flow_cli())
