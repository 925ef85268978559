"""label_flip: flips of classes, or unbiased noise on numbers within public bounds.

The guarantee is in guarantee.yaml (Warner 1965, k-ary as in Kairouz, Oh and Viswanath 2014; for numbers the piecewise
mechanism, see `privacy.mechanisms.local_numbers`). The number of labels that really flipped is never released: with all
other labels known it gives the last one away.
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fate_dp.privacy import BudgetExceeded
from fate_dp.privacy.labels.flips import canonical_label, flip_labels, noisy_numbers
from fate_dp.privacy.mechanisms.local_numbers import PiecewiseLaw, piecewise_law
from fate_dp.privacy.mechanisms.randomized_response import keep_probability

from ..common import charges, frames
from ..common.federation import Context, Document, TableInput, TableOutput, check_roles, others
from ..common.frames import DataFrame, Table
from ..common.job_files import JobFiles, JobPlan
from ..common.preflight import Preflight, PrivateReason, Refusal, about_settings, show_summary
from ..common.provenance import check_source
from ..common.row_origin import refuse_mixed_rows
from ..disclosure.tracing import trace
from ..disclosure.verdicts import enforce, refusal_for_labels
from ..dp_hetero_lr.planned import host_facts
from .chain import are_binned, asks_hosts, check_plan, check_tables
from .settings import Settings

REFUSAL = "The cap that this party's operator set for these labels does not allow these flips."


@dataclass(frozen=True)
class Flips:
    """k-ary randomised response among declared classes."""

    epsilon: float
    classes: tuple[float, ...]

    def check_labels(self, frame: DataFrame) -> None:
        """Labels must be present and within the declared classes: facts of the domain, which every neighbour shares.

        Nothing else may be asked of true labels here, not even whether two classes occur: the other parties see whether the
        job goes on. The upload and the training, which reads flips, refuse a single class.
        """
        classes = list(self.classes)
        found = frames.distinct_labels(frame, limit=len(classes))
        if not found <= set(classes):
            raise ValueError(
                f"A label is none of the classes {classes}; list all label values, such as classes=[0, 1, 2, 3], or give "
                "bounds, such as [-3, 3], where labels are numbers."
            )

    def labels(self, frame: DataFrame, key: bytes, label_source: str) -> Table:
        """Table of flipped label values, block by block; pure, so a recomputed block gets the same flips."""
        kernel = partial(_flip_block, draw=self, key=key, label_source=label_source)
        return frames.match_id_blocks(frame).join(frames.label_blocks(frame), kernel)

    def recorded(self) -> Document:
        return {"classes": len(self.classes), "class_labels": [canonical_label(value) for value in self.classes]}

    def facts(self) -> Document:
        return {
            "mechanism": "randomised response on the label, memoised per record",
            "classes": len(self.classes),
            "keep probability": keep_probability(self.epsilon, len(self.classes)),
        }


@dataclass(frozen=True)
class NoisyNumbers:
    """Unbiased noise on numbers within public bounds."""

    law: PiecewiseLaw

    @property
    def epsilon(self) -> float:
        return self.law.epsilon

    def check_labels(self, frame: DataFrame) -> None:
        """Labels must lie within the declared bounds, which every neighbour shares; nothing else may be asked of them."""
        low, high = self.law.low, self.law.high
        within = frames.label_blocks(frame).mapValues(lambda labels: bool(((labels >= low) & (labels <= high)).all()))
        if not within.reduce(operator.and_):
            raise ValueError(f"A label lies outside the declared bounds [{low:g}, {high:g}].")

    def labels(self, frame: DataFrame, key: bytes, label_source: str) -> Table:
        kernel = partial(noisy_numbers, law=self.law, key=key, source=label_source)
        return frames.match_id_blocks(frame).join(frames.label_blocks(frame), kernel)

    def recorded(self) -> Document:
        return {"classes": self.law.points, "bounds": (self.law.low, self.law.high)}

    def facts(self) -> Document:
        law = self.law
        middle, bound = np.sqrt(law.variance(np.array([(law.low + law.high) / 2, law.low])))
        return {
            "mechanism": "unbiased noise on a bounded number (piecewise mechanism), memoised per record",
            "lower bound": law.low,
            "upper bound": law.high,
            "bins": law.points,
            "standard deviation of the noise, in the middle": float(middle),
            "standard deviation of the noise, at the bounds": float(bound),
        }


def _flip_block(match_ids: Any, labels: np.ndarray, draw: Flips, key: bytes, label_source: str) -> np.ndarray:
    values = np.asarray(draw.classes)
    indices = np.searchsorted(values, labels)
    return values[flip_labels(match_ids, indices, draw.epsilon, len(values), key, label_source)]


@dataclass
class LabelFlipGuestPreflight(Preflight):
    """The guest's checks; ``planned`` is the job and this task's name in it, ``known`` what this party knows of the job."""

    settings: Settings
    frame: DataFrame
    planned: tuple[JobPlan, str] | None
    asks: bool
    binned: bool
    known: JobPlan | None
    flipped: Table = field(init=False)
    release: Any = field(init=False)

    def __post_init__(self) -> None:
        self.home, settings = charges.home_of(self.ctx), self.settings
        if settings.bounds is None:
            self.draw: Flips | NoisyNumbers = Flips(settings.epsilon, tuple(settings.classes))
        else:
            self.draw = NoisyNumbers(piecewise_law(settings.epsilon, settings.bounds, settings.bins))

    def check(self) -> Document:
        frames.check_guest_table(self.frame, self.binned)
        refuse_mixed_rows(labels_alone=True)
        # Synthetic rows show by features and number which true class they were made in, whatever is flipped.
        if charges.has_synthetic_rows(self.frame):
            raise Refusal(
                "The guest's table was over-sampled; put label_flip before smote, on the table without synthetic rows."
            )
        charges.refuse_derived_labels(self.frame)
        self.draw.check_labels(self.frame)
        check_source(self.home, self.frame, self.settings.label_source)
        policy = self.home.policy
        with about_settings():
            if self.planned is not None:
                check_plan(*self.planned)
            if self.known is not None:
                enforce(policy.job_check, refusal_for_labels(trace(self.known)))
        return {}

    def commit(self, hosts: Mapping[str, Document]) -> Document:
        home, job, frame, source = self.home, charges.job_of(self.ctx), self.frame, self.settings.label_source
        if self.asks and self.planned is not None:
            check_tables(*self.planned, frame, self.draw.epsilon, hosts)
        self.flipped = self.draw.labels(frame, home.key, source)
        charges.remembered_dataset(home, frame, labels=source)
        cap = charges.label_cap(home, source)
        try:
            self.release = home.ledger.record_flips(
                source=source,
                epsilon=self.draw.epsilon,
                key_id=home.key_id,
                rows=frames.flip_stream(frame, self.flipped, home.key, source),
                cap=cap.epsilon,
                delta=cap.delta,
                fingerprint=frames.ids_fingerprint(frame),
                most_records=home.policy.source(source).records,
                **job._asdict(),
                **self.draw.recorded(),
            )
        except BudgetExceeded as error:
            raise PrivateReason(str(error), public=f"{REFUSAL} {charges.CHANGED_BY_OPERATOR}") from error
        return {}


def flip(
    ctx: Context, settings: Settings, input_data: TableInput, output_data: TableOutput, job: JobFiles | None = None
) -> None:
    """Check, record the release in the guest's ledger, write the flipped table, mark the release as done.

    Refused before anything is spent: what a later training would refuse in the table, labels outside the declared classes
    or bounds, a source that the operator has not declared, a spent budget, a corrected label; and where the job is known,
    a training on the flips that cannot succeed, see `chain`, and a task that shows the true labels that are to be
    protected here, see `disclosure`.
    """
    check_roles(ctx, arbiter=False)
    frame, plan = input_data.read(), None if job is None else job.plan()
    planned = (plan, job.task) if job and plan else None
    asks, binned = (asks_hosts(*planned), are_binned(*planned)) if planned else (False, False)
    for party in others(ctx):
        party.put("asks", (asks, binned))
    known = None if job is None else plan or job.so_far()
    checks = LabelFlipGuestPreflight(ctx, settings, frame, planned, asks, binned, known)
    checks.agree()
    output_data.write(frames.replace_labels(frame, checks.flipped, soft=settings.bounds is not None))
    checks.home.ledger.mark_released(checks.release.release_id)
    facts = {
        **checks.draw.facts(),
        "label source": settings.label_source,
        "epsilon (nats, unit label, replace-one)": settings.epsilon,
        "delta": 0,
        "observers": "host, arbiter, whoever gets the model",
        "rows": frame.shape[0],
    }
    show_summary(ctx, facts)


def pass_on(ctx: Context, input_data: TableInput, output_data: TableOutput) -> None:
    """A host tells the guest whether a training on the flips could go on, and passes its table on.

    The guest says whether the flips are binned first, so that both let the same columns through. The facts are those that dp_hetero_lr would tell the guest in its first message, if it asks.
    """
    check_roles(ctx, arbiter=False)
    home, job, (asked, binned) = charges.home_of(ctx), charges.job_of(ctx), ctx.guest.get("asks")
    frames.pass_through(
        ctx, input_data, output_data, lambda frame: host_facts(home, job, frame) if asked else {}, binned
    )
