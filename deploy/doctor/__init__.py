"""What `fate-dp doctor` looks at: an installation, the parties' folders, the FATE-Flow server, and its peers.

First everything is gathered (`environment`, `flow_site`), then each check, a function of what was gathered, returns one
finding: what is the case, and what to do where it should not be. `examination` has the list of all checks.
"""
