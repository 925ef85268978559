"""A host's consent to score rows that it does not see, counted row by row in the host's ledger over all jobs."""
import secrets
from dataclasses import dataclass

from fate_dp.components.common.dataset_names import columns_name
from fate_dp.components.common.party_home import JobReference, PartyHome
from fate_dp.privacy.ledger.families import WEIGHTS

PURPOSE = "encrypted scoring"


@dataclass(frozen=True)
class AskedRows:
    """What the ledger needs to count the rows that the guest had scored with this host's weights.

    Each score is one linear equation for the weights, so that as many rows as the host has features solve for them. All
    models on one column count together: whoever submits jobs can train again and get nearly the same weights, and the
    equations of both models with them. The rows are ciphertexts to the host, so equal ones count like different ones.
    """

    home: PartyHome
    job: JobReference
    dataset: str
    cap: int

    @classmethod
    def of(cls, home: PartyHome, job: JobReference, header: list) -> "AskedRows":
        dataset = f"{WEIGHTS}{columns_name(header)}"
        # Columns of weights have names of their own: showing scores of training rows counts against another cap.
        home.ledger.remember_weights(dataset, [f"weight of {column}" for column in header])
        return cls(home, job, dataset, home.policy.score_cap(dataset, len(header), home.ledger.related(dataset)))

    def left(self) -> int:
        """How many more rows the host would score."""
        return max(0, self.cap - self.home.ledger.scores_released(self.dataset))

    def record(self, rows: int) -> None:
        """Count ``rows`` before they are scored.

        Raises:
            ScoreCapExceeded: beyond the cap, where another job took what was left; what was counted stays counted.
        """
        self.home.ledger.check_scores(dataset=self.dataset, planned=rows, cap=self.cap)
        for _ in range(rows):
            self.home.ledger.record_scores(
                dataset=self.dataset, weights_digest=secrets.token_hex(16), purpose=PURPOSE, rows=1, cap=self.cap,
                job_id=self.job.job_id, task_id=self.job.task_id,
            )  # fmt: skip
