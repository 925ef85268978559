"""What each observer learned of each dataset in all, composed from events.

A total belongs to a dataset, a unit, a relation and an observer. It is an upper bound: no epsilon is added to another
outside the accountant, and events of other units are totals of their own. Private steps on datasets that
share a record count for each of them. Epsilons in nats. Reading the
charges and composing them are apart, since composing takes seconds in which nobody should wait for the file.

Events of both relations count in both totals, each at its price there (``accounting.other_relation``). Under
replace-one that is every event, so that this total is the whole account, and caps are checked against it: what fits under
replace-one fits under add-or-remove as well, where nothing costs more. Of some events nothing follows for
add-or-remove; where there is one, the add-or-remove total is infinite, since no smaller number is known to bound
what the observer learned of a record's presence. That total is told only where some event was stated under
add-or-remove: of other tables nobody was promised that.

Memoised flips protect the label of one record. The total of a source is that of the record with the largest total;
records cannot be linked from key to key, so the worst records of all keys are taken for one. Joint scores have no
guarantee: their totals are infinite, and a cap on their number takes the place of a budget.
"""
import math
from collections import defaultdict
from itertools import product

from fate_dp.privacy.accounting.accountant import UnsupportedEvent
from fate_dp.privacy.accounting.other_relation import under
from fate_dp.privacy.events import ADD_OR_REMOVE, REPLACE_ONE, NotPrivate, RandomizedResponse
from fate_dp.privacy.ledger.entry import (
    JOINT_SCORES,
    LABEL_DRAWS,
    LABEL_OBSERVERS,
    SCORE_EVENT,
    stored_event,
)
from fate_dp.privacy.ledger.related_datasets import RELATED

STEPS = f"""
    SELECT e.event, sum(s.rounds) FROM entry e JOIN release r USING (entry_id) JOIN private_step s USING (release_id)
    WHERE e.subject IN ({RELATED}) GROUP BY e.event ORDER BY e.event"""
FLIPS_OF_RECORDS = f"""
    SELECT DISTINCT key_id, entries FROM (
        SELECT e.key_id, group_concat(e.entry_id) AS entries FROM entry e JOIN released_label l USING (entry_id)
        WHERE e.subject = ? AND e.mechanism IN {LABEL_DRAWS} GROUP BY e.key_id, l.id_tag)"""


def all_charges(connection):
    """{dataset: alternatives} of every dataset with a charge, joint scores included."""
    datasets = connection.execute("SELECT DISTINCT subject FROM entry WHERE event <> '' ORDER BY subject").fetchall()
    return {dataset: charges_with_scores(connection, dataset) for (dataset,) in datasets}


def charges(connection, dataset):
    """What counts against the dataset's cap: a set of alternatives, tuples of (event, count), of which any may be true.

    They differ in the record whose flips they hold.
    """
    steps = _steps(connection, dataset)
    return frozenset((*steps, *flips) for flips in _worst_flips(connection, dataset))


def spent_by_label_steps(connection, source):
    """What private steps told one who also sees the flips: the largest epsilon, at delta 0 as flips have it."""
    steps = {tuple(_steps(connection, source))}
    return max(largest_total(seen_by(steps, "label", REPLACE_ONE, observer), 0.0) for observer in LABEL_OBSERVERS)


def spent_by_steps(connection, dataset, delta):
    """What private steps on records or clients told any one observer, under replace-one: the largest epsilon."""
    charged = charges(connection, dataset)
    views = [view for view in _views(charged) if view[0] != "label" and view[1] == REPLACE_ONE]
    return max((known_total(seen_by(charged, *view), delta) for view in views), default=0.0)


def charges_with_scores(connection, dataset):
    """As ``charges``, with joint scores, which have no budget."""
    row = connection.execute("SELECT 1 FROM entry WHERE subject = ? AND mechanism = ?", (dataset, JOINT_SCORES))
    scores = [(SCORE_EVENT, 1)] if row.fetchone() else []
    return frozenset((*alternative, *scores) for alternative in charges(connection, dataset))


def by_observer(dataset, alternatives, delta):
    """One dictionary per unit, relation and observer of a dataset; see ``Ledger.totals``."""
    composed = {}
    return [_line(dataset, alternatives, view, delta, composed) for view in _views(alternatives)]


def known_total_of(alternatives, unit, relation, observer, delta):
    """The largest composed epsilon of what one observer saw; infinity where no bound is known or can be."""
    if relation == ADD_OR_REMOVE and _stated_for_replacing_only(alternatives, unit, observer):
        return math.inf
    return known_total(seen_by(alternatives, unit, relation, observer), delta)


def seen_by(alternatives, unit, relation, observer):
    """What one observer sees of each alternative, of one unit, as it counts under ``relation``: a set of tuples of
    (event, count). What has no guarantee under add-or-remove is left out there; ``known_total_of`` knows of it."""
    return frozenset(_seen(alternative, unit, relation, observer) for alternative in alternatives)


def largest_total(seen, delta):
    """The largest composed epsilon of the alternatives in ``seen``; infinity where nothing is guaranteed.

    :raises UnsupportedEvent: for events that no accountant can add up.
    """
    if not any(seen):
        return 0.0
    # The accounting libraries take longer to load than all else here, and most ledgers never need them.
    from fate_dp.privacy.accounting.total import total_epsilon

    return max(total_epsilon(list(charged), delta) for charged in seen if charged)


def known_total(seen, delta):
    """The largest composed epsilon of the alternatives in ``seen``; infinity where no bound is known."""
    try:
        return largest_total(seen, delta)
    except UnsupportedEvent:
        return math.inf


def epsilon_for_json(epsilon):
    """An epsilon as JSON can hold it: a number, or the text 'infinity'."""
    return "infinity" if math.isinf(epsilon) else epsilon


def _views(alternatives):
    """(unit, relation, observer) of all totals: replace-one of everything, add-or-remove where it was ever promised."""
    events = {event for alternative in alternatives for event, _ in alternative}
    stated = {(event.unit, relation, observer) for event in events for observer in event.observers
              for relation in {event.relation, REPLACE_ONE}}  # fmt: skip
    return sorted(stated)


def _line(dataset, alternatives, view, delta, composed):
    seen = seen_by(alternatives, *view)

    def total(delta):
        # Composed once for all observers who saw the same.
        if (seen, delta) not in composed:
            composed[seen, delta] = known_total(seen, delta)
        return composed[seen, delta]

    unit, relation, observer = view
    unheld = _stated_for_replacing_only(alternatives, unit, observer) if relation == ADD_OR_REMOVE else []
    epsilon = math.inf if unheld else total(delta)
    return {
        "dataset": dataset, "unit": unit, "relation": relation, "observer": observer,
        "epsilon": epsilon_for_json(epsilon), "delta": delta, "note": _note(seen, unheld, epsilon, delta, total),
    }  # fmt: skip


def _note(seen, unheld, epsilon, delta, total):
    """What a reader of the line must know beside the number; empty where there is nothing."""
    if unheld:
        rest = f"; what else was released gives {total(delta):.6g}" if any(seen) else ""
        return f"{', '.join(unheld)} may show how many records there are, and protects no record's presence{rest}"
    reasons = {event.process.reason for charged in seen for event, _ in charged if isinstance(event.process, NotPrivate)}
    if reasons:
        return "no guarantee: " + "; ".join(sorted(reasons))
    if math.isinf(epsilon):
        return f"no bound is known at delta {delta:g}"
    pure = total(0.0)
    return f"{pure:.6g} at delta 0" if epsilon < pure < math.inf else ""


def _stated_for_replacing_only(alternatives, unit, observer):
    """Names of the mechanisms of an observer's events that guarantee nothing under add-or-remove."""
    events = {event for alternative in alternatives for event, _ in alternative}
    return sorted({event.mechanism for event in events if (event.unit == unit and observer in event.observers
                   and under(event, ADD_OR_REMOVE) is None)})  # fmt: skip


def _seen(alternative, unit, relation, observer):
    counts = defaultdict(int)
    for event, count in alternative:
        counted = under(event, relation) if event.unit == unit and observer in event.observers else None
        if counted is not None:
            counts[counted] += count
    return tuple(counts.items())


def _steps(connection, dataset):
    return [(stored_event(text), rounds) for text, rounds in connection.execute(STEPS, {"dataset": dataset})]


def _worst_flips(connection, source):
    """For every choice of a record under each key that may be the worst: its flips as [(event, 1), ...]."""
    texts = dict(connection.execute("SELECT entry_id, event FROM entry WHERE subject = ?", (source,)))
    records = defaultdict(set)
    for key_id, entries in connection.execute(FLIPS_OF_RECORDS, (source,)):
        events = [stored_event(texts[int(entry_id)]) for entry_id in entries.split(",")]
        records[key_id].add(tuple(sorted(events, key=_falling)))
    worst = [[flips for flips in found if not _is_below_another(flips, found)] for found in records.values()]
    return [[(event, 1) for flips in choice for event in flips] for choice in product(*worst)]


def _falling(flip):
    return -flip.process.epsilon, _classes(flip.process)


def _classes(process):
    """Noisy numbers count as two classes, whose flips tell the most of all pure mechanisms (Kairouz et al. 2016)."""
    return process.classes if isinstance(process, RandomizedResponse) else 2


def _is_below_another(flips, others):
    return any(other != flips and _is_below(flips, other) for other in others)


def _is_below(flips, other):
    """Whether each flip has one in ``other`` of its own that is no more private; both sorted by falling epsilon."""
    pairs = [(mine.process, its.process) for mine, its in zip(flips, other)]
    return len(flips) <= len(other) and all(
        mine.epsilon <= its.epsilon and _classes(mine) >= _classes(its) for mine, its in pairs
    )
