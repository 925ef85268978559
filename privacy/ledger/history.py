"""What was spent when: every use of a line by a job, and what counted against a cap after each.

An amount is what the ledger would have told then, with one reserve: it remembers which records have flips of a line, not
since when. Records that a later job added to a line count from the line's first use, so that an earlier amount of labels
is an upper bound; the last one is what is spent.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache

from ..events import Event
from ..validation import check_delta_or_zero
from .database import Chapter
from .datasets import RELATED, is_label_account
from .entries import LABEL_DRAWS, Entry, Use, stored_event
from .totals import Charged, charge_of_flips, epsilon_of_labels, known_total, spent_by_steps

# Composing takes up to seconds; what happened between two points that are composed is drawn with the later one.
MAX_POINTS = 16
USES = f"""
    SELECT r.entry_id, r.time, s.rounds, {", ".join(f"e.{item.name}" for item in fields(Entry))},
        {", ".join(f"r.{item.name}" for item in fields(Use))}
    FROM release r JOIN entry e USING (entry_id) LEFT JOIN private_step s USING (release_id)
    ORDER BY r.time, r.release_id"""
STEPS_IN_TIME = f"""
    SELECT r.time, e.event, s.rounds FROM entry e JOIN release r USING (entry_id) JOIN private_step s USING (release_id)
    WHERE e.subject IN ({RELATED}) AND (e.unit = 'label') = :labels ORDER BY r.time, r.release_id"""
DRAWS_IN_TIME = f"""
    SELECT min(r.time), e.entry_id, e.epsilon FROM entry e JOIN release r USING (entry_id)
    WHERE e.subject IN ({RELATED}) AND e.mechanism IN {LABEL_DRAWS} GROUP BY e.entry_id ORDER BY 1, 2"""
DRAWS_OF_RECORDS = f"""
    SELECT DISTINCT subject, key_id, entries FROM (
        SELECT e.subject, e.key_id, group_concat(e.entry_id) AS entries FROM entry e JOIN released_label l USING (entry_id)
        WHERE e.subject IN ({RELATED}) AND e.mechanism IN {LABEL_DRAWS} GROUP BY e.subject, e.key_id, l.id_tag)"""
COUNTED_IN_TIME = f"""
    SELECT min(r.time) FROM entry e JOIN release r USING (entry_id)
    WHERE e.subject IN ({RELATED}) AND e.mechanism = :mechanism AND e.counted GROUP BY r.fingerprint ORDER BY 1"""
Change = tuple[float, Event | int, float]
"""When, and what: an event with its rounds, or the line of a draw with its epsilon (nats)."""


@dataclass(frozen=True)
class NotedUse:
    """One use of a line by a task: ``epsilon`` (nats) at ``delta`` is of this use alone, as if there were no other.

    ``rounds`` is None but for a private step. ``time`` is in seconds since 1970.
    """

    entry_id: int
    time: float
    rounds: int | None
    entry: Entry
    use: Use
    epsilon: float
    delta: float


@dataclass(frozen=True)
class SpentAt:
    """What counts against a cap from ``time`` (seconds since 1970) on: nats, or how many scores or trainings were counted."""

    time: float
    amount: float


class HistoryLedger(Chapter):
    """The ledger read along time."""

    def uses(self, delta: float) -> list[NotedUse]:
        """Every use of every line, oldest first; private steps at ``delta``."""
        delta, alone = check_delta_or_zero(delta), cache(known_total)
        found, first_of_use = [], len(fields(Entry))
        for line, time, rounds, *row in self._database.fetch(USES):
            entry, use = Entry(*row[:first_of_use]), Use(*row[first_of_use:])
            epsilon, at = entry.epsilon, entry.delta or 0.0
            if epsilon is None:
                epsilon, at = alone(((stored_event(entry.event), rounds),), delta), delta
            found.append(NotedUse(line, time, rounds, entry, use, epsilon, at))
        return found

    def label_spending(self, source: str, delta: float = 0.0) -> list[SpentAt]:
        """What counted against the cap of a label source, oldest first; the last is ``spent_of_labels`` at ``delta``."""
        with self._database.reading() as connection:
            draws = connection.execute(DRAWS_IN_TIME, {"dataset": source}).fetchall()
            lines_of_records: defaultdict[tuple[str, str], list[list[int]]] = defaultdict(list)
            for subject, key_id, lines in connection.execute(DRAWS_OF_RECORDS, {"dataset": source}):
                lines_of_records[subject, key_id].append([int(line) for line in lines.split(",")])
            steps = _steps_in_time(connection, source)

        def epsilon(charged: Charged, epsilons: dict[int, float]) -> float:
            of_records = (
                [math.fsum(epsilons.get(line, 0.0) for line in lines) for lines in records]
                for records in lines_of_records.values()
            )
            worst = math.fsum(map(max, of_records))
            return epsilon_of_labels((*charged, *charge_of_flips(worst)), delta)

        changes = sorted([*steps, *draws], key=lambda change: change[0])
        return _composed(changes, epsilon)

    def step_spending(self, dataset: str, delta: float) -> list[SpentAt]:
        """What private steps on a dataset counted against its cap at ``delta``; the last is ``spent_by_steps``."""
        delta = check_delta_or_zero(delta)
        with self._database.reading() as connection:
            steps = _steps_in_time(connection, dataset)
        return _composed(steps, lambda charged, _: spent_by_steps(charged, delta))

    def counts(self, dataset: str, mechanism: str) -> list[SpentAt]:
        """How many joint scores, or trainings with losses, were counted of a dataset; the last is ``ScoreLedger.counted``."""
        times = self._database.fetch(COUNTED_IN_TIME, {"dataset": dataset, "mechanism": mechanism})
        return [SpentAt(time, number) for number, (time,) in enumerate(times, 1)]


def _steps_in_time(connection: sqlite3.Connection, dataset: str) -> list[Change]:
    of_labels = is_label_account(dataset)
    rows = connection.execute(STEPS_IN_TIME, {"dataset": dataset, "labels": of_labels}).fetchall()
    return [(time, stored_event(text), rounds) for time, text, rounds in rows]


def _composed(changes: Sequence[Change], epsilon: Callable[[Charged, dict[int, float]], float]) -> list[SpentAt]:
    """The total at the first of every few changes, that of all these: never below what was spent then."""
    charged: Counter[Event] = Counter()
    epsilons: dict[int, float] = {}
    found = []
    for together in _parts(changes, MAX_POINTS):
        for _, what, amount in together:
            if isinstance(what, Event):
                charged[what] += int(amount)
            else:
                epsilons[what] = amount
        found.append(SpentAt(together[0][0], epsilon(tuple(charged.items()), epsilons)))
    return found


def _parts(items: Sequence[Change], most: int) -> Iterator[Sequence[Change]]:
    """At most ``most`` parts of about one length, in order."""
    parts = min(most, len(items))
    for number in range(parts):
        yield items[number * len(items) // parts : (number + 1) * len(items) // parts]
