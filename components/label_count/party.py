"""A party's part of label_count: noisy counts of its label classes, charged before they leave.

Guarantee: one replaced record moves two counts by one each, so discrete Laplace noise of scale 2 / epsilon on every count,
that of an empty class and of all other labels included, is epsilon-private for the unit record, replace-one ([Ghosh2009]).
No label decides whether the job goes on. Not covered: how many rows a table has.
"""

import operator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fate_dp.privacy.events import OBSERVERS, REPLACE_ONE, Release
from fate_dp.privacy.mechanisms.laplace import geometric_mechanism

from ..common.charges import Charges, has_synthetic_rows
from ..common.federation import Context, Document, ModelOutput, party_name, require
from ..common.frames import DataFrame, label_blocks, require_distinct_ids, require_rows
from ..common.preflight import Preflight, Refusal, agree, require_same, show_summary
from .settings import SENSITIVITY, Settings

REFUSAL = "The cap that this party's operator set for private steps does not allow these counts."
OTHER = "any other label"


def noisy_counts(labels: Any, settings: Settings, rng: Any = None) -> Release:
    """int64 (classes + 1,): how many labels of a table of arrays (rows,) each class has, and how many none of them."""
    counts = labels.mapValues(partial(_counts, classes=settings.classes)).reduce(operator.add)
    return geometric_mechanism(
        counts, SENSITIVITY, settings.epsilon, rng=rng, relation=REPLACE_ONE, observers=OBSERVERS
    )


def _counts(labels: np.ndarray, classes: tuple[float, ...]) -> np.ndarray:
    counts = [int((labels == value).sum()) for value in classes]
    return np.array([*counts, len(labels) - sum(counts)], dtype=np.int64)


@dataclass
class Counting(Preflight):
    """Whether this party can publish its counts; ``release`` and ``charges`` stay None at a host without labels."""

    settings: Settings
    frame: DataFrame | None
    release: Release | None = field(init=False, default=None)
    charges: Charges | None = field(init=False, default=None)

    def check(self) -> Document:
        frame, classes = self.frame, list(self.settings.classes)
        if frame is None or frame.schema.label_name is None:
            if self.ctx.is_on_guest:
                raise Refusal("The guest's table has no label column; upload it with label_name set.")
            return {"classes": classes}
        require_rows(frame)
        require_distinct_ids(frame)
        if has_synthetic_rows(frame):
            raise Refusal("The table was over-sampled; put label_count before smote.")
        self.release = noisy_counts(label_blocks(frame), self.settings)
        self.charges = Charges(self.ctx, frame, REFUSAL)
        self.charges.check([(self.release.event, 1)])
        return {"classes": classes}

    def commit(self, hosts: dict[str, Document]) -> Document:
        require_same({"classes": list(self.settings.classes)}, hosts)
        return {}


def publish(ctx: Context, settings: Settings, frame: DataFrame | None, output_model: ModelOutput) -> None:
    require(ctx.federation.parties, "guest", "label_count needs exactly one, which passes the counts on.", at_most=1)
    own = Counting(ctx, settings, frame)
    own.agree()
    counts = {}
    if own.charges is not None and own.release is not None:
        own.charges.record([(own.release.event, 1)], "label_count")
        counts = {"counts": own.release.value.tolist()}
    result = agree(ctx.sub_ctx("counts"), lambda: counts, lambda hosts: document({party_name(ctx): counts, **hosts}))
    output_model.write({"classes": list(settings.classes), **result}, metadata={})
    if own.charges is not None:
        own.charges.mark_released()
    names = [*(f"label {value:g}" for value in settings.classes), OTHER]
    shown = {
        f"{party}, {name}": count for party, found in result["counts"].items() for name, count in zip(names, found)
    }
    facts = {
        "mechanism": "discrete Laplace noise on the counts of labels",
        "epsilon (nats, unit record, replace-one)": settings.epsilon,
        "standard deviation of the noise": 2**0.5 * SENSITIVITY / settings.epsilon,
        "rows of this party": 0 if frame is None else frame.shape[0],
    }
    show_summary(ctx, {**facts, **shown})


def document(facts: dict[str, Document]) -> Document:
    """Counts by party, with other labels last, and the shares of the classes in all: none of them 0, as a prior needs."""
    counts = {name: found["counts"] for name, found in facts.items() if found}
    total = np.maximum(np.sum(list(counts.values()), axis=0)[:-1], 1)
    return {"counts": counts, "prior": (total / total.sum()).tolist()}
