"""Who takes part in a task, read from FATE's context."""


def roles(ctx) -> list:
    """Role of every party of the task, e.g. ["guest", "host", "arbiter"]."""
    return [role for role, _ in ctx.federation.parties]


def others(ctx) -> list:
    """All parties of the task but this one."""
    return [party for party in ctx.parties if party.rank != ctx.rank]


def data_peers(ctx) -> list:
    """The other parties that hold rows: guest and hosts."""
    return [party for party in others(ctx) if party.role != "arbiter"]


def party_name(ctx) -> str:
    role, party_id = ctx.federation.local_party
    return f"{role} {party_id}"


def check_roles(ctx, *, arbiter: bool) -> None:
    """Refuse a task without exactly one guest, at least one host and, where asked, exactly one arbiter.

    Every party sees the same list, so every party raises the same sentence without a message.
    """
    present = roles(ctx)
    if present.count("guest") != 1:
        raise ValueError(f"The job names {present.count('guest')} guests; exactly one party holds the labels.")
    if "host" not in present:
        raise ValueError("The job names no host; at least one host with features is needed.")
    if arbiter and present.count("arbiter") != 1:
        raise ValueError(f"The job names {present.count('arbiter')} arbiters; dp_hetero_lr needs exactly one.")
