"""A party's consent to show its part of scores: counted in its ledger, over all jobs, up to a cap."""

from dataclasses import dataclass

from ..common.charges import JobReference, PartyHome
from ..common.frames import DataFrame, record_tag_stream

TRAINING_RECORDS = "training records"


def remember_training(home: PartyHome, dataset: str, frame: DataFrame) -> None:
    """Keep keyed hashes of the training rows, so that a later prediction on any of them is counted."""
    home.ledger.remember_training_records(dataset, record_tag_stream(frame, home.key, TRAINING_RECORDS))


@dataclass(frozen=True)
class CountedScores:
    """Releases of scores that the ledger counts together under ``dataset``; the party shows ``cap`` different ones."""

    home: PartyHome
    job: JobReference
    dataset: str
    cap: int

    def released(self) -> int:
        """How many different ones the party has shown so far."""
        return self.home.ledger.scores_released(self.dataset)

    def left(self) -> int:
        """How many more it would show."""
        return max(0, self.cap - self.released())

    def is_new(self, digest: str) -> bool:
        """Whether the release with this digest would count: the same scores again reveal nothing new."""
        return self.home.ledger.are_scores_new(dataset=self.dataset, weights_digest=digest)

    def touches_training(self, frame: DataFrame) -> bool:
        """Whether a row of the table was trained on, see `remember_training`."""
        tags = record_tag_stream(frame, self.home.key, TRAINING_RECORDS)
        return self.home.ledger.has_training_record(self.dataset, tags, key_id=self.home.key_id)

    def check_cap(self, planned: int) -> None:
        """Raises LedgerError where so many new ones exceed the cap; nothing is written."""
        self.home.ledger.check_scores(dataset=self.dataset, planned=planned, cap=self.cap)

    def count(self, digest: str, purpose: str, rows: int) -> None:
        """Count one release of so many rows before it happens; raises LedgerError beyond the cap."""
        self.home.ledger.record_scores(
            dataset=self.dataset,
            weights_digest=digest,
            purpose=purpose,
            rows=rows,
            cap=self.cap,
            job_id=self.job.job_id,
            task_id=self.job.task_id,
        )

    def note_prediction(self, digest: str, rows: int) -> None:
        """Note a release of rows that were not trained on; it counts against no cap."""
        self.home.ledger.record_prediction(
            dataset=self.dataset, weights_digest=digest, rows=rows, job_id=self.job.job_id, task_id=self.job.task_id
        )
