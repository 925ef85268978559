"""Joint scores: a host's part as it leaves the host, the guest's sum of all parts, and the hosts' consent.

A host's part is rounded at random to multiples of a public step.
Exact scores of columns with few values show these columns: equal patterns give equal scores, and differences recur to
the last bit. A rounded score is the multiple below or above, with the probabilities that make its expectation the score
itself. The draw is a keyed function of the weights and the row: whoever asks again, in whatever table, gets the same number,
and cannot average the rounding away. Asked at several steps, one draw gives several roundings, which together are closer than
that at the finest step alone, by less than a fifth.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fate_dp.privacy.ledger.scores import cap_option
from fate_dp.privacy.private_files import key_id

from ..common.charges import JobReference, PartyHome, remembered_dataset
from ..common.frames import content_digest, record_tag_stream
from ..protocols.federation import others
from .rows import Block, Table, scores

if TYPE_CHECKING:
    from fate.arch import Context
    from fate.arch.dataframe import DataFrame

logger = logging.getLogger(__name__)

TRAINING_RECORDS = "training records"
SHOWN, NOT_ASKED = "shown", "not asked for"
_SMALL = np.iinfo(np.int16).max
_HASH_BITS = 64
_FRACTION_BITS = 53
"""Of a draw: a float64 holds so many."""


def rounded_scores(rows: Table, weights: np.ndarray, key: bytes, step: float) -> Table:
    """Table of integer arrays: this party's part of every record's score, in units of ``step``.

    Args:
        rows: what `rows.prepare_rows` made.
        weights: float64 (m,), this party's.
        key: the host's secret.
        step: public, a power of two.
    """
    own = hmac.digest(key, b"rounding of scores" + np.ascontiguousarray(weights, dtype="<f8").tobytes(), "sha256")
    return rows.mapValues(partial(_rounded, weights=weights, key=own, step=step))


def decoded_scores(received: object, rows: int, step: float) -> np.ndarray:
    """float64 (rows,) from what a host sent of one block.

    Raises:
        ValueError: something else than so many integers.
    """
    if not isinstance(received, np.ndarray) or received.dtype.kind != "i" or received.shape != (rows,):
        raise ValueError(f"A host sent something else than {rows} rounded scores for a block of {rows} rows.")
    return received * step


def _rounded(block: Block, weights: np.ndarray, key: bytes, step: float) -> np.ndarray:
    multiples = np.floor(block.scores(weights) / step + _draws(block.features, key))
    if not np.all(np.abs(multiples) < 2.0**53):
        raise ValueError(
            "A score is too large to be rounded, so the training diverged; lower the learning rate or alpha."
        )
    # The guest sees the scores anyway: their size may say how many bytes they need.
    return multiples.astype(np.int16 if np.all(np.abs(multiples) <= _SMALL) else np.int64)


def _draws(features: np.ndarray, key: bytes) -> np.ndarray:
    """Uniform numbers in [0, 1), one for each row, a keyed function of its features."""
    rows = np.ascontiguousarray(features, dtype="<i8")
    hashes = b"".join(hashlib.blake2b(row, key=key, digest_size=_HASH_BITS // 8).digest() for row in rows)
    return (np.frombuffer(hashes, dtype="<u8") >> _HASH_BITS - _FRACTION_BITS) * 2.0**-_FRACTION_BITS


def joint_score_blocks(ctx: Context, rows: Table, weights: np.ndarray, step: float) -> Table:
    """At the guest: table of joint scores z (float64 arrays), each host's part a multiple of ``step``."""
    total = scores(rows, weights)
    for part in ctx.hosts.get("scores"):
        total = total.join(part, partial(_add, step=step))
    return total


def contexts_of_models(ctx: Context, models: int) -> list[Context]:
    """A context for the scores of each model; this one where there is one model."""
    return [ctx] if models == 1 else [class_ctx for _, class_ctx in ctx.sub_ctx("class").ctxs_range(models)]


def _add(own: np.ndarray, received: object, step: float) -> np.ndarray:
    return own + decoded_scores(received, len(own), step)


@dataclass(frozen=True)
class ScoreRelease:
    """A host's consent to show the guest its part of the scores of one table, counted in its ledger over all jobs.

    A release is known by the weights *and* the rows: the same weights on features that a job has rescaled in between
    are other equations.
    """

    home: PartyHome
    job: JobReference
    dataset: str
    rows: int
    cap: int
    content: bytes

    @classmethod
    def of(cls, home: PartyHome, job: JobReference, frame: DataFrame, key: str | None = None) -> ScoreRelease:
        """Of a table; ``key`` is the task's data input that it is, None where the task has one only."""
        dataset = remembered_dataset(home, frame, key)
        cap = home.policy.score_cap(dataset.name, len(frame.schema.columns), dataset.related)
        return cls(home, job, dataset.name, frame.shape[0], cap, content_digest(frame, home.key))

    def released(self) -> int:
        """Different scores of training rows this host has shown so far."""
        return self.home.ledger.scores_released(self.dataset)

    def left(self) -> int:
        """How many more it would show."""
        return max(0, self.cap - self.released())

    def allows(self, columns: Sequence[np.ndarray]) -> bool:
        """Whether these models' scores of training rows may be shown: for each that was not, one release is left."""
        return self._new(columns) <= self.left()

    def allows_prediction(self, frame: DataFrame, columns: Sequence[np.ndarray]) -> bool:
        """Whether scores may be shown of rows that need not be training rows; of others nothing is counted."""
        return not self._touches_training(frame) or self.allows(columns)

    def left_out(self, consents: bool) -> str:
        """Why scores were not shown, for this host's summary and log."""
        if consents:
            return "left out: another host shows none"
        told = (
            f"left out: {self.released()} of at most {self.cap} models were shown; `{self.cap_command()}` changes that"
        )
        logger.warning("joint scores of the %s are %s", self.home.ledger.called(self.dataset), told)
        return told

    def cap_command(self) -> str:
        """With which this host's operator changes the cap."""
        return self.home.ledger.cap_command(self.dataset, cap_option(self.dataset))

    def check(self, frame: DataFrame, columns: Sequence[np.ndarray]) -> None:
        """Refuse a prediction on training rows that the cap does not allow, before any work."""
        if self._touches_training(frame):
            self.home.ledger.check_scores(dataset=self.dataset, planned=self._new(columns), cap=self.cap)

    def record(self, weights: np.ndarray, purpose: str) -> None:
        """Count a release on training rows before it happens; the same scores again reveal nothing new."""
        self.home.ledger.record_scores(
            dataset=self.dataset,
            weights_digest=self._digest(weights),
            purpose=purpose,
            rows=self.rows,
            cap=self.cap,
            job_id=self.job.job_id,
            task_id=self.job.task_id,
        )

    def record_all(self, columns: Sequence[np.ndarray], purpose: str) -> None:
        """As `record`, of every model: each is a release of its own."""
        for weights in columns:
            self.record(weights, purpose)

    def rounded(self, rows: Table, weights: np.ndarray, step: float) -> Table:
        """What leaves of the scores of ``rows``; see `rounded_scores`."""
        return rounded_scores(rows, weights, self.home.key, step)

    def record_prediction(self, frame: DataFrame, columns: Sequence[np.ndarray]) -> None:
        """Count a prediction if it touches a training row, else note it."""
        if self._touches_training(frame):
            self.record_all(columns, "prediction on training rows")
            return
        for weights in columns:
            self.home.ledger.record_prediction(
                dataset=self.dataset,
                weights_digest=self._digest(weights),
                rows=self.rows,
                job_id=self.job.job_id,
                task_id=self.job.task_id,
            )

    def remember_training(self, frame: DataFrame) -> None:
        """Keep keyed hashes of the training rows, so that a later prediction on any of them is counted."""
        self.home.ledger.remember_training_records(self.dataset, self._tags(frame))

    def _touches_training(self, frame: DataFrame) -> bool:
        key = key_id(self.home.key)
        return self.home.ledger.has_training_record(self.dataset, self._tags(frame), key_id=key)

    def _new(self, columns: Sequence[np.ndarray]) -> int:
        """How many of these models' scores would count as new releases."""
        digests = set(map(self._digest, columns))
        return sum(self.home.ledger.are_scores_new(dataset=self.dataset, weights_digest=digest) for digest in digests)

    def _tags(self, frame: DataFrame) -> Any:
        return record_tag_stream(frame, self.home.key, TRAINING_RECORDS)

    def _digest(self, weights: np.ndarray) -> str:
        return hashlib.sha256(np.ascontiguousarray(weights, dtype="<f8").tobytes() + self.content).hexdigest()


# Joint scores of a trained model: shown to the guest where every host consents, else left out, and the job goes on.
#
# What scores cost is known only now: the same weights on the same rows again are no new release, so a job that is
# repeated shows its scores again whatever is left of a host's cap. No host sends its part before all have consented.


def ask_consent(ctx: Context, rows: str) -> list[str]:
    """At the guest: names of the hosts that show no scores of ``rows``. Every host learns the verdict."""
    hosts = [party for party in others(ctx) if party.role == "host"]
    refusing = [f"host {party.party[1]}" for party in hosts if party.get("consent") is not True]
    for party in hosts:
        party.put("all_consent", not refusing)
    if refusing:
        logger.warning("scores of %s are %s", rows, left_out(refusing))
    return refusing


def left_out(refusing: list[str]) -> str:
    """For the log and the summary."""
    return (
        f"left out: no release is left of the table of {', '.join(refusing)}, whose operator sees and changes that with "
        "`fate-dp cap`; the model is the same"
    )


def give_where_all_consent(ctx: Context, consents: bool, give: Callable[[], None]) -> bool:
    """At a host: consent or not, and ``give`` where all hosts do; returns whether the scores were shown."""
    ctx.guest.put("consent", consents)
    shown = ctx.guest.get("all_consent") is True and consents
    if shown:
        give()
    return shown
