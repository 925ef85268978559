"""A host's consent to show the guest its part of the scores, counted in the host's ledger over all jobs."""
import hashlib
import logging
from dataclasses import dataclass
from typing import Optional, Sequence

import numpy as np

from fate_dp.components.common.dataset_names import remembered_dataset
from fate_dp.components.common.party_home import JobReference, PartyHome
from fate_dp.components.common.record_stream import content_digest, record_tag_stream
from fate_dp.privacy.ledger.score_ledger import cap_option
from fate_dp.privacy.secret_key import key_id

from .rounded_scores import rounded_scores

logger = logging.getLogger(__name__)

TRAINING_RECORDS = "training records"


@dataclass(frozen=True)
class ScoreRelease:
    """What the ledger needs to count a release of X_h w_h for one table.

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
    def of(cls, home: PartyHome, job: JobReference, frame, key: Optional[str] = None) -> "ScoreRelease":
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

    def allows_prediction(self, frame, columns: Sequence[np.ndarray]) -> bool:
        """Whether scores may be shown of rows that need not be training rows; of others nothing is counted."""
        return not self._touches_training(frame) or self.allows(columns)

    def left_out(self, consents: bool) -> str:
        """Why scores were not shown, for this host's summary and log."""
        if consents:
            return "left out: another host shows none"
        told = f"left out: {self.released()} of at most {self.cap} models were shown; `{self.cap_command()}` changes that"
        logger.warning("joint scores of the %s are %s", self.home.ledger.called(self.dataset), told)
        return told

    def cap_command(self) -> str:
        """With which this host's operator changes the cap."""
        return self.home.ledger.cap_command(self.dataset, cap_option(self.dataset))

    def check(self, frame, columns: Sequence[np.ndarray]) -> None:
        """Refuse a prediction on training rows that the cap does not allow, before any work."""
        if self._touches_training(frame):
            self.home.ledger.check_scores(dataset=self.dataset, planned=self._new(columns), cap=self.cap)

    def record(self, weights: np.ndarray, purpose: str) -> None:
        """Count a release on training rows before it happens; the same scores again reveal nothing new."""
        self.home.ledger.record_scores(
            dataset=self.dataset, weights_digest=self._digest(weights), purpose=purpose, rows=self.rows, cap=self.cap,
            job_id=self.job.job_id, task_id=self.job.task_id,
        )  # fmt: skip

    def record_all(self, columns: Sequence[np.ndarray], purpose: str) -> None:
        """As `record`, of every model: each is a release of its own."""
        for weights in columns:
            self.record(weights, purpose)

    def rounded(self, rows, weights: np.ndarray, step: float):
        """What leaves of the scores of ``rows``; see `rounded_scores`."""
        return rounded_scores(rows, weights, self.home.key, step)

    def record_prediction(self, frame, columns: Sequence[np.ndarray]) -> None:
        """Count a prediction if it touches a training row, else note it."""
        if self._touches_training(frame):
            self.record_all(columns, "prediction on training rows")
            return
        for weights in columns:
            self.home.ledger.record_prediction(
                dataset=self.dataset, weights_digest=self._digest(weights), rows=self.rows, job_id=self.job.job_id,
                task_id=self.job.task_id,
            )  # fmt: skip

    def remember_training(self, frame) -> None:
        """Keep keyed hashes of the training rows, so that a later prediction on any of them is counted."""
        self.home.ledger.remember_training_records(self.dataset, self._tags(frame))

    def _touches_training(self, frame) -> bool:
        key = key_id(self.home.key)
        return self.home.ledger.has_training_record(self.dataset, self._tags(frame), key_id=key)

    def _new(self, columns: Sequence[np.ndarray]) -> int:
        """How many of these models' scores would count as new releases."""
        digests = set(map(self._digest, columns))
        return sum(self.home.ledger.are_scores_new(dataset=self.dataset, weights_digest=digest) for digest in digests)

    def _tags(self, frame):
        return record_tag_stream(frame, self.home.key, TRAINING_RECORDS)

    def _digest(self, weights: np.ndarray) -> str:
        return hashlib.sha256(np.ascontiguousarray(weights, dtype="<f8").tobytes() + self.content).hexdigest()
