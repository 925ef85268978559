"""How many events each bin of each host holds: the guest's labels, added up by hosts under the guest's key.

The guest sends one blinded ciphertext for each record to every host. A host adds those of its bins up, masks the sums and
sends them back; the guest decrypts numbers that are uniform, adds its noise, and the host takes the mask off. Messages have
one size for all labels. The number of a host's bins is an upper bound that it declared, filled up with empty bins, so that
quantiles that fell together do not show.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from fate_dp.crypto.contingency import add_by_bin, encrypt_bits, open_bin_sums, seal_bin_sums, table_layout
from fate_dp.crypto.cross_product import merge_sums
from fate_dp.crypto.paillier import PublicKey, generate_keypair
from fate_dp.privacy.bins import TableBins
from fate_dp.privacy.mechanisms.bin_counts import FRACTION_BITS, BinCountNoise, LaplaceBinCountNoise

from ..common.federation import Context, name_of, others
from ..common.frames import Table


def serve_hosts(
    ctx: Context,
    events: Table,
    rows: int,
    bins: Mapping[str, int],
    key_length: int,
    noise: BinCountNoise | LaplaceBinCountNoise | None,
) -> None:
    """The guest's part: ``events`` are its rows' labels as 0 and 1, ``bins`` how many each host declared, by name."""
    _, private = generate_keypair(key_length)
    layout = table_layout(rows, 1, private.public_key)
    table = events.mapValues(partial(encrypt_bits, encryption=private.encryption(), expected=rows))
    hosts = {name_of(party.party): party for party in others(ctx) if party.role == "host"}
    for party in hosts.values():
        party.put("public_key", private.to_wire())
        party.put("encrypted_rows", table)
    for name, party in hosts.items():
        share = open_bin_sums(party.get("masked"), bins[name], layout, private)
        added = np.zeros(bins[name], dtype=np.int64) if noise is None else noise.draw(bins[name])
        party.put("label_sums", [(int(each) << FRACTION_BITS) + int(more) for each, more in zip(share, added)])


def ask_guest(ctx: Context, codes: Table, bins: TableBins, declared: int, rows: int, key_length: int) -> np.ndarray:
    """A host's part: float64 (bins of all columns,), how many events each holds, with the guest's noise."""
    key = PublicKey.from_wire(ctx.guest.get("public_key"))
    if key.key_length != key_length:
        raise ValueError(f"The guest sent a key of {key.key_length} bits; he_param.key_length is {key_length}.")
    layout = table_layout(rows, 1, key)
    places = codes.mapValues(bins.places)
    kernel = partial(add_by_bin, bins=declared, public_key=key)
    sums = places.join(ctx.guest.get("encrypted_rows"), kernel).reduce(partial(merge_sums, public_key=key))
    sealed, share = seal_bin_sums(sums, layout, key)
    ctx.guest.put("masked", sealed)
    answer = ctx.guest.get("label_sums")
    if len(answer) != declared:
        raise ValueError(f"The guest must answer {declared} sums, got {len(answer)}.")
    noisy = [given + (int(own) << FRACTION_BITS) for given, own in zip(answer, share)]
    return np.array([each / (1 << FRACTION_BITS) for each in noisy[: bins.total]])
