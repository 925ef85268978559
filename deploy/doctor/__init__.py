"""What `fate-dp doctor` looks at: an installation, the parties' folders, the FATE-Flow server, and its peers.

First everything is gathered (`gathering`), then each check of `own_checks` and `flow_checks`, a function of what was
gathered, returns one finding: what is the case, and what to do where it should not be.
`examination` runs all of them.
"""
