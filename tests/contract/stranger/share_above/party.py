"""Hosts count, charge and tell; the guest reads."""

from __future__ import annotations

import operator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fate_dp.privacy.events import REPLACE_ONE, Release
from fate_dp.privacy.mechanisms.laplace import geometric_mechanism

from ..common.charges import Charges, has_synthetic_rows
from ..common.federation import Context, name_of, party_of, require
from ..common.frames import DataFrame, feature_blocks, require_distinct_ids, require_numeric, require_rows
from ..common.preflight import Preflight, Refusal
from .settings import Settings

REFUSAL = "The cap that this party's operator set for private steps does not allow these counts."


@dataclass
class Guest(Preflight):
    settings: Settings
    frame: DataFrame

    def check(self) -> dict:
        require_rows(self.frame)
        require_distinct_ids(self.frame)
        return {}

    def commit(self, hosts: dict[str, dict]) -> dict:
        wanted = _facts(self.settings)
        for name, facts in hosts.items():
            if facts != wanted:
                raise Refusal(f"The settings at {name} must be {wanted}, as at the guest, got {facts}.")
        return {}


@dataclass
class Host(Preflight):
    settings: Settings
    frame: DataFrame
    releases: list[Release] = field(init=False)
    charges: Charges = field(init=False)

    def check(self) -> dict:
        require_rows(self.frame)
        require_distinct_ids(self.frame)
        missing = [each for each in self.settings.columns if each not in self.frame.schema.columns]
        if missing:
            raise Refusal(f"A host's table lacks the column {missing[0]!r}.")
        columns = self.frame[list(self.settings.columns)]
        require_numeric(columns)
        if has_synthetic_rows(self.frame):
            raise Refusal("The table was over-sampled; put share_above before smote.")
        found = feature_blocks(columns).mapValues(partial(_above, threshold=self.settings.threshold))
        # A replaced record moves each count by one.
        self.releases = [
            geometric_mechanism(count, 1, self.settings.epsilon, relation=REPLACE_ONE, observers="guest")
            for count in found.reduce(operator.add)
        ]
        self.charges = Charges(self.ctx, self.frame, REFUSAL)
        self.charges.check(self.events)
        return _facts(self.settings)

    @property
    def events(self) -> list:
        return [(each.event, 1) for each in self.releases]


def _facts(settings: Settings) -> dict:
    return {**asdict(settings), "columns": list(settings.columns)}


def _above(block: np.ndarray, threshold: float) -> np.ndarray:
    # Nothing compares with NaN, so a missing value is not counted.
    return (block > threshold).sum(axis=0)


def count_at_host(ctx: Context, settings: Settings, frame: DataFrame) -> None:
    own = Host(ctx, settings, frame)
    own.agree()
    told = [int(each.value) for each in own.releases]
    own.charges.record(own.events, "share_above")
    ctx.guest.put("above", told)
    own.charges.mark_released()


def read_at_guest(ctx: Context, settings: Settings, frame: DataFrame, output_model: Any) -> None:
    require(ctx.federation.parties, "host", "share_above needs one that counts.")
    Guest(ctx, settings, frame).agree()
    hosts = [party for party in ctx.federation.parties if party[0] == "host"]
    output_model.write({name_of(host): party_of(ctx, host).get("above") for host in hosts}, metadata={})
