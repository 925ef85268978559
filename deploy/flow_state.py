"""What is at an address: a FATE-Flow that answers, one that asks who is there, nothing, or something else."""
from __future__ import annotations

from dataclasses import dataclass

from .flow_address import FlowAddress
from .flow_credentials import credentials_for
from .flow_requests import Answer, FlowSilent, NotFateFlow, ask

ANSWERS, REFUSES, SILENT, FOREIGN = "answers", "refuses", "silent", "foreign"
# FATE-Flow's codes for an app that is unknown, a signature that is wrong, an app without rights, and no permission.
REFUSED_CLIENT = (5002, 5003, 5004, 5005)
EXPIRED = 5000


@dataclass(frozen=True)
class FlowState:
    """One of the four, why, and the version that FATE-Flow tells clients that it knows."""

    state: str
    reason: str = ""
    version: str | None = None

    @property
    def runs(self) -> bool:
        """Whether a FATE-Flow is there, be it one with client authentication that does not know this client."""
        return self.state in (ANSWERS, REFUSES)


def state_of(address: FlowAddress) -> FlowState:
    """Ask what is at `address`, with the credentials of `flow init` where they are for it."""
    try:
        answer = ask(address, "server/fateflow", credentials=credentials_for(address))
    except FlowSilent as silence:
        return FlowState(SILENT, str(silence))
    except NotFateFlow as other:
        return FlowState(FOREIGN, str(other))
    version = version_in(answer)
    if version:
        return FlowState(ANSWERS, version=version)
    if refuses_client(answer):
        return FlowState(REFUSES, refusal_in(answer))
    return FlowState(SILENT, f"it has an error of its own, {answer.code}: {answer.message}")


def refuses_client(answer: Answer) -> bool:
    """Whether an answer says no more than that FATE-Flow does not know who asks."""
    return answer.code in (*REFUSED_CLIENT, EXPIRED) or "appId" in answer.message


def refusal_in(answer: Answer) -> str:
    """Why FATE-Flow refuses a client."""
    if answer.code == EXPIRED:
        return f"{answer.message}: its clock and that of this machine differ by over a minute"
    return answer.message


def version_in(answer: Answer) -> str | None:
    """The version of FATE-Flow in its answer about itself."""
    servers = answer.data if isinstance(answer.data, dict) else {}
    return next((each.get("version") for each in servers.values() if isinstance(each, dict)), None)


def unknown_client(address: FlowAddress, reason: str) -> str:
    """What to do where FATE-Flow asks for a signature that it knows."""
    return (
        f"FATE-Flow at {address} knows its clients and refuses this one ({reason}); run `flow init --ip {address.host} "
        f"--port {address.port} --app-id ID --app-token TOKEN` with an app's credentials."
    )
