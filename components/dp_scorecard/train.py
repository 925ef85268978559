"""The stage train of dp_scorecard: the tables, the fit at the guest, the points.

The guest fits the model and knows all weights; a host gets those of its own columns. With privacy record the guest sees
tables with every party's own noise, with label and none products of the shared tables with directions; with label it
adds noise to X^T t first. What leaves the guest are directions and weights: functions of what the noise protects.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fate_dp.privacy.mechanisms.label_moments import LabelMoments, LabelNoise
from fate_dp.privacy.mechanisms.second_moments import UNIT_BITS

from ..common.frames import DataFrame, Table
from ..protocols.federation import Context, check_roles, data_parties, name_of, own_party
from ..protocols.preflight import show_summary
from ..protocols.shared_descent import Keys, exchange_keys
from .additive import (
    RIDGE_WITHOUT_NOISE,
    Calibration,
    calibrate,
    constrained,
    label_ridge,
    merged,
    solve,
    solve_by_products,
    solve_in_span,
)
from .agreement import GuestPreflight, HostPreflight, PartyPreflight, Shapes, Terms
from .model import Points, Scorecard
from .settings import LABEL, NONE, RECORD, TrainSettings
from .tables import TableShares, added_up, answer_products, ask_product, end_products, gather

logger = logging.getLogger(__name__)
FURTHER_PRODUCTS = 3
"""Beside those of the rounds: X^T t, the counts of the bins, and the variance of the scores."""


class Fitted(NamedTuple):
    """Joint weights under one ridge, and X^T X of them."""

    ridge: float
    weights: np.ndarray
    image: np.ndarray


class Fit:
    """At the guest: the joint weights, and what calibration needs beside them.

    Attributes:
        counts, linear: records in each bin, and X^T t, as they were released.
        fits: under the ridge, then under those of the path.
    """

    def __init__(self, settings: TrainSettings, terms: Terms, shapes: Shapes) -> None:
        self._settings, self._terms, self._shapes = settings, terms, shapes
        width = sum(rows.width for rows in terms.sizes)
        self._target = terms.sizes[0].bins
        self._bins = np.delete(np.arange(width), self._target)

    def from_tables(self, joint: np.ndarray) -> None:
        """Privacy record: all tables with noise."""
        matrix, self.linear = joint[np.ix_(self._bins, self._bins)], joint[self._bins, self._target]
        self.counts = np.maximum(np.diag(matrix), 0.0)
        ridge = self._settings.ridge or self._terms.tables.required_ridge()
        self.fits = []
        for each in (ridge, *self._further(ridge)):
            weights = self._constrained(solve(matrix, self.linear, each))
            self.fits.append(Fitted(each, weights, matrix @ weights))

    def from_products(
        self, ctx: Context, shares: TableShares, moments: LabelMoments | None, noise: LabelNoise | None
    ) -> None:
        """Privacy label and none: products of the shared tables; with label, ``noise`` on X^T t by the terms ``moments``."""
        limit = self._terms.rounds + FURTHER_PRODUCTS
        steps = (step for _, step in ctx.on_iterations.ctxs_range(limit + 1))
        first = np.zeros(len(self._bins))
        first[self._shapes.columns[0]] = 1.0
        self.linear = self._product(steps, shares, np.zeros(len(self._bins)), of_target=1.0)
        # Every record is in one bin of the first column, so that this direction adds up all records.
        self.counts = self._product(steps, shares, first)
        seen: list[tuple[np.ndarray, np.ndarray]] = []

        def product(direction: np.ndarray) -> np.ndarray:
            seen.append((direction, self._product(steps, shares, direction)))
            return seen[-1][1]

        usual = RIDGE_WITHOUT_NOISE
        if noise is not None and moments is not None:
            self.linear = self.linear + noise.values.astype(float) * 4.0**-UNIT_BITS
            usual = label_ridge(moments, len(self.linear))
        ridge = self._settings.ridge or usual
        found = solve_by_products(product, self.linear, self.counts, ridge, self._terms.rounds)
        weights = self._constrained(found)
        self.fits = [Fitted(ridge, weights, product(weights))]
        end_products(next(steps))
        self.fits += [Fitted(each, *solve_in_span(seen, self.linear, each)) for each in self._further(ridge)]

    def _further(self, ridge: float) -> list[float]:
        return [ridge * factor for factor in self._settings.ridge_path or ()]

    def _product(
        self, steps: Iterator[Context], shares: TableShares, direction: np.ndarray, of_target: float = 0.0
    ) -> np.ndarray:
        joint = np.insert(direction, self._target, of_target)
        return ask_product(next(steps), shares, joint)[self._bins] if joint.any() else np.zeros(len(direction))

    def _constrained(self, weights: np.ndarray) -> np.ndarray:
        return constrained(weights, self.counts, self._shapes.neighbours, self._shapes.directions)


def train_guest(ctx: Context, settings: TrainSettings, frame: DataFrame, binning_model: dict | None = None) -> dict:
    """Returns the guest's JSON model."""
    check_roles(ctx, arbiter=False)
    checks = GuestPreflight(ctx, settings, frame, binning_model)
    checks.agree()
    terms = checks.terms
    scorecard = fit_guest(ctx, checks, terms, checks.rows, keys_of(ctx, terms))
    if checks.charges is not None:
        checks.charges.mark_released()
    show_summary(ctx, summary_of(checks, terms, "guest"))
    return scorecard.to_json(checks.meta(terms))


def train_host(ctx: Context, settings: TrainSettings, frame: DataFrame, binning_model: dict | None = None) -> dict:
    """Returns this host's JSON model, of its own columns."""
    check_roles(ctx, arbiter=False)
    checks = HostPreflight(ctx, settings, frame, binning_model)
    terms = checks.accept(checks.agree())
    scorecard = fit_host(ctx, checks, terms, checks.rows, keys_of(ctx, terms))
    if checks.charges is not None:
        checks.charges.mark_released()
    show_summary(ctx, summary_of(checks, terms, "host"))
    return scorecard.to_json(checks.meta(terms))


def keys_of(ctx: Context, terms: Terms) -> Keys:
    """All parties' keys, for one training or for all folds."""
    return exchange_keys(ctx.sub_ctx("keys"), terms.columns(ctx), terms.key_length)


def fit_guest(ctx: Context, checks: GuestPreflight, terms: Terms, rows: Table, keys: Keys) -> Scorecard:
    """One training on ``rows`` with the noise that was drawn: all points, of which every host has got its own."""
    columns, fit = terms.columns(ctx), Fit(checks.settings, terms, checks.shapes)
    shares = gather(ctx.sub_ctx("tables"), rows, columns, keys, terms.rows, checks.sizes)
    if checks.noise is not None:
        peers = columns.peers(ctx.sub_ctx("noisy"))
        parts = {position: party.get("contingency_tables") for position, party in peers.items()}
        fit.from_tables(added_up(columns, {0: shares.noisy(checks.noise), **parts}))
    else:
        fit.from_products(ctx.sub_ctx("products"), shares, checks.moments, checks.label_noise)
    scorecard, *path = (_scorecard(ctx, checks, terms, fit, each) for each in fit.fits)
    scorecard = replace(scorecard, path=tuple(zip((each.ridge for each in fit.fits[1:]), path)))
    for position, party in columns.peers(ctx.sub_ctx("points")).items():
        part = scorecard.hosts[name_of(columns.names[position])]
        party.put(
            "points",
            {
                "weights": part.weights.tolist(),
                "points": part.points.tolist(),
                "base": scorecard.base,
                "slope": scorecard.calibration.slope,
                "intercept": scorecard.calibration.intercept,
            },
        )
    return scorecard


def fit_host(ctx: Context, checks: HostPreflight, terms: Terms, rows: Table, keys: Keys) -> Scorecard:
    """This host's part of one training on ``rows``; raises ValueError for points of other bins than its own."""
    columns = terms.columns(ctx)
    shares = gather(ctx.sub_ctx("tables"), rows, columns, keys, terms.rows, checks.sizes)
    if checks.noise is not None:
        ctx.sub_ctx("noisy").guest.put("contingency_tables", shares.noisy(checks.noise))
    else:
        answered = answer_products(ctx.sub_ctx("products"), shares, terms.rounds + FURTHER_PRODUCTS)
        logger.info("the guest asked for %d products of the tables", answered)
    told = ctx.sub_ctx("points").guest.get("points")
    weights, points = np.array(told["weights"], dtype=float), np.array(told["points"], dtype=np.int64)
    if weights.shape != (checks.sizes.bins,) or points.shape != weights.shape:
        raise ValueError(f"The guest sent points of {len(points)} bins; this host has {checks.sizes.bins}.")
    own = Points(tuple(checks.frame.schema.columns), checks.sizes.counts, weights, points)
    calibration = Calibration(float(told["slope"]), float(told["intercept"]))
    return Scorecard(own, {}, int(told["base"]), checks.settings.scale, calibration)


def _scorecard(ctx: Context, checks: GuestPreflight, terms: Terms, fit: Fit, fitted: Fitted) -> Scorecard:
    """Joint weights as points, divided among the parties; hosts' columns are known by number."""
    settings, shapes, weights = checks.settings, checks.shapes, fitted.weights
    calibration = calibrate(weights, fitted.image, fit.linear, fit.counts, shapes.columns)
    base, points = settings.scale.table(weights, fit.counts, shapes.columns, calibration)
    points = merged(points, fit.counts, shapes.neighbours, settings.merge_points) if settings.merge_points else points
    parts, first = [], 0
    for of_party, party in zip(terms.counts, data_parties(ctx)):
        place = slice(first, first + sum(of_party))
        names = checks.frame.schema.columns.to_list() if not first else [f"x{at}" for at in range(len(of_party))]
        parts.append((name_of(party), Points(tuple(names), of_party, weights[place], points[place])))
        first = place.stop
    (_, own), *hosts = parts
    return Scorecard(own, dict(hosts), base, settings.scale, calibration)


def summary_of(checks: PartyPreflight, terms: Terms, role: str) -> dict:
    """The one-record table that FATE-Board draws."""
    promise = checks.promise()
    mechanism = {
        RECORD: "each party's own noise on contingency tables of bins",
        LABEL: "noise on the totals of the labels in every bin",
        NONE: "none: the labels are flips or public",
    }[terms.privacy]
    facts = {
        "mechanism": mechanism,
        "privacy": terms.privacy,
        f"epsilon of the {role} (nats, replace-one)": promise["epsilon"],
        "delta": promise["delta"],
        "observers": ", ".join(promise["observers"]),
        "rows": terms.rows,
        "columns of all parties": sum(map(len, terms.counts)),
        "bins of all parties": sum(map(sum, terms.counts)),
    }
    if terms.privacy == RECORD:
        position = data_parties(checks.ctx).index(own_party(checks.ctx))
        facts["standard deviation of the noise (records)"] = terms.tables.sigma(position)
    return facts
