"""What the guest's ledger knows of the labels of a table: flipped at which epsilon, public, or neither."""
import math
from dataclasses import dataclass, replace
from typing import Optional

from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.secret_key import key_id

from .party_home import JobReference, PartyHome
from .preflight import PrivateReason
from .record_stream import labelled_stream, record_tag_stream


@dataclass(frozen=True)
class LabelPrivacy:
    """Privacy of a label column, unit label, replace-one.

    Attributes:
        source: declared ``namespace/name/column``.
        epsilon: nats; infinity for labels declared public.
        classes: number of classes of the flips.
        entry_id: ledger entry of the flips, None for public labels.
        derived: whether flipback worked on the labels before.
    """

    source: str
    epsilon: float
    classes: int = 2
    entry_id: Optional[int] = None
    derived: bool = False

    @property
    def private(self) -> bool:
        return math.isfinite(self.epsilon)

    def to_json(self, flipback: str) -> dict:
        """For the model's metadata; ``flipback`` is the mode that ran during training."""
        return {
            "epsilon": self.epsilon if self.private else "infinity",
            "source": self.source,
            "unit": "label",
            "relation": REPLACE_ONE,
            "flipback": flipback,
            "flipback before": self.derived,
        }

    def after(self, warm_start: Optional[dict]) -> "LabelPrivacy":
        """Privacy of a model that goes on from ``warm_start`` with these labels.

        The same flips again add nothing; other labels compose; a start whose labels nothing is known of has none.
        """
        if warm_start is None:
            return self
        earlier = warm_start["meta"].get("privacy", {})
        if earlier.get("source") == self.source and earlier.get("epsilon") == self.epsilon:
            return self
        epsilon = earlier.get("epsilon", "infinity")
        return replace(self, epsilon=math.inf if epsilon == "infinity" else self.epsilon + epsilon)


def find_label_privacy(home: PartyHome, frame, label_source: Optional[str]) -> LabelPrivacy:
    """Ask the ledger record by record; refuses labels that are neither released flips nor registered public ones.

    ``label_source`` narrows the search to one declared source; without it all sources of the key are tried. Labels that
    agree with several releases could come from any of them: only the largest epsilon is an upper bound.
    """
    key = home.key
    if label_source is not None and home.policy.is_public(label_source):
        rows = labelled_stream(frame, key, label_source)
        if home.ledger.are_public(rows, source=label_source, key_id=key_id(key)):
            return LabelPrivacy(label_source, math.inf)
    sources = [label_source] if label_source else home.ledger.sources(key_id(key))
    known = [
        home.ledger.find_labels(labelled_stream(frame, key, source), source=source, key_id=key_id(key))
        for source in sources
    ]
    known = [found for found in known if found is not None]
    if not known:
        raise unknown_labels()
    found = max(known, key=lambda one: one.epsilon)
    return LabelPrivacy(found.source, found.epsilon, found.classes, found.entry_id, found.derived)


def unknown_labels() -> PrivateReason:
    return PrivateReason(
        "The training labels are not flips that label_flip released at this guest; put label_flip before this task, or "
        "set label_source to a source whose labels the guest's operator declared public, these labels among them.",
        public="The guest's ledger does not know these training labels; its operator can see why.",
    )


def refuse_true_labels_of_released_records(home: PartyHome, frame) -> None:
    """Scored tables show their labels to metrics and overviews: those of records whose flips were released must be flips."""
    if frame.schema.label_name is None:
        return
    key = home.key
    for source in home.ledger.sources(key_id(key)):
        if home.ledger.has_released(record_tag_stream(frame, key, source), source=source, key_id=key_id(key)):
            rows = labelled_stream(frame, key, source)
            if home.ledger.find_labels(rows, source=source, key_id=key_id(key)) is None:
                raise PrivateReason(
                    f"The table holds labels of records of {source} whose flips were released, and they are not those "
                    "flips; predict without the label column, or on records outside training.",
                    public="The guest's ledger refuses to show the labels of this table; its operator can see why.",
                )


def record_use(home: PartyHome, privacy: LabelPrivacy, job: JobReference, rows: int) -> None:
    """Flipped labels were charged by label_flip already; a use of public ones gets its line 'not private'."""
    if not privacy.private:
        home.ledger.record_not_private(
            source=privacy.source, reason="trained on labels declared public", job_id=job.job_id, task_id=job.task_id,
            rows=rows,
        )  # fmt: skip
