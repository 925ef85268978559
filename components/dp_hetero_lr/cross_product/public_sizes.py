"""What follows from the terms of a training alone: bounds, widths of masks, the update rule, the pace of checks."""
from typing import List, Sequence

from fate_dp.crypto.cross_product import DROPPED_BITS, MEAN_SQUARE_BITS, product_layout
from fate_dp.crypto.descent_bounds import steps_allowed
from fate_dp.crypto.paillier import PublicKey
from fate_dp.crypto.shared_quadratic import QuadraticBounds, share_bits
from fate_dp.crypto.slots import SlotLayout
from fate_dp.crypto.step_layout import StepLayout
from fate_dp.crypto.update_rule import UpdateRule

from ..noised.descent import noisy_bounds, noisy_penalties
from ..settings import TrainSettings

CURVATURE = {"binomial": 4, "gaussian": 1}
"""The c of a family: the loss of a record is z^2 / (2 c) - t z and a constant."""
_MOST_STEPS_BETWEEN_CHECKS = 64


def update_rule(terms: dict, learning_rates: Sequence[float]) -> UpdateRule:
    """The optimiser's rule, linear in weights and gradients; refuses parameters that are not."""
    return UpdateRule.from_sgd(terms["optimizer"]["optimizer_params"], learning_rates)


def steps_between_checks(settings: TrainSettings, terms: dict, rule: UpdateRule) -> int:
    """Steps that may run before the guest looks at their losses, at most 64; refuses a rule under which none may."""
    steps = settings.epochs * len(terms["batches"])
    together = min(_MOST_STEPS_BETWEEN_CHECKS, len(terms["batches"]))
    return min(_MOST_STEPS_BETWEEN_CHECKS, steps_allowed(quadratic_bounds(settings, terms), rule, steps, together))


def step_layout(settings: TrainSettings, terms: dict, key: PublicKey) -> StepLayout:
    """Widths of masks and messages; ``key`` stands for every party's, which have the same length."""
    sizes = [last - first for first, last in terms["batches"]]
    # Shares come in units of 2^-48, whatever the unit that products were made in.
    value_bits = sums_layout(settings, terms, max(sizes), key).value_bits + 2 * dropped_bits(terms)
    matrix_bits = share_bits(value_bits, min(sizes), CURVATURE[settings.family])
    bounds = quadratic_bounds(settings, terms)
    return StepLayout(bounds, len(terms["features"]), key.key_length, matrix_bits, settings.epochs, sum(sizes))


def sums_layout(settings: TrainSettings, terms: dict, rows: int, key: PublicKey) -> SlotLayout:
    """Slots of the cross products of a batch: as narrow as what the parties know of their columns allows.

    By Cauchy and Schwarz the mean product of two columns is at most the root of the product of their mean squares. Noise
    may be as large as the largest sums that there are.
    """
    bits = MEAN_SQUARE_BITS
    if not terms["noise"]:
        columns, target = terms["mean_square_bits"], _target_bits(settings)
        bits = max(columns, -(-(columns + target) // 2))
    return product_layout(rows, key, bits, dropped_bits(terms))


def dropped_bits(terms: dict) -> int:
    """Bits of features that are rounded off before products; with noise none, whose grid may be finer than they."""
    return 0 if terms["noise"] else DROPPED_BITS


def _target_bits(settings: TrainSettings) -> int:
    """The target's mean square is at most 2 to this: those of the Taylor sigmoid are plus and minus one half."""
    return -2 if (settings.family, settings.sigmoid) == ("binomial", "taylor") else MEAN_SQUARE_BITS


def quadratic_bounds(settings: TrainSettings, terms: dict) -> QuadraticBounds:
    """Public numbers about the loss, from the terms alone."""
    if terms["noise"]:
        return noisy_bounds(terms)
    return QuadraticBounds(
        dimension=sum(terms["features"]), divisor=CURVATURE[settings.family], penalty=_ridge(terms),
        mean_square_bits=terms["mean_square_bits"], target_mean_square=2.0 ** _target_bits(settings),
    )  # fmt: skip


def penalties(settings: TrainSettings, terms: dict) -> List[float]:
    """The ridge penalty of every joint weight; without noise the guest's intercept, its last weight, has none."""
    if terms["noise"]:
        return noisy_penalties(terms)
    guest, total = terms["features"][0], sum(terms["features"])
    bare = guest - 1 if settings.init_param["fit_intercept"] else None
    return [0.0 if at == bare else _ridge(terms) for at in range(total)]


def _ridge(terms: dict) -> float:
    return terms["optimizer"]["alpha"] if terms["optimizer"]["penalty"] == "l2" else 0.0
