"""Checks before anything is computed: the same request at all parties, tables that fit, a shuffler without data."""
from fate_dp.components.common.frame_checks import require_distinct_ids
from fate_dp.components.common.preflight import PrivateReason, agree

from .account import calibrated_epsilon0, epsilon_of
from .members import Members, check_members, is_me
from .settings import Settings

# Relative: two machines may round differently.
LAST_BITS = 1e-9


def agree_on_terms(ctx, settings: Settings, frame) -> dict:
    """{settings, epsilon0, epsilon}, in builtins, the same at every party; raises at every party."""
    check_members(ctx)

    def check():
        members = Members.of(ctx, settings.shuffler)
        if is_me(ctx, members.shuffler):
            refuse_data(frame)
        elif not ctx.is_on_arbiter:
            check_table(frame, settings.requests)
        return {"asked": settings.to_json()}

    def commit(hosts):
        for name, facts in hosts.items():
            _require_equal(name, facts["asked"], settings.to_json())
        return {"settings": settings.to_json(), **_epsilons(settings)}

    return agree(ctx, check, commit)


def refuse_data(frame) -> None:
    """Its own messages would be among those that it shuffles, and hide nobody from it."""
    if frame is not None:
        raise ValueError("The shuffler was given a table; name a host that brings no data, and keep its reader out.")


def check_table(frame, requests) -> None:
    """Rows with ids of their own, and a numeric column for every request. Values are not looked at: those outside the
    declared range are clamped, so that no record decides whether the job goes on."""
    if frame is None or frame.shape[0] == 0:
        raise ValueError("The party has no rows; every party but the shuffler and the arbiter answers for its records.")
    if frame.schema.weight_name is not None:
        name = frame.schema.weight_name
        raise ValueError(f"The table has the weight column {name!r}; sample weights are not supported.")
    columns, manager = frame.schema.columns.to_list(), frame.data_manager
    for name in dict.fromkeys(request.column for request in requests):
        if name not in columns:
            raise PrivateReason(
                f"requests has the column {name!r}, which is not among the table's feature columns.",
                public="A column of requests is no feature column there; that party's operator can see which.",
            )
        if not manager.get_block(manager.loc_block(name, with_offset=False)).is_numeric():
            raise PrivateReason(
                f"requests has the column {name!r}, which is not numeric.",
                public="A column of requests is not numeric there; that party's operator can see which.",
            )
    require_distinct_ids(frame)


def check_promise(terms: dict) -> None:
    """At a client: the guest's epsilon0 and epsilon must keep what was agreed on, computed anew from public numbers."""
    settings, epsilon0 = Settings.from_json(terms["settings"]), terms["epsilon0"]
    if settings.epsilon0 is not None and epsilon0 != settings.epsilon0:
        raise ValueError(f"The guest sets epsilon0 to {epsilon0!r}; the job says {settings.epsilon0!r}.")
    reached = epsilon_of(settings.requests, epsilon0, settings.least_messages, settings.delta)
    allowed = terms["epsilon"] if settings.epsilon is None else min(settings.epsilon, terms["epsilon"])
    if reached > allowed * (1 + LAST_BITS):
        raise ValueError(f"The guest sets epsilon0 to {epsilon0!r}, which costs epsilon {reached:g}, not {allowed:g}.")


def _require_equal(name, theirs, own):
    differing = next((field for field in own if theirs.get(field) != own[field]), None)
    if differing is not None:
        raise ValueError(
            f"{differing} is {theirs.get(differing)!r} at {name} and {own[differing]!r} at the guest; all parties must "
            "ask for the same, since only messages of one kind hide each other."
        )


def _epsilons(settings):
    epsilon0, messages = settings.epsilon0, settings.least_messages
    if epsilon0 is None:
        epsilon0 = calibrated_epsilon0(settings.requests, settings.epsilon, settings.delta, messages)
    return {"epsilon0": epsilon0, "epsilon": epsilon_of(settings.requests, epsilon0, messages, settings.delta)}
