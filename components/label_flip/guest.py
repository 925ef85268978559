"""The guest's part of label_flip: flips of classes, or unbiased noise on numbers within public bounds.

Guarantee: the flipped (or noisy) label column is epsilon-differentially private in nats (delta 0), unit *label*, replace-one,
against host, arbiter and whoever gets the model; all jobs with the same label source, key and epsilon together
release each record's flip once (Warner 1965, k-ary as in Kairouz, Oh and Viswanath 2014; for numbers the piecewise mechanism,
see `privacy.mechanisms.piecewise`). Not covered: the features,
and which records exist. The number of labels that really flipped is never released: with all other labels known it
gives the last one away.
"""
import operator
from dataclasses import dataclass
from functools import partial
from typing import Tuple

import numpy as np

from fate_dp.components.common.frame_checks import check_guest_table, distinct_labels
from fate_dp.components.common.frames import label_blocks, match_id_blocks, replace_labels
from fate_dp.components.common.over_sampled import has_synthetic_rows
from fate_dp.components.common.parties import check_roles, others
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import PrivateReason, agree
from fate_dp.components.common.record_stream import flip_stream, ids_fingerprint
from fate_dp.components.common.summary import show_summary
from fate_dp.privacy.label_flips import canonical_label, flip_labels, noisy_numbers
from fate_dp.privacy.mechanisms.piecewise import PiecewiseLaw, piecewise_law
from fate_dp.privacy.mechanisms.randomized_response import keep_probability
from fate_dp.privacy.secret_key import key_id

from .chain import asks_hosts, check_plan, check_tables

LABELS_UNFIT = "The labels there do not allow these flips; that party's operator can see why."


def flip(
    ctx, input_data, output_data, *, epsilon, label_source, classes=(0.0, 1.0), bounds=None, bins=None, job=None
) -> None:
    """Check, record the release in the guest's ledger, write the flipped table, mark the release as done.

    With ``bounds`` (low, high) labels are numbers within them, made noisy on ``bins`` grid points (None: as many as suit
    epsilon best), and ``classes`` play no part. Refused before anything is spent: what a later training would refuse in the
    table, labels outside the declared classes or bounds, a source that the operator has not declared, a spent budget, a
    corrected label; and where the job is known (``job``, its `JobFiles`), a training on the flips that cannot succeed,
    see `chain`.
    """
    check_roles(ctx, arbiter=False)
    frame, home = input_data.read(), home_of(ctx)
    plan = None if job is None else job.plan()
    known, asks = {}, plan is not None and asks_hosts(plan, job.task)
    for party in others(ctx):
        party.put("asks", asks)
    draw = Flips(epsilon, tuple(classes)) if bounds is None else NoisyNumbers(piecewise_law(epsilon, bounds, bins))

    def check():
        check_guest_table(frame)
        check_real(frame)
        draw.check_labels(frame)
        check_source(home, frame, label_source)
        if plan is not None:
            check_plan(plan, job.task)
        return {}

    def commit(hosts):
        if asks:
            check_tables(plan, job.task, frame, epsilon, hosts)
        known["flipped"] = draw.labels(frame, home.key, label_source)
        known["release"] = _record(ctx, home, frame, known["flipped"], draw, label_source)
        return {}

    agree(ctx, check, commit)
    output_data.write(replace_labels(frame, known["flipped"], soft=bounds is not None))
    home.ledger.mark_released(known["release"].release_id)
    show_summary(ctx, _summary(frame, draw, label_source))


def check_real(frame) -> None:
    """Synthetic rows show by features and number which true class they were made in, whatever is flipped."""
    if has_synthetic_rows(frame):
        raise ValueError(
            "The guest's table was over-sampled; put label_flip before smote, on the table without synthetic rows."
        )


def check_source(home, frame, label_source) -> None:
    """The budget belongs to a declared source: a name that the job makes up must not open a new one."""
    if not home.policy.is_declared(label_source):
        raise ValueError(
            f"label_source {label_source} is not declared at the guest; its operator declares it once with "
            f"`fate-dp declare {label_source}`."
        )
    if label_source.rsplit("/", 1)[1] != frame.schema.label_name:
        raise ValueError(f"label_source {label_source} must end with the label column {frame.schema.label_name!r}.")
    declared = home.policy.columns_of(label_source)
    strange = next((column for column in frame.schema.columns if declared is not None and column not in declared), None)
    if strange is not None:
        raise ValueError(
            f"The guest's table has the column {strange!r}, which {label_source} was not declared with; its labels are those "
            "of another table, or a step before this one made new columns."
        )


@dataclass(frozen=True)
class Flips:
    """k-ary randomised response among declared classes."""

    epsilon: float
    classes: Tuple[float, ...]

    def check_labels(self, frame) -> None:
        """Labels must be present and within the declared classes: facts of the domain, which every neighbour shares.

        Nothing else may be asked of true labels here, not even whether two classes occur: the other parties see whether the
        job goes on. The upload and the training, which reads flips, refuse a single class.
        """
        classes = list(self.classes)
        found = distinct_labels(frame, limit=len(classes))
        if len(found) > len(classes):
            raise PrivateReason(
                f"The labels take more values than the declared classes {classes}; they look continuous. Numbers need bounds, "
                "such as [-3, 3]; if they are classes, list all of them, such as classes=[0, 1, 2, 3].", LABELS_UNFIT,
            )  # fmt: skip
        if not found <= set(classes):
            raise PrivateReason(f"A label lies outside the declared classes {classes}.", LABELS_UNFIT)

    def labels(self, frame, key, label_source):
        """Table of flipped label values, block by block; pure, so a recomputed block gets the same flips."""
        kernel = partial(_flip_block, draw=self, key=key, label_source=label_source)
        return match_id_blocks(frame).join(label_blocks(frame), kernel)

    def recorded(self) -> dict:
        """What the ledger needs to know."""
        return {"classes": len(self.classes), "class_labels": [canonical_label(value) for value in self.classes]}

    def facts(self) -> dict:
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

    def check_labels(self, frame) -> None:
        """Labels must lie within the declared bounds, which every neighbour shares; nothing else may be asked of them."""
        low, high = self.law.low, self.law.high
        if not label_blocks(frame).mapValues(partial(_within, low=low, high=high)).reduce(operator.and_):
            raise PrivateReason(f"A label lies outside the declared bounds [{low:g}, {high:g}].", LABELS_UNFIT)

    def labels(self, frame, key, label_source):
        """As those of `Flips`."""
        kernel = partial(noisy_numbers, law=self.law, key=key, source=label_source)
        return match_id_blocks(frame).join(label_blocks(frame), kernel)

    def recorded(self) -> dict:
        return {"classes": self.law.points, "bounds": (self.law.low, self.law.high)}

    def facts(self) -> dict:
        law = self.law
        return {
            "mechanism": "unbiased noise on a bounded number (piecewise mechanism), memoised per record",
            "lower bound": law.low,
            "upper bound": law.high,
            "bins": law.points,
            "standard deviation of the noise, in the middle": float(np.sqrt(law.variance((law.low + law.high) / 2))),
            "standard deviation of the noise, at the bounds": float(np.sqrt(law.variance(law.low))),
        }


def _flip_block(match_ids, labels, draw, key, label_source):
    values = np.asarray(draw.classes)
    indices = np.searchsorted(values, labels)
    return values[flip_labels(match_ids, indices, draw.epsilon, len(values), key, label_source)]


def _within(labels, low, high):
    return bool(((labels >= low) & (labels <= high)).all())


def _record(ctx, home, frame, flipped, draw, label_source):
    job = job_of(ctx)
    return home.ledger.record_flips(
        source=label_source,
        epsilon=draw.epsilon,
        key_id=key_id(home.key),
        rows=flip_stream(frame, flipped, home.key, label_source),
        cap=home.policy.label_cap(label_source),
        job_id=job.job_id,
        task_id=job.task_id,
        fingerprint=ids_fingerprint(frame),
        most_records=home.policy.records_of(label_source),
        **draw.recorded(),
    )


def _summary(frame, draw, label_source) -> dict:
    return {
        **draw.facts(),
        "label source": label_source,
        "epsilon (nats, unit label, replace-one)": draw.epsilon,
        "delta": 0,
        "observers": "host, arbiter, whoever gets the model",
        "rows": frame.shape[0],
    }
