"""The clauses about hostile data at one party, and about hostile messages of one."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from fate_dp.components.common.federation import PartyId
from fate_dp.components.common.preflight import UNTOLD
from fate_dp.privacy.ledger.database import LedgerUnavailable
from fate_dp.privacy.ledger.ledger import Ledger
from fate_dp.privacy.private_files import party_folder
from fate_dp.testing import Artifact, Charge, ComponentStep, Message, Played, Sentence, Silence, leaves
from fate_dp.testing.doors import CHARGES

from .cases import Case, messages_of

Pair = tuple[pd.DataFrame, pd.DataFrame]


def values_at(table: pd.DataFrame, value: float, other: float) -> Pair:
    """One value in a first place, another one elsewhere."""
    columns = [name for name in table if name not in ("sample_id", "id", "y")]
    first = _with(_with(table, 1, columns[0], value), 3, columns[-1], other)
    return first, _with(table, len(table) - 2, columns[-1], other)


def labels_at(table: pd.DataFrame, value: float, other: float) -> Pair | None:
    if "y" not in table:
        return None
    return _with(_with(table, 1, "y", value), 3, "y", other), _with(table, len(table) - 2, "y", other)


def _with(table: pd.DataFrame, row: int, column: str, value: Any) -> pd.DataFrame:
    made = table.copy()
    made.loc[row, column] = value
    return made


def repeated_ids(table: pd.DataFrame) -> Pair:
    return _with(table, 1, "id", table["id"][0]), _with(table, 4, "id", table["id"][3])


def constant_columns(table: pd.DataFrame) -> Pair:
    columns = [name for name in table if name not in ("sample_id", "id", "y")]
    return table.assign(**dict.fromkeys(columns, 0.25)), table.assign(**dict.fromkeys(columns, 0.75))


def one_label(table: pd.DataFrame) -> Pair | None:
    return (table.assign(y=0.0), table.assign(y=1.0)) if "y" in table else None


KINDS: Mapping[str, Callable[[pd.DataFrame], Pair | None]] = {
    "a missing value": lambda table: values_at(table, np.nan, np.nan),
    "infinities": lambda table: values_at(table, np.inf, -np.inf),
    "huge values": lambda table: values_at(table, 1e300, -1e300),
    "repeated ids": repeated_ids,
    "one row": lambda table: (table.head(1), table.tail(1).reset_index(drop=True)),
    "constant columns": constant_columns,
    "labels outside": lambda table: labels_at(table, 7.0, -3.0),
    "a missing label": lambda table: labels_at(table, np.nan, np.nan),
    "an infinite label": lambda table: labels_at(table, np.inf, -np.inf),
    "one label alone": one_label,
}
"""Two tables each, which differ in what nobody else may see."""

LIGHT = ("a missing value", "labels outside", "repeated ids")
FIXED = (
    re.escape(UNTOLD),
    "The task failed before the first message",
    "does not allow",
    "are not the same ids in the same order",
    "The guest's ledger does not know these training labels",
)
"""What others may be told of a party's data: that it cannot be used at all, or that its cap is spent."""


def hostile_data_shows_nothing(case: Case, folder: Path) -> list[str]:
    """d: whatever a party's table holds, others see the ordinary messages or one fixed sentence, alike for both tables."""
    usual, wrong = _view(case.base, case, None), []
    for party in case.hostile:
        for kind, make in KINDS.items():
            if case.light and kind not in LIGHT:
                continue
            pair = make(case.tables[party])
            if pair is not None:
                wrong += [f"{kind} at {party}: {each}" for each in _shown(case, party, pair, usual, folder / kind)]
        wrong += [f"a spent cap at {party}: {each}" for each in _spent_cap(case, party, folder)]
        wrong += [f"a failure at {party}: {each}" for each in _failure(case, party, folder)]
        wrong += [f"a full disk at {party}: {each}" for each in _full_disk(case, party, folder)]
    return wrong


def _shown(case: Case, party: PartyId, pair: Pair, usual: dict, folder: Path) -> Iterator[str]:
    plays = [case.play(folder / f"{party[1]}-first", case.with_table(party, pair[0]))]
    views = [_view(plays[0], case, party)]
    others = {key: each for key, each in usual.items() if key != party}
    if views[0] != others:
        plays.append(case.play(folder / f"{party[1]}-second", case.with_table(party, pair[1])))
        views.append(_view(plays[1], case, party))
        if views[0] != views[1]:
            yield f"others tell two such tables apart: {_difference(*views)}"
    for played, view in zip(plays, views):
        told = {error for error, _ in view.values() if error is not None}
        # A party that waits for nobody goes on, and reads why the other stopped.
        told |= {form[1] for _, forms in view.values() for form in forms if form[0] == "sentence"}
        if not told and {key: each[1] for key, each in view.items()} != {key: each[1] for key, each in others.items()}:
            yield f"nobody was refused, and the messages are others: {_difference(view, others)}"
        for error in played.errors.values():
            if isinstance(error, Silence):
                yield f"a party waits for ever: {error}"
        for sentence in sorted(told):
            if not any(re.search(known, sentence) for known in (*FIXED, *case.allowed)):
                yield f"others are told: {sentence}"


def _view(played: Played, case: Case, party: PartyId | None) -> dict:
    """What each other party saw: how it ended, and the forms and sizes of its messages."""
    return {
        other: (
            None if other not in played.errors else str(played.errors[other]),
            [
                _form(case, each)
                for each in sorted(played.timeline.seen_by(other), key=lambda each: each.party)
                if getattr(each, "name", None) not in case.made
            ],
        )
        for other in case.parties
        if other != party
    }


def _form(case: Case, event: Message | Sentence) -> tuple:
    if isinstance(event, Sentence):
        return "sentence", event.text
    if event.name in case.sealed:
        return event.party, event.namespace, event.name, event.size
    form = [
        (path, np.shape(leaf) if isinstance(leaf, np.ndarray) else type(leaf)) for path, leaf in leaves(event.value)
    ]
    return event.party, event.namespace, event.name, form


def _difference(first: dict, second: dict) -> str:
    for party, (error, seen) in first.items():
        other_error, other_seen = second[party]
        if error != other_error:
            return f"{party} ends with {error!r} or {other_error!r}"
        for one, two in zip(seen, other_seen):
            if one != two:
                return f"{party} sees {one!r:.300} or {two!r:.300}"
        if len(seen) != len(other_seen):
            return f"{party} sees {len(seen)} or {len(other_seen)} messages"
    return "nothing"


SMALL_CAPS = "default_dataset_cap: {epsilon: %s, delta: 1.0e-6}\ndefault_label_cap: %s\n"


def _spent_cap(case: Case, party: PartyId, folder: Path) -> Iterator[str]:
    if not any(each.party == party and each.capped for each in _released(case)):
        return

    def plays() -> Iterator[Played]:
        for cap in (1e-3, 2e-3):

            def prepare(home: Path, cap: float = cap) -> None:
                case.prepare(home)
                path = party_folder(home, party[1]) / "policy.yaml"
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                before = path.read_text() if path.exists() else ""
                path.write_text(before + SMALL_CAPS % (cap, cap))
                path.chmod(0o600)

            yield replace(case, prepare=prepare).play(folder / f"cap-{party[1]}-{cap}")

    found = list(plays())
    views = [_view(each, case, party) for each in found]
    if views[0] != views[1]:
        yield f"others learn how much is left: {_difference(*views)}"
    for other, error in found[0].errors.items():
        if not isinstance(error, ValueError) or (other != party and "does not allow" not in str(error)):
            yield f"{other} is told {error!r}"
    if set(found[0].errors) != set(case.parties):
        yield f"only {sorted(found[0].errors)} were refused"
    if found[0].timeline.of(Message, party) and _charges(found[0]):
        yield "something was charged"


def _released(case: Case) -> list:
    return case.released(case.base, case.tables)


def _charges(played: Played) -> list:
    return [each for each in played.timeline.of(Charge) if each.kind in ("record", "record_flips")]


SECRET = "row 17 holds 0.4711"


@dataclass
class Failing(Artifact):
    """Cannot be written, and its error quotes data."""

    def write(self, content: Any = None, metadata: Any = None, df: Any = None) -> None:
        raise ValueError(SECRET)


def _failure(case: Case, party: PartyId, folder: Path) -> Iterator[str]:
    """A failure in the middle tells others that there was one, never what it said."""
    step = case.step(case.tables)
    if not isinstance(step, ComponentStep):
        return

    def failing(ctx: Any) -> Any:
        own = tuple(ctx.federation.local_party) == party
        return (replace(step, output=lambda name: Failing(name=name)) if own else step)(ctx)

    yield from _told_of_it(case, replace(case, step=lambda tables: failing).play(folder / f"failure-{party[1]}"), party)


def _full_disk(case: Case, party: PartyId, folder: Path) -> Iterator[str]:
    """No line of the party's ledger can be written: the task ends, and others read neither why nor where."""
    if not case.base.timeline.of(Charge, party):
        return

    def full(original: Callable) -> Callable:
        def charged(ledger: Ledger, **terms: Any) -> Any:
            if party_folder(folder / "full" / "home", party[1]) == ledger.path.parent:
                raise LedgerUnavailable(f"The ledger {ledger.path} cannot be written: {SECRET}.")
            return original(ledger, **terms)

        return charged

    with ExitStack() as stack:
        for name in CHARGES:
            stack.enter_context(mock.patch.object(Ledger, name, full(getattr(Ledger, name))))
        played = case.play(folder / "full")
    yield from _told_of_it(case, played, party)
    if party not in played.errors:
        yield "the party goes on without a line in its ledger"


def _told_of_it(case: Case, played: Played, party: PartyId) -> Iterator[str]:
    told = [str(error) for other, error in played.errors.items() if other != party]
    told += [each.text for each in played.timeline.of(Sentence)]
    if any(SECRET in each or str(played.home) in each for each in told):
        yield f"others are told {told}"


def agreed_terms_are_checked(case: Case, folder: Path) -> list[str]:
    """e: each term of an agreement, changed in one message to one party, is refused by that party."""
    wrong, seen = [], {place for place, *_ in _terms(case.checked)} if case.checked else set()
    for place, message, path, changed in _terms(case):
        if place not in seen:
            seen.add(place)
            wrong += _accepted(case, message, path, changed, folder / f"{len(seen)}")
    return wrong


def _terms(case: Case) -> Iterator[tuple[tuple, Message, tuple, Any]]:
    """(place, message, path in it, changed leaf) of all that parties agree on."""
    for message in messages_of(case.base):
        if message.name in ("preflight", "verdict"):
            for path, leaf in leaves(message.value):
                for at, changed in _changes(leaf):
                    # Of the parties of a role all do the same, but for hosts without a table.
                    receiver = message.receiver[0], message.receiver in case.tables
                    place = (message.party[0], receiver, message.namespace, message.name, _general(path), at)
                    # Parameters are compared as one document; another setting of the component has each of them changed.
                    place = place if not case.light or "parameters" not in path else (*place[:4], "parameters")
                    if not _is_free(case, message, (*path, *at)):
                        yield place, message, path, changed


def _general(path: tuple) -> tuple:
    return tuple("*" if isinstance(key, int) else key for key in path)


def _is_free(case: Case, message: Message, path: tuple) -> bool:
    return any(
        message.name == name and set(keys) <= {f"to {message.receiver[0]}", *map(str, path)}
        for name, *keys in case.free
    )


def _accepted(case: Case, message: Message, path: tuple, changed: Any, folder: Path) -> Iterator[str]:
    sent = [-1]

    def meddle(each: Message) -> Any:
        place = (each.party, each.receiver, each.namespace, each.name)
        if place != (message.party, message.receiver, message.namespace, message.name):
            return None
        sent[0] += 1
        return with_leaf(each.value, path, changed) if sent[0] == 0 else None

    played = case.play(folder, meddle=meddle)
    error = played.errors.get(message.receiver)
    told = f"{' '.join(message.receiver)}, told {path} = {changed!r:.60} in {message.name!r} ({message.namespace})"
    if error is None:
        yield f"{told}, goes on; let it refuse that, or say in the case's `free` why it need not"
    elif not isinstance(error, ValueError):
        yield f"{told}, ends with {error!r}"


def _changes(leaf: Any) -> Iterator[tuple[tuple, Any]]:
    """(place in an array, changed leaf): of an array the first and the last number are changed, each alone."""
    if isinstance(leaf, np.ndarray):
        made = leaf.tolist()
        for at in sorted({0, len(made) - 1}) if isinstance(made, list) and made else ():
            if not isinstance(made[at], list):
                yield (at,), [*made[:at], _changed(made[at]), *made[at + 1 :]]
    elif (changed := _changed(leaf)) is not None:
        yield (), changed


def _changed(leaf: Any) -> Any:
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int):
        return leaf + 1
    if isinstance(leaf, float):
        return leaf * 1.5 + 0.271
    if isinstance(leaf, str):
        return leaf + "x"
    return leaf + b"x" if isinstance(leaf, bytes) else None


def with_leaf(value: Any, path: tuple, leaf: Any) -> Any:
    """The nested value with another leaf."""
    if not path:
        if isinstance(value, np.ndarray):
            return np.asarray(leaf, dtype=value.dtype)
        return type(value)(leaf) if isinstance(value, (list, tuple)) else leaf
    key, *rest = path
    if isinstance(value, Mapping):
        return {each: with_leaf(item, tuple(rest), leaf) if each == key else item for each, item in value.items()}
    made = copy.copy(list(value))
    made[key] = with_leaf(made[key], tuple(rest), leaf)
    return type(value)(made) if isinstance(value, tuple) else made
