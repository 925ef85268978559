"""Labels out of ciphertexts that `fate_dp.attacks.label_ciphertexts` does not read: shares of SSHE, and any cipher by guessing.

Threat model, cost and limits are those of that module.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.attack_methods.label_views import require
from fate_dp.attacks.label_ciphertexts import UNREAD, Plain, opened, several, two_valued

from .label_views import GuessView, ShareView

Array = NDArray[np.float64]

RING = 1 << 64
"""Shares of SSHE count modulo this."""
SHARE_SCALE = 1 << 24
"""What SSHE counts as 1: `safety.mpc.encoder.precision_bits` of FATE's configuration."""


def guessed_labels(view: GuessView) -> Array:
    """Labels (rows,) by comparing each ciphertext, byte by byte, with the encryptions of both labels.

    For the same message under any cipher: it fails where that draws randomness.
    """
    view = require(view, GuessView, "Comparing with guesses")
    labels = {guess: float(label) for label, guess in enumerate(view.guesses)}
    return np.array([labels.get(each, UNREAD) for each in view.sealed])


def share_signs(view: ShareView) -> Array:
    """Labels (rows,) by the signs of the residuals that both parties' shares of the first message make."""
    view = require(view, ShareView, "Reading signs of shares")
    first = _residuals_of_shares(view, 1)[0]
    return np.where(np.isnan(first), UNREAD, (first < 0).astype(np.float64))


def fitted_shares(view: ShareView) -> Array:
    """Labels (rows,) by the guest's share of the residuals, which SSHE sends unblinded, and the host's own, of all epochs."""
    view = require(view, ShareView, "Fitting shares")
    several(view, "Fitting shares")
    residuals = _residuals_of_shares(view, len(view.messages))
    ones = np.ones((view.rows, 1))
    known = ones if view.columns is None else np.column_stack([ones, view.columns])
    return two_valued(residuals, known, SHARE_SCALE / view.rows, rounding=1.0)


def _residuals_of_shares(view: ShareView, messages: int) -> Array:
    """(messages, rows) of score minus label, over the number of rows, in units of the last digit; NaN where blinded."""
    pairs = zip(view.shares[:messages], view.messages[:messages])
    return np.array([_summed(own, opened(message, view.modulus)) for own, message in pairs])


def _summed(own: Sequence[int], others: Sequence[Plain | None]) -> list[float]:
    sums = [UNREAD if other is None else (share + other.mantissa) % RING for share, other in zip(own, others)]
    return [float(value - RING if 2 * value > RING else value) for value in sums]
