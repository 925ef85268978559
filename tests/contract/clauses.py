"""The clauses: predicates of one or two plays of a case. Each returns what is wrong, in sentences."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fate_dp.components.common.federation import PartyId
from fate_dp.privacy.events import Unit
from fate_dp.testing import (
    Charge,
    Draw,
    Event,
    Killed,
    Message,
    Output,
    Played,
    Sentence,
    Silence,
    StreamOpened,
    leaves,
)

from .cases import (
    ADDED,
    NOISE,
    Case,
    Neighbour,
    Released,
    charged_events,
    charges_of,
    charges_to_labels,
    fits,
    messages_of,
    noise_of,
    releases_at,
    same,
    step_between,
    steps_of,
)


def drawn_is_charged(case: Case, folder: Path) -> list[str]:
    """a: the draws are those that the ledger's lines speak of, and what left is the exact value with them."""
    played = case.base
    released, wrong = case.released(played, case.tables), []
    for party in case.parties:
        own = [each for each in released if each.party == party]
        wrong += _lines_differ(party, played, own)
        draws = noise_of(played, party)
        asked = [law for each in own for law in each.laws]
        if len(draws) != len(asked):
            told = [(each.law, dict(each.terms), each.size) for each in draws]
            wrong.append(f"{party} drew {told}, and {len(asked)} draws were charged")
            continue
        for each in own:
            mine, draws = draws[: len(each.laws)], draws[len(each.laws) :]
            wrong += _draws_differ(each, mine)
    pairs = list(case.equal(played, case.tables))
    wrong += [
        f"{told} is told, and {made} follows from the draws" for told, made in pairs if not np.allclose(told, made)
    ]
    wrong += [] if wrong else _added_elsewise(case, played, folder)
    costs = list(case.costs(played, case.tables))
    wrong += [
        f"the lines come to {cost}, and {asked} was asked for"
        for cost, asked in costs
        if not 0.95 * asked < cost <= asked * (1 + 1e-6)
    ]
    return wrong


def _added_elsewise(case: Case, played: Played, folder: Path) -> Iterator[str]:
    """What left, less what leaves with all added noise at zero, is the recorded draws."""
    added = case.added(played)
    if not added:
        return
    bare = case.play(
        folder / "bare",
        meddle=_Replayed(case, played),
        redraw=lambda draw: 0 * draw.result if draw.law in ADDED else None,
    ).check()
    left, without = case.left(played), case.left(bare)
    for name, noise in added.items():
        found = step_between(without[name], left[name])
        if found.shape != np.shape(noise) or not np.allclose(found, noise, rtol=1e-9, atol=1e-12):
            yield f"{name}: noise of {found} left, and {noise} was drawn"


def _lines_differ(party: PartyId, played: Played, own: list[Released]) -> Iterator[str]:
    lines = [steps_of(each) for each in charges_of(played, party)]
    for released in own:
        kind, terms = released.charge
        found = next((line for line in lines if line[0] == kind and fits(terms, _plain(line[1]))), None)
        if found is None:
            yield f"{party}: no line of the ledger says {released.charge}; there are {lines}"
        else:
            lines.remove(found)
    if lines:
        yield f"{party}: the ledger holds {lines}, for which nothing was released"
    to_labels = [(each.terms["event"], each.terms["count"]) for each in charges_to_labels(played, party)]
    steps = [(replace(event, unit=Unit.LABEL), count) for event, count in charged_events(played, party)]
    if to_labels and to_labels != steps:
        yield f"{party}: {to_labels} are charged to labels, and the steps on records that read them are {steps}"


def _plain(terms: dict) -> dict:
    event = terms.get("event")
    return {**terms, "process": getattr(event, "process", None), "unit": str(getattr(event, "unit", ""))}


def _draws_differ(released: Released, draws: list[Draw]) -> Iterator[str]:
    for law, draw in zip(released.laws, draws):
        if law.name != draw.law or law.size not in (None, draw.size) or not fits(law.terms, draw.terms):
            yield f"{released.party} drew {draw.law} {dict(draw.terms)} x {draw.size} in place of {law}"
        if law.private is not None and not same(law.private, draw.private[0]):
            yield f"{released.party} drew {draw.law} of other private values than its table holds"
    if released.left is not None:
        expected = released.of_draws([draw.result for draw in draws])
        if not same(released.left, expected):
            yield f"{released.party}: {released.left} left, and exact values with the recorded draws are {expected}"


def charged_before_it_leaves(case: Case, folder: Path) -> list[str]:
    """b: for every release, the line stands in the ledger before the first message or output that depends on its draws.

    One play moves a draw of every party: each gets what it got in the base, so that what it sends rests on its own alone.
    """
    base, wrong, moved = case.base, [], defaultdict(dict)
    for party in case.parties:
        own, at = [each for each in case.released(base, case.tables) if each.party == party], 0
        lines = charges_of(base, party)
        for number, each in enumerate(own):
            places = range(at, at + len(each.laws))
            at += len(each.laws)
            line = next((line for line in lines if _is_of(each, line)), None)
            if line is None:
                wrong.append(f"{party}: release {number} has no line")
                continue
            lines.remove(line)
            if each.told_by is not None:
                earlier = sum(other.told_by == each.told_by for other in own[:number])
                wrong += _told_too_early(base, party, each.told_by, earlier, line)
            for turn, place in enumerate(_told(case, places)):
                moved[number, turn][party] = place, line.at, each.leaves
    for (number, turn), of_parties in moved.items():
        places = {party: place for party, (place, _, _) in of_parties.items()}
        ledgers = _Ledgers(case, folder / f"{number}-{turn}")
        other = case.play(ledgers.folder, redraw=_Moved(places), meddle=_Replayed(case, base), kill=ledgers)
        wrong += ledgers.missing
        for party, (place, charged, leaves_at_all) in of_parties.items():
            left = _first_difference(base, other, party)
            if left is None and leaves_at_all:
                wrong.append(f"{party}: nothing that leaves depends on draw {place}, of release {number}")
            elif left is not None and left.at < charged:
                wrong.append(f"{party}: {_called(left)} depends on draw {place} and left before it was charged")
    return [*wrong, *_survives_a_kill(case, folder)]


class _Ledgers:
    """Reads a party's ledger from disk at each of its charges, and kills nobody.

    What the disk holds by then survives a kill at this door and at any later one.
    """

    def __init__(self, case: Case, folder: Path) -> None:
        before = case.prepared(folder / "before")
        self.folder, self.missing = folder, list[str]()
        self.before = {party: releases_at(before, party) for party in case.parties}
        self.charges = Counter[PartyId]()

    def __call__(self, event: Event) -> bool:
        if isinstance(event, Charge):
            self.charges[event.party] += 1
            # Steps that are charged together are on the disk together.
            written = releases_at(self.folder / "home", event.party) - self.before[event.party]
            if event.kind in RECORDED and written < self.charges[event.party]:
                self.missing.append(f"{event.party} goes on from {steps_of(event)}, and its ledger holds no line of it")
        return False


def _told_too_early(base: Played, party: PartyId, name: str, earlier: int, line: Charge) -> Iterator[str]:
    """Of several releases that messages of one name tell of, each has one of its own."""
    told = [each.at for each in base.timeline.events if each.party == party and getattr(each, "name", None) == name]
    if len(told) <= earlier:
        yield f"{party}: {name!r} leaves {len(told)} times"
    elif told[earlier] < line.at:
        yield f"{party}: {name!r} left before it was charged"


def _is_of(released: Released, line: Charge) -> bool:
    return line.kind == released.charge[0] and fits(released.charge[1], _plain(steps_of(line)[1]))


def _told(case: Case, places: range) -> list[int]:
    """The draws that are moved one by one: the first, one in the middle and the last one; the middle one not where light."""
    middle = places[:0] if case.light else places[len(places) // 2 : len(places) // 2 + 1]
    return sorted({*places[:1], *middle, *places[-1:]})


class _Moved:
    """Changes one noise draw of each party, known by its place in their order."""

    def __init__(self, places: Mapping[PartyId, int]) -> None:
        self.places, self.seen = places, Counter()

    def __call__(self, draw: Draw) -> Any:
        if draw.law not in NOISE:
            return None
        self.seen[draw.party] += 1
        if self.seen[draw.party] - 1 != self.places.get(draw.party):
            return None
        result = draw.result
        if draw.law == "loss_part":
            return -result
        if draw.law in ADDED:
            # By much: what is rounded afterwards must move as well.
            step = max(1, int(3 * draw.terms["scale"]))
            return result + np.resize(np.array([-step, step], dtype=np.int64), np.shape(result))
        if draw.law in ("flip_indices", "flip_labels"):
            classes = int(draw.terms["classes"])
            return (np.asarray(result) + 1) % classes
        if draw.law == "noisy_numbers":
            return np.asarray(result) + 1
        if draw.law == "exponential_mechanism":
            return (result + len(draw.private[0]) // 2) % len(draw.private[0])
        if draw.law == "duchi_l2":
            return replace(draw.result, value=-draw.result.value)
        if draw.law == "draw_dummy_count":
            return (result + 1) % (int(draw.terms["pool"]) + 1)
        if draw.law == "poisson_sample":
            return np.setdiff1d(np.arange(int(draw.terms["records"])), result)
        return None


def _called(event: Event) -> str:
    return f"the message {event.name!r}" if isinstance(event, (Message, Output)) else type(event).__name__


def _first_difference(base: Played, other: Played, party: PartyId) -> Event | None:
    """The first thing that left the party otherwise than in ``other``, as it stands in the timeline of ``base``."""
    kinds = (Message, Output, Sentence)
    ours = [each for each in base.timeline.events if isinstance(each, kinds) and each.party == party]
    theirs = [each for each in other.timeline.events if isinstance(each, kinds) and each.party == party]
    for first, second in zip(ours, theirs):
        if _content(first) != _content(second):
            return first
    return ours[len(theirs)] if len(ours) > len(theirs) else None


def _content(event: Event) -> Any:
    if isinstance(event, Sentence):
        return event.text
    return event.name, [(path, _hashable(leaf)) for path, leaf in leaves(getattr(event, "value", None))]


def _hashable(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        return leaf.shape, leaf.tolist() if leaf.dtype == object else leaf.tobytes()
    return leaf.to_csv() if hasattr(leaf, "to_csv") else repr(leaf)


def _survives_a_kill(case: Case, folder: Path) -> Iterator[str]:
    """A party that dies right after its first charge has the line on disk; the others wait, or read that they cannot go on."""
    before = case.prepared(folder / "before")
    for party in {each.party for each in case.base.timeline.of(Charge) if each.kind in RECORDED}:

        def kill(event: Event, party: PartyId = party) -> bool:
            return isinstance(event, Charge) and event.party == party and event.kind in RECORDED

        ended = case.play(folder / f"killed-{party[1]}", kill=kill)
        if not isinstance(ended.errors.get(party), Killed):
            yield f"{party} was not ended after its first charge"
        if releases_at(ended.home, party) <= releases_at(before, party):
            yield f"{party} died after it charged, and its ledger holds no line"
        for other, error in ended.errors.items():
            if other != party and not isinstance(error, (Silence, ValueError)):
                yield f"{other} ends with {error!r} where {party} is silent"


def neighbours_differ_by_no_more(case: Case, folder: Path) -> list[str]:
    """c: with the same randomness, and the same answers of all others, messages move by what was charged at most."""
    base = case.base
    return [
        f"{neighbour.name}: {sentence}"
        for neighbour in case.neighbours
        for sentence in _moved_too_far(case, base, neighbour, folder / neighbour.name.replace(" ", "-"))
    ]


def _moved_too_far(case: Case, base: Played, neighbour: Neighbour, folder: Path) -> Iterator[str]:
    other = case.play(
        folder, case.with_table(neighbour.party, neighbour.table), meddle=_Replayed(case, base), redraw=_SameFlips(base)
    )
    for party, error in other.errors.items():
        yield f"{party} ended with {error!r}"
        return
    ours, theirs = case.left(base), case.left(other)
    for name, left in ours.items():
        norm, most = neighbour.left.get(name, neighbour.left.get(None, (1, 0.0)))
        size = float(np.linalg.norm(step_between(left, theirs[name]).ravel(), norm))
        if size > most * (1 + 1e-9):
            yield f"what is opened of {name} moves by {size:g} in place of {most:g} at most"
    first, second = messages_of(base), messages_of(other)
    for party in case.parties:
        ours, theirs = (
            [each for each in found if each.party == party and each.name not in case.made] for found in (first, second)
        )
        if list(map(_place, ours)) != list(map(_place, theirs)):
            yield f"{party} sent other messages"
            continue
        for one, two in zip(ours, theirs):
            # What only the party itself gets shows it its own data.
            if one.receiver != neighbour.party:
                yield from _message_moved(case, neighbour, one, two)


class _Replayed:
    """In place of a message the one that was sent in another play, so that every round begins as there."""

    def __init__(self, case: Case, base: Played) -> None:
        self.case, self.answers, self.seen = case, _by_place(messages_of(base)), Counter()

    def __call__(self, message: Message) -> Any:
        place = _place(message)
        found, at = self.answers[place], self.seen[place]
        self.seen[place] += 1
        # What is sealed, or made of what was, is that of this play's parties.
        as_it_comes = message.name in {*self.case.sealed, *self.case.made} - set(self.case.replayed)
        return None if at >= len(found) or as_it_comes or _is_table(found[at].value) else found[at].value


class _SameFlips:
    """Draws that read what they protect give what they gave in another play."""

    def __init__(self, base: Played) -> None:
        self.results, self.seen = _draws_by_place(base), Counter()

    def __call__(self, draw: Draw) -> Any:
        place = draw.party, draw.law
        at = self.seen[place]
        self.seen[place] += 1
        protects = draw.law in NOISE and draw.law not in (*ADDED, "poisson_sample", "draw_dummy_count")
        return self.results[place][at] if protects and at < len(self.results[place]) else None


def _message_moved(case: Case, neighbour: Neighbour, one: Message, two: Message) -> Iterator[str]:
    told = f"the message {one.name!r} ({one.namespace}) from {one.party} to {one.receiver}"
    if one.name in case.sealed:
        if one.size != two.size:
            yield f"{told} has {two.size} in place of {one.size} bytes"
        return
    norm, most = neighbour.moves.get(one.name, (1, 0.0))
    ours, theirs = (
        {path: leaf for path, leaf in leaves(each.value) if not set(path) & set(case.derived)} for each in (one, two)
    )
    if list(ours) != list(theirs):
        yield f"{told} has another form"
        return
    moved = 0.0
    for path, leaf in ours.items():
        if _hashable(leaf) == _hashable(theirs[path]):
            continue
        if isinstance(leaf, (str, bytes, bool)) or leaf is None:
            yield f"{told} says {theirs[path]!r:.80} in place of {leaf!r:.80} at {path}"
            return
        step = np.abs(np.asarray(theirs[path], dtype=float) - np.asarray(leaf, dtype=float))
        moved = max(moved, float(step.max())) if norm == 0 else moved + float((step**norm).sum())
    size = moved ** (1 / norm) if norm else moved
    if size > most * (1 + 1e-9):
        yield f"{told} moves by {size:g} in place of {most:g} at most"


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, tuple) and len(row) == 2 for row in value)


def _place(message: Message) -> tuple:
    return message.party, message.receiver, message.namespace, message.name


def _by_place(messages: list[Message]) -> dict[tuple, list[Message]]:
    found = defaultdict(list)
    for message in messages:
        found[_place(message)].append(message)
    return found


def _draws_by_place(played: Played) -> dict[tuple, list]:
    found = defaultdict(list)
    for draw in played.timeline.of(Draw):
        found[draw.party, draw.law].append(draw.result)
    return found


def streams_are_separated(case: Case, folder: Path) -> list[str]:
    """f: no stream of random bits is opened twice, whatever one part of its label differs.

    Within a task that holds for party, round, epoch, block, column, class and whatever else a case has two of. Of two
    plays that differ in their entropy alone, or in the name of their task alone, they share what is named as persistent;
    with the same entropy keys that are drawn anew are the same, and stand for themselves.
    """
    first = case.base
    again = case.play(folder / "again", secret=b"another").check()
    other = case.play(folder / "two", task="two").check()
    streams, anew = _streams(case, first), _streams(case, again)
    lasting = {key for _, key, _ in streams} & {key for _, key, _ in anew} - {UNKEYED}
    named = [each for each in _streams(case, other) if each[1] in lasting]
    wrong = [
        f"{party}: the stream {label[:80]!r} was opened twice in one task"
        for (party, _, label), count in Counter(streams).items()
        if count > 1
    ]
    for told, shared in (("runs", set(streams) & set(anew)), ("tasks", set(streams) & set(named))):
        wrong += [f"{party}: two {told} share the stream {label[:80]!r}" for party, _, label in sorted(shared)[:3]]
    for start, count in case.opened.items():
        found = sum(each.label.startswith(start) for each in first.timeline.of(StreamOpened))
        if found < count:
            wrong.append(f"{found} streams {start!r} were opened in place of {count}")
    return wrong


RECORDED = ("record", "record_flips")
"""Charges that add a release to the ledger; others declare what it knows."""
UNKEYED = hashlib.sha256(b"").hexdigest()[:16]
"""The recorder's name for no key: what such a stream's label holds is fresh or public."""
PERSISTENT = {
    b"fate-dp key identifier": "public name of the party's key",
    b"\x00\x00\x00\x00\x00\x00\x00\nrecord tag": "the ledger knows a record again",
    b"\x00\x00\x00\x00\x00\x00\x00\tlabel tag": "the ledger knows a label again",
    b"\x00\x00\x00\x00\x00\x00\x00\nlabel flip": "a record's flip is drawn once",
    b"\x00\x00\x00\x00\x00\x00\x00\x0blabel noise": "a record's noisy number is drawn once",
    b"fate-dp Paillier modulus": "the proof of a key is made of the key",
    b"fate-dp table content": "digest",
    b"fate-dp: are the rows": "digest",
}


def _streams(case: Case, played: Played) -> list[tuple]:
    kept = (*PERSISTENT, *case.persistent)
    return [
        (each.party, each.key, each.label)
        for each in played.timeline.of(StreamOpened)
        if not each.label.startswith(kept)
    ]
