"""What was spent when: every use of a line by a job, and what counted against a cap after each.

An amount is what the ledger would have told then, with one reserve: it remembers which records have flips of a line, not
since when. Records that a later job added to a line count from the line's first use, so that an earlier amount of labels
is an upper bound; the last one is what is spent.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import groupby
from operator import itemgetter
from typing import Any

from ..events import Event
from ..validation import check_delta_or_zero
from .database import Chapter
from .datasets import RELATED, is_label_account
from .entries import LABEL_DRAWS, RECORDERS, Entry, Use, stored_event
from .totals import Charged, charge_of_flips, epsilon_of_labels, known_total, spent_by_steps

# Composing takes up to seconds; what happened between two points that are composed is drawn with the later one.
MAX_POINTS = 16
USES = f"""
    SELECT r.entry_id, r.time, s.rounds, {", ".join(f"e.{item.name}" for item in fields(Entry))},
        {", ".join(f"r.{item.name}" for item in fields(Use))}
    FROM release r JOIN entry e USING (entry_id) LEFT JOIN private_step s USING (release_id)
    ORDER BY r.time DESC, r.release_id DESC LIMIT ?"""
MONTHS = """
    SELECT strftime('%Y-%m', r.time, 'unixepoch'), e.subject, e.mechanism, count(*), count(DISTINCT r.job_id)
    FROM release r JOIN entry e USING (entry_id) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"""
# Steps, and first uses of lines of draws, which have an epsilon, in a few parts of about one length.
CHANGES = f"""
    SELECT part, min(time), entry_id, event, epsilon, sum(rounds) FROM (
        SELECT ntile({MAX_POINTS}) OVER (ORDER BY time, release_id) AS part, * FROM (
            SELECT r.time, r.release_id, e.entry_id, e.event, e.epsilon, s.rounds
            FROM entry e JOIN release r USING (entry_id) JOIN private_step s USING (release_id)
            WHERE e.subject IN ({RELATED}) AND (e.unit = 'label') = :labels
            UNION ALL SELECT min(r.time), min(r.release_id), e.entry_id, e.event, e.epsilon, 1
            FROM entry e JOIN release r USING (entry_id)
            WHERE :labels AND e.subject IN ({RELATED}) AND e.mechanism IN {LABEL_DRAWS} GROUP BY e.entry_id))
    GROUP BY part, entry_id ORDER BY part"""
DRAWS_OF_RECORDS = f"""
    SELECT DISTINCT subject, key_id, entries FROM (
        SELECT e.subject, e.key_id, group_concat(e.entry_id) AS entries FROM entry e JOIN released_label l USING (entry_id)
        WHERE e.subject IN ({RELATED}) AND e.mechanism IN {LABEL_DRAWS} GROUP BY e.subject, e.key_id, l.id_tag)"""
COUNTED_IN_TIME = f"""
    SELECT min(time), max(number) FROM (
        SELECT time, row_number() OVER (ORDER BY time) AS number, ntile({MAX_POINTS}) OVER (ORDER BY time) AS part FROM (
            SELECT min(r.time) AS time FROM entry e JOIN release r USING (entry_id)
            WHERE e.subject IN ({RELATED}) AND e.mechanism = :mechanism AND e.counted GROUP BY r.fingerprint))
    GROUP BY part ORDER BY part"""


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

    def uses(self, delta: float, most: int = -1) -> list[NotedUse]:
        """Every use of every line, or the newest ones, oldest first; private steps at ``delta``."""
        delta, found, first_of_use = check_delta_or_zero(delta), [], len(fields(Entry))
        for line, time, rounds, *row in reversed(self._database.fetch(USES, (most,))):
            entry, use = Entry(*row[:first_of_use]), Use(*row[first_of_use:])
            epsilon, at = entry.epsilon, entry.delta or 0.0
            if epsilon is None:
                epsilon, at = known_total(((stored_event(entry.event), rounds),), delta), delta
            found.append(NotedUse(line, time, rounds, entry, use, epsilon, at))
        return found

    def months(self) -> list[dict[str, Any]]:
        """How often each kind of line of each source was used in each month (UTC), and by how many jobs."""
        names = ("month", "source", "mechanism", "uses", "jobs")
        return [dict(zip(names, row)) for row in self._database.fetch(MONTHS)]

    def jobs(self) -> frozenset[str]:
        """All jobs that released something."""
        query = f"SELECT DISTINCT job_id FROM release JOIN entry USING (entry_id) WHERE mechanism NOT IN {RECORDERS}"
        return frozenset(job for (job,) in self._database.fetch(query))

    def label_spending(self, source: str, delta: float = 0.0) -> list[SpentAt]:
        """What counted against the cap of a label source, oldest first; the last is ``spent_of_labels`` at ``delta``."""
        lines_of_records: defaultdict[tuple[str, str], list[list[int]]] = defaultdict(list)
        for subject, key_id, lines in self._database.fetch(DRAWS_OF_RECORDS, {"dataset": source}):
            lines_of_records[subject, key_id].append([int(line) for line in lines.split(",")])

        def epsilon(charged: Charged, epsilons: dict[int, float]) -> float:
            of_records = (
                [math.fsum(epsilons.get(line, 0.0) for line in lines) for lines in records]
                for records in lines_of_records.values()
            )
            worst = math.fsum(map(max, of_records))
            return epsilon_of_labels((*charged, *charge_of_flips(worst)), delta)

        return self._course(source, epsilon)

    def step_spending(self, dataset: str, delta: float) -> list[SpentAt]:
        """What private steps on a dataset counted against its cap at ``delta``; the last is ``spent_by_steps``."""
        delta = check_delta_or_zero(delta)
        return self._course(dataset, lambda charged, _: spent_by_steps(charged, delta))

    def counts(self, dataset: str, mechanism: str) -> list[SpentAt]:
        """How many joint scores, or trainings with losses, were counted of a dataset; the last is ``ScoreLedger.counted``."""
        rows = self._database.fetch(COUNTED_IN_TIME, {"dataset": dataset, "mechanism": mechanism})
        return [SpentAt(*row) for row in rows]

    def _course(self, account: str, epsilon: Callable[[Charged, dict[int, float]], float]) -> list[SpentAt]:
        """The total at the first of every few changes, that of all these: never below what was spent then."""
        charged, epsilons, found = Counter[Event](), dict[int, float](), []
        rows = self._database.fetch(CHANGES, {"dataset": account, "labels": is_label_account(account)})
        for _, part in groupby(rows, itemgetter(0)):
            changes = list(part)
            for _, _, line, event, of_draw, rounds in changes:
                if of_draw is None:
                    charged[stored_event(event)] += rounds
                else:
                    epsilons[line] = of_draw
            found.append(SpentAt(min(time for _, time, *_ in changes), epsilon(tuple(charged.items()), epsilons)))
        return found
