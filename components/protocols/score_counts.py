"""A party's consent to show its part of scores, or of losses: counted in its ledger, over all jobs, up to a cap."""

import logging
from dataclasses import dataclass

from fate_dp.privacy.ledger.entries import LOSSES
from fate_dp.privacy.ledger.scores import cap_option

from ..common.charges import JobReference, PartyHome, remembered_dataset
from ..common.frames import DataFrame, record_tag_stream

TRAINING_RECORDS = "training records"
LOSSES_OF_A_TRAINING = 100
"""More count as several trainings."""
NOT_SHOWN = "not shown: a host shows those of no more trainings, as its operator has it; all epochs run"
logger = logging.getLogger(__name__)


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

    @staticmethod
    def of_table(home: PartyHome, frame: DataFrame, key: str | None = None) -> tuple[str, int]:
        """(dataset, cap) of a table; ``key`` is the task's data input that it is, None where the task has one only."""
        dataset = remembered_dataset(home, frame, key)
        return dataset.name, home.policy.score_cap(dataset.name, len(frame.schema.columns), dataset.related)

    def released(self) -> int:
        return self.home.ledger.scores_released(self.dataset)

    def left(self) -> int:
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
        dataset, job = self.dataset, self.job._asdict()
        self.home.ledger.record_scores(
            dataset=dataset, weights_digest=digest, purpose=purpose, rows=rows, cap=self.cap, **job
        )

    def note_prediction(self, digest: str, rows: int) -> None:
        """Note a release of rows that were not trained on; it counts against no cap."""
        self.home.ledger.record_prediction(dataset=self.dataset, weights_digest=digest, rows=rows, **self.job._asdict())


@dataclass(frozen=True)
class CountedLosses:
    """A host's consent to show the guest the losses of trainings on the ``rows`` of a dataset, of ``cap`` in all."""

    home: PartyHome
    job: JobReference
    dataset: str
    rows: int

    @property
    def cap(self) -> int:
        return self.home.policy.loss_cap(self.dataset, self.home.ledger.related(self.dataset))

    def allows(self, losses: int) -> bool:
        """Whether so many may be shown; says in the log why not."""
        shown, cap, ledger = self.home.ledger.counted(self.dataset, LOSSES), self.cap, self.home.ledger
        if shown + _trainings(losses) <= cap:
            return True
        logger.warning(
            "the guest sees no losses: the %s has shown those of %d trainings, %d losses count as %d more, and the cap is %d; "
            "`%s` changes that",
            *(ledger.called(self.dataset), shown, losses, _trainings(losses), cap),
            ledger.cap_command(self.dataset, cap_option(self.dataset, LOSSES)),
        )
        return False

    def count(self, losses: int) -> None:
        """Count them before they are shown; raises LedgerError beyond the cap."""
        trainings, job = _trainings(losses), self.job._asdict()
        self.home.ledger.record_losses(dataset=self.dataset, trainings=trainings, rows=self.rows, cap=self.cap, **job)

    def told(self) -> dict[str, int]:
        return {
            "trainings whose losses were shown to the guest (all jobs)": self.home.ledger.counted(self.dataset, LOSSES),
            "cap on these trainings": self.cap,
        }


def _trainings(losses: int) -> int:
    return -(-losses // LOSSES_OF_A_TRAINING)
