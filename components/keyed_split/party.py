"""A party's part of keyed_split: on which side a row lies follows from its match id and a public salt alone.

Guarantee: row by row. A record that joins, leaves or changes moves no other one, so that a promise for a record of a part is one
for a record of the table, under every neighbouring relation. Not covered: how many rows a part has, and which records are in it.
"""

import hmac
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

import numpy as np

from ..common.federation import Context, Document, TableOutput, require
from ..common.frames import DataFrame, match_id_blocks, require_rows
from ..common.preflight import Preflight, Refusal, show_summary
from ..protocols.prediction_frames import column_of
from .settings import Settings


def is_tested(match_ids: Sequence[str], settings: Settings, chosen: bool = True) -> np.ndarray:
    """bool (rows,): whether a row is for testing, by HMAC-SHA256 of its id under the salt; with ``chosen`` false, whether not."""
    key = settings.salt.encode()
    digests = b"".join(hmac.digest(key, f"fate-dp split {each}".encode(), "sha256") for each in match_ids)
    # From 0 to below 1, exact.
    places = (np.frombuffer(digests, ">u8")[::4] >> 11) / 2.0**53
    first, end = settings.tested
    return ((places >= first) & (places < end)) == chosen


@dataclass
class SplitPreflight(Preflight):
    """Whether this party can split its table; ``parts`` are its rows for training and for testing."""

    settings: Settings
    frame: DataFrame
    parts: list[DataFrame] = field(init=False)

    def check(self) -> Document:
        require_rows(self.frame)
        ids = match_id_blocks(self.frame)
        sides = [ids.mapValues(partial(is_tested, settings=self.settings, chosen=chosen)) for chosen in (False, True)]
        self.parts = [self.frame.iloc(column_of(side)) for side in sides]
        if any(part.shape[0] == 0 for part in self.parts):
            raise ValueError("Both parts must have rows, got one without any. Give another test_share or more rows.")
        return asdict(self.settings)

    def commit(self, hosts: dict[str, Document]) -> Document:
        for name, facts in hosts.items():
            if facts != asdict(self.settings):
                raise Refusal(
                    f"Settings must be {asdict(self.settings)} at {name}, got {facts}. Set them for all parties."
                )
        return {}


def split(ctx: Context, settings: Settings, frame: DataFrame, outputs: Sequence[TableOutput]) -> None:
    """Check that all parties have the same settings; write rows for training, then those for testing."""
    require(ctx.federation.parties, "guest", "keyed_split needs exactly one, which compares the settings.", at_most=1)
    own = SplitPreflight(ctx, settings, frame)
    own.agree()
    for part, output in zip(own.parts, outputs):
        output.write(part)
    training, testing = (part.shape[0] for part in own.parts)
    facts = {"split": "by HMAC-SHA256 of match ids under a public salt", "salt": settings.salt}
    show_summary(ctx, {**facts, "rows for training": training, "rows for testing": testing})
