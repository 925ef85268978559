"""The stage train of dp_scorecard: the tables, the fit at the guest, the points.

The guest sees tables with the noise of every host, and of its own with privacy record, fits the model and knows all weights;
a host gets those of its own columns. With privacy label the guest adds noise to X^T t first. What leaves it are
functions of what the noise protects.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fate_dp.privacy.evidence import ones_and_others
from fate_dp.privacy.mechanisms.contingency_tables import TARGET
from fate_dp.privacy.mechanisms.randomized_response import flip_probability
from fate_dp.privacy.mechanisms.second_moments import UNIT_BITS

from ..common.federation import Context, Document, check_roles, data_parties, name_of, own_party
from ..common.frames import DataFrame, Table
from ..common.preflight import show_summary
from ..common.vocabulary import LABEL, NONE, RECORD
from ..protocols.shared_descent import Keys, exchange_keys
from .additive import Calibration, Errors, calibrate, constrained, inverse_of, label_ridge, merged, noise_of_weights
from .agreement import ScorecardGuestPreflight, ScorecardHostPreflight, ScorecardPreflight, ScorecardTerms
from .model import COUNTED, POINTS_NOISE, RECORDS, Points, Scorecard
from .settings import TrainSettings
from .tables import added_up, gather


class Fitted(NamedTuple):
    """Joint weights under one ridge, X^T X of them, and what noise did to them; ``moved`` (`noise_of_weights`) of the first."""

    ridge: float
    weights: np.ndarray
    image: np.ndarray
    errors: Errors
    moved: np.ndarray | None


class Fit(NamedTuple):
    """What the guest computes from the noisy tables: ``counts`` are records in each bin, and ``linear`` X^T t.

    ``fits`` are under the ridge, then under those of the path; ``told`` is of every bin, `COUNTED`, where numbers
    without noise of their own are not a number.
    """

    counts: np.ndarray
    linear: np.ndarray
    fits: list[Fitted]
    told: dict[str, np.ndarray]


def fit_tables(checks: ScorecardGuestPreflight, terms: ScorecardTerms, joint: np.ndarray) -> Fit:
    """Weights from all parties' tables with their noise; with privacy label X^T t gets the noise of labels here."""
    target = terms.sizes[0].bins
    bins = np.delete(np.arange(len(joint)), target)
    matrix, linear, ridge = joint[np.ix_(bins, bins)], joint[bins, target], terms.tables.required_ridge()
    variances = terms.tables.variances()
    noise = variances[np.ix_(bins, bins)], variances[bins, target]
    if checks.label_noise is not None and checks.moments is not None:
        linear = linear + checks.label_noise.values.astype(float) * 4.0**-UNIT_BITS
        ridge = math.hypot(ridge, label_ridge(checks.moments, len(bins)))
        noise = noise[0], noise[1] + checks.moments.sigma**2
    settings, shapes = checks.settings, checks.shapes
    ridge = settings.ridge or ridge
    fits: list[Fitted] = []
    counts = np.maximum(np.diag(matrix), 0.0)
    for each in (ridge, *(ridge * factor for factor in settings.ridge_path or ())):
        inverse = inverse_of(matrix, each)
        weights = constrained(inverse @ linear, counts, shapes.neighbours, shapes.directions)
        errors, moved = Errors.of(inverse, weights, noise), None if fits else noise_of_weights(inverse, weights, noise)
        fits.append(Fitted(each, weights, matrix @ weights, errors, moved))
    return Fit(counts, linear, fits, told_counts(checks, matrix, linear, noise))


def told_counts(
    checks: ScorecardGuestPreflight, matrix: np.ndarray, linear: np.ndarray, variances: tuple[np.ndarray, np.ndarray]
) -> dict[str, np.ndarray]:
    """`COUNTED` of the bins of parties whose records noise protects; flips are reverted."""
    of_records, of_events = np.diag(variances[0]), (variances[1] / TARGET**2 + np.diag(variances[0])) / 4
    table = ones_and_others((linear / TARGET + np.diag(matrix)) / 2, np.diag(matrix))
    if checks.labels is not None and checks.labels.flips is not None and checks.settings.privacy == NONE:
        rate = flip_probability(checks.labels.epsilon)
        table, of_events = table.with_flips_reverted(checks.labels.epsilon), of_events / (1 - 2 * rate) ** 2
    numbers = (table.totals, table.events, np.sqrt(of_records), np.sqrt(of_events))
    return {name: np.where(of_records > 0, each, math.nan) for name, each in zip(COUNTED, numbers)}


def train(ctx: Context, settings: TrainSettings, frame: DataFrame, binning_model: Document | None = None) -> Document:
    """Returns the party's JSON model, at a host of its own columns."""
    check_roles(ctx, arbiter=False)
    checks: ScorecardPreflight
    if ctx.is_on_guest:
        checks = guest = ScorecardGuestPreflight(ctx, settings, frame, binning_model)
        guest.agree()
        terms = guest.terms
        scorecard = fit_guest(ctx, guest, terms, guest.rows, keys_of(ctx, terms))
    else:
        checks = host = ScorecardHostPreflight(ctx, settings, frame, binning_model)
        terms = host.accept(host.agree())
        scorecard = fit_host(ctx, host, terms, host.rows, keys_of(ctx, terms))
    checks.mark_released()
    show_summary(ctx, {**summary_of(checks, terms, ctx.local.role), **scorecard.facts()})
    return scorecard.to_json(checks.meta(terms))


def keys_of(ctx: Context, terms: ScorecardTerms) -> Keys:
    return exchange_keys(ctx.sub_ctx("keys"), terms.columns(ctx), terms.key_length)


def fit_guest(
    ctx: Context, checks: ScorecardGuestPreflight, terms: ScorecardTerms, rows: Table, keys: Keys
) -> Scorecard:
    """One training on ``rows`` with the noise that was drawn: all points, of which every host has got its own."""
    columns = terms.columns(ctx)
    shares = gather(ctx.sub_ctx("tables"), rows, columns, keys, terms.rows, checks.sizes)
    parts = {0: shares.noisy(checks.noise)}
    for position, party in columns.peers(ctx.sub_ctx("noisy")).items():
        parts[position] = party.get("contingency_tables")
    fit = fit_tables(checks, terms, added_up(columns, parts, terms.tables.largest(terms.rows)))
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


def fit_host(ctx: Context, checks: ScorecardHostPreflight, terms: ScorecardTerms, rows: Table, keys: Keys) -> Scorecard:
    """This host's part of one training on ``rows``; raises ValueError for points of other bins than its own."""
    columns = terms.columns(ctx)
    shares = gather(ctx.sub_ctx("tables"), rows, columns, keys, terms.rows, checks.sizes)
    ctx.sub_ctx("noisy").guest.put("contingency_tables", shares.noisy(checks.noise))
    told = ctx.sub_ctx("points").guest.get("points")
    weights, points = np.array(told["weights"], dtype=float), np.array(told["points"], dtype=np.int64)
    if weights.shape != (checks.sizes.bins,) or points.shape != weights.shape:
        raise ValueError(f"The guest sent points of {len(points)} bins; this host has {checks.sizes.bins}.")
    own = Points(tuple(checks.frame.schema.columns), checks.sizes.counts, weights, points)
    calibration = Calibration(float(told["slope"]), float(told["intercept"]))
    return Scorecard(own, {}, int(told["base"]), checks.settings.scale, calibration)


def _scorecard(
    ctx: Context, checks: ScorecardGuestPreflight, terms: ScorecardTerms, fit: Fit, fitted: Fitted
) -> Scorecard:
    """Joint weights as points, divided among the parties; hosts' columns are known by number."""
    settings, shapes, weights = checks.settings, checks.shapes, fitted.weights
    calibration = calibrate(weights, fitted.image, fit.linear, fit.counts, shapes.columns, fitted.errors)
    base, points = settings.scale.table(weights, fit.counts, shapes.columns, calibration)
    points = merged(points, fit.counts, shapes.neighbours, settings.merge_points) if settings.merge_points else points
    parts, first = [], 0
    noise = None
    if fitted.moved is not None:
        noise = settings.scale.noise_of_points(fitted.moved, fit.counts, shapes.columns, calibration)
    for of_party, party in zip(terms.counts, data_parties(ctx)):
        place = slice(first, first + sum(of_party))
        names = checks.frame.schema.columns.to_list() if not first else [f"x{at}" for at in range(len(of_party))]
        told = {} if noise is None else {POINTS_NOISE: noise[place]}
        if told and not np.isnan(fit.told[RECORDS][place]).any():
            told |= {name: numbers[place] for name, numbers in fit.told.items()}
        parts.append((name_of(party), Points(tuple(names), of_party, weights[place], points[place], told)))
        first = place.stop
    (_, own), *hosts = parts
    return Scorecard(own, dict(hosts), base, settings.scale, calibration)


def summary_of(checks: ScorecardPreflight, terms: ScorecardTerms, role: str) -> Document:
    promise = checks.promise()
    mechanism = {
        RECORD: "each party's own noise on contingency tables of bins",
        LABEL: "hosts' noise on contingency tables of bins, the guest's on the totals of its labels",
        NONE: "hosts' noise on contingency tables of bins",
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
    labels = checks.labels if isinstance(checks, ScorecardGuestPreflight) else None
    if labels is not None:
        facts["labels"] = labels.in_words
    if checks.multiplier:
        position = data_parties(checks.ctx).index(own_party(checks.ctx))
        facts["standard deviation of the noise (records)"] = terms.tables.sigma(position)
    return facts
