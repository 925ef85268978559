"""What each observer learned of each dataset in all, composed from events.

A total belongs to a dataset, a unit, a relation and an observer. It is an upper bound: no epsilon is added to another
outside the accountant, and events of other units or relations are totals of their own. Private steps on datasets that
share a column count for each of them. Epsilons in nats. Reading the
charges and composing them are apart, since composing takes seconds in which nobody should wait for the file.

Memoised flips protect the label of one record. The total of a source is that of the record with the largest total;
records cannot be linked from key to key, so the worst records of all keys are taken for one. Joint scores have no
guarantee: their totals are infinite, and a cap on their number takes the place of a budget.
"""
import math
from collections import defaultdict
from itertools import product

from fate_dp.privacy.accounting.accountant import UnsupportedEvent
from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.ledger.entry import (
    JOINT_SCORES,
    LABEL_OBSERVERS,
    RANDOMIZED_RESPONSE,
    SCORE_EVENT,
    stored_event,
)
from fate_dp.privacy.ledger.related_datasets import RELATED

STEPS = f"""
    SELECT e.event, sum(s.rounds) FROM entry e JOIN release r USING (entry_id) JOIN private_step s USING (release_id)
    WHERE e.subject IN ({RELATED}) GROUP BY e.event ORDER BY e.event"""
FLIPS_OF_RECORDS = """
    SELECT DISTINCT key_id, entries FROM (
        SELECT e.key_id, group_concat(e.entry_id) AS entries FROM entry e JOIN released_label l USING (entry_id)
        WHERE e.subject = ? AND e.mechanism = ? GROUP BY e.key_id, l.id_tag)"""


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


def charges_with_scores(connection, dataset):
    """As ``charges``, with joint scores, which have no budget."""
    row = connection.execute("SELECT 1 FROM entry WHERE subject = ? AND mechanism = ?", (dataset, JOINT_SCORES))
    scores = [(SCORE_EVENT, 1)] if row.fetchone() else []
    return frozenset((*alternative, *scores) for alternative in charges(connection, dataset))


def by_observer(dataset, alternatives, delta):
    """One dictionary per unit, relation and observer of a dataset; see ``Ledger.totals``."""
    events = {event for alternative in alternatives for event, _ in alternative}
    views = sorted({(event.unit, event.relation, observer) for event in events for observer in event.observers})
    seen = {view: seen_by(alternatives, *view) for view in views}
    # Composed once for all observers who saw the same.
    epsilons = {charged: epsilon_for_json(known_total(charged, delta)) for charged in set(seen.values())}
    names = ("dataset", "unit", "relation", "observer", "epsilon", "delta")
    return [dict(zip(names, (dataset, *view, epsilons[seen[view]], delta))) for view in views]


def seen_by(alternatives, unit, relation, observer):
    """What one observer sees of each alternative, of one unit and relation: a set of tuples of (event, count)."""
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


def _seen(alternative, unit, relation, observer):
    counts = defaultdict(int)
    for event, count in alternative:
        if (event.unit, event.relation) == (unit, relation) and observer in event.observers:
            counts[event] += count
    return tuple(counts.items())


def _steps(connection, dataset):
    return [(stored_event(text), rounds) for text, rounds in connection.execute(STEPS, {"dataset": dataset})]


def _worst_flips(connection, source):
    """For every choice of a record under each key that may be the worst: its flips as [(event, 1), ...]."""
    texts = dict(connection.execute("SELECT entry_id, event FROM entry WHERE subject = ?", (source,)))
    records = defaultdict(set)
    for key_id, entries in connection.execute(FLIPS_OF_RECORDS, (source, RANDOMIZED_RESPONSE)):
        events = [stored_event(texts[int(entry_id)]) for entry_id in entries.split(",")]
        records[key_id].add(tuple(sorted(events, key=_falling)))
    worst = [[flips for flips in found if not _is_below_another(flips, found)] for found in records.values()]
    return [[(event, 1) for flips in choice for event in flips] for choice in product(*worst)]


def _falling(flip):
    return -flip.process.epsilon, flip.process.classes


def _is_below_another(flips, others):
    return any(other != flips and _is_below(flips, other) for other in others)


def _is_below(flips, other):
    """Whether each flip has one in ``other`` of its own that is no more private; both sorted by falling epsilon."""
    pairs = [(mine.process, its.process) for mine, its in zip(flips, other)]
    return len(flips) <= len(other) and all(
        mine.epsilon <= its.epsilon and mine.classes >= its.classes for mine, its in pairs
    )
