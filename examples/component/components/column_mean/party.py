"""A party's part of column_mean: noisy means of its columns, charged before they leave.

Guarantee: values are clamped to a public range and rounded to whole steps of it, record by record. A replaced record moves the
sum of each column by all steps at most, so discrete Laplace noise of scale sensitivity / epsilon on every sum is epsilon-private.
"""

from __future__ import annotations

import operator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fate_dp.privacy.events import OBSERVERS, REPLACE_ONE, Release
from fate_dp.privacy.mechanisms.aggregates import STEPS_OF_RANGE, positions_in_range
from fate_dp.privacy.mechanisms.laplace import geometric_mechanism

from ..common.charges import Charges, has_synthetic_rows
from ..common.federation import Context, Document, party_name, require
from ..common.frames import DataFrame, feature_blocks, require_distinct_ids, require_numeric, require_rows
from ..common.preflight import Preflight, Refusal, agree, show_summary
from .settings import Settings

REFUSAL = "The cap that this party's operator set for private steps does not allow these means."


def _sums(block: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """int64 (columns,): sums of steps; a value that is missing or infinite counts as the middle of the range."""
    positions, _, _ = positions_in_range(block, lower, upper, STEPS_OF_RANGE)
    return positions.sum(axis=0)


@dataclass
class Averaging(Preflight):
    """Whether this party can publish its means."""

    settings: Settings
    frame: DataFrame
    release: Release = field(init=False)
    charges: Charges = field(init=False)

    def check(self) -> Document:
        require_rows(self.frame)
        require_distinct_ids(self.frame)
        missing = [each for each in self.settings.columns if each not in self.frame.schema.columns]
        if missing:
            raise Refusal(f"The table has no column {missing[0]!r}, which columns names.")
        columns = self.frame[list(self.settings.columns)]
        require_numeric(columns)
        if has_synthetic_rows(self.frame):
            raise Refusal("The table was over-sampled; put column_mean before smote.")
        of_block = partial(_sums, lower=self.settings.lower, upper=self.settings.upper)
        self.release = geometric_mechanism(
            feature_blocks(columns).mapValues(of_block).reduce(operator.add),
            self.settings.sensitivity,
            self.settings.epsilon,
            relation=REPLACE_ONE,
            observers=OBSERVERS,
        )
        self.charges = Charges(self.ctx, self.frame, REFUSAL)
        self.charges.check([(self.release.event, 1)])
        return self.agreed

    def commit(self, hosts: dict[str, Document]) -> Document:
        for name, facts in hosts.items():
            if facts != self.agreed:
                raise Refusal.of(f"The settings at {name}", facts, f"{self.agreed}, as at the guest")
        return {}

    @property
    def agreed(self) -> Document:
        return {**asdict(self.settings), "columns": list(self.settings.columns)}

    @property
    def means(self) -> list[float]:
        lower, upper = self.settings.lower, self.settings.upper
        shares = self.release.value / (self.frame.shape[0] * STEPS_OF_RANGE)
        return (lower + shares * (upper - lower)).tolist()


def publish(ctx: Context, settings: Settings, frame: DataFrame, output_model: Any) -> None:
    """Check, charge, tell all parties every party's means, write them."""
    require(ctx.federation.parties, "guest", "column_mean needs exactly one, which passes the means on.", at_most=1)
    own = Averaging(ctx, settings, frame)
    own.agree()
    own.charges.record([(own.release.event, 1)], "column_mean")
    facts = {"means": own.means}
    told = agree(ctx.sub_ctx("means"), lambda: facts, lambda hosts: {party_name(ctx): facts, **hosts})
    output_model.write(told, metadata={})
    own.charges.mark_released()
    show_summary(
        ctx,
        {
            "mechanism": "discrete Laplace noise on sums of clamped values",
            "epsilon (nats, unit record, replace-one)": settings.epsilon,
            "rows of this party": frame.shape[0],
            **{f"mean of {name}": mean for name, mean in zip(settings.columns, own.means)},
        },
    )
