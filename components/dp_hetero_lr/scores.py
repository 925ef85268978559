"""Joint scores: a host's part as it leaves the host, the guest's sum of all parts, and the hosts' consent.

A host's part is rounded at random to multiples of a public step.
Exact scores of columns with few values show these columns: equal patterns give equal scores, and differences recur to
the last bit. A rounded score is the multiple below or above, with the probabilities that make its expectation the score
itself. The draw is a keyed function of the weights and the row: whoever asks again, in whatever table, gets the same number,
and cannot average the rounding away. Asked at several steps, one draw gives several roundings, which together are closer than
that at the finest step alone, by less than a fifth.
"""

import hashlib
import hmac
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller

import numpy as np

from fate_dp.privacy.ledger.scores import cap_option

from ..common.charges import JobReference, PartyHome
from ..common.federation import Context, Document, name_of, others
from ..common.frames import DataFrame, Table, content_digest
from ..protocols.score_counts import CountedLosses, CountedScores
from .model import columns_of, has_intercept, units_of
from .rows import Block, Units, prepare_rows

logger = logging.getLogger(__name__)

SHOWN = "shown"
_SMALL = np.iinfo(np.int16).max
_HASH_BITS = 64
_FRACTION_BITS = 53
"""Of a draw: a float64 holds so many."""


def rounded_scores(rows: Table, weights: np.ndarray, key: bytes, step: float) -> Table:
    """Table of integer arrays: this party's part of every record's score, in units of ``step``, a power of two.

    ``weights`` (m,) and ``key`` are this party's; the key is secret.
    """
    own = hmac.digest(key, b"rounding of scores" + np.ascontiguousarray(weights, dtype="<f8").tobytes(), "sha256")
    return rows.mapValues(partial(_rounded, weights=weights, key=own, step=step))


def decoded_scores(received: object, rows: int, step: float) -> np.ndarray:
    """float64 (rows,) from what a host sent of one block; raises ValueError unless it is so many integers."""
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
    total = rows.mapValues(methodcaller("scores", weights))
    for part in ctx.hosts.get("scores"):
        total = total.join(part, lambda own, received: own + decoded_scores(received, len(own), step))
    return total


def contexts_of_models(ctx: Context, models: int) -> list[Context]:
    """A context for the scores of each model; this one where there is one model."""
    return [ctx] if models == 1 else [class_ctx for _, class_ctx in ctx.sub_ctx("class").ctxs_range(models)]


def ask_scores(ctx: Context, frame: DataFrame, document: Document, step: float) -> list[Table]:
    """At the guest: for every model of the JSON model a table of joint scores z of every row."""
    rows = prepare_rows(frame, units_of(document), fit_intercept=has_intercept(document))
    columns = columns_of(document)
    contexts = contexts_of_models(ctx, len(columns))
    return [joint_score_blocks(of_model, rows, weights, step) for of_model, weights in zip(contexts, columns)]


@dataclass(frozen=True)
class ScoreRelease(CountedScores):
    """A host's consent to show the guest its part of the scores of one table.

    A release is known by the weights *and* the rows: the same weights on features that a job has rescaled in between
    are other equations, and so are they in other ``units``. ``losses`` is its consent to show losses of trainings on the
    table, None where noise protects it.
    """

    rows: int
    content: bytes
    losses: CountedLosses | None
    units: Units | None = None

    @classmethod
    def of(cls, home: PartyHome, job: JobReference, frame: DataFrame, key: str | None = None) -> "ScoreRelease":
        """Of a table; ``key`` is the task's data input that it is, None where the task has one only."""
        dataset, cap = cls.of_table(home, frame, key)
        losses = CountedLosses(home, job, dataset, frame.shape[0])
        return cls(home, job, dataset, cap, frame.shape[0], content_digest(frame, home.key), losses)

    def allows(self, frame: DataFrame, columns: Sequence[np.ndarray]) -> bool:
        """Whether these models' scores may be shown: where training rows are among the rows, each new one takes a release."""
        return not self.touches_training(frame) or self._new(columns) <= self.left()

    def check(self, frame: DataFrame, columns: Sequence[np.ndarray]) -> None:
        """Refuse a prediction on training rows that the cap does not allow, before any work."""
        if self.touches_training(frame):
            self.check_cap(self._new(columns))

    def record(self, columns: Sequence[np.ndarray], purpose: str) -> None:
        """Count the scores of training rows by every model, each a release of its own, before they are shown."""
        for weights in columns:
            self.count(self._digest(weights), purpose, self.rows)

    def record_prediction(self, frame: DataFrame, columns: Sequence[np.ndarray]) -> None:
        """Count a prediction if it touches a training row, else note it."""
        if self.touches_training(frame):
            self.record(columns, "prediction on training rows")
            return
        for weights in columns:
            self.note_prediction(self._digest(weights), self.rows)

    def give_round(self, ctx: Context, rows: Table, weights: np.ndarray, step: float, purpose: str) -> None:
        """Count, then show the guest, the scores of training rows by a model that is not trained yet."""
        self.record([weights], purpose)
        ctx.guest.put("scores", rounded_scores(rows, weights, self.home.key, step))

    def give(self, ctx: Context, frame: DataFrame, columns: Sequence[np.ndarray], step: float) -> None:
        """Send this host's part of the scores of every row by every model, rounded. The caller has counted them."""
        rows = prepare_rows(frame, self.units)
        for of_model, weights in zip(contexts_of_models(ctx, len(columns)), columns):
            of_model.guest.put("scores", rounded_scores(rows, weights, self.home.key, step))

    def offer(self, ctx: Context, frame: DataFrame, columns: Sequence[np.ndarray], step: float) -> str:
        """Consent or not, and count and give the scores where all hosts do; returns what the summary says of them."""
        consents = self.allows(frame, columns)
        ctx.guest.put("consent", consents)
        all_consent = ctx.guest.get("all_consent") is True
        if not consents:
            command = self.home.ledger.cap_command(self.dataset, cap_option(self.dataset))
            told = f"left out: {self.released()} of at most {self.cap} models were shown; `{command}` changes that"
            logger.warning("joint scores of the %s are %s", self.home.ledger.called(self.dataset), told)
            return told
        if not all_consent:
            return "left out: another host shows none"
        self.record_prediction(frame, columns)
        self.give(ctx, frame, columns, step)
        return SHOWN

    def _new(self, columns: Sequence[np.ndarray]) -> int:
        return sum(map(self.is_new, set(map(self._digest, columns))))

    def _digest(self, weights: np.ndarray) -> str:
        units = b"" if self.units is None else self.units.tobytes()
        return hashlib.sha256(np.ascontiguousarray(weights, dtype="<f8").tobytes() + self.content + units).hexdigest()


def ask_consent(ctx: Context, rows: str) -> str:
    """At the guest: why no scores of ``rows`` by a trained model are shown, "" where every host consents.

    What scores cost is known only now: the same weights on the same rows again are no new release, so a job that is
    repeated shows its scores again whatever is left of a host's cap. No host sends its part before all have consented;
    where one does not, scores are left out, and the job goes on.
    """
    hosts = [party for party in others(ctx) if party.role == "host"]
    refusing = [name_of(party.party) for party in hosts if party.get("consent") is not True]
    for party in hosts:
        party.put("all_consent", not refusing)
    if not refusing:
        return ""
    told = (
        f"left out: no release is left of the table of {', '.join(refusing)}, whose operator sees and changes that with "
        "`fate-dp cap`; the model is the same"
    )
    logger.warning("scores of %s are %s", rows, told)
    return told
