"""Who takes part in a task, read from FATE's context."""


def roles(ctx) -> list:
    """Role of every party of the task, e.g. ["guest", "host", "arbiter"]."""
    return [role for role, _ in ctx.federation.parties]


def others(ctx) -> list:
    """All parties of the task but this one."""
    return [party for party in ctx.parties if party.rank != ctx.rank]


def data_parties(ctx) -> list:
    """(role, party id) of all parties that hold rows, this one among them, the guest first."""
    return sorted((party for party in ctx.federation.parties if party[0] != "arbiter"), key=lambda party: party[0] != "guest")


def data_peers(ctx) -> list:
    """The other parties that hold rows: guest and hosts."""
    return [party for party in others(ctx) if party.role != "arbiter"]


def party_name(ctx) -> str:
    role, party_id = ctx.federation.local_party
    return f"{role} {party_id}"


def check_roles(ctx, *, arbiter: bool) -> None:
    """Refuse a task without exactly one guest, at least one host and at most one arbiter; where asked, exactly one.

    Every party sees the same list, so every party raises the same sentence without a message.
    """
    present = roles(ctx)
    if present.count("guest") != 1:
        raise ValueError(f"The job names {present.count('guest')} guests; exactly one party holds the labels.")
    if "host" not in present:
        raise ValueError("The job names no host; at least one host with features is needed.")
    arbiters = present.count("arbiter")
    if arbiters > 1 or (arbiter and not arbiters):
        wanted = "exactly one" if arbiter else "at most one"
        raise ValueError(f"The job names {arbiters} arbiters; this task needs {wanted}.")
