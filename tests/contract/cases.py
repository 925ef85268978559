"""What the contract must know of a component: how to play it, what it releases, and what may move."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from fate_dp.components.common.federation import PartyId
from fate_dp.privacy.events import NotPrivate
from fate_dp.privacy.ledger.datasets import LABELS
from fate_dp.privacy.private_files import LEDGER_FILE, party_folder
from fate_dp.testing import Charge, ComponentStep, Doors, Draw, Message, Played, Step, Timeline, play
from fate_dp.testing.parties import place_key

GUEST, HOST, SECOND_HOST, ARBITER = ("guest", "9999"), ("host", "10000"), ("host", "10001"), ("arbiter", "10002")
Tables = Mapping[PartyId, pd.DataFrame]
NOISE = (
    "discrete_laplace",
    "discrete_gaussian",
    "exponential_mechanism",
    "flip_indices",
    "flip_labels",
    "noisy_numbers",
    "piecewise_mechanism",
    "duchi_l2",
    "draw_dummy_count",
    "poisson_sample",
    "loss_part",
)
"""Samplers whose draws protect something: each of them must be charged."""
ADDED = ("discrete_laplace", "discrete_gaussian", "loss_part")
"""Those that do not read what they protect: with the same randomness they give the same on a neighbour."""


@dataclass(frozen=True)
class Law:
    """A draw that a release must have: the sampler, its terms, how many values, None for any; ``private`` where it reads what it protects."""

    name: str
    terms: Mapping[str, Any]
    size: int | None
    private: Any = None


@dataclass(frozen=True)
class Released:
    """One charged release of a party, computed from settings and tables alone, never from the component's own numbers.

    Attributes:
        charge: (kind, terms) that a line of the ledger must hold; see `charged`.
        laws: the draws, in order.
        left: what other parties, or the output, show of it; None where it never leaves by itself.
        of_draws: what it must be, given the results of the draws.
        told_by: the message or output that first tells of it, where there is no draw to move.
    """

    party: PartyId
    charge: tuple[str, Mapping[str, Any]]
    laws: tuple[Law, ...]
    left: Any = None
    of_draws: Callable[[list], Any] = lambda results: None
    leaves: bool = True
    told_by: str | None = None

    @property
    def capped(self) -> bool:
        """Whether an operator's cap can refuse it: a private step or flips, but no line that says 'not private'."""
        kind, terms = self.charge
        return kind in ("record", "record_flips") and not isinstance(terms.get("process"), NotPrivate)


@dataclass(frozen=True)
class After(ComponentStep):
    """A component that follows other work of its task.

    ``before`` makes its step of what that work left; None where the party takes no part in it.
    """

    before: Callable[[After, Any], After | None] = field(default=lambda step, ctx: step)

    def __call__(self, ctx: Any) -> dict[str, Any]:
        step = self.before(self, ctx)
        return {} if step is None else ComponentStep.__call__(step, ctx)


@dataclass(frozen=True)
class Neighbour:
    """One unit's data is other data at one party: what of its messages may move, by how much.

    Attributes:
        moves: {message name: (norm, most)}; messages of other names must stay as they are.
        left: {name in the case's ``left``: (norm, most)}; None names all of them.
    """

    name: str
    party: PartyId
    table: pd.DataFrame
    moves: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    left: Mapping[Any, tuple[int, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A component, one of its stages and one of its settings, on small tables.

    Attributes:
        step: what every party does, given the tables.
        released: what was released, given the play.
        sealed: {message name: why its content says nothing to its receiver}: ciphertexts, shares, masked numbers.
        made: {message name: of which releases alone it is made}; that is the business of ``equal``.
        replayed: those of ``made`` that on a neighbour are what they were, so that every round begins alike.
        free: {(message name, last keys of the path): why the receiver takes whatever it is told}.
        persistent: starts of labels of keyed streams that must stay the same in every task, and why.
        opened: {start of labels: how many such streams a play opens at least}.
        derived: {key in a message: of which released numbers in it this is made}.
        prepare: what operators do before: declarations and caps.
        equal: pairs of numbers, what was told and what it must be, given the recorded draws.
        left: {name: what observers can put together of sealed messages}: integers (modulo 2^64) or floats.
        added: {name: the sum of the recorded draws in it}, in its unit.
        costs: pairs of epsilons, what a party's ledger comes to and what the settings ask for.
        light: another setting of the component meets all kinds of hostile data; this one meets a few.
        checked: another setting, in whose plays each term was tampered that stands in messages of both.
        allowed: parts of sentences about a party's data that others may get, beyond those of all components.
    """

    component: str
    stage: str | None
    setting: str
    parties: tuple[PartyId, ...]
    tables: Tables
    step: Callable[[Tables], Step]
    released: Callable[[Played, Tables], list[Released]]
    neighbours: tuple[Neighbour, ...] = ()
    sealed: Mapping[str, str] = field(default_factory=dict)
    made: Mapping[str, str] = field(default_factory=dict)
    replayed: tuple[str, ...] = ()
    free: Mapping[tuple, str] = field(default_factory=dict)
    persistent: Mapping[bytes, str] = field(default_factory=dict)
    opened: Mapping[bytes, int] = field(default_factory=dict)
    derived: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], None] = lambda home: None
    allowed: tuple[str, ...] = ()
    hostile: tuple[PartyId, ...] = (GUEST, HOST)
    equal: Callable[[Played, Tables], Iterable[tuple[Any, Any]]] = lambda played, tables: ()
    costs: Callable[[Played, Tables], Iterable[tuple[float, float]]] = lambda played, tables: ()
    left: Callable[[Played], Mapping[Any, np.ndarray]] = lambda played: {}
    added: Callable[[Played], Mapping[Any, np.ndarray]] = lambda played: {}
    light: bool = False
    checked: Case | None = None

    @property
    def name(self) -> str:
        return " / ".join((self.component, self.stage or "default", self.setting))

    def prepared(self, home: Path) -> Path:
        """A new home of all parties, as operators and earlier jobs left it."""
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for _, number in self.parties:
            place_key(home, number)
        self.prepare(home)
        return home

    def play(self, folder: Path, tables: Tables | None = None, task: str = "task", **doors: Any) -> Played:
        """Play it in a home of its own, with the randomness of all other plays of the case."""
        home = self.prepared(folder / "home")
        step = self.step(self.tables if tables is None else tables)
        # A step may flip labels before it enters its component.
        messages = {**declared("label_flip"), **declared(self.component)}
        return play(step, self.parties, home, messages=messages, task=task, doors=Doors(Timeline(), **doors))

    @property
    def base(self) -> Played:
        """The play on its own tables, once for all clauses."""
        if self.name not in _bases:
            folder = TemporaryDirectory()
            played = self.play(Path(folder.name))
            _bases[self.name] = folder, played
        return _bases[self.name][1].check()

    def with_table(self, party: PartyId, table: pd.DataFrame) -> Tables:
        return {**self.tables, party: table}


_bases: dict[str, tuple[TemporaryDirectory, Played]] = {}


def homes_after(case: Case) -> Callable[[Path], None]:
    """Parties' homes as an earlier job left them; a ``prepare``."""
    return lambda home: shutil.copytree(case.base.home, home, dirs_exist_ok=True) and None


def models_of(case: Case, name: str = "output_model") -> Mapping[PartyId, Any]:
    """What the parties of an earlier job wrote."""
    return {party: values.get(name) for party, values in case.base.values.items()}


def releases_at(home: Path, party: PartyId) -> int:
    """How many releases a party's ledger holds on disk."""
    path = party_folder(home, party[1]) / LEDGER_FILE
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM release").fetchone()[0])


def declared(component: str) -> Mapping:
    """The messages that a component declares."""
    entry = getattr(import_module(f"fate_dp.components.{component}.component"), component)
    return (entry.stage_components or [entry])[0].callback.messages


def noise_of(played: Played, party: PartyId) -> list[Draw]:
    return [each for each in played.timeline.of(Draw, party) if each.law in NOISE]


def steps_of(charge: Charge) -> tuple:
    """A line of the ledger without what names the task."""
    left_out = {"release_key", "job_id", "task_id", "fingerprint", "cap", "rows", "dataset", "key_id", "purpose"}
    return charge.kind, {key: each for key, each in charge.terms.items() if key not in left_out}


def fits(asked: Any, found: Any) -> bool:
    """Equal, but for the last digits of floats."""
    if isinstance(asked, Mapping):
        return isinstance(found, Mapping) and all(
            key in found and fits(each, found[key]) for key, each in asked.items()
        )
    if type(asked) is not float and isinstance(asked, float):
        return bool(asked == found)  # it says by itself what is near
    if isinstance(asked, float) or isinstance(found, float):
        return bool(np.isclose(asked, found, rtol=1e-9, atol=0)) if isinstance(found, (int, float)) else False
    return bool(asked == found)


def step_between(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """float64 differences; of integers modulo 2^64."""
    if first.dtype.kind == "f":
        return second - first
    return (second.astype(np.uint64) - first.astype(np.uint64)).view(np.int64).astype(float)


def same(first: Any, second: Any) -> bool:
    """Equal, but for the last digits of floats."""
    one, two = np.asarray(first), np.asarray(second)
    if one.shape != two.shape:
        return False
    if one.dtype.kind == "f" or two.dtype.kind == "f":
        return bool(np.allclose(one.astype(float), two.astype(float), rtol=1e-9, atol=2e-6))
    return bool(np.array_equal(one, two))


def charges_to_labels(played: Played, party: PartyId) -> list[Charge]:
    """Lines of steps on records that read labels, which are charged to the labels as well."""
    lines = played.timeline.of(Charge, party)
    return [each for each in lines if each.kind == "record" and each.terms["dataset"].startswith(LABELS)]


def charges_of(played: Played, party: PartyId) -> list[Charge]:
    """All other lines of a party's ledger."""
    to_labels = charges_to_labels(played, party)
    return [each for each in played.timeline.of(Charge, party) if each not in to_labels]


def charged_events(played: Played, party: PartyId) -> list[Any]:
    """(event, count) of the private steps that a party's ledger was charged with."""
    return [(each.terms["event"], each.terms["count"]) for each in charges_of(played, party) if each.kind == "record"]


def messages_of(played: Played, sender: PartyId | None = None) -> list[Message]:
    return played.timeline.of(Message, sender)


def base_table(rows: int, columns: Iterable[str], seed: int, labels: Iterable[float] | None = None) -> pd.DataFrame:
    """Standard normal columns of ``rows`` records, in thousandths."""
    generator = np.random.default_rng(seed)
    made = pd.DataFrame(
        {"sample_id": [f"sid {at}" for at in range(rows)], "id": [f"person {at}" for at in range(rows)]}
    )
    for column in columns:
        made[column] = np.round(generator.normal(size=rows), 3)
    if labels is not None:
        made["y"] = np.resize(np.asarray(list(labels), dtype=float), rows)
    return made


def changed_row(table: pd.DataFrame, row: int, **values: float) -> pd.DataFrame:
    """The table with other values in one row."""
    made = table.copy()
    for name, value in values.items():
        made.loc[row, name] = value
    return made
