"""Which attacks read which recorded views, and what they found beside the truth, a baseline and the bound of epsilon.

An attack names the component and the role whose views it reads. It says what it read; how much of that is right can only be said
with the truth, which belongs to another party: whoever has it gives it as a table (`Truth`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fate_dp.privacy.auditing.bounds import clopper_pearson
from fate_dp.privacy.validation import InvalidArgument

from .label_ciphertexts import BINNING, REGRESSIONS, Reading, encrypted_labels, residual_labels
from .recorded_round import informed_labels, ones_in_round, recorded_round
from .recorded_view import RecordedView

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A confidence interval, and how it was made."""

    low: float
    high: float
    method: str
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise InvalidArgument(f"The interval from {self.low:g} to {self.high:g} has its ends in the wrong order.")


def share_interval(successes: int, trials: int) -> Interval:
    """Clopper and Pearson's interval of a share of independent trials."""
    low, high = clopper_pearson([successes], trials, (1 - CONFIDENCE) / 2)
    return Interval(float(low[0]), float(high[0]), f"Clopper-Pearson over {trials} trials")


Array = NDArray[np.float64]
CLASSES = 2


@dataclass(frozen=True, eq=False)
class Truth:
    """A table of the attacked party, with which findings are compared, and which no attack reads beyond its threat
    model.

    ``ids`` are of the rows, as text, ``labels`` int64 (n,), 0 or 1, ``features`` float64 (n, m), in the order of the
    table.
    """

    ids: tuple[str, ...]
    labels: NDArray[np.int64] = field(repr=False)
    features: Array = field(repr=False)

    def labels_of(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """The labels of these rows; raises InvalidArgument where one is missing."""
        places = {each: place for place, each in enumerate(self.ids)}
        missing = sum(each not in places for each in ids)
        if missing:
            raise InvalidArgument(
                f"The truth must have all {len(ids)} rows of the view, got none of {missing} of them."
            )
        return self.labels[[places[each] for each in ids]]


def read_truth(path: Path, id_name: str, label: str) -> Truth:
    """The truth in a CSV file; raises InvalidArgument, one sentence, where it is none."""
    import pandas

    try:
        table = pandas.read_csv(path, dtype={id_name: str})
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"The truth {path} cannot be read as a CSV file: {error}.") from error
    missing = next((name for name in (id_name, label) if name not in table), None)
    if missing is not None:
        raise InvalidArgument(f"The truth {path} has no column {missing!r}; name its columns with --id and --label.")
    labels = table[label].to_numpy()
    if not np.isin(labels, range(CLASSES)).all():
        raise InvalidArgument(f"The column {label!r} of the truth {path} has labels other than 0 and 1.")
    features = table.drop(columns=[id_name, label]).select_dtypes("number").to_numpy(np.float64)
    return Truth(tuple(table[id_name]), labels.astype(np.int64), features)


@dataclass(frozen=True, eq=False)
class AttackEvidence:
    """What an attack decided by, for a picture: ``numbers`` float64 (n,), one of each record, with their ``meaning``,
    and the true ``labels`` (n,), None without truth."""

    meaning: str
    numbers: Array = field(repr=False)
    labels: NDArray[np.int64] | None = field(repr=False)


@dataclass(frozen=True)
class Finding:
    """What one attack found in one view of so many ``rows``; it ``says`` what it read in a whole sentence.

    Attributes:
        value: share of the records of which it is right; None without truth, as is ``baseline``.
        interval: of ``value`` over records, None where it is of one draw of noise that all records share.
        baseline: the share that is reached without the view, by naming the commoner label.
        bound: the largest share to be expected at ``epsilon``, the job's in nats, for labels that are fair coins to whoever
            attacks; 1, and an infinite epsilon, without a guarantee.
        evidence: None where the attack decides nothing of single records.
    """

    attack: str
    says: str
    rows: int
    value: float | None
    interval: Interval | None
    baseline: float | None
    bound: float
    epsilon: float
    evidence: AttackEvidence | None = field(default=None, repr=False)


def _labels_read(
    attack: str, read: Callable[[RecordedView], Reading], view: RecordedView, truth: Truth | None
) -> Finding:
    reading = read(view)
    found, defence = reading.labels, reading.view.defence
    rows, ids = len(found), view.ids_of(len(found))
    named = int((~np.isnan(found)).sum())
    what = defence.name if math.isfinite(defence.epsilon) else "labels"
    says = f"It reads the {what} of {named} of {rows} rows, {int(np.nansum(found))} of which are 1."
    bound = defence.bound(np.full(rows, 0.5))
    true = None if truth is None else truth.labels_of(ids)
    evidence = AttackEvidence("what the first ciphertext of a row holds", reading.numbers, true) if named else None
    if true is None:
        return Finding(attack, says, rows, None, None, None, bound, defence.epsilon, evidence)
    right = int((found == true).sum())
    shares = (right / rows, share_interval(right, rows), _commoner(true))
    return Finding(attack, says, rows, *shares, bound, defence.epsilon, evidence)


def _commoner(labels: NDArray[np.int64]) -> float:
    return float(max(labels.mean(), 1 - labels.mean()))


def _ones(view: RecordedView, truth: Truth | None) -> Finding:
    found = recorded_round(view)
    count, records = ones_in_round(found), found.records
    says = f"It counts {count.ones:g} labels 1 among {records} records, {count.low:.1f} to {count.high:.1f} with the noise."
    if truth is None:
        return Finding("ones", says, records, None, None, None, found.bound, found.epsilon)
    true = float(truth.labels.sum())
    ends = sorted(1 - abs(each - true) / records for each in (count.low, count.high))
    best = 1.0 if count.low <= true <= count.high else ends[1]
    value, half = 1 - abs(count.ones - true) / records, 1 - abs(records / 2 - true) / records
    return Finding(
        "ones", says, records, value, Interval(ends[0], best, "law of the noise"), half, found.bound, found.epsilon
    )


def _informed(view: RecordedView, truth: Truth | None) -> Finding:
    found = recorded_round(view)
    if truth is None:
        says = "It names one record's label from all other records; without the truth it has none of these."
        return Finding("informed", says, found.records, None, None, None, found.bound, found.epsilon)
    named = informed_labels(found, truth.features, truth.labels)
    says = f"It names every record's label from all others; by the law of the noise {named.expected_share:.3f} come out right."
    value = float((named.labels == truth.labels).mean())
    evidence = AttackEvidence("log-odds of label 1, all other records being known", named.odds, truth.labels)
    shares = (value, None, _commoner(truth.labels))
    return Finding("informed", says, len(truth.labels), *shares, found.bound, found.epsilon, evidence)


@dataclass(frozen=True)
class Attack:
    """An attack on recorded views, and whose views it reads."""

    name: str
    components: tuple[str, ...]
    role: str
    run: Callable[[RecordedView, Truth | None], Finding]

    def fits(self, view: RecordedView) -> bool:
        return view.task.component in self.components and view.task.role == self.role


ATTACKS = (
    Attack("encrypted_labels", BINNING, "host", partial(_labels_read, "encrypted_labels", encrypted_labels)),
    Attack("residuals", REGRESSIONS, "host", partial(_labels_read, "residuals", residual_labels)),
    Attack("ones", ("dp_homo_nn",), "arbiter", _ones),
    Attack("informed", ("dp_homo_nn",), "arbiter", _informed),
)


def fitting(view: RecordedView, name: str | None = None) -> list[Attack]:
    """The attacks that read a view, or the one of a name; raises InvalidArgument, one sentence, where none does."""
    known = [attack for attack in ATTACKS if name in (None, attack.name)]
    if not known:
        raise InvalidArgument.of("attack", name, f"one of {', '.join(attack.name for attack in ATTACKS)}")
    found = [attack for attack in known if attack.fits(view)]
    if not found:
        readable = "; ".join(
            f"{attack.name} reads those of {' or '.join(attack.components)} at the {attack.role}" for attack in known
        )
        raise InvalidArgument(
            f"The view of {view.task.name} is one of {view.task.component} at the {view.task.role}, which is not read: {readable}."
        )
    return found
