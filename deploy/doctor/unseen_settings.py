"""What is said of a setting of FATE-Flow where neither the server nor its service_conf.yaml tells it."""
from __future__ import annotations

from fate_dp.deploy.flow_state import ANSWERS

from .finding import Finding, unseen
from .flow_site import FlowSite


def unseen_settings(site: FlowSite, what: str) -> Finding:
    """`what` cannot be seen; how its settings come to light depends on whether the server answers."""
    named = "with --home naming the folder that holds its conf/service_conf.yaml"
    if site.state == ANSWERS:
        return unseen(f"{what} cannot be seen: FATE-Flow does not tell its settings.",
                      f"Run the doctor on the server's machine, {named}.")  # fmt: skip
    return unseen(f"{what} cannot be seen: the settings of FATE-Flow are not known here.",
                  f"Mend the line about FATE-Flow first, or run the doctor on the server's machine, {named}.")
