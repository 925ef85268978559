"""What everybody else saw of each label and of each record: the truth that ledgers are held against.

Nothing of FATE-DP is imported. The oracle follows values, not tables: a label is the value that one column has for one
record of one party, whatever table, source or name brings it into a job; a record is a person, or a loan, that a party
knows. Each release is one of three mechanisms:

- ``response``: randomised response among k classes, which noise on two counts also is, count by count;
- ``gaussian``: mu, the change that the secret may make over the noise;
- ``nothing``: no guarantee, since what was promised does not hold for the secret.

Their composition is exact for the worst pair of neighbours: k-ary responses have three privacy losses, and Gaussian noise
beside them has a profile in closed form (Balle and Wang 2018). So the truth is never overstated.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

NEAR = 1e-9


class Secret(NamedTuple):
    """A record of a party, or with ``column`` one label of it."""

    party: str
    population: str
    record: str
    column: str = ""


class Draw(NamedTuple):
    """Flips that are drawn once: whoever asks again sees the same ones."""

    key: int
    source: str
    epsilon: float
    classes: int


class Cell(NamedTuple):
    """What stands in a label column: a true label, flips of it (``draws``), or what was computed from other records."""

    label: Secret
    draws: frozenset[Draw] = frozenset()
    derived: bool = False


class Mechanism(NamedTuple):
    kind: str
    size: float = 0.0
    classes: int = 2


NOTHING = Mechanism("nothing")
# How the rows and columns of a table came about, where other records had a part in it.
BY_LABELS, BY_FLIPS, BY_FEATURES, BY_PLACE = "true labels", "flips", "own features", "places in the table"
BY_ALL = "labels that were computed from all parties' records"
RELATIONS = ADD_OR_REMOVE, REPLACE_ONE = "add_or_remove", "replace_one"


@dataclass(frozen=True)
class Content:
    """Of a table, row by row: whose records, what its labels are, and what else decided which rows and columns there are."""

    records: tuple[Secret, ...]
    labels: tuple[Cell, ...] | None = None
    decided: frozenset[str] = frozenset()

    @property
    def moves_with_all(self) -> bool:
        """Whether other rows change with a record of any party."""
        return BY_ALL in self.decided or any(cell.derived for cell in self.labels or ())

    def holds_for_records(self, relation: str) -> bool:
        """Whether other rows stay as they are when one record of this party is replaced, or removed."""
        if self.moves_with_all or self.decided & {BY_LABELS, BY_FLIPS, BY_FEATURES}:
            return False
        return relation == REPLACE_ONE or BY_PLACE not in self.decided

    @property
    def holds_for_labels(self) -> bool:
        """Whether what one label changes is its own row."""
        return BY_LABELS not in self.decided


@dataclass
class Seen:
    """Releases on one secret, and what the ledger called it in them."""

    releases: list[Mechanism] = field(default_factory=list)
    draws: set[Draw] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        return mechanisms_of(self.draws, self.releases)


def mechanisms_of(draws: Iterable[Draw], releases: Iterable[Mechanism]) -> tuple[Mechanism, ...]:
    """Of all of them, in order."""
    return tuple(sorted([*releases, *(Mechanism("response", draw.epsilon, draw.classes) for draw in draws)]))


class Truth:
    """Adds up what was seen of every secret."""

    def __init__(self) -> None:
        self.seen: defaultdict[Secret, Seen] = defaultdict(Seen)
        self.touched: set[Secret] = set()

    def flipped(self, content: Content, draw: Draw) -> None:
        """Randomised response on the labels of a table. Of labels that were flips before it shows nothing new."""
        for cell in content.labels or ():
            if not cell.draws and not cell.derived:
                found = self._of(cell.label)
                found.draws.add(draw)
                if not content.holds_for_labels:
                    found.releases.append(NOTHING)

    def labels_shown(self, content: Content, shown: Iterable[Mechanism]) -> None:
        """A promise for single labels, whose true values are in it."""
        shown = [*shown] if content.holds_for_labels else [NOTHING]
        for cell in content.labels or ():
            if not cell.draws and not cell.derived:
                self._of(cell.label).releases += shown

    def records_shown(
        self, content: Content, shown: Iterable[Mechanism], relation: str = REPLACE_ONE, holds: bool = True
    ) -> None:
        """A promise for whole records; ``holds`` unless another party's table moves with all records."""
        shown = [*shown] if holds and content.holds_for_records(relation) else [NOTHING]
        for record in content.records:
            self._of(record).releases += shown

    def _of(self, secret: Secret) -> Seen:
        self.touched.add(secret)
        return self.seen[secret]


def gaussian(epsilon: float, delta: float) -> Mechanism:
    """Noise that is (epsilon, delta)-private and no more: the analytic Gaussian mechanism."""
    return Mechanism("gaussian", _mu_of(epsilon, delta))


@cache
def _mu_of(epsilon: float, delta: float) -> float:
    low, high = 0.0, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, epsilon) < delta else (low, middle)
    return low


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of a Gaussian mechanism at any epsilon, also below 0."""
    if mu == 0.0:
        return max(0.0, -math.expm1(epsilon))
    first, second = _normal(-epsilon / mu + mu / 2), _normal(-epsilon / mu - mu / 2)
    return first - math.exp(min(epsilon, 700.0)) * second


def _normal(at: float) -> float:
    return math.erfc(-at / math.sqrt(2)) / 2


@cache
def epsilon_of(mechanisms: tuple[Mechanism, ...], delta: float) -> float:
    """The smallest epsilon of all of them together at ``delta``."""
    if NOTHING in mechanisms:
        return math.inf
    mu = math.sqrt(math.fsum(each.size**2 for each in mechanisms if each.kind == "gaussian"))
    losses = _losses(tuple(each for each in mechanisms if each.kind == "response"))
    largest = max(losses)
    if mu == 0.0 and delta == 0.0:
        return largest
    low, high = 0.0, largest + mu * mu / 2 + 10 * mu + NEAR
    if _delta(losses, mu, low) <= delta:
        return 0.0
    while high - low > NEAR:
        middle = (low + high) / 2
        low, high = (middle, high) if _delta(losses, mu, middle) > delta else (low, middle)
    return low


def _delta(losses: dict[float, float], mu: float, epsilon: float) -> float:
    return math.fsum(chance * gaussian_delta(mu, epsilon - loss) for loss, chance in losses.items())


@cache
def _losses(responses: tuple[Mechanism, ...]) -> dict[float, float]:
    """{privacy loss: its chance} of all randomised responses together, for two different values."""
    found = {0.0: 1.0}
    for (_, epsilon, classes), times in Counter(responses).items():
        keep = 1 / (1 + (classes - 1) * math.exp(-epsilon))
        other = (1 - keep) / (classes - 1)
        for _ in range(times):
            more: defaultdict[float, float] = defaultdict(float)
            for loss, chance in found.items():
                more[round(loss + epsilon, 9)] += chance * keep
                more[round(loss - epsilon, 9)] += chance * other
                if classes > 2:
                    more[loss] += chance * (1 - keep - other)
            found = dict(more)
    return found
