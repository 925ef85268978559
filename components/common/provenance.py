"""What the guest's ledger knows of the labels of a table: flipped in which releases, public, or neither."""
import math
from dataclasses import dataclass, replace
from typing import Optional

from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.label_releases import (
    LabelRelease,
    Releases,
    releases_of_privacy,
    releases_to_json,
    total_of,
    united,
)
from fate_dp.privacy.secret_key import key_id

from .party_home import JobReference, PartyHome
from .preflight import PrivateReason
from .record_stream import content_digest, labelled_stream, record_tag_stream


@dataclass(frozen=True)
class LabelPrivacy:
    """Privacy of a label column, or of a model of it, unit label, replace-one.

    Attributes:
        source: declared ``namespace/name/column``.
        releases: the draws that went in; epsilon is their composition.
        derived: whether flipback worked on the labels before.
    """

    source: str
    releases: Releases
    derived: bool = False

    @classmethod
    def of_public(cls, source: str) -> "LabelPrivacy":
        return cls(source, (LabelRelease(source, math.inf),))

    @classmethod
    def from_json(cls, document: dict) -> "LabelPrivacy":
        """Of a model's metadata or an alignment's; where it names no releases, its epsilon is that of an unknown one."""
        return cls(document.get("source", ""), releases_of_privacy(document), document.get("flipback before", False))

    @property
    def epsilon(self) -> float:
        """Nats; infinity for labels declared public."""
        return total_of(self.releases)

    @property
    def private(self) -> bool:
        return math.isfinite(self.epsilon)

    @property
    def flips(self) -> Optional[LabelRelease]:
        """The one release whose flips the labels are, None for public, derived or mixed ones."""
        return self.releases[0] if len(self.releases) == 1 and self.private and not self.derived else None

    def refuse_numbers(self, family: str) -> None:
        """Noisy numbers are no classes, nor chances of one."""
        if family == "binomial" and any(release.bounds is not None for release in self.releases):
            raise ValueError(
                "The labels are numbers that label_flip made noisy within bounds, and family is binomial; set family to gaussian."
            )

    def to_json(self, flipback: str) -> dict:
        """For the model's metadata; ``flipback`` is the mode that ran during training."""
        return {
            "epsilon": self.epsilon if self.private else "infinity",
            "source": self.source,
            "unit": "label",
            "relation": REPLACE_ONE,
            "flipback": flipback,
            "flipback before": self.derived,
            "releases": releases_to_json(self.releases),
        }

    def after(self, warm_start: Optional[dict]) -> "LabelPrivacy":
        """Privacy of a model that goes on from ``warm_start`` with these labels.

        The same draw adds nothing, whatever else went in; a start that names no draws is a draw of its own, and one whose
        labels nothing is known of has no privacy.
        """
        if warm_start is None:
            return self
        earlier = LabelPrivacy.from_json(warm_start["meta"].get("privacy", {}))
        return replace(self, releases=united(self.releases, earlier.releases))


def find_label_privacy(home: PartyHome, frame, label_source: Optional[str]) -> LabelPrivacy:
    """Ask the ledger record by record; refuses labels that are neither released flips nor registered public ones.

    ``label_source`` narrows the search to one declared source; without it all sources of the key are tried. Labels that
    agree with several releases could come from any of them: only the largest epsilon is an upper bound.
    """
    key = home.key
    if label_source is not None and home.policy.is_public(label_source):
        rows = labelled_stream(frame, key, label_source)
        if home.ledger.are_public(rows, source=label_source, key_id=key_id(key)):
            return LabelPrivacy.of_public(label_source)
    sources = [label_source] if label_source else home.ledger.sources(key_id(key))
    known = [
        home.ledger.find_labels(labelled_stream(frame, key, source), source=source, key_id=key_id(key))
        for source in sources
    ]
    known = [found for found in known if found is not None]
    if not known:
        raise unknown_labels()
    found = max(known, key=lambda one: one.epsilon)
    return LabelPrivacy(found.source, found.releases, found.derived)


def remember_scores(home: PartyHome, scored, model: dict) -> None:
    """Note what a table of scores rests on, for flipback: ``scored`` in FATE's prediction format, ``model`` as stored."""
    releases = LabelPrivacy.from_json(model["meta"].get("privacy", {})).releases
    home.ledger.remember_model_scores(scores_digest(home, scored), releases)


def scores_digest(home: PartyHome, scored) -> str:
    """The same for the same scores of the same rows, whatever else stands in the table."""
    return content_digest(scored[["predict_score"]], home.key).hex()


def unknown_labels() -> PrivateReason:
    return PrivateReason(
        "The training labels are not flips that label_flip released at this guest; put label_flip before this task, or "
        "set label_source to a source whose labels the guest's operator declared public, these labels among them.",
        public="The guest's ledger does not know these training labels; its operator can see why.",
    )


def refuse_true_labels_of_released_records(home: PartyHome, frame) -> Optional[LabelPrivacy]:
    """Scored tables show their labels to metrics and overviews: those of records whose flips were released must be flips.

    Returns what the ledger knows of the labels, None for a table without any and for labels that it does not know.
    """
    if frame.schema.label_name is None:
        return None
    key, known = home.key, []
    for source in home.ledger.sources(key_id(key)):
        if home.ledger.has_released(record_tag_stream(frame, key, source), source=source, key_id=key_id(key)):
            rows = labelled_stream(frame, key, source)
            found = home.ledger.find_labels(rows, source=source, key_id=key_id(key))
            if found is None:
                raise PrivateReason(
                    f"The table holds labels of records of {source} whose flips were released, and they are not those "
                    "flips; predict without the label column, or on records outside training.",
                    public="The guest's ledger refuses to show the labels of this table; its operator can see why.",
                )
            known.append(LabelPrivacy(found.source, found.releases, found.derived))
    _refuse_what_a_lost_key_hides(home, frame)
    return max(known, key=lambda one: one.epsilon) if known else _public_labels(home, frame)


def _public_labels(home: PartyHome, frame) -> Optional[LabelPrivacy]:
    key = home.key
    for source in filter(home.policy.is_public, home.policy.label_sources):
        if home.ledger.are_public(labelled_stream(frame, key, source), source=source, key_id=key_id(key)):
            return LabelPrivacy.of_public(source)
    return None


def _refuse_what_a_lost_key_hides(home: PartyHome, frame) -> None:
    """Tags of another key link no record to what was released under it, so only labels that are known otherwise pass."""
    key, own = home.key, key_id(home.key)
    lost = home.ledger.sources_of_other_keys(own)
    if not lost:
        return
    known = any(
        home.ledger.find_labels(labelled_stream(frame, key, source), source=source, key_id=own)
        for source in home.ledger.sources(own)
    )
    if not known and _public_labels(home, frame) is None:
        raise PrivateReason(
            f"Flips of {lost[0]} were released under a key that is gone, so nobody can say whether the table's labels are true "
            "ones of those records; predict without the label column, or on labels that were flipped anew.",
            public="The guest's ledger refuses to show the labels of this table; its operator can see why.",
        )


def refuse_derived_labels(home: PartyHome, frame) -> None:
    """Flipback computes every label from the features of all records, at all parties: one replaced record moves others.

    Clipping and noise bound what one record contributes, which then is not what it changes. So no step may promise
    anything to a record, or to a party, whose table has such labels; those of their flips are left.
    """
    key = home.key
    for source in home.ledger.sources(key_id(key)):
        if home.ledger.hold_derived_labels(labelled_stream(frame, key, source), source=source, key_id=key_id(key)):
            raise derived_labels()


def derived_labels() -> ValueError:
    return ValueError(
        "The labels went through flipback, which computed each of them from all records of an earlier training, so noise "
        "protects no record here; use the labels as label_flip released them, or train without noise."
    )


def record_use(home: PartyHome, privacy: LabelPrivacy, job: JobReference, rows: int) -> None:
    """Flipped labels were charged by label_flip already; a use of public ones gets its line 'not private'."""
    if not privacy.private:
        home.ledger.record_not_private(
            source=privacy.source, reason="trained on labels declared public", job_id=job.job_id, task_id=job.task_id,
            rows=rows,
        )  # fmt: skip
