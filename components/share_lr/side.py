"""One party's end of a computation with the other."""
from dataclasses import dataclass
from typing import Callable

from fate_dp.components.common.together import Together
from fate_dp.components.dp_hetero_lr.cross_product.joint_columns import JointColumns
from fate_dp.components.dp_hetero_lr.cross_product.keys import Keys
from fate_dp.crypto.paillier import PrivateKey, PublicKey


@dataclass(frozen=True)
class Side:
    """One party's end.

    Attributes:
        party: FATE's object of the other party, in the context of the computation.
        private: this party's key.
        public: the other party's key.
        guest: whether this is the guest.
        together: ``together(stage, work)`` returns what ``work()`` does here, once the other party has done its own.
    """

    party: object
    private: PrivateKey
    public: PublicKey
    guest: bool
    together: Callable[[str, Callable], object]

    @classmethod
    def of(cls, ctx, keys: Keys, columns: JointColumns) -> "Side":
        ((peer, party),) = columns.peers(ctx).items()
        return cls(party, keys.private, keys.peers[peer], columns.own == 0, Together(ctx))
