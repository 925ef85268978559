"""A host's counts of joint scores, and of trainings with losses, given to the guest.

Joint scores show the guest X_h w_h, without differential privacy; after as many different w as the host has features,
X_h is known up to one square matrix. So different releases are counted over all jobs, for all datasets that share a
record together (dropping a column must not open a new count), and refused beyond a cap. Other scores are noted, not
counted. Every loss comes with fresh noise, and repeats average it out: hence the same count of trainings that show them.
"""

import secrets
import sqlite3
from collections.abc import Iterable

from ..validation import whole
from .database import WEIGHTS, Chapter
from .datasets import RELATED, called, cap_command, datasets_of_other_keys
from .entries import JOINT_SCORES, LOSSES, LedgerError, Use, add_use, counted_entry

TRAINED_ON = f"""
    SELECT 1 FROM ({RELATED}) AS related CROSS JOIN temp.staged s
    CROSS JOIN training_record t ON t.dataset = related.dataset AND t.id_tag = s.id_tag LIMIT 1"""
# To tell equal fingerprints takes ten times as long as to count them; of one dataset none are equal.
COUNTED = f"""
    WITH counting AS (
        SELECT dataset FROM ({RELATED}) AS r
        WHERE EXISTS (SELECT 1 FROM counted_use u WHERE u.mechanism = :mechanism AND u.subject = r.dataset))
    SELECT CASE (SELECT count(*) FROM counting)
        WHEN 1 THEN (SELECT count(*) FROM counted_use WHERE mechanism = :mechanism AND subject IN counting)
        ELSE (SELECT count(DISTINCT fingerprint) FROM counted_use WHERE mechanism = :mechanism AND subject IN counting) END"""
COUNTED_BEFORE = """
    SELECT 1 FROM entry e JOIN release r USING (entry_id)
    WHERE e.subject = ? AND e.mechanism = ? AND e.counted AND r.fingerprint = ?"""


SHOWN = {JOINT_SCORES: "released joint scores of {} models", LOSSES: "shown the losses of {} trainings"}


def cap_option(dataset: str, mechanism: str = JOINT_SCORES) -> str:
    """Of the command that changes the cap: trainings with losses, models with scores, rows scored with a model's weights."""
    of_scores = "--rows N" if dataset.startswith(WEIGHTS) else "--scores N"
    return "--losses N" if mechanism == LOSSES else of_scores


class ScoreLedger(Chapter):
    """Releases of joint scores and of losses, and the records that were trained on."""

    def scores_released(self, dataset: str) -> int:
        """Number of different joint scores on training records released of this and related datasets."""
        return self.counted(dataset, JOINT_SCORES)

    def counted(self, dataset: str, mechanism: str) -> int:
        """Number of different joint scores, or of trainings with losses, counted of this and related datasets."""
        with self._database.reading() as connection:
            return _counted(connection, dataset, mechanism)

    def record_losses(self, *, dataset: str, trainings: int, rows: int, cap: int, job_id: str, task_id: str) -> None:
        """Count trainings of so many rows before their losses are shown; each counts, also where it repeats another.

        Beyond ``cap`` `LedgerError`, and nothing is written.
        """
        whole("cap", cap, 0)
        with self._database.writing() as connection:
            _refuse_beyond_cap(connection, dataset, trainings, cap, LOSSES)
            entry = counted_entry(LOSSES, dataset, "training")
            for _ in range(trainings):
                add_use(connection, entry, Use(job_id, task_id, rows, secrets.token_hex(16)))

    def check_scores(self, *, dataset: str, planned: int, cap: int) -> None:
        """Raise ``LedgerError`` if ``planned`` more releases of joint scores would exceed ``cap``."""
        whole("planned", planned, 0)
        whole("cap", cap, 0)
        with self._database.open() as connection:
            _refuse_beyond_cap(connection, dataset, planned, cap)

    def are_scores_new(self, *, dataset: str, weights_digest: str) -> bool:
        """Whether ``record_scores`` of these weights would count as a new release."""
        with self._database.reading() as connection:
            return _are_new(connection, dataset, weights_digest)

    def record_scores(
        self, *, dataset: str, weights_digest: str, purpose: str, rows: int, cap: int, job_id: str, task_id: str
    ) -> bool:
        """Count a release of joint scores on training records before it happens; returns whether the count went up.

        Args:
            weights_digest: Digest of the host's weights and rows; the same scores again are no new release.
            cap: Largest number of different weights over all jobs; beyond it `LedgerError`, and nothing is written.
        """
        whole("cap", cap, 0)
        with self._database.writing() as connection:
            is_new = _are_new(connection, dataset, weights_digest)
            _refuse_beyond_cap(connection, dataset, int(is_new), cap)
            entry = counted_entry(JOINT_SCORES, dataset, purpose)
            add_use(connection, entry, Use(job_id, task_id, rows, weights_digest))
        return is_new

    def record_prediction(self, *, dataset: str, weights_digest: str, rows: int, job_id: str, task_id: str) -> None:
        """Note, without counting, that scores of records outside training were released."""
        with self._database.writing() as connection:
            entry = counted_entry(JOINT_SCORES, dataset, "prediction", False)
            add_use(connection, entry, Use(job_id, task_id, rows, weights_digest))

    def remember_training_records(self, dataset: str, id_tags: Iterable[bytes]) -> None:
        """Remember records as used in training, so that later predictions on them are counted."""
        with self._database.writing() as connection:
            rows = ((dataset, id_tag) for id_tag in id_tags)
            connection.executemany("INSERT OR IGNORE INTO training_record VALUES (?, ?)", rows)

    def has_training_record(self, dataset: str, id_tags: Iterable[bytes], *, key_id: str) -> bool:
        """Whether any of the records was, or may have been, used in training with this dataset or a related one.

        It may have been where a related dataset was trained on under another key, whose tags these are not.
        """
        trained = "SELECT 1 FROM training_record WHERE dataset = ?"
        rows = ((id_tag,) for id_tag in id_tags)
        with self._database.staged({"id_tag": bytes}, rows, repeated=True) as (connection, _):
            found = connection.execute(TRAINED_ON, {"dataset": dataset}).fetchone()
            hidden = datasets_of_other_keys(connection, dataset, key_id)
            return found is not None or any(connection.execute(trained, (name,)).fetchone() for name in hidden)


def _counted(connection: sqlite3.Connection, dataset: str, mechanism: str) -> int:
    row = connection.execute(COUNTED, {"dataset": dataset, "mechanism": mechanism}).fetchone()
    return int(row[0])


def _are_new(connection: sqlite3.Connection, dataset: str, weights_digest: str) -> bool:
    return connection.execute(COUNTED_BEFORE, (dataset, JOINT_SCORES, weights_digest)).fetchone() is None


def _refuse_beyond_cap(
    connection: sqlite3.Connection, dataset: str, planned: int, cap: int, mechanism: str = JOINT_SCORES
) -> None:
    so_far = _counted(connection, dataset, mechanism)
    if planned and so_far + planned > cap:
        raise LedgerError(
            f"The {called(connection, dataset)} has {SHOWN[mechanism].format(so_far)} (tables with the same match "
            f"ids count together), {planned} more are planned, and the cap is {cap}; its operator changes that with "
            f"`{cap_command(connection, dataset, cap_option(dataset, mechanism))}`."
        )
