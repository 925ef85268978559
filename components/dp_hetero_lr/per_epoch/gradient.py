"""One gradient step of a data party: send the own encrypted column, get the others', unmask what the arbiter decrypts."""
from dataclasses import dataclass
from typing import List

import numpy as np
from gmpy2 import mpz

from fate_dp.components.common.parties import data_peers
from fate_dp.crypto.ciphertext import Ciphertext, EncryptedSum
from fate_dp.crypto.fixed_point import decode_product, encode_loss
from fate_dp.crypto.masked_packing import mask_and_pack, unpack_and_unmask
from fate_dp.crypto.paillier import PublicKey

from .batch import Sums, batch_sums, encrypted_scores, slice_batch


def exchange_columns(ctx, rows, weights: np.ndarray, bounds: tuple, public_key: PublicKey) -> Sums:
    """Send this party's encrypted quarter scores of a batch to guest and hosts, multiply with theirs."""
    batch = slice_batch(rows, weights, *bounds)
    column = encrypted_scores(batch, public_key)
    peers = data_peers(ctx)
    for party in peers:
        party.put("encrypted_scores", column)
    return batch_sums(batch, [party.get("encrypted_scores") for party in peers], public_key)


def decrypted_at_arbiter(ctx, encrypted: List[mpz], public_key: PublicKey) -> List[int]:
    """Signed integers in units of 2^-64 behind ``encrypted``; the arbiter sees them under additive masks only."""
    packed, masks = mask_and_pack([EncryptedSum(value, public_key) for value in encrypted], public_key)
    ctx.arbiter.put("masked", packed)
    return unpack_and_unmask(ctx.arbiter.get("decrypted"), masks, public_key)


def mean_gradient(others: List[int], own: tuple, rows: int) -> np.ndarray:
    """Exact sums of both parts -> float64 gradient of shape (m, 1), per row."""
    return np.array([[decode_product(first + second) / rows] for first, second in zip(others, own)])


@dataclass(frozen=True)
class HostLoss:
    """What a host adds to the batch's loss: 2 u_h^T u_others under encryption, and a part it can compute alone."""

    cross: int
    own: float

    def encrypted(self, public_key: PublicKey) -> bytes:
        """One fully blinded ciphertext for the guest, who cannot read it."""
        cross = EncryptedSum(self.cross, public_key)
        return (cross + cross).plus(encode_loss(self.own)).fully_blinded().to_bytes()


def encrypted_loss(own_cross: int, host_parts: List[bytes], public_key: PublicKey) -> mpz:
    """At the guest: the encrypted part of the loss of a batch, 2 u_g^T u_hosts plus what the hosts sent."""
    cross = EncryptedSum(own_cross, public_key)
    return sum((Ciphertext.from_bytes(part, public_key) for part in host_parts), cross + cross).value
