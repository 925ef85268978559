"""Training by cross products in which every party writes down what it opens, and in which protection can be lifted."""

from contextlib import ExitStack
from types import SimpleNamespace
from unittest import mock

from gmpy2 import mpz

from .messages import noted_sending
from .scenarios import train

NARROWER = 16
"""Bits that masks lack in a training with narrow ones."""


def train_watched(ctx, earlier, without=(), **arguments):
    """`scenarios.train`, with the party's notes beside what that returns.

    Args:
        without: names in ``SABOTAGE``: the protection that all parties go without.

    Notes are what was ``sent``; what was ``opened``, less the digits of `bare_mask`, {kind: [(integer, width it should be
    uniform below), ...]}; masks
    ``used`` in every step; ``multipliers`` of others' masks; ``shares`` of own weights, (own, others'), when opened;
    ``moduli`` of steps, {"weights": ..., "losses": ...}; the ``layout`` of sums in a plaintext; and at the guest the
    ``labels`` after each round of flipback.
    """
    notes = {"opened": {"sums": [], "weights": [], "losses": []}, "moduli": {}}
    notes |= {name: [] for name in ("used", "multipliers", "shares", "labels")}
    with ExitStack() as stack:
        notes["sent"] = stack.enter_context(noted_sending())
        for change in [*(SABOTAGE[name] for name in without), _watch]:
            for patch in change(notes):
                stack.enter_context(patch)
        return {**train(ctx, earlier, **arguments), "notes": notes}


def _watch(notes):
    """Patches made one by one, so that each wraps what sabotage left there."""
    from fate_dp.components.dp_hetero_lr.cross_product import statistics
    from fate_dp.components.dp_hetero_lr.labels import Relabelling
    from fate_dp.components.protocols import shared_descent
    from fate_dp.crypto.descent_steps import PreparedSteps
    from fate_dp.crypto.shared_descent import SharedDescent

    for owner, name, wrapper in (
        (statistics, "open_sums", _noting_sums),
        (shared_descent, "open_answer", _noting_products),
        (shared_descent, "multiply_masks", _noting_multipliers),
        (PreparedSteps, "take", _noting_masks),
        (SharedDescent, "own_weights", _noting_shares),
        (Relabelling, "next_labels", _noting_labels),
    ):
        yield mock.patch.object(owner, name, wrapper(getattr(owner, name), notes))


def _noting_sums(opening, notes):
    def open_sums(sealed, columns, layout, private_key):
        masked = opening(sealed, columns, layout, private_key)
        notes["layout"] = layout
        known, width = layout.digits(bare_mask(private_key.public_key.n), layout.slots), 1 << layout.slot_bits
        less = [_less(value, known[at % layout.slots], width) for row in masked for at, value in enumerate(row)]
        notes["opened"]["sums"].extend((value, width) for value in less)
        return masked

    return open_sums


def _noting_products(opening, notes):
    def open_answer(answer, layout, private_key):
        from fate_dp.crypto.paillier import column_from_bytes

        for kind, part, sizes in (("weights", "weights", layout.products), ("losses", "inner", layout.losses)):
            # A last, shorter chunk has the first ones of the same moduli.
            notes["moduli"].setdefault(kind, sizes.system.moduli)
            for ciphertext in column_from_bytes(answer[part], private_key.public_key):
                n = private_key.public_key.n
                notes["opened"][kind].append((_less(private_key.decrypt(ciphertext), bare_mask(n), n), n))
        return opening(answer, layout, private_key)

    return open_answer


def _noting_multipliers(multiplying, notes):
    def multiply_masks(share, masks, received, layout, key):
        notes["multipliers"].append(share.matrix.tolist())
        return multiplying(share, masks, received, layout, key)

    return multiply_masks


def _noting_masks(taking, notes):
    def take(prepared):
        step = taking(prepared)
        notes["used"].append({"weights": step.mask.tolist(), "losses": [*step.left.tolist(), *step.right.tolist()]})
        return step

    return take


def _noting_shares(opening, notes):
    def own_weights(descent, shares_of_others):
        notes["shares"].append((descent.share_of(descent._columns), list(shares_of_others)))
        return opening(descent, shares_of_others)

    return own_weights


def _noting_labels(relabelling, notes):
    def next_labels(self, scores):
        notes["labels"].append(relabelling(self, scores).tolist())
        return self.labels

    return next_labels


def bare_mask(modulus: int) -> int:
    """What is known to all where masks are lifted: far from both ends of every digit, so that sums stay right."""
    return modulus // 3


def _less(number: int, known: int, width: int) -> int:
    """The difference modulo the width, negative where it is within 2^-20 of 0: as a bare number would be."""
    difference = (int(number) - known) % width
    return difference - width if width - difference < width >> 20 else difference


def _masks_of_products(drawn):
    """Patches of the masks, one below n for each plaintext, that statistics and prepared products get."""
    from fate_dp.crypto import cross_product, residues

    for module in (cross_product, residues):
        yield mock.patch.object(module, "draw_mask", drawn)


def _below_drawn(module, limit_for):
    from secrets import randbelow

    return mock.patch.object(module, "secrets", SimpleNamespace(randbelow=lambda limit: randbelow(limit_for(limit))))


def _without_masks_of_products(notes):
    """Statistics and prepared products come back to the owner of the key as they are."""
    yield from _masks_of_products(lambda modulus, random_bits=None: bare_mask(modulus))


def _without_masks_of_steps(notes):
    """Weights and factors of losses are opened as they are."""
    from fate_dp.crypto import descent_steps

    yield _below_drawn(descent_steps, lambda limit: 1)


def _with_narrow_masks(notes):
    from secrets import randbelow

    from fate_dp.components.dp_hetero_lr.cross_product import statistics
    from fate_dp.crypto import descent_steps

    yield from _masks_of_products(lambda modulus, random_bits=None: bare_mask(modulus) + randbelow(modulus >> NARROWER))
    yield mock.patch.object(statistics, "seal_sums", _with_narrow_digits(statistics.seal_sums))
    yield _below_drawn(descent_steps, lambda limit: limit >> NARROWER)


def _with_narrow_digits(sealing):
    from secrets import randbits

    from fate_dp.crypto import cross_product

    def seal_sums(sums, columns, layout, public_key):
        known, bits = layout.digits(bare_mask(public_key.n), layout.slots), layout.slot_bits - NARROWER

        def drawn(modulus, random_bits):
            return sum(digit + randbits(bits) << layout.slot_bits * at for at, digit in enumerate(known))

        with mock.patch.object(cross_product, "draw_mask", drawn):
            return sealing(sums, columns, layout, public_key)

    return seal_sums


def _without_fresh_steps(notes):
    """Every step of a chunk is run with the masks of its first one."""
    from fate_dp.crypto.descent_steps import PreparedSteps

    fresh = PreparedSteps.take

    def take(prepared):
        used, prepared._next = prepared._next, 0
        step = fresh(prepared)
        prepared._next = used + 1
        return step

    yield mock.patch.object(PreparedSteps, "take", take)


def _without_blinding_of_answers(notes):
    """What goes back to the owner of a key carries no blinding of its own."""
    from fate_dp.crypto import paillier as ciphertext
    from fate_dp.crypto.paillier import BlindingFactor, DrawnBlinding

    def full(key, count):
        return [BlindingFactor(mpz(1), key) for _ in range(count)]

    yield mock.patch.object(ciphertext, "full_blindings", full)

    def factors(blinding, count):
        return [BlindingFactor(mpz(1), blinding.public_key) for _ in range(count)]

    yield mock.patch.object(DrawnBlinding, "factors", factors)


def _without_new_labels(notes):
    """Rounds of flipback in which no label changes."""
    from fate_dp.components.dp_hetero_lr.labels import Relabelling

    yield mock.patch.object(Relabelling, "next_labels", lambda relabelling, scores: relabelling.labels)


SABOTAGE = {
    "masks of products": _without_masks_of_products,
    "masks of steps": _without_masks_of_steps,
    "wide masks": _with_narrow_masks,
    "fresh steps": _without_fresh_steps,
    "blinding of answers": _without_blinding_of_answers,
    "new labels": _without_new_labels,
}
