"""Every data party's own key pair, and the public keys of the others."""
import hashlib
from dataclasses import dataclass
from typing import Dict

from fate_dp.crypto.paillier import PrivateKey, PublicKey, generate_keypair

from .joint_columns import JointColumns


@dataclass(frozen=True)
class Keys:
    """This party's secret key, and the other data parties' public keys by position."""

    private: PrivateKey
    peers: Dict[int, PublicKey]

    @property
    def public(self) -> PublicKey:
        return self.private.public_key

    @property
    def fingerprint(self) -> str:
        """Of all data parties' keys: whoever replaced one on its way made two parties see different ones."""
        moduli = sorted([self.public.n, *(key.n for key in self.peers.values())])
        return hashlib.sha256(" ".join(map(str, moduli)).encode()).hexdigest()[:32]


def exchange_keys(ctx, columns: JointColumns, key_length: int) -> Keys:
    """Make a key pair of one training, and swap public keys with the other data parties."""
    _, private_key = generate_keypair(key_length)
    peers = columns.peers(ctx)
    for party in peers.values():
        party.put("public_key", private_key.to_wire())
    received = {position: PublicKey.from_wire(party.get("public_key")) for position, party in peers.items()}
    for position, key in received.items():
        if key.key_length != key_length:
            raise ValueError(f"{peers[position].name} sent a key of {key.key_length} bits; he_param.key_length is {key_length}.")
    return Keys(private_key, received)
