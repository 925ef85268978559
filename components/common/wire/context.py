"""FATE's context with our messages: ``party.put(name, value)`` and ``party.get(name)`` as ever, by way of `Channel`."""
from fate.arch.context import Context
from fate.arch.context._parties import Parties, Party

from .channel import Channel


class PlainParty(Party):
    """Another party of the task; see `Channel` for what it takes and raises."""

    def put(self, name: str, value) -> None:
        self._ctx.channel.send([self.party], self.namespace.federation_tag, name, value)

    def get(self, name: str):
        return self._ctx.channel.receive(self.party, self.namespace.federation_tag, name)


class PlainParties(Parties):
    """Several of them."""

    def __getitem__(self, key: int) -> PlainParty:
        rank, party = self.parties[key]
        return PlainParty(self._ctx, self.federation, self.computing, party, rank, self.namespace)

    def __iter__(self):
        return (self[at] for at in range(len(self)))

    def put(self, name: str, value) -> None:
        parties = [party for _, party in self.parties]
        self._ctx.channel.send(parties, self.namespace.federation_tag, name, value)

    def get(self, name: str) -> list:
        return [party.get(name) for party in self]


class PlainContext(Context):
    """A context, and all those of its sub-namespaces, whose parties exchange plain values alone."""

    def __init__(self, ctx: Context, channel: Channel = None, namespace=None):
        super().__init__(
            device=ctx._device, computing=ctx._computing, federation=ctx._federation,
            metrics_handler=ctx._metrics_handler, namespace=namespace or ctx._namespace, cipher=ctx._cipher,
        )  # fmt: skip
        self.channel = channel or Channel(ctx)

    def with_namespace(self, namespace) -> "PlainContext":
        return PlainContext(self, self.channel, namespace)

    def _get_parties(self, role=None) -> PlainParties:
        found = super()._get_parties(role)
        return PlainParties(self, found.federation, found.computing, found.parties, found.namespace)
