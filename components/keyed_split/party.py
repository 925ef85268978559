"""A party's part of keyed_split: on which side a row lies follows from its match id and a public salt alone.

Guarantee: row by row, under every neighbouring relation. A record that joins, leaves or is replaced moves no other one, so that a
promise for a record of the parts is one for a record of the table. Not covered: how many rows a part has, and whether a record
whose id is known would be in it.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

import numpy as np

from ..common.federation import Context, Document, TableOutput, require
from ..common.frames import DataFrame, Table, match_id_blocks, require_rows
from ..common.preflight import Preflight, Refusal, show_summary
from ..protocols.prediction_frames import column_of
from .settings import Settings

SIDES = ("training", "testing", "validation")


def sides_of(match_ids: Sequence[str], settings: Settings) -> np.ndarray:
    """int64 (rows,): the index of each row's side in `SIDES`, by HMAC-SHA256 of its match id under the salt."""
    digests = [hmac.digest(settings.salt.encode(), each.encode(), "sha256") for each in match_ids]
    # Two places from 0 to below 1, exact: one for the test, and one for the validation among the other rows.
    places = (np.frombuffer(b"".join(digests), ">u8").reshape(-1, 4)[:, :2] >> 11) / 2.0**53
    first, end = settings.tested
    tested = (places[:, 0] >= first) & (places[:, 0] < end)
    return np.where(tested, 1, np.where(places[:, 1] < settings.validate_share, 2, 0))


def _on_side(sides: np.ndarray, side: int) -> np.ndarray:
    return sides == side


@dataclass
class SplitPreflight(Preflight):
    """Whether this party can split its table; ``parts`` are its tables by side, those of share 0 not among them."""

    settings: Settings
    frame: DataFrame
    parts: dict[str, DataFrame] = field(init=False)

    def check(self) -> Document:
        require_rows(self.frame)
        sides: Table = match_id_blocks(self.frame).mapValues(partial(sides_of, settings=self.settings))
        wanted = (True, self.settings.tested[1] > 0, self.settings.validate_share > 0)
        self.parts = {
            side: self.frame.iloc(column_of(sides.mapValues(partial(_on_side, side=number))))
            for number, (side, asked) in enumerate(zip(SIDES, wanted))
            if asked
        }
        for side, part in self.parts.items():
            if part.shape[0] == 0:
                raise ValueError(f"The part for {side} must have rows, got none. Give larger shares or more rows.")
        return asdict(self.settings)

    def commit(self, hosts: dict[str, Document]) -> Document:
        for name, facts in hosts.items():
            for called, value in asdict(self.settings).items():
                if facts[called] != value:
                    raise Refusal(
                        f"{called} must be {value!r} at {name}, as at the guest, got {facts[called]!r}. Set it for all parties."
                    )
        return {}


def split(ctx: Context, settings: Settings, frame: DataFrame, outputs: Mapping[str, TableOutput]) -> None:
    """Check at all parties that settings are the same, and write each party's parts."""
    require(ctx.federation.parties, "guest", "keyed_split needs exactly one, which compares the settings.", at_most=1)
    own = SplitPreflight(ctx, settings, frame)
    own.agree()
    for side, part in own.parts.items():
        outputs[side].write(part)
    counts = {f"rows for {side}": part.shape[0] for side, part in own.parts.items()}
    show_summary(ctx, {"split": "by HMAC-SHA256 of match ids under a public salt", "salt": settings.salt, **counts})
