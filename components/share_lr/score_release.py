"""A host's consent to open scores of joined rows to the guest, counted in the host's ledger over all jobs.

The host knows neither which of its records are among the rows nor, perhaps, the weights. So every model on every
alignment counts as one release, held-out records or not: with as many different models on one alignment as there are
features, the guest can solve for the features of every row.
"""
import hashlib
from dataclasses import dataclass

from fate_dp.components.common.dataset_names import columns_name
from fate_dp.components.common.party_home import JobReference, PartyHome
from fate_dp.privacy.secret_key import key_id

PURPOSE = "scores of joined rows"


@dataclass(frozen=True)
class JoinedScoreRelease:
    """One model's scores of the rows of one alignment.

    Where both parties know the weights, scores that are opened again are the same to the last bit. Otherwise they are
    rounded anew, each time at other places, so that every opening tells more, and counts.
    """

    home: PartyHome
    job: JobReference
    dataset: str
    cap: int
    rows: int
    digest: str

    @classmethod
    def of(cls, home: PartyHome, job: JobReference, alignment, reveal: str, origin: str) -> "JoinedScoreRelease":
        """For the model of this ``origin``, a name that the host itself chose: no other party can give one twice."""
        columns, named = list(alignment.own), [origin, alignment.session]
        if reveal != "both":
            named.append(job.task_id)
        dataset = alignment.dataset
        if not dataset:
            # An earlier version kept no name, and no id is left: the rows may be of any table of these columns.
            dataset = home.ledger.remember_dataset(columns_name(columns), columns, records=(), key_id=key_id(home.key))
        cap = home.policy.score_cap(dataset, len(columns), home.ledger.related(dataset))
        digest = hashlib.sha256(" ".join(named).encode()).hexdigest()
        return cls(home, job, dataset, cap, alignment.rows, digest)

    def check(self) -> None:
        """Refuse, before any work, what the cap does not allow."""
        new = self.home.ledger.are_scores_new(dataset=self.dataset, weights_digest=self.digest)
        self.home.ledger.check_scores(dataset=self.dataset, planned=int(new), cap=self.cap)

    def record(self) -> None:
        """Count the release before it happens."""
        self.home.ledger.record_scores(
            dataset=self.dataset, weights_digest=self.digest, purpose=PURPOSE, rows=self.rows, cap=self.cap,
            job_id=self.job.job_id, task_id=self.job.task_id,
        )  # fmt: skip
