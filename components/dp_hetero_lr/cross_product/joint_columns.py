"""Which coordinates of the joint weight vector belong to which data party, and where the parties' messages go."""
from dataclasses import dataclass
from itertools import accumulate
from typing import Dict, Tuple

from fate_dp.components.common.parties import data_parties


@dataclass(frozen=True)
class JointColumns:
    """The data parties in their order, the guest first, and how many columns each has (the guest's with intercept).

    Attributes:
        names: (role, party id) of every data party.
        counts: columns of every data party.
        own: position of the party that runs this process.
    """

    names: Tuple[Tuple[str, str], ...]
    counts: Tuple[int, ...]
    own: int

    @classmethod
    def of(cls, ctx, terms: dict) -> "JointColumns":
        names = tuple(tuple(party) for party in data_parties(ctx))
        return cls(names, tuple(terms["features"]), names.index(tuple(ctx.federation.local_party)))

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def positions(self) -> range:
        return range(len(self.counts))

    def slice_of(self, position: int) -> slice:
        ends = list(accumulate(self.counts))
        return slice(ends[position] - self.counts[position], ends[position])

    @property
    def own_slice(self) -> slice:
        return self.slice_of(self.own)

    def peers(self, ctx) -> Dict[int, object]:
        """The other data parties as FATE's objects of this context, by position."""
        return {self.names.index(tuple(party.party)): party for party in ctx.parties if self._is_peer(party)}

    def _is_peer(self, party) -> bool:
        return tuple(party.party) in self.names and tuple(party.party) != self.names[self.own]
