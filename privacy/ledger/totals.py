"""What each observer learned of each dataset in all, composed from events.

A total belongs to a dataset, or an account of labels, a unit, a relation and an observer. It is an upper bound: no epsilon
(nats) is added to another outside the accountant, and events of other units are totals of their own. Private steps on
datasets of one family count for each of them. Reading the charges and composing them are apart, since composing takes
seconds. Caps are checked against `EVERYBODY`, who sees all; the totals of single observers are information.

Events of both relations count in both totals, each at its price there (``accounting.total.under``). Under replace-one
that is every event, so that this total is the whole account, and caps are checked against it: what fits under
replace-one fits under add-or-remove as well, where nothing costs more. Of some events nothing follows for
add-or-remove; where there is one, the add-or-remove total is infinite, since no smaller number is known to bound what
the observer learned of a record's presence. That total is told only where some event was stated under add-or-remove.

Memoised flips protect the label of one record. Those of a source count as one release at the total of the record with the
largest one; records cannot be linked from key to key, or from source to source, so all these are added. Joint scores and
losses have no guarantee: their totals are infinite, and a cap on their number takes the place of a budget.
"""

import math
import sqlite3
from collections import defaultdict
from functools import lru_cache
from typing import Any, NamedTuple

from ..accounting import total as accounts
from ..accounting.accountant import UnsupportedEvent
from ..events import ADD_OR_REMOVE, REPLACE_ONE, Event, NotPrivate, PureDP
from .datasets import RELATED, is_label_account
from .entries import COUNTED_EVENTS, LABEL_DRAWS, LABEL_OBSERVERS, stored_event

Charge = tuple[Event, int]
"""An event and how often it was released."""
Charged = tuple[Charge, ...]
EVERYBODY = "everybody"
"""In place of an observer: all of them together, whatever their roles."""

STEPS = f"""
    SELECT e.event, sum(s.rounds) FROM entry e JOIN entry_sum s USING (entry_id)
    WHERE e.subject IN ({RELATED}) AND (e.unit = 'label') = :labels AND s.rounds GROUP BY e.event ORDER BY e.event"""
USED_BY_JOB = """
    SELECT e.subject, e.event, coalesce(sum(s.rounds), 1)
    FROM entry e JOIN release r USING (entry_id) LEFT JOIN private_step s USING (release_id)
    WHERE r.job_id = ? AND e.event <> '' GROUP BY e.entry_id ORDER BY e.entry_id"""
# The largest total of one record under each source and key.
SPENT_BY_FLIPS = f"""
    SELECT max(total) FROM (
        SELECT e.subject, e.key_id, sum(e.epsilon) AS total FROM entry e JOIN released_label r USING (entry_id)
        WHERE e.subject IN ({RELATED}) AND e.mechanism IN {LABEL_DRAWS} GROUP BY e.subject, e.key_id, r.id_tag)
    GROUP BY subject, key_id"""


class TotalsView(NamedTuple):
    """Who is asked about: an observer, who sees releases on units of one kind, under one relation."""

    unit: str
    relation: str
    observer: str

    def holds(self, event: Event) -> bool:
        """Whether the observer sees the event, and it is of this unit, whatever its relation."""
        return event.unit == self.unit and (self.observer == EVERYBODY or self.observer in event.observers)


def all_charges(connection: sqlite3.Connection) -> dict[str, Charged]:
    """What was charged to every dataset with a charge, joint scores and losses included."""
    datasets = connection.execute("SELECT DISTINCT subject FROM entry WHERE event <> '' ORDER BY subject").fetchall()
    return {dataset: charges_with_counted(connection, dataset) for (dataset,) in datasets}


def charges_of_job(connection: sqlite3.Connection, job_id: str) -> dict[str, Charged]:
    """What one job used of every dataset; flips that an earlier job had made are among it, although they cost nothing again.

    All flips of a job are taken to be of one record, which is the worst that can be.
    """
    used: defaultdict[str, list[Charge]] = defaultdict(list)
    for dataset, text, rounds in connection.execute(USED_BY_JOB, (job_id,)):
        used[dataset].append((stored_event(text), rounds))
    return {dataset: tuple(found) for dataset, found in used.items()}


def charges(connection: sqlite3.Connection, dataset: str) -> Charged:
    """What counts against the cap of the dataset, or of the account of labels: of its whole family."""
    of_labels = is_label_account(dataset)
    steps = connection.execute(STEPS, {"dataset": dataset, "labels": of_labels})
    found = tuple((stored_event(text), rounds) for text, rounds in steps)
    return (*found, *charge_of_flips(spent_by_flips(connection, dataset))) if of_labels else found


def charges_with_counted(connection: sqlite3.Connection, dataset: str) -> Charged:
    """As ``charges``, with joint scores and losses, which have no budget."""
    used = connection.execute("SELECT DISTINCT mechanism FROM entry WHERE subject = ?", (dataset,)).fetchall()
    counted = [(event, 1) for mechanism, event in COUNTED_EVENTS.items() if (mechanism,) in used]
    return (*charges(connection, dataset), *counted)


def spent_by_flips(connection: sqlite3.Connection, account: str) -> float:
    """Of the memoised draws of all sources in the family of an account of labels, at delta 0."""
    return math.fsum(total for (total,) in connection.execute(SPENT_BY_FLIPS, {"dataset": account}))


def charge_of_flips(epsilon: float) -> Charged:
    """All memoised draws of a family as one release, none where nothing was spent on them."""
    return ((Event(PureDP(epsilon), "label", REPLACE_ONE, LABEL_OBSERVERS), 1),) if epsilon else ()


def epsilon_of_labels(charged: Charged, delta: float = 0.0) -> float:
    """What counts against a cap of labels: at delta 0, as flips have it, where there is such a number.

    Noise on sums of labels has none, and then all counts at ``delta``.
    """
    seen = seen_by(charged, TotalsView("label", REPLACE_ONE, EVERYBODY))
    found = total_of(seen, 0.0)
    return found if math.isfinite(found) or not delta else known_total(seen, delta)


def spent_by_steps(charged: Charged, delta: float) -> float:
    """What private steps on records or clients told everybody together, under replace-one: the larger epsilon of the units."""
    units = sorted({event.unit for event, _ in charged if event.unit != "label"})
    views = [TotalsView(unit, REPLACE_ONE, EVERYBODY) for unit in units]
    return max((known_total(seen_by(charged, view), delta) for view in views), default=0.0)


def by_observer(charged: dict[str, Charged], delta: float) -> list[dict[str, Any]]:
    """One dictionary per dataset, unit, relation and observer; see ``Ledger.totals``."""
    return [
        _line(dataset, of_dataset, view, delta)
        for dataset, of_dataset in charged.items()
        for view in _views(of_dataset)
    ]


def known_total_of(charged: Charged, view: TotalsView, delta: float) -> float:
    """The epsilon of what one observer saw; infinity where any of it has none under the relation."""
    return math.inf if _unbounded(charged, view) else known_total(seen_by(charged, view), delta)


def seen_by(charged: Charged, view: TotalsView) -> Charged:
    """What one observer sees of all that was charged, at its price under the relation of ``view``; see `known_total_of`."""
    counts: defaultdict[Event, int] = defaultdict(int)
    for event, times in charged:
        counted = accounts.under(event, view.relation) if view.holds(event) else None
        if counted is not None:
            counts[counted] += times
    return tuple(counts.items())


# Composing takes up to seconds, and observers, pages and charges ask for the same totals.
@lru_cache(maxsize=256)
def total_of(seen: Charged, delta: float) -> float:
    """The composed epsilon; infinity where nothing is guaranteed.

    Raises:
        UnsupportedEvent: No accountant can add up these events.
    """
    return float(accounts.total_epsilon(seen, delta))


def known_total(seen: Charged, delta: float) -> float:
    """``total_of``, or infinity where no bound is known."""
    try:
        return total_of(seen, delta)
    except UnsupportedEvent:
        return math.inf


def epsilon_for_json(epsilon: float) -> float | str:
    """An epsilon as JSON can hold it: a number, or the text 'infinity'."""
    return "infinity" if math.isinf(epsilon) else epsilon


def _views(charged: Charged) -> list[TotalsView]:
    """The views of all totals: replace-one of everything, add-or-remove where it was ever promised."""
    stated = {
        TotalsView(event.unit, relation, observer)
        for event, _ in charged
        for observer in (*event.observers, EVERYBODY)
        for relation in {event.relation, REPLACE_ONE}
    }
    return sorted(stated)


def _line(dataset: str, charged: Charged, view: TotalsView, delta: float) -> dict[str, Any]:
    seen, unbounded = seen_by(charged, view), _unbounded(charged, view)
    epsilon = math.inf if unbounded else known_total(seen, delta)
    note = ""
    if unbounded:
        rest = f"; what else was released gives {known_total(seen, delta):.6g}" if seen else ""
        note = f"{', '.join(unbounded)} may show how many records there are, and protects no record's presence{rest}"
    elif reasons := {event.process.reason for event, _ in seen if isinstance(event.process, NotPrivate)}:
        note = "no guarantee: " + "; ".join(sorted(reasons))
    elif math.isinf(epsilon):
        note = f"no bound is known at delta {delta:g}"
    elif epsilon < (pure := known_total(seen, 0.0)) < math.inf:
        note = f"{pure:.6g} at delta 0"
    return {"dataset": dataset, **view._asdict(), "epsilon": epsilon_for_json(epsilon), "delta": delta, "note": note}


def _unbounded(charged: Charged, view: TotalsView) -> list[str]:
    """Names of the mechanisms among the events of a view that guarantee nothing under add-or-remove, if that is asked."""
    if view.relation != ADD_OR_REMOVE:
        return []
    events = {event for event, _ in charged if view.holds(event)}
    return sorted({event.mechanism for event in events if accounts.under(event, ADD_OR_REMOVE) is None})
