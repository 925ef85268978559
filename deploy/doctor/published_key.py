"""Does a FATE-Flow let in the administrator whose key everybody can read in its published source?"""
from __future__ import annotations

from fate_dp.deploy.flow_address import FlowAddress
from fate_dp.deploy.flow_credentials import Credentials
from fate_dp.deploy.flow_requests import Answer, FlowSilent, NotFateFlow, ask
from fate_dp.deploy.flow_state import ANSWERS, REFUSES

# As in the settings.py that FATE-Flow 2.2 is published with.
ADMINISTRATOR = ("admin", "fate_flow_admin")
# A command between sites: FATE-Flow asks for the signature first, then for the fields, without which it does nothing.
SITE_COMMAND, WITHOUT_FIELDS = "scheduler/task/report", Answer(5001, "Invalid request.")


class SiteCredentials(Credentials):
    """Between sites, the signature covers the party that begins the job; FATE-Flow fails where it is not sent."""

    def headers(self) -> dict[str, str]:
        return {**super().headers(), "initiatorPartyId": ""}


def takes_published_key(address: FlowAddress, state: str, authentication: dict) -> bool:
    """Whether authentication is on, but the published key passes it; `authentication` is that part of the settings."""
    try:
        if state == REFUSES or (state == ANSWERS and authentication.get("client")):
            answer = ask(address, "server/fateflow", credentials=Credentials(*ADMINISTRATOR))
            return answer.code == 0 and bool(answer.data)
        if state == ANSWERS and authentication.get("site"):
            answer = ask(address, SITE_COMMAND, {}, SiteCredentials(*ADMINISTRATOR))
            return (answer.code, answer.message) == (WITHOUT_FIELDS.code, WITHOUT_FIELDS.message)
    except (FlowSilent, NotFateFlow):
        pass
    return False
