"""What the guest's ledger knows of the labels of a training table: flipped at which epsilon, public, or neither."""
import math
from dataclasses import dataclass
from typing import Optional

from fate_dp.components.common.party_home import JobReference, PartyHome
from fate_dp.components.common.record_stream import labelled_stream
from fate_dp.privacy.secret_key import key_id


@dataclass(frozen=True)
class LabelPrivacy:
    """Privacy of a label column, unit label, replace-one.

    Attributes:
        source: declared ``namespace/name/column``.
        epsilon: nats; infinity for labels declared public.
        entry_id: ledger entry of the flips, None for public labels.
        derived: whether flipback worked on the labels before.
    """

    source: str
    epsilon: float
    entry_id: Optional[int] = None
    derived: bool = False

    @property
    def private(self) -> bool:
        return math.isfinite(self.epsilon)

    def to_json(self, flipback: str) -> dict:
        """For the model's metadata; ``flipback`` is the mode that ran during training."""
        epsilon = self.epsilon if self.private else "infinity"
        return {
            "epsilon": epsilon,
            "unit": "label",
            "relation": "replace-one",
            "flipback": flipback,
            "flipback before": self.derived,
        }


def find_label_privacy(home: PartyHome, frame, label_source: Optional[str]) -> LabelPrivacy:
    """Ask the ledger record by record; ValueError for labels that are neither released flips nor declared public.

    ``label_source`` narrows the search to one declared source; without it all sources of the key are tried.
    """
    if label_source is not None and home.policy.is_public(label_source):
        return LabelPrivacy(label_source, math.inf)
    key = home.key
    for source in [label_source] if label_source else home.ledger.sources(key_id(key)):
        found = home.ledger.find_labels(labelled_stream(frame, key, source), source=source, key_id=key_id(key))
        if found is not None:
            return LabelPrivacy(source, found.epsilon, found.entry_id, found.derived)
    raise ValueError(
        "The training labels are not flips that label_flip released at this guest; put label_flip before this task, "
        "or set label_source to a table that the guest's operator declared public."
    )


def record_use(home: PartyHome, privacy: LabelPrivacy, job: JobReference, rows: int) -> None:
    """Flipped labels were charged by label_flip already; a use of public ones gets its line 'not private'."""
    if not privacy.private:
        home.ledger.record_not_private(
            source=privacy.source, reason="trained on labels declared public", job_id=job.job_id, task_id=job.task_id,
            rows=rows,
        )  # fmt: skip
