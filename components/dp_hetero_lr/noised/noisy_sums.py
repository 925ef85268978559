"""A party's noise, added once to its shares of the statistics, before anything is computed from them."""
from fate_dp.privacy.mechanisms.second_moments import MomentNoise

from ..cross_product.joint_columns import JointColumns
from ..cross_product.statistics import SumShares


def with_noise(share: SumShares, noise: MomentNoise, columns: JointColumns) -> SumShares:
    """The share plus noise, in units of 2^-48: own Gram matrix, and both halves of every cross block.

    The guest's last column is its target: its products go to ``linear``.
    """
    matrix, linear = share.matrix.copy(), share.linear.copy()
    own, width, is_guest = columns.own_slice, columns.counts[columns.own], columns.own == 0
    matrix[own, own] += noise.gram[:width, :width]
    if is_guest:
        linear[own] += noise.gram[:width, width:]
    for position, block in noise.cross.items():
        peer, peer_width = columns.slice_of(position), columns.counts[position]
        matrix[own, peer] += block[:width, :peer_width]
        matrix[peer, own] += block[:width, :peer_width].T
        if is_guest:
            linear[peer] += block[width:, :peer_width].T
        elif position == 0:
            linear[own] += block[:width, peer_width:]
    return SumShares(matrix, linear)
