"""How large a party's columns are: the public number that the widths of masks and the pace of training rest on."""
from functools import partial

from fate_dp.components.common.frame_checks import bad_feature
from fate_dp.crypto.cross_product import MEAN_SQUARE_BITS
from fate_dp.crypto.exact_product import column_square_sums
from fate_dp.crypto.fixed_point import FEATURE_FRACTION_BITS

from ..settings import TrainSettings, batch_bounds
from ..solvers import CROSS_PRODUCT, solver_of


def mean_square_bits(settings: TrainSettings, rows, frame) -> int:
    """The least k from 0 to 8 for which the mean square of every feature over every batch is at most 2^k.

    It is 0 or 1 for standardised features, and all that the other parties learn of their size. Solver per_epoch needs no
    such number: 0.

    Args:
        rows: the blocks that `rows.prepare_rows` made of ``frame``.

    Raises:
        ValueError: a feature is larger; its name stays with its own party.
    """
    if solver_of(settings) != CROSS_PRODUCT:
        return 0
    batches, names = batch_bounds(frame.shape[0], settings.batch_size), frame.schema.columns.to_list()
    totals = rows.mapValues(partial(_square_sums, batches=batches)).reduce(_add)
    largest = 0
    for (first, last), sums in zip(batches, totals):
        for name, total in zip(names, sums):
            bits = _bits(total, last - first)
            if bits > MEAN_SQUARE_BITS:
                raise bad_feature(
                    name,
                    f"has a mean square above {2**MEAN_SQUARE_BITS} in a batch, more than solver cross_product takes; "
                    "standardise it, or set solver to per_epoch",
                )
            largest = max(largest, bits)
    return largest


def _bits(total: int, rows: int) -> int:
    """Least k >= 0 with total <= rows 2^(k + 48)."""
    return max(0, (-(-total // rows) - 1).bit_length() - 2 * FEATURE_FRACTION_BITS)


def _square_sums(block, batches):
    return [column_square_sums(block.within(first, last).features) for first, last in batches]


def _add(first, second):
    return [tuple(a + b for a, b in zip(one, other)) for one, other in zip(first, second)]
