"""One party's end of a computation with the other: keys, messages, and work that both do or neither."""
from dataclasses import dataclass
from typing import Callable

from fate_dp.components.common.preflight import agree
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


@dataclass(frozen=True)
class Together:
    """Work on what the other party sent: if it fails at either, both raise the same sentence."""

    ctx: object

    def __call__(self, stage: str, work: Callable):
        done = {}

        def check():
            done["result"] = work()
            return {}

        agree(self.ctx.sub_ctx(stage), check)
        return done["result"]
