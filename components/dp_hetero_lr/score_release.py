"""A host's consent to show the guest its part of the scores, counted in the host's ledger over all jobs."""
import hashlib
from dataclasses import dataclass

import numpy as np

from fate_dp.components.common.dataset_names import columns_name
from fate_dp.components.common.party_home import JobReference, PartyHome
from fate_dp.components.common.record_stream import content_digest, record_tag_stream

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
    def of(cls, home: PartyHome, job: JobReference, frame) -> "ScoreRelease":
        columns = frame.schema.columns.to_list()
        dataset = columns_name(columns)
        cap = home.policy.score_cap(dataset, len(columns))
        home.ledger.remember_dataset(dataset, columns)
        return cls(home, job, dataset, frame.shape[0], cap, content_digest(frame, home.key))

    def released(self) -> int:
        """Different scores of training rows this host has shown so far."""
        return self.home.ledger.scores_released(self.dataset)

    def left(self) -> int:
        """How many more it would show."""
        return max(0, self.cap - self.released())

    def check(self, frame, weights: np.ndarray) -> None:
        """Refuse a prediction on training rows that the cap does not allow, before any work."""
        if self._touches_training(frame):
            new = self.home.ledger.are_scores_new(dataset=self.dataset, weights_digest=self._digest(weights))
            self.home.ledger.check_scores(dataset=self.dataset, planned=int(new), cap=self.cap)

    def record(self, weights: np.ndarray, purpose: str) -> None:
        """Count a release on training rows before it happens; the same scores again reveal nothing new."""
        self.home.ledger.record_scores(
            dataset=self.dataset, weights_digest=self._digest(weights), purpose=purpose, rows=self.rows, cap=self.cap,
            job_id=self.job.job_id, task_id=self.job.task_id,
        )  # fmt: skip

    def record_prediction(self, frame, weights: np.ndarray) -> None:
        """Count a prediction if it touches a training row, else note it."""
        if self._touches_training(frame):
            self.record(weights, "prediction on training rows")
        else:
            self.home.ledger.record_prediction(
                dataset=self.dataset, weights_digest=self._digest(weights), rows=self.rows, job_id=self.job.job_id,
                task_id=self.job.task_id,
            )  # fmt: skip

    def remember_training(self, frame) -> None:
        """Keep keyed hashes of the training rows, so that a later prediction on any of them is counted."""
        self.home.ledger.remember_training_records(self.dataset, self._tags(frame))

    def _touches_training(self, frame) -> bool:
        return self.home.ledger.has_training_record(self.dataset, self._tags(frame))

    def _tags(self, frame):
        return record_tag_stream(frame, self.home.key, TRAINING_RECORDS)

    def _digest(self, weights: np.ndarray) -> str:
        return hashlib.sha256(np.ascontiguousarray(weights, dtype="<f8").tobytes() + self.content).hexdigest()
