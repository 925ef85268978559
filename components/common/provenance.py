"""What the guest's ledger knows of the labels of a table: flipped in which releases, public, or neither."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.labels.flips import (
    LabelRelease,
    Releases,
    delta_of,
    releases_of_privacy,
    releases_to_json,
    total_of,
    united,
)

from .charges import JobReference, PartyHome, record_spaces, spaces_of
from .federation import Document
from .frames import DataFrame, content_digest, labelled_stream, record_tag_stream
from .preflight import PrivateReason, Refusal
from .row_origin import labels_were_flipped


class LabelNoiseSettings(Protocol):
    """What every component with ``privacy: label`` is given."""

    @property
    def label_source(self) -> str | None: ...
    @property
    def epsilon(self) -> float | None: ...
    @property
    def delta(self) -> float: ...


@dataclass(frozen=True)
class LabelPrivacy:
    """Privacy of a label column with its declared source, or of a model of it, unit label, replace-one.

    Its epsilon is the composition of all ``releases`` that went in; ``derived``: flipback worked on the labels before.
    """

    source: str
    releases: Releases
    derived: bool = False

    @classmethod
    def of_public(cls, source: str) -> LabelPrivacy:
        return cls(source, (LabelRelease(source, math.inf),))

    @classmethod
    def of_noise(cls, source: str, epsilon: float, delta: float) -> LabelPrivacy:
        """Of a model of true labels on whose sums noise was added; each such draw is one of its own."""
        return cls(source, (LabelRelease(source, epsilon, delta=delta),))

    @classmethod
    def from_json(cls, document: Document) -> LabelPrivacy:
        """Of a model's metadata or an alignment's; where it names no releases, its epsilon is that of an unknown one."""
        return cls(document.get("source", ""), releases_of_privacy(document), document.get("flipback before", False))

    @property
    def epsilon(self) -> float:
        """Nats; infinity for labels declared public."""
        return total_of(self.releases)

    @property
    def delta(self) -> float:
        """0 but for noise on sums of labels."""
        return delta_of(self.releases)

    @property
    def private(self) -> bool:
        return math.isfinite(self.epsilon)

    @property
    def flips(self) -> LabelRelease | None:
        """The one release whose flips the labels are, None for public, derived or mixed ones, and for noise on sums."""
        single = len(self.releases) == 1 and self.private and not self.derived and not self.delta
        return self.releases[0] if single else None

    @property
    def in_words(self) -> str:
        if not self.private:
            return "declared public"
        if self.delta:
            return "true ones, behind noise on their sums"
        return "flips of label_flip, at their own epsilon"

    def refuse_numbers(self, family: str) -> None:
        """Noisy numbers are no classes, nor chances of one."""
        if family == "binomial" and any(release.bounds is not None for release in self.releases):
            raise Refusal(
                "The labels are numbers that label_flip made noisy within bounds, and family is binomial; set family to gaussian."
            )

    def to_json(self, flipback: str) -> dict[str, object]:
        """For the model's metadata; ``flipback`` is the mode that ran during training."""
        return {
            "epsilon": self.epsilon if self.private else "infinity",
            **({"delta": self.delta} if self.delta else {}),
            "source": self.source,
            "unit": "label",
            "relation": str(REPLACE_ONE),
            "flipback": flipback,
            "flipback before": self.derived,
            "releases": releases_to_json(self.releases),
        }

    def after(self, warm_start: Document | None) -> LabelPrivacy:
        """Privacy of a model that goes on from ``warm_start`` with these labels.

        The same draw adds nothing; a start that names no draws is one of its own, and unknown labels have no privacy.
        """
        if warm_start is None:
            return self
        earlier = LabelPrivacy.from_json(warm_start["meta"].get("privacy", {}))
        return replace(self, releases=united(self.releases, earlier.releases))


def check_source(home: PartyHome, frame: DataFrame, label_source: str) -> None:
    """The budget belongs to a declared source: a name that the job makes up must not open a new one."""
    if not home.policy.is_declared(label_source):
        raise Refusal(
            f"label_source {label_source} is not declared at the guest; its operator declares it once with "
            f"`fate-dp declare {shlex.quote(label_source)}`."
        )
    if label_source.rsplit("/", 1)[1] != frame.schema.label_name:
        raise ValueError(f"label_source {label_source} must end with the label column {frame.schema.label_name!r}.")
    if not of_common_records(home, [label_source]):
        raise ValueError(
            f"label_source {label_source} is of other records than the task's table, as their populations in the policy say; "
            "set it to the label column of this table."
        )
    declared = home.policy.source(label_source).columns
    strange = next((column for column in frame.schema.columns if declared is not None and column not in declared), None)
    if strange is not None:
        raise ValueError(
            f"The guest's table has the column {strange!r}, which {label_source} was not declared with; its labels are those "
            "of another table, or a step before this one made new columns."
        )


def labels_to_protect(home: PartyHome, frame: DataFrame, settings: LabelNoiseSettings) -> LabelPrivacy:
    """At the guest with privacy label: of what is computed from true labels of a declared source, with noise.

    Nothing is asked of a label here: the other parties see whether the job goes on.
    """
    source, epsilon = settings.label_source, settings.epsilon
    if epsilon is None or source is None:
        missing = "epsilon" if epsilon is None else "label_source"
        raise Refusal.of(missing, None, "set at the guest", "Set it there, beside privacy label.")
    check_source(home, frame, source)
    if home.policy.source(source).public:
        raise Refusal(f"privacy must be none, got label. The guest declared {source} public.")
    return LabelPrivacy.of_noise(source, epsilon, settings.delta)


def find_label_privacy(home: PartyHome, frame: DataFrame, label_source: str | None) -> LabelPrivacy:
    """Ask the ledger record by record; refuse labels that are neither released flips nor registered public ones.

    ``label_source`` narrows the search to one declared source; without it all sources of the key are tried. Labels that
    agree with several releases could come from any of them: only the largest epsilon is an upper bound.
    """
    if label_source is not None and home.policy.source(label_source).public and _are_public(home, frame, label_source):
        return LabelPrivacy.of_public(label_source)
    if not labels_were_flipped():
        raise unknown_labels()
    sources = [label_source] if label_source else home.ledger.sources(home.key_id)
    known = [found for source in sources if (found := _found(home, frame, source))]
    if not known:
        raise unknown_labels()
    return max(known, key=lambda one: one.epsilon)


def _found(home: PartyHome, frame: DataFrame, source: str) -> LabelPrivacy | None:
    rows = labelled_stream(frame, home.key, source)
    found = home.ledger.find_labels(rows, source=source, key_id=home.key_id)
    return None if found is None else LabelPrivacy(found.source, found.releases, found.derived)


def _are_public(home: PartyHome, frame: DataFrame, source: str) -> bool:
    return home.ledger.are_public(labelled_stream(frame, home.key, source), source=source, key_id=home.key_id)


def _declared_public(home: PartyHome, frame: DataFrame) -> LabelPrivacy | None:
    declared = [source for source, terms in home.policy.label_sources.items() if terms.public]
    return next((LabelPrivacy.of_public(source) for source in declared if _are_public(home, frame, source)), None)


def remember_scores(home: PartyHome, scored: DataFrame, model: dict[str, Any]) -> None:
    """Note what a table of scores rests on, for flipback: ``scored`` in FATE's prediction format, ``model`` as stored."""
    releases = LabelPrivacy.from_json(model["meta"].get("privacy", {})).releases
    home.ledger.remember_model_scores(scores_digest(home, scored), releases)


def scores_digest(home: PartyHome, scored: DataFrame) -> str:
    """The same for the same scores of the same rows, whatever else stands in the table."""
    return content_digest(scored[["predict_score"]], home.key).hex()


def unknown_labels() -> PrivateReason:
    return PrivateReason(
        "The training labels are not flips that label_flip released at this guest; put label_flip before this task, or "
        "set label_source to a source whose labels the guest's operator declared public, these labels among them.",
        public="The guest's ledger does not know these training labels; its operator can see why.",
    )


def refuse_true_labels_of_released_records(home: PartyHome, frame: DataFrame) -> LabelPrivacy | None:
    """Scored tables show their labels to metrics and overviews: those of records whose flips were released must be flips.

    Returns what the ledger knows of the labels, None for a table without any and for labels that it does not know.
    """
    if frame.schema.label_name is None:
        return None
    known = []
    sources = of_common_records(home, home.ledger.sources(home.key_id))
    for source in sources:
        if home.ledger.has_released(record_tag_stream(frame, home.key, source), source=source, key_id=home.key_id):
            found = _found(home, frame, source)
            if found is None:
                raise _not_shown(
                    f"The table holds labels of records of {source} whose flips were released, and they are not those "
                    "flips; predict without the label column, or on records outside training."
                )
            known.append(found)
    # Tags of another key link no record to what was released under it, so only labels that are known otherwise pass.
    lost = of_common_records(home, home.ledger.sources_of_other_keys(home.key_id))
    if lost and not any(_found(home, frame, source) for source in sources):
        if _declared_public(home, frame) is None:
            raise _not_shown(
                f"Flips of {lost[0]} were released under a key that is gone, so nobody can say whether the table's labels "
                "are true ones of those records; predict without the label column, or on labels that were flipped anew."
            )
    return max(known, key=lambda one: one.epsilon) if known else _declared_public(home, frame)


def of_common_records(home: PartyHome, sources: Iterable[str]) -> list[str]:
    """Those of these label sources whose tables may have records in common with this task's, as their populations say."""
    here, spaces = set(record_spaces(home)), home.policy.populations_of
    return [source for source in sources if here.intersection(spaces_of(spaces([source.rpartition("/")[0]])))]


def _not_shown(reason: str) -> PrivateReason:
    return PrivateReason(
        reason, public="The guest's ledger refuses to show the labels of this table; its operator can see why."
    )


def record_use(home: PartyHome, privacy: LabelPrivacy, job: JobReference, rows: int) -> None:
    """Flipped labels were charged by label_flip already; a use of public ones gets its line 'not private'."""
    if not privacy.private:
        home.ledger.record_not_private(
            source=privacy.source, reason="trained on labels declared public", rows=rows, **job._asdict()
        )
