"""How to descend on noisy second moments: ridge, step size and bounds, from public numbers alone.

With noise E of the moments, H = (X^T X + E) / (c n) may have negative eigenvalues. With probability at least 0.999 none
lies below -r, r = ``SecondMoments.required_ridge``, and by symmetry of the noise, with the same probability, E / (c n)
has none above r. The ridge is at least 5/4 r, and on every weight: then the loss curves by r / 4 at least. (It is still
convex unless the noise exceeds 5/4 of r, which is far less probable than 0.001.)
"""
from dataclasses import replace
from math import log2, sqrt
from typing import List, Optional

from fate_dp.crypto.shared_quadratic import QuadraticBounds

from .joint_noise import CURVATURE, FIRST_FIT, TARGET, fit_of, moments_of

RIDGE_MARGIN = 1.25
MOMENTUM = 0.9


def noisy_optimizer(given: Optional[dict], default_alpha: float, noise: dict, rows: int) -> dict:
    """Optimiser settings in FATE's format: those that were given, or gradient descent with momentum 0.9.

    The default step is one over the largest curvature, noise and ridge included, so that it never overshoots.

    Args:
        given: the job's optimizer, None for the default.
        default_alpha: the ridge of a training without noise.
        noise: terms of noise.
        rows: number n of records, public.
    """
    wanted = given["alpha"] if given and given["penalty"] == "l2" else 0.0 if given else default_alpha
    moments = moments_of(noise)
    required = moments.required_ridge(rows, CURVATURE)
    alpha = max(wanted, RIDGE_MARGIN * required)
    if given:
        return {**given, "penalty": "l2", "alpha": alpha}
    rate = 1 / (moments.largest_curvature(CURVATURE) + required + alpha)
    return {"method": "sgd", "penalty": "l2", "alpha": alpha, "optimizer_params": {"lr": rate, "momentum": MOMENTUM}}


def first_fit_terms(terms: dict) -> dict:
    """The terms of the first fit of adaptive noise: more noise, hence a ridge and a step size of its own."""
    noise = fit_of(terms["noise"], FIRST_FIT)
    return {**terms, "noise": noise, "optimizer": noisy_optimizer(None, 0.0, noise, terms["rows"])}


def check_ridge(terms: dict) -> None:
    """At a host: refuse an optimiser under which the loss may have no minimum."""
    required = moments_of(terms["noise"]).required_ridge(terms["rows"], CURVATURE)
    optimizer = terms["optimizer"]
    if optimizer["penalty"] != "l2" or not optimizer["alpha"] >= RIDGE_MARGIN * required * (1 - 1e-9):
        raise ValueError(
            f"The guest plans a ridge of {optimizer['alpha']:g}, but noise needs at least {RIDGE_MARGIN * required:g}."
        )


def noisy_bounds(terms: dict) -> QuadraticBounds:
    """Public numbers about the loss, for the widths of masks and the pace of checks.

    Rows are bounded by their radii, so their mean squares are, whatever the data. The noise of H is bounded with
    probability at least 0.999, as above; that of b is bounded for certain: every entry holds the noise of at most two
    parties, none beyond ``largest_noise``. With curvature at least alpha - r the loss is nowhere below
    -|b|^2 / (2 (alpha - r)).
    """
    moments, rows, dimension = moments_of(terms["noise"]), terms["rows"], sum(terms["features"])
    alpha, required = terms["optimizer"]["alpha"], moments.required_ridge(rows, CURVATURE)
    squares = moments.largest_curvature(CURVATURE) * CURVATURE
    noise = sorted(map(moments.largest_noise, range(len(moments.bounds))))
    bounds = QuadraticBounds(
        dimension=dimension, divisor=CURVATURE, mean_square_bits=log2(squares / dimension),
        target_mean_square=(TARGET / CURVATURE) ** 2, penalty=alpha, noise=required,
        linear_noise=sqrt(dimension) * (noise[-1] + noise[-2]) / (CURVATURE * rows),
    )  # fmt: skip
    return replace(bounds, minimum=-(bounds.linear_norm**2) / (2 * (alpha - required)))


def noisy_penalties(terms: dict) -> List[float]:
    """The ridge of every joint weight, the intercept's too: its column carries noise as well."""
    return [terms["optimizer"]["alpha"]] * sum(terms["features"])
