"""A training with noise: rows are clipped, noise is added once to the statistics, and weights are mapped back.

Adaptive noise takes two fits. Each has noise of its own, and its own cross products; the first one serves to find the
scales of each party's features, which stay with that party.
"""
from typing import Callable, Optional

import numpy as np

from fate_dp.privacy.mechanisms.bounded_rows import unit_scales

from ..model import PartyModel
from .descent import first_fit_terms
from .joint_noise import FIRST_FIT, moments_of
from .own_noise import OwnNoise
from .rows import clipped
from .rules import ADAPTIVE


def train(fit: Callable, ctx, rows, model: PartyModel, terms: dict, other, noise: Optional[OwnNoise]) -> None:
    """Train with ``fit``, the solver's function of this role; ``other`` is what it takes as its last argument.

    Without noise that is all. With noise ``model`` gets weights for the features as they are.
    """
    if noise is None:
        fit(ctx, rows, model, terms, other)
        return
    scales = unit_scales(noise.bounds)
    if noise.kind == ADAPTIVE:
        first_terms = first_fit_terms(terms)
        first = PartyModel(model.settings, model.header, model.columns, first_terms["optimizer"], model.fit_intercept)
        _fit(fit, ctx.sub_ctx(FIRST_FIT), rows, first, first_terms, other, noise, scales)
        scales = noise.scales(rows, first.weights)
    _fit(fit, ctx, rows, model, terms, other, noise, scales)
    model.weights = model.weights / np.append(scales, np.ones(int(noise.bounds.intercept)))
    # Shares of the velocity are in the scaled space, of no use to a training that goes on without noise.
    model.shared_states, model.noise = [None], noise.promise()
    noise.charges.mark_released()


def serve_training(arbiter, ctx, settings, terms: dict) -> int:
    """The arbiter's part: it follows both fits of adaptive noise; returns the epochs of the last one."""
    if terms["noise"] and terms["noise"]["kind"] == ADAPTIVE:
        arbiter.serve_training(ctx.sub_ctx(FIRST_FIT), settings, terms)
    return arbiter.serve_training(ctx, settings, terms)


def _fit(fit, ctx, rows, model, terms, other, noise, scales):
    bits = moments_of(terms["noise"]).fraction_bits
    fit(ctx, clipped(rows, scales, noise.bounds, bits), model, terms, other, noise.drawn[terms["noise"]["fit"]])
