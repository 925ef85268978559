"""The stage train of dp_scorecard: what each party checks and charges, the tables, the fit at the guest, the points.

The guest fits the model and knows all weights; a host gets those of its own columns. With privacy record the guest sees
tables with every party's own noise, with label and none products of the shared tables with directions; with label it
adds noise to X^T t first. What leaves the guest are directions and weights: functions of what the noise protects.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from fate_dp.privacy.events import REPLACE_ONE, Event, Gaussian
from fate_dp.privacy.mechanisms.contingency_tables import BinnedRows, ContingencyTables, TableNoise
from fate_dp.privacy.mechanisms.label_moments import LabelMoments, LabelNoise
from fate_dp.privacy.mechanisms.second_moments import UNIT_BITS, noise_multiplier_for

from ..common import frames
from ..common.charges import Charges, has_synthetic_rows, home_of, job_of, remembered_dataset
from ..common.frames import DataFrame, Table
from ..common.provenance import (
    LabelPrivacy,
    check_source,
    claim_true_labels,
    find_label_privacy,
    record_use,
    refuse_derived_labels,
)
from ..protocols.federation import Context, check_roles, data_parties, name_of, others, own_party
from ..protocols.preflight import Preflight, show_summary
from ..protocols.score_counts import remember_training
from ..protocols.shared_descent import JointColumns, exchange_keys
from .additive import (
    RIDGE_WITHOUT_NOISE,
    Calibration,
    calibrate,
    constrained,
    label_moments_of,
    label_ridge,
    slices,
    solve,
    solve_by_products,
)
from .model import Points, Scorecard
from .settings import LABEL, NONE, RECORD, TrainSettings
from .tables import NOT_NUMERIC, TableShares, added_up, answer_products, ask_product, binned_rows, end_products, gather

logger = logging.getLogger(__name__)
PURPOSE = "dp_scorecard"
REFUSAL = "The cap that this party's operator set for private steps does not allow this noise."
REFUSAL_OF_LABELS = "The cap that the guest's operator set for these labels does not allow this noise."
FURTHER_PRODUCTS = 3
"""Beside those of the rounds: X^T t, the counts of the bins, and the variance of the scores."""


@dataclass(frozen=True)
class Terms:
    """The public terms of a training, the guest's part first.

    Attributes:
        counts: for every data party the number of bins of each column.
        multipliers: of the noise on tables, with privacy record; zeros otherwise.
    """

    rows: int
    privacy: str
    counts: tuple[tuple[int, ...], ...]
    multipliers: tuple[float, ...]
    key_length: int
    rounds: int

    @classmethod
    def from_wire(cls, wire: dict) -> Terms:
        """What the guest sent; raises ValueError unless it is what `to_wire` makes."""
        try:
            counts = tuple(tuple(map(int, of_party)) for of_party in wire["counts"])
            return cls(**{**wire, "counts": counts, "multipliers": tuple(map(float, wire["multipliers"]))})
        except (KeyError, TypeError) as error:
            raise ValueError("The guest's terms are none of dp_scorecard.") from error

    def to_wire(self) -> dict:
        """Builtins."""
        return {**vars(self), "counts": list(map(list, self.counts)), "multipliers": list(self.multipliers)}

    @property
    def sizes(self) -> tuple[BinnedRows, ...]:
        """Of every party's rows."""
        return tuple(BinnedRows(of_party, labelled=not at) for at, of_party in enumerate(self.counts))

    @property
    def tables(self) -> ContingencyTables:
        """With the noise of privacy record."""
        return ContingencyTables(self.sizes, self.multipliers)

    def columns(self, ctx: Context) -> JointColumns:
        """Whose entries are where in a joint row."""
        return JointColumns.of(ctx, [rows.width for rows in self.sizes])

    @property
    def features(self) -> list[slice]:
        """Where the bins of each column of all parties stand, without the target."""
        return slices([count for of_party in self.counts for count in of_party])


@dataclass
class PartyPreflight(Preflight):
    """What guest and hosts check alike.

    Attributes:
        sizes, rows: of its table.
        multiplier: of its own noise; 0 without.
        charges: of that noise; None without.
        noise: with privacy record, once drawn.
    """

    settings: TrainSettings
    frame: DataFrame
    binning_model: dict | None
    sizes: BinnedRows = field(init=False)
    rows: Table = field(init=False)
    multiplier: float = field(init=False, default=0.0)
    charges: Charges | None = field(init=False, default=None)
    noise: TableNoise | None = field(init=False, default=None, repr=False)

    def prepare(self, labelled: bool) -> dict:
        """Checks of the table and of the budget; the facts of this party."""
        frame, settings = self.frame, self.settings
        frames.require_rows(frame)
        frames.refuse_weights(frame)
        frames.require_distinct_ids(frame)
        names = frame.schema.columns.to_list()
        if not names:
            raise ValueError("The table has no feature columns; each data party needs at least one.")
        frames.require_numeric(frame, NOT_NUMERIC)
        self.sizes = BinnedRows(settings.counts(names, self.binning_model), labelled)
        self.rows = binned_rows(frame, self.sizes)
        if settings.privacy == RECORD:
            self._check_budget()
        return {
            "rows": frame.shape[0],
            "digest": frames.alignment_digest(frame),
            "counts": list(self.sizes.counts),
            "multiplier": self.multiplier,
            "directions": settings.directions(names),
            "privacy": settings.privacy,
            "key_length": settings.he_param["key_length"],
        }

    def _check_budget(self) -> None:
        if self.settings.epsilon is None:
            raise ValueError("privacy is record, but epsilon is not set; every party with columns must set its own.")
        if has_synthetic_rows(self.frame):
            raise ValueError("The table was over-sampled, so noise protects no record; put dp_scorecard before smote.")
        self.multiplier = noise_multiplier_for(self.settings.epsilon, self.settings.delta)
        self.charges = Charges(self.ctx, self.frame, REFUSAL)
        self.charges.check([(Event(Gaussian(self.multiplier), "record", REPLACE_ONE, self.observers), 1)])

    @property
    def observers(self) -> tuple[str, ...]:
        """Roles of all who learn what is computed from the noisy sums."""
        return tuple(sorted({party.role for party in others(self.ctx)} | {"model"}))

    def charge(self, terms: Terms) -> None:
        """Draw this party's noise on tables, and charge it before anything is sent."""
        if self.charges is not None and terms.privacy == RECORD:
            self.noise = terms.tables.draw(data_parties(self.ctx).index(own_party(self.ctx)), self.observers)
            assert self.noise.event is not None, "A party with a multiplier draws noise."
            self.charges.record([(self.noise.event, 1)], PURPOSE)

    def promise(self) -> dict:
        """For the model's metadata: what this party's data were promised."""
        epsilon = self.settings.epsilon if self.charges is not None else None
        return {
            "privacy": self.settings.privacy,
            "epsilon": "infinity" if epsilon is None else epsilon,
            "delta": 0.0 if epsilon is None else self.settings.delta,
            "unit": LABEL if self.settings.privacy == LABEL else RECORD,
            "relation": str(REPLACE_ONE),
            "observers": list(self.observers),
        }


@dataclass
class GuestPreflight(PartyPreflight):
    """The guest's checks.

    Attributes:
        labels: what the ledger knows of labels where no record is protected.
        moments, label_noise: with privacy label, the terms of the noise on X^T t, and the noise once drawn.
        directions: {number of a column among all: increasing or decreasing}.
    """

    labels: LabelPrivacy | None = field(init=False, default=None)
    moments: LabelMoments | None = field(init=False, default=None)
    label_noise: LabelNoise | None = field(init=False, default=None, repr=False)
    terms: Terms = field(init=False)
    directions: dict[int, str] = field(init=False)

    def check(self) -> dict:
        frame, settings, home = self.frame, self.settings, home_of(self.ctx)
        if frame.schema.label_name is None:
            raise ValueError("The guest's table has no label column; upload it with label_name set.")
        facts = self.prepare(labelled=True)
        # With noise on labels alone, whether the job goes on must say no more of a label than that it is 0 or 1.
        if settings.privacy != LABEL and len(frames.distinct_labels(frame, limit=2)) == 1:
            raise ValueError("All labels are of one class; both 0 and 1 must occur.")
        if settings.privacy == LABEL:
            refuse_derived_labels(home, frame)
            self._check_label_budget()
        elif settings.privacy == NONE:
            self.labels = find_label_privacy(home, frame, settings.label_source)
            self.labels.refuse_numbers("binomial")
        else:
            refuse_derived_labels(home, frame)
        return facts

    def _check_label_budget(self) -> None:
        settings, home = self.settings, home_of(self.ctx)
        source = settings.label_source
        if settings.epsilon is None or source is None:
            missing = "epsilon" if settings.epsilon is None else "label_source"
            raise ValueError(f"privacy is label, but the guest sets no {missing}; set it there.")
        check_source(home, self.frame, source)
        if home.policy.source(source).public:
            raise ValueError(f"privacy is label, but {source} was declared public at the guest; set privacy to none.")
        self.labels = LabelPrivacy.of_noise(source, settings.epsilon, settings.delta)
        self.charges = Charges(self.ctx, self.frame, REFUSAL_OF_LABELS, label_source=source)
        multiplier = noise_multiplier_for(settings.epsilon, settings.delta)
        self.charges.check([(Event(Gaussian(multiplier), "label", REPLACE_ONE, self.observers), 1)])

    def charge(self, terms: Terms) -> None:
        """Also of noise on labels."""
        super().charge(terms)
        settings = self.settings
        if terms.privacy != LABEL or self.charges is None or settings.epsilon is None or settings.label_source is None:
            return
        claim_true_labels(home_of(self.ctx), self.frame, settings.label_source)
        columns = [len(of_party) for of_party in terms.counts]
        self.moments = label_moments_of(columns, noise_multiplier_for(settings.epsilon, settings.delta))
        self.label_noise = self.moments.draw(sum(rows.bins for rows in terms.sizes), self.observers)
        self.charges.record([(self.label_noise.event, 1)], PURPOSE)

    def commit(self, hosts: dict[str, dict]) -> dict:
        own, settings = self.sizes, self.settings
        names = [name_of(party) for party in data_parties(self.ctx)[1:]]
        frames.check_aligned(self.frame, hosts)
        for name in names:
            facts = hosts[name]
            for field_name, wanted in (("privacy", settings.privacy), ("key_length", settings.he_param["key_length"])):
                if facts[field_name] != wanted:
                    raise ValueError(
                        f"{field_name} is {wanted} at the guest and {facts[field_name]} at {name}; both must be the same."
                    )
        of_hosts = [hosts[name] for name in names]
        self.terms = Terms(
            self.frame.shape[0],
            settings.privacy,
            (own.counts, *(tuple(facts["counts"]) for facts in of_hosts)),
            (self.multiplier, *(facts["multiplier"] for facts in of_hosts)),
            settings.he_param["key_length"],
            settings.rounds,
        )
        self.directions = {**settings.directions(self.frame.schema.columns.to_list())}
        first = own.columns
        for facts in of_hosts:
            self.directions |= {first + number: each for number, each in facts["directions"].items()}
            first += len(facts["counts"])
        self.charge(self.terms)
        if self.labels is not None:
            record_use(home_of(self.ctx), self.labels, job_of(self.ctx), self.terms.rows)
        return self.terms.to_wire()


@dataclass
class HostPreflight(PartyPreflight):
    """A host's checks."""

    def check(self) -> dict:
        frames.refuse_label(self.frame)
        return self.prepare(labelled=False)

    def accept(self, wire: dict) -> Terms:
        """Take the guest's terms, which must say of this host what it said itself; draw and charge its noise."""
        terms, position = Terms.from_wire(wire), data_parties(self.ctx).index(own_party(self.ctx))
        told = (terms.rows, terms.privacy, terms.key_length, terms.counts[position], terms.multipliers[position])
        settings = self.settings
        own = (
            self.frame.shape[0],
            settings.privacy,
            settings.he_param["key_length"],
            self.sizes.counts,
            self.multiplier,
        )
        if told != own or not 1 <= terms.rounds <= settings.rounds:
            raise ValueError("The guest's terms are other ones than this host's parameters and table give.")
        self.charge(terms)
        home = home_of(self.ctx)
        remember_training(home, remembered_dataset(home, self.frame).name, self.frame)
        return terms


class Fit:
    """At the guest: the joint weights, and what calibration needs beside them.

    Attributes:
        counts, linear, image: records in each bin, X^T t and X^T X w, all of them as they were released.
    """

    def __init__(self, settings: TrainSettings, terms: Terms, directions: dict[int, str]) -> None:
        self._settings, self._terms, self._directions = settings, terms, directions
        width = sum(rows.width for rows in terms.sizes)
        self._target = terms.sizes[0].bins
        self._bins = np.delete(np.arange(width), self._target)

    def from_tables(self, joint: np.ndarray) -> None:
        """Privacy record: all tables with noise."""
        matrix, self.linear = joint[np.ix_(self._bins, self._bins)], joint[self._bins, self._target]
        self.counts = np.maximum(np.diag(matrix), 0.0)
        ridge = self._settings.ridge or self._terms.tables.required_ridge()
        self._keep(solve(matrix, self.linear, ridge))
        self.image = matrix @ self.weights

    def from_products(
        self, ctx: Context, shares: TableShares, moments: LabelMoments | None, noise: LabelNoise | None
    ) -> None:
        """Privacy label and none: products of the shared tables; with label, ``noise`` on X^T t by the terms ``moments``."""
        limit = self._terms.rounds + FURTHER_PRODUCTS
        steps = (step for _, step in ctx.on_iterations.ctxs_range(limit + 1))
        first = np.zeros(len(self._bins))
        first[self._terms.features[0]] = 1.0
        self.linear = self._product(steps, shares, np.zeros(len(self._bins)), of_target=1.0)
        # Every record is in one bin of the first column, so that this direction adds up all records.
        self.counts = self._product(steps, shares, first)

        def product(direction: np.ndarray) -> np.ndarray:
            return self._product(steps, shares, direction)

        usual = RIDGE_WITHOUT_NOISE
        if noise is not None and moments is not None:
            self.linear = self.linear + noise.values.astype(float) * 4.0**-UNIT_BITS
            usual = label_ridge(moments, len(self.linear))
        ridge = self._settings.ridge or usual
        self._keep(solve_by_products(product, self.linear, self.counts, ridge, self._terms.rounds))
        self.image = product(self.weights)
        end_products(next(steps))

    def _product(
        self, steps: Iterator[Context], shares: TableShares, direction: np.ndarray, of_target: float = 0.0
    ) -> np.ndarray:
        joint = np.insert(direction, self._target, of_target)
        return ask_product(next(steps), shares, joint)[self._bins] if joint.any() else np.zeros(len(direction))

    def _keep(self, weights: np.ndarray) -> None:
        self.weights = constrained(weights, self.counts, self._terms.features, self._directions)

    def calibration(self) -> Calibration:
        """From scores to log-odds."""
        return calibrate(self.weights, self.image, self.linear, self.counts, self._terms.features)


def train_guest(ctx: Context, settings: TrainSettings, frame: DataFrame, binning_model: dict | None = None) -> dict:
    """Returns the guest's JSON model."""
    check_roles(ctx, arbiter=False)
    checks = GuestPreflight(ctx, settings, frame, binning_model)
    checks.agree()
    terms = checks.terms
    columns, fit = terms.columns(ctx), Fit(settings, terms, checks.directions)
    keys = exchange_keys(ctx.sub_ctx("keys"), columns, terms.key_length)
    shares = gather(ctx.sub_ctx("tables"), checks.rows, columns, keys, terms.rows, checks.sizes)
    if checks.noise is not None:
        peers = columns.peers(ctx.sub_ctx("noisy"))
        parts = {position: party.get("contingency_tables") for position, party in peers.items()}
        fit.from_tables(added_up(columns, {0: shares.noisy(checks.noise), **parts}))
    else:
        fit.from_products(ctx.sub_ctx("products"), shares, checks.moments, checks.label_noise)
    scorecard = _scorecard(ctx, settings, terms, fit, frame.schema.columns.to_list())
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
    if checks.charges is not None:
        checks.charges.mark_released()
    show_summary(ctx, _summary(checks, terms, "guest"))
    privacy = {} if checks.labels is None else checks.labels.to_json("none")
    meta = {"threshold": settings.threshold, "privacy": privacy, "noise": checks.promise(), "rows": terms.rows}
    return scorecard.to_json(meta)


def train_host(ctx: Context, settings: TrainSettings, frame: DataFrame, binning_model: dict | None = None) -> dict:
    """Returns this host's JSON model, of its own columns."""
    check_roles(ctx, arbiter=False)
    checks = HostPreflight(ctx, settings, frame, binning_model)
    terms = checks.accept(checks.agree())
    columns = terms.columns(ctx)
    keys = exchange_keys(ctx.sub_ctx("keys"), columns, terms.key_length)
    shares = gather(ctx.sub_ctx("tables"), checks.rows, columns, keys, terms.rows, checks.sizes)
    if checks.noise is not None:
        ctx.sub_ctx("noisy").guest.put("contingency_tables", shares.noisy(checks.noise))
    else:
        answered = answer_products(ctx.sub_ctx("products"), shares, terms.rounds + FURTHER_PRODUCTS)
        logger.info("the guest asked for %d products of the tables", answered)
    told = ctx.sub_ctx("points").guest.get("points")
    weights, points = np.array(told["weights"], dtype=float), np.array(told["points"], dtype=np.int64)
    if weights.shape != (checks.sizes.bins,) or points.shape != weights.shape:
        raise ValueError(f"The guest sent points of {len(points)} bins; this host has {checks.sizes.bins}.")
    own = Points(tuple(frame.schema.columns), checks.sizes.counts, weights, points)
    calibration = Calibration(float(told["slope"]), float(told["intercept"]))
    if checks.charges is not None:
        checks.charges.mark_released()
    show_summary(ctx, _summary(checks, terms, "host"))
    meta = {"threshold": settings.threshold, "noise": checks.promise(), "rows": terms.rows}
    return Scorecard(own, {}, int(told["base"]), settings.scale, calibration).to_json(meta)


def _scorecard(ctx: Context, settings: TrainSettings, terms: Terms, fit: Fit, names: list[str]) -> Scorecard:
    """The joint weights as points, divided among the parties; hosts' columns are known by number."""
    calibration = fit.calibration()
    base, points = settings.scale.table(fit.weights, fit.counts, terms.features, calibration)
    parts, first = [], 0
    for of_party, party in zip(terms.counts, data_parties(ctx)):
        place = slice(first, first + sum(of_party))
        known = tuple(names) if not first else tuple(f"x{number}" for number in range(len(of_party)))
        parts.append((name_of(party), Points(known, of_party, fit.weights[place], points[place])))
        first = place.stop
    (_, own), *hosts = parts
    return Scorecard(own, dict(hosts), base, settings.scale, calibration)


def _summary(checks: PartyPreflight, terms: Terms, role: str) -> dict:
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
