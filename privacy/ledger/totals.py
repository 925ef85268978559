"""What each observer learned of each dataset in all, composed from events.

A total belongs to a dataset, a unit, a relation and an observer. It is an upper bound: no epsilon (nats) is added to
another outside the accountant, and events of other units are totals of their own. Private steps on datasets that share
a record count for each of them. Reading the charges and composing them are apart, since composing takes seconds.

Events of both relations count in both totals, each at its price there (``accounting.total.under``). Under replace-one
that is every event, so that this total is the whole account, and caps are checked against it: what fits under
replace-one fits under add-or-remove as well, where nothing costs more. Of some events nothing follows for
add-or-remove; where there is one, the add-or-remove total is infinite, since no smaller number is known to bound what
the observer learned of a record's presence. That total is told only where some event was stated under add-or-remove.

Memoised flips protect the label of one record. The total of a source is that of the record with the largest total;
records cannot be linked from key to key, so the worst records of all keys are taken for one. Joint scores and losses have
no guarantee: their totals are infinite, and a cap on their number takes the place of a budget.
"""

from __future__ import annotations

import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from ..accounting import total as accounts
from ..accounting.accountant import UnsupportedEvent
from ..events import ADD_OR_REMOVE, REPLACE_ONE, Event, NotPrivate, PureDP, RandomizedResponse
from .datasets import RELATED
from .entries import COUNTED_EVENTS, LABEL_DRAWS, LABEL_OBSERVERS, stored_event

Charge = tuple[Event, int]
"""An event and how often it was released."""
Alternatives = frozenset[tuple[Charge, ...]]
"""What was charged: one of these, of which any may be true. They differ in the record whose flips they hold."""

STEPS = f"""
    SELECT e.event, sum(s.rounds) FROM entry e JOIN release r USING (entry_id) JOIN private_step s USING (release_id)
    WHERE e.subject IN ({RELATED}) GROUP BY e.event ORDER BY e.event"""
USED_BY_JOB = """
    SELECT e.subject, e.event, coalesce(sum(s.rounds), 1)
    FROM entry e JOIN release r USING (entry_id) LEFT JOIN private_step s USING (release_id)
    WHERE r.job_id = ? AND e.event <> '' GROUP BY e.entry_id ORDER BY e.entry_id"""
FLIPS_OF_RECORDS = f"""
    SELECT DISTINCT key_id, entries FROM (
        SELECT e.key_id, group_concat(e.entry_id) AS entries FROM entry e JOIN released_label l USING (entry_id)
        WHERE e.subject = ? AND e.mechanism IN {LABEL_DRAWS} GROUP BY e.key_id, l.id_tag)"""


class TotalsView(NamedTuple):
    """Who is asked about: an observer, who sees releases on units of one kind, under one relation."""

    unit: str
    relation: str
    observer: str

    def holds(self, event: Event) -> bool:
        """Whether the observer sees the event, and it is of this unit, whatever its relation."""
        return event.unit == self.unit and self.observer in event.observers


def all_charges(connection: sqlite3.Connection) -> dict[str, Alternatives]:
    """What was charged to every dataset with a charge, joint scores and losses included."""
    datasets = connection.execute("SELECT DISTINCT subject FROM entry WHERE event <> '' ORDER BY subject").fetchall()
    return {dataset: charges_with_counted(connection, dataset) for (dataset,) in datasets}


def charges_of_job(connection: sqlite3.Connection, job_id: str) -> dict[str, Alternatives]:
    """What one job used of every dataset; flips that an earlier job had made are among it, although they cost nothing again.

    All flips of a job are taken to be of one record, which is the worst that can be.
    """
    used: defaultdict[str, list[Charge]] = defaultdict(list)
    for dataset, text, rounds in connection.execute(USED_BY_JOB, (job_id,)):
        used[dataset].append((stored_event(text), rounds))
    return {dataset: frozenset({tuple(found)}) for dataset, found in used.items()}


def charges(connection: sqlite3.Connection, dataset: str) -> Alternatives:
    """What counts against the dataset's cap."""
    steps = _steps(connection, dataset)
    return frozenset((*steps, *flips) for flips in _worst_flips(connection, dataset))


def charges_with_counted(connection: sqlite3.Connection, dataset: str) -> Alternatives:
    """As ``charges``, with joint scores and losses, which have no budget."""
    used = connection.execute("SELECT DISTINCT mechanism FROM entry WHERE subject = ?", (dataset,)).fetchall()
    counted = [(event, 1) for mechanism, event in COUNTED_EVENTS.items() if (mechanism,) in used]
    return frozenset((*alternative, *counted) for alternative in charges(connection, dataset))


def spent_by_label_steps(connection: sqlite3.Connection, source: str, delta: float = 0.0) -> float:
    """What private steps told one who also sees the flips: the largest epsilon.

    It is that at delta 0, as flips have it, where there is one; noise on sums of labels has none, and counts at ``delta``.
    """
    return epsilon_of_label_steps(_steps(connection, source), delta)


def epsilon_of_label_steps(steps: Iterable[Charge], delta: float = 0.0) -> float:
    """As ``spent_by_label_steps``, of these steps."""
    charged = frozenset({tuple(steps)})
    views = [TotalsView("label", REPLACE_ONE, observer) for observer in LABEL_OBSERVERS]
    found = max(largest_total(seen_by(charged, view), 0.0) for view in views)
    if math.isfinite(found) or not delta:
        return found
    return max(largest_total(seen_by(charged, view), delta) for view in views)


def spent_by_steps(charged: Alternatives, delta: float) -> float:
    """What private steps on records or clients told any one observer, under replace-one: the largest epsilon."""
    views = [view for view in _views(charged) if view.unit != "label" and view.relation == REPLACE_ONE]
    return max((known_total(seen_by(charged, view), delta) for view in views), default=0.0)


def by_observer(charged: dict[str, Alternatives], delta: float) -> list[dict[str, Any]]:
    """One dictionary per dataset, unit, relation and observer; see ``Ledger.totals``."""
    # Composed once for all observers who saw the same, of whichever dataset.
    total = cache(known_total)
    return [
        _line(dataset, of_dataset, view, delta, total)
        for dataset, of_dataset in charged.items()
        for view in _views(of_dataset)
    ]


def known_total_of(charged: Alternatives, view: TotalsView, delta: float) -> float:
    """The largest epsilon of what one observer saw; infinity where any of it has none under the relation."""
    return math.inf if _unbounded(charged, view) else known_total(seen_by(charged, view), delta)


def seen_by(charged: Alternatives, view: TotalsView) -> Alternatives:
    """What one observer sees of each alternative, at its price under the relation of ``view``; see `known_total_of`."""
    return frozenset(_seen(alternative, view) for alternative in charged)


def largest_total(seen: Alternatives, delta: float) -> float:
    """The largest composed epsilon of the alternatives in ``seen``; infinity where nothing is guaranteed.

    Raises:
        UnsupportedEvent: No accountant can add up these events.
    """
    return max((float(accounts.total_epsilon(charged, delta)) for charged in seen if charged), default=0.0)


def known_total(seen: Alternatives, delta: float) -> float:
    """``largest_total``, or infinity where no bound is known."""
    try:
        return largest_total(seen, delta)
    except UnsupportedEvent:
        return math.inf


def epsilon_for_json(epsilon: float) -> float | str:
    """An epsilon as JSON can hold it: a number, or the text 'infinity'."""
    return "infinity" if math.isinf(epsilon) else epsilon


def _views(charged: Alternatives) -> list[TotalsView]:
    """The views of all totals: replace-one of everything, add-or-remove where it was ever promised."""
    events = {event for alternative in charged for event, _ in alternative}
    stated = {
        TotalsView(event.unit, relation, observer)
        for event in events
        for observer in event.observers
        for relation in {event.relation, REPLACE_ONE}
    }
    return sorted(stated)


def _line(
    dataset: str, charged: Alternatives, view: TotalsView, delta: float, total: Callable[[Alternatives, float], float]
) -> dict[str, Any]:
    seen, unbounded = seen_by(charged, view), _unbounded(charged, view)
    epsilon = math.inf if unbounded else total(seen, delta)
    note = ""
    if unbounded:
        rest = f"; what else was released gives {total(seen, delta):.6g}" if any(seen) else ""
        note = f"{', '.join(unbounded)} may show how many records there are, and protects no record's presence{rest}"
    elif reasons := {
        event.process.reason
        for alternative in seen
        for event, _ in alternative
        if isinstance(event.process, NotPrivate)
    }:
        note = "no guarantee: " + "; ".join(sorted(reasons))
    elif math.isinf(epsilon):
        note = f"no bound is known at delta {delta:g}"
    elif epsilon < (pure := total(seen, 0.0)) < math.inf:
        note = f"{pure:.6g} at delta 0"
    return {"dataset": dataset, **view._asdict(), "epsilon": epsilon_for_json(epsilon), "delta": delta, "note": note}


def _unbounded(charged: Alternatives, view: TotalsView) -> list[str]:
    """Names of the mechanisms among the events of a view that guarantee nothing under add-or-remove, if that is asked."""
    if view.relation != ADD_OR_REMOVE:
        return []
    events = {event for alternative in charged for event, _ in alternative if view.holds(event)}
    return sorted({event.mechanism for event in events if accounts.under(event, ADD_OR_REMOVE) is None})


def _seen(alternative: tuple[Charge, ...], view: TotalsView) -> tuple[Charge, ...]:
    counts: defaultdict[Event, int] = defaultdict(int)
    for event, times in alternative:
        counted = accounts.under(event, view.relation) if view.holds(event) else None
        if counted is not None:
            counts[counted] += times
    return tuple(counts.items())


def _steps(connection: sqlite3.Connection, dataset: str) -> list[Charge]:
    return [(stored_event(text), rounds) for text, rounds in connection.execute(STEPS, {"dataset": dataset})]


def _worst_flips(connection: sqlite3.Connection, source: str) -> list[list[Charge]]:
    """For every choice of a record under each key that may be the worst: its flips as [(event, 1), ...]."""
    texts = dict(connection.execute("SELECT entry_id, event FROM entry WHERE subject = ?", (source,)))
    records: defaultdict[str, set[tuple[Event, ...]]] = defaultdict(set)
    for key_id, entries in connection.execute(FLIPS_OF_RECORDS, (source,)):
        events = [stored_event(texts[int(entry_id)]) for entry_id in entries.split(",")]
        records[key_id].add(tuple(sorted(events, key=_falling)))
    worst = [
        [flips for flips in found if not any(other != flips and _is_below(flips, other) for other in found)]
        for found in records.values()
    ]
    return [[(event, 1) for flips in choice for event in flips] for choice in product(*worst)]


def _falling(flip: Event) -> tuple[float, int]:
    """(-epsilon, classes) of one flip.

    Noisy numbers count as two classes, whose flips tell the most of all pure mechanisms (Kairouz et al. 2016).
    """
    process = flip.process
    assert isinstance(process, (RandomizedResponse, PureDP)), "memoised draws are flips or noisy numbers"
    return -process.epsilon, process.classes if isinstance(process, RandomizedResponse) else 2


def _is_below(flips: tuple[Event, ...], other: tuple[Event, ...]) -> bool:
    """Whether each flip has one in ``other`` of its own that is no more private; both sorted by falling epsilon."""
    pairs = [(_falling(mine), _falling(its)) for mine, its in zip(flips, other)]
    return len(flips) <= len(other) and all(mine[0] >= its[0] and mine[1] >= its[1] for mine, its in pairs)
