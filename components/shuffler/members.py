"""Who plays what: guest and hosts with data answer, one host without data shuffles, the arbiter is the server."""
from dataclasses import dataclass

from fate_dp.components.common.parties import roles


@dataclass(frozen=True)
class Members:
    """Pairs of role and party id of one task."""

    clients: tuple
    shuffler: tuple
    server: tuple

    @classmethod
    def of(cls, ctx, shuffler: str) -> "Members":
        """Raises ValueError, one sentence, where ``shuffler`` is no host or leaves no other host with data."""
        parties = [tuple(party) for party in ctx.federation.parties]
        hosts = [party_id for role, party_id in parties if role == "host"]
        if shuffler not in hosts:
            raise ValueError(f"shuffler is {shuffler!r}; it must be the party id of a host, one of {', '.join(hosts)}.")
        chosen = ("host", shuffler)
        clients = tuple(sorted(party for party in parties if party != chosen and party[0] != "arbiter"))
        if len(clients) < 2:
            raise ValueError(
                "The job names no host beside the shuffler; records of one party hide among those of others."
            )
        return cls(clients, chosen, next(party for party in parties if party[0] == "arbiter"))


def check_members(ctx) -> None:
    """Every party sees the same list, so every party raises the same sentence without a message."""
    present = roles(ctx)
    for role in ("guest", "arbiter"):
        if present.count(role) != 1:
            raise ValueError(f"The job names {present.count(role)} {role}s; shuffler needs exactly one.")
    if "host" not in present:
        raise ValueError("The job names no host; shuffler needs a host without data that shuffles, and one with data.")


def is_me(ctx, member) -> bool:
    return tuple(ctx.federation.local_party) == member


def party_of(ctx, member):
    """The party of a context, for messages under its name."""
    return next(party for party in ctx.parties if tuple(party.party) == member)
