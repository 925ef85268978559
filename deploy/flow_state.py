"""What is at an address: a FATE-Flow that answers, one that asks who is there, nothing, or something else."""
from __future__ import annotations

from dataclasses import dataclass

from .flow_address import FlowAddress
from .flow_credentials import credentials_for
from .flow_requests import Answer, FlowSilent, NotFateFlow, ask

ANSWERS, REFUSES, SILENT, FOREIGN = "answers", "refuses", "silent", "foreign"


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
    return FlowState(ANSWERS, version=version) if version else FlowState(REFUSES, answer.message)


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
