"""Who takes part in a task, read from FATE's context: who holds data, who shuffles, who is the arbiter."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from fate.arch.dataframe import DataFrame

PartyId = tuple[str, str]
"""(role, party id)."""
Document = dict[str, Any]
"""Facts, terms or a model, under names: plain values, such as a JSON document and a message can hold."""
Item = TypeVar("Item")


class Party(Protocol):
    """One party of a context, to exchange messages with under a name."""

    party: PartyId
    role: str
    name: str
    rank: int

    def put(self, name: str, value: object) -> None: ...
    def get(self, name: str) -> Any: ...


class Parties(Protocol):
    """Several parties: a message to all of them, or one from each."""

    def __iter__(self) -> Iterator[Party]: ...
    def __getitem__(self, place: int) -> Party: ...
    def put(self, name: str, value: object) -> None: ...
    def get(self, name: str) -> list[Any]: ...


class Job(Protocol):
    """FATE's federation: all parties of the task, this one, and the name of this run of it."""

    parties: list[PartyId]
    local_party: PartyId
    session_id: str


class Repeated(Protocol):
    """Contexts of the steps of a loop, each with messages of its own."""

    def ctxs_range(self, steps: int) -> Iterator[tuple[int, Context]]: ...
    def ctxs_zip(self, items: Iterable[Item]) -> Iterator[tuple[Context, Item]]: ...


class Metrics(Protocol):
    """Where a task shows figures to FATE-Board."""

    handler: Any

    def log_loss(self, name: str, loss: float, step: int | None = None) -> None: ...
    def log_metrics(self, metrics: object, name: str, type: str | None = None) -> None: ...


class Context(Repeated, Protocol):
    """What we use of FATE's context, which one of our plain messages has as well."""

    rank: int
    local: Any
    federation: Job
    computing: Any
    parties: Parties
    guest: Party
    hosts: Parties
    arbiter: Party
    is_on_guest: bool
    is_on_arbiter: bool
    metrics: Metrics
    on_iterations: Repeated
    on_batches: Repeated
    on_cross_validations: Repeated

    def sub_ctx(self, name: str) -> Context: ...


class TableInput(Protocol):
    """A table that a task is given."""

    def read(self) -> DataFrame: ...


class TableOutput(Protocol):
    """Where a task's table goes."""

    def write(self, df: DataFrame) -> None: ...


class ModelOutput(Protocol):
    """Where a task's model goes, a document that is JSON."""

    def write(self, data: Document, metadata: Document) -> None: ...


@dataclass(frozen=True)
class Federation:
    """Who plays what in a task.

    ``hosts`` are those with data, in order; ``arbiter`` is the server of horizontal training, ``shuffler`` a host without data.
    """

    guest: PartyId
    hosts: tuple[PartyId, ...]
    arbiter: PartyId | None = None
    shuffler: PartyId | None = None

    @classmethod
    def of(cls, parties: Iterable[PartyId], shuffler: str | None = None) -> Federation:
        """The roles of a task whose numbers of parties `require` has checked; ``shuffler`` is the party id of a host, if any."""
        parties = sorted((role, number) for role, number in parties)
        hosts = [party for party in parties if party[0] == "host"]
        return cls(
            guest=next(party for party in parties if party[0] == "guest"),
            hosts=tuple(party for party in hosts if party[1] != shuffler),
            arbiter=next((party for party in parties if party[0] == "arbiter"), None),
            shuffler=next((party for party in hosts if party[1] == shuffler), None),
        )

    @property
    def data(self) -> tuple[PartyId, ...]:
        """The parties with data, the guest first; the same at every party."""
        return (self.guest, *self.hosts)

    @property
    def server(self) -> PartyId:
        """The arbiter of a task that needs one."""
        assert self.arbiter is not None, "The task's roles were not checked."
        return self.arbiter

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parties with data, in order."""
        return tuple(map(name_of, self.data))

    @property
    def ids(self) -> tuple[str, ...]:
        """Party ids of the parties with data, in order."""
        return tuple(number for _, number in self.data)

    def named(self, names: Collection[str]) -> list[PartyId]:
        """The parties with data of these names, in order."""
        return [party for party in self.data if name_of(party) in names]


def require(parties: Iterable[PartyId], role: str, reason: str, at_most: int | None = None, at_least: int = 1) -> None:
    """Refuse a task with too few or too many parties of a role; ``reason``, what the task needs, ends the sentence.

    Every party sees the same list, so every party raises the same sentence without a message.
    """
    number = sum(party[0] == role for party in parties)
    if number < at_least or (at_most is not None and number > at_most):
        found = "no host" if role == "host" and not number else f"{number} {role}s"
        raise ValueError(f"The job names {found}; {reason}")


def check_roles(ctx: Context, *, arbiter: bool) -> None:
    """Refuse a task without exactly one guest, at least one host and at most one arbiter; where asked, exactly one."""
    parties = ctx.federation.parties
    require(parties, "guest", "exactly one party holds the labels.", at_most=1)
    require(parties, "host", "at least one host with features is needed.")
    wanted = "exactly one" if arbiter else "at most one"
    require(parties, "arbiter", f"this task needs {wanted}.", at_most=1, at_least=int(arbiter))


def roles(ctx: Context) -> list[str]:
    """Role of every party of the task, e.g. ["guest", "host", "arbiter"]."""
    return [role for role, _ in ctx.federation.parties]


def others(ctx: Context) -> list[Party]:
    """All parties of the task but this one."""
    return [party for party in ctx.parties if party.rank != ctx.rank]


def data_parties(ctx: Context) -> list[PartyId]:
    """(role, party id) of all parties that hold rows, this one among them, the guest first."""
    return sorted(
        (party for party in ctx.federation.parties if party[0] != "arbiter"), key=lambda party: party[0] != "guest"
    )


def data_peers(ctx: Context) -> list[Party]:
    """The other parties that hold rows: guest and hosts."""
    return [party for party in others(ctx) if party.role != "arbiter"]


def own_party(ctx: Context) -> PartyId:
    """(role, party id) of the party that runs this process."""
    return _as_id(ctx.federation.local_party)


def party_of(ctx: Context, member: PartyId) -> Party:
    """The party of a context, for messages under its name."""
    return next(party for party in ctx.parties if id_of(party) == member)


def id_of(party: Party) -> PartyId:
    """(role, party id) of a party, which is a class of FATE's own there."""
    return _as_id(party.party)


def _as_id(party: PartyId) -> PartyId:
    role, number = party
    return role, number


def party_name(ctx: Context) -> str:
    return name_of(own_party(ctx))


def name_of(party: PartyId) -> str:
    return " ".join(party)
