"""What all parties of a scorecard's training agree on: tables that fit, the terms, the noise, and what the ledger is charged."""

from dataclasses import dataclass, field

from fate_dp.privacy.events import REPLACE_ONE, Event, Gaussian
from fate_dp.privacy.mechanisms.contingency_tables import BinnedRows, ContingencyTables, TableNoise
from fate_dp.privacy.mechanisms.label_moments import LabelMoments, LabelNoise
from fate_dp.privacy.mechanisms.second_moments import noise_multiplier_for

from ..common import charges, frames
from ..common.charges import Charges, home_of, observers_of
from ..common.federation import Context, Document, data_parties, name_of, own_party
from ..common.frames import DataFrame, Table
from ..common.preflight import Preflight, Refusal, require_same
from ..common.provenance import LabelPrivacy, find_label_privacy, labels_to_protect, record_use
from ..common.vocabulary import LABEL, NONE, RECORD
from ..protocols.score_counts import remember_training
from ..protocols.shared_descent import JointColumns
from .additive import label_moments_of, slices
from .settings import TrainSettings
from .tables import NOT_NUMERIC, binned_rows

PURPOSE = "dp_scorecard"
REFUSAL = "The cap that this party's operator set for private steps does not allow this noise."
REFUSAL_OF_LABELS = "The cap that the guest's operator set for these labels does not allow this noise."


@dataclass(frozen=True)
class ScorecardTerms:
    """The public terms of a training, the guest's part first.

    ``counts`` are for every data party the number of bins of each column; ``multipliers`` of the noise on tables are 0
    at the guest but with privacy record.
    """

    rows: int
    privacy: str
    counts: tuple[tuple[int, ...], ...]
    multipliers: tuple[float, ...]
    key_length: int

    @classmethod
    def from_wire(cls, wire: Document) -> "ScorecardTerms":
        try:
            counts = tuple(tuple(map(int, of_party)) for of_party in wire["counts"])
            return cls(**{**wire, "counts": counts, "multipliers": tuple(map(float, wire["multipliers"]))})
        except (KeyError, TypeError) as error:
            raise Refusal("The guest sent invalid dp_scorecard terms.") from error

    def to_wire(self) -> Document:
        return {**vars(self), "counts": list(map(list, self.counts)), "multipliers": list(self.multipliers)}

    @property
    def sizes(self) -> tuple[BinnedRows, ...]:
        return tuple(BinnedRows(of_party, labelled=not at) for at, of_party in enumerate(self.counts))

    @property
    def tables(self) -> ContingencyTables:
        return ContingencyTables(self.sizes, self.multipliers)

    def columns(self, ctx: Context) -> JointColumns:
        """Whose entries are where in a joint row."""
        return JointColumns.of(ctx, [rows.width for rows in self.sizes])

    @property
    def features(self) -> list[slice]:
        """Where the bins of each column of all parties stand, without the target."""
        return slices([count for of_party in self.counts for count in of_party])


@dataclass(frozen=True)
class Shapes:
    """What holds along the bins of all parties' columns, at the guest.

    ``columns`` are where the bins of each column stand, without the target, ``directions`` {number of a column:
    increasing or decreasing}, and ``ordered`` how many bins of each column have neighbours.
    """

    columns: list[slice]
    directions: dict[int, str]
    ordered: tuple[int, ...]

    @property
    def neighbours(self) -> list[slice]:
        """Where those bins of each column stand that have neighbours."""
        return [slice(column.start, column.start + count) for column, count in zip(self.columns, self.ordered)]


@dataclass
class ScorecardPreflight(Preflight):
    """What guest and hosts check alike; a guest without noise has no charges, a multiplier of 0 and noise of zeros.

    ``ordered`` is how many of each column's bins, the first ones, have neighbours. As many trainings as ``reads`` read a
    record, and as many draws of the noise are charged for it.
    """

    settings: TrainSettings
    frame: DataFrame
    binning_model: Document | None
    reads: int = 1
    sizes: BinnedRows = field(init=False)
    ordered: tuple[int, ...] = field(init=False)
    rows: Table = field(init=False)
    multiplier: float = field(init=False, default=0.0)
    charges: Charges | None = field(init=False, default=None)
    noise: TableNoise = field(init=False, repr=False)

    def prepare(self, labelled: bool) -> Document:
        """Checks of the table and of the budget; the facts of this party."""
        frame, settings = self.frame, self.settings
        frames.require_rows(frame)
        frames.refuse_weights(frame)
        frames.require_distinct_ids(frame)
        names = frames.feature_names(frame)
        frames.require_numeric(frame, NOT_NUMERIC)
        self.sizes = BinnedRows(settings.counts(names, self.binning_model), labelled)
        self.ordered = settings.ordered(names, self.binning_model)
        self.rows = binned_rows(frame, self.sizes)
        if not labelled or settings.privacy == RECORD:
            self._check_budget()
        return {
            "rows": frame.shape[0],
            "digest": frames.alignment_digest(frame),
            "counts": list(self.sizes.counts),
            "ordered": list(self.ordered),
            "multiplier": self.multiplier,
            "directions": settings.directions(names),
            "privacy": settings.privacy,
            "key_length": settings.he_param["key_length"],
        }

    def _check_budget(self) -> None:
        if self.settings.epsilon is None:
            raise Refusal(
                "epsilon is not set at a party whose records need noise. Set it at every host, and with privacy record at the "
                "guest, too."
            )
        if charges.has_synthetic_rows(self.frame):
            raise Refusal("The table was over-sampled, so noise protects no record; put dp_scorecard before smote.")
        self.multiplier = noise_multiplier_for(self.settings.epsilon, self.settings.delta)
        self.charges = Charges(self.ctx, self.frame, REFUSAL)
        event = Event(Gaussian(self.multiplier), "record", REPLACE_ONE, observers_of(self.ctx))
        self.charges.check([(event, self.reads)])

    def charge(self, terms: ScorecardTerms) -> None:
        """Draw this party's noise, and charge it before anything is sent."""
        self.draw(terms)
        if self.charges is not None and self.noise.event is not None:
            self.charges.record([(self.noise.event, self.reads)], PURPOSE)

    def draw(self, terms: ScorecardTerms) -> None:
        """Fresh noise for a training, of the event that was charged: its scale depends on columns and bins alone."""
        self.noise = terms.tables.draw(data_parties(self.ctx).index(own_party(self.ctx)), observers_of(self.ctx))

    def mark_released(self) -> None:
        if self.charges is not None:
            self.charges.mark_released()

    def promise(self) -> Document:
        """For the model's metadata: what this party's data were promised."""
        epsilon = self.settings.epsilon if self.charges is not None else None
        return {
            "privacy": self.settings.privacy,
            "epsilon": "infinity" if epsilon is None else epsilon,
            "delta": 0.0 if epsilon is None else self.settings.delta,
            "unit": LABEL if self.sizes.labelled and self.settings.privacy == LABEL else RECORD,
            "relation": str(REPLACE_ONE),
            "observers": list(observers_of(self.ctx)),
        }

    def meta(self, terms: ScorecardTerms) -> Document:
        return {"threshold": self.settings.threshold, "noise": self.promise(), "rows": terms.rows}


@dataclass
class ScorecardGuestPreflight(ScorecardPreflight):
    """The guest's checks; ``labels`` is what the ledger knows of labels where its records are not protected.

    With privacy label ``moments`` are the terms of the noise on X^T t, and ``label_noise`` is that noise, once drawn.
    """

    labels: LabelPrivacy | None = field(init=False, default=None)
    moments: LabelMoments | None = field(init=False, default=None)
    label_noise: LabelNoise | None = field(init=False, default=None, repr=False)
    terms: ScorecardTerms = field(init=False)
    shapes: Shapes = field(init=False)

    def check(self) -> Document:
        frame, settings, home = self.frame, self.settings, home_of(self.ctx)
        if frame.schema.label_name is None:
            raise Refusal("The guest's table has no label column; upload it with label_name set.")
        charges.refuse_derived_labels(frame)
        facts = self.prepare(labelled=True)
        if settings.privacy == NONE:
            if settings.epsilon is not None:
                raise Refusal(
                    f"epsilon is {settings.epsilon:g} at the guest, but privacy is none; set it at the hosts alone, or set privacy."
                )
            self.labels = find_label_privacy(home, frame, settings.label_source)
            self.labels.refuse_numbers("binomial")
            # Of labels that noise protects, whether the job goes on must say no more than that each is 0 or 1.
            if len(frames.distinct_labels(frame, limit=2)) == 1:
                raise ValueError("All labels are of one class. Bring both 0 and 1.")
            return facts
        if settings.privacy == LABEL:
            self._check_label_budget()
        return facts

    def _check_label_budget(self) -> None:
        settings = self.settings
        self.labels = labels_to_protect(home_of(self.ctx), self.frame, settings)
        self.charges = Charges(self.ctx, self.frame, REFUSAL_OF_LABELS, label_source=settings.label_source)
        multiplier = noise_multiplier_for(self.labels.epsilon, settings.delta)
        self.charges.check([(Event(Gaussian(multiplier), "label", REPLACE_ONE, observers_of(self.ctx)), self.reads)])

    def charge(self, terms: ScorecardTerms) -> None:
        super().charge(terms)
        if self.label_noise is not None and self.charges is not None:
            self.charges.record([(self.label_noise.event, self.reads)], PURPOSE)

    def draw(self, terms: ScorecardTerms) -> None:
        super().draw(terms)
        settings = self.settings
        if terms.privacy == LABEL and settings.epsilon is not None:
            columns = [len(of_party) for of_party in terms.counts]
            self.moments = label_moments_of(columns, noise_multiplier_for(settings.epsilon, settings.delta))
            self.label_noise = self.moments.draw(sum(rows.bins for rows in terms.sizes), observers_of(self.ctx))

    def meta(self, terms: ScorecardTerms) -> Document:
        return {**super().meta(terms), "privacy": {} if self.labels is None else self.labels.to_json("none")}

    def commit(self, hosts: dict[str, Document]) -> Document:
        own, settings = self.sizes, self.settings
        names = [name_of(party) for party in data_parties(self.ctx)[1:]]
        frames.check_aligned(self.frame, hosts)
        require_same({"privacy": settings.privacy, "key_length": settings.he_param["key_length"]}, hosts)
        of_hosts = [hosts[name] for name in names]
        self.terms = ScorecardTerms(
            self.frame.shape[0],
            settings.privacy,
            (own.counts, *(tuple(facts["counts"]) for facts in of_hosts)),
            (self.multiplier, *(facts["multiplier"] for facts in of_hosts)),
            settings.he_param["key_length"],
        )
        directions, ordered = settings.directions(self.frame.schema.columns.to_list()), [*self.ordered]
        for facts in of_hosts:
            directions |= {len(ordered) + number: each for number, each in facts["directions"].items()}
            ordered += facts["ordered"]
        self.shapes = Shapes(self.terms.features, directions, tuple(ordered))
        self.charge(self.terms)
        if self.labels is not None:
            record_use(home_of(self.ctx), self.labels, charges.job_of(self.ctx), self.terms.rows)
        return self.terms.to_wire()


@dataclass
class ScorecardHostPreflight(ScorecardPreflight):
    """A host's checks."""

    def check(self) -> Document:
        frames.refuse_label(self.frame)
        return self.prepare(labelled=False)

    def accept(self, wire: Document) -> ScorecardTerms:
        """Take the guest's terms, which must say of this host what it said itself; draw and charge its noise."""
        terms, position = ScorecardTerms.from_wire(wire), data_parties(self.ctx).index(own_party(self.ctx))
        told = (terms.rows, terms.privacy, terms.key_length, terms.counts[position], terms.multipliers[position])
        asked = (self.settings.privacy, self.settings.he_param["key_length"])
        if told != (self.frame.shape[0], *asked, self.sizes.counts, self.multiplier):
            raise Refusal("The guest's terms are other ones than this host's parameters and table give.")
        self.charge(terms)
        home = home_of(self.ctx)
        remember_training(home, charges.remembered_dataset(home, self.frame).name, self.frame)
        return terms
