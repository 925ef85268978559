"""How each component is played: its own checks, its own charges and its own provenance, without what costs arithmetic.

An adapter is what one party does in a task. It tells the oracle what the others see from then on, by the task's parameters,
at the moment where it would leave, whatever the ledger was told. Everything that a change of FATE-DP may move is in here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from fate_dp.components.align import preflight as align
from fate_dp.components.align.settings import Settings as AlignSettings
from fate_dp.components.align.settings import hide_size
from fate_dp.components.common import frames, provenance
from fate_dp.components.common.charges import PartyHome, columns_name
from fate_dp.components.common.job_files import JobFiles
from fate_dp.components.common.preflight import Preflight
from fate_dp.components.dp_binning.agreement import GuestAgreement, HostAgreement
from fate_dp.components.dp_binning.settings import Settings as BinningSettings
from fate_dp.components.dp_binning.settings import other_columns
from fate_dp.components.dp_hetero_lr import train as hetero
from fate_dp.components.dp_hetero_lr.settings import TrainSettings as HeteroSettings
from fate_dp.components.dp_hetero_lr.settings import flipback as flipback_setting
from fate_dp.components.dp_homo_gbdt.agreement import TreesDataAgreement
from fate_dp.components.dp_homo_gbdt.agreement import agree_on_terms as agree_on_trees
from fate_dp.components.dp_homo_gbdt.train import TreesMember
from fate_dp.components.dp_homo_nn.agreement import HomoNNDataAgreement
from fate_dp.components.dp_homo_nn.agreement import agree_on_terms as agree_on_network
from fate_dp.components.dp_homo_nn.train import HomoNNMember
from fate_dp.components.dp_scorecard.agreement import ScorecardGuestPreflight, ScorecardHostPreflight
from fate_dp.components.dp_scorecard.settings import TrainSettings as ScorecardSettings
from fate_dp.components.flipback import guest as flipback
from fate_dp.components.flipback.settings import Settings as FlipbackSettings
from fate_dp.components.label_count.party import publish
from fate_dp.components.label_count.settings import Settings as CountSettings
from fate_dp.components.label_flip import guest as label_flip
from fate_dp.components.label_flip.settings import Settings as FlipSettings
from fate_dp.components.protocols.prediction_frames import prediction_frame
from fate_dp.components.shuffler import run as shuffler
from fate_dp.components.shuffler.settings import Settings as ShufflerSettings
from fate_dp.components.shuffler.settings import requests
from fate_dp.crypto.paillier import generate_keypair
from fate_dp.pipelines.jobs.populations import number_rows, settled
from fate_dp.privacy.ledger.datasets import is_label_account
from fate_dp.privacy.ledger.policy import declare_caps, declare_facts, declare_source
from fate_dp.privacy.private_files import POLICY_FILE
from fate_dp.privacy.table_facts import TableFacts
from tests.support.local_parties import set_job_check as write_job_check

from .oracle import Cell, Content, Draw, Mechanism, Secret, Truth, gaussian, mechanisms_of
from .world import BINS, Table, home_path

GUEST, HOST, ARBITER = "guest", "host", "arbiter"


@dataclass
class Scores:
    """What a training writes for its rows: FATE's table of scores, and which flips its model was made of."""

    frame: Any
    draws: frozenset[Draw]


@dataclass
class Model:
    """A trained model as stored, and what of each label went into it, also by way of models that it went on from."""

    document: Any
    draws: Mapping[Secret, frozenset[Draw]] = field(default_factory=dict)
    noises: Mapping[Secret, tuple[Mechanism, ...]] = field(default_factory=dict)

    @classmethod
    def trained(cls, document: Any, content: Content, noise: Mechanism | None, start: Model | None) -> Model:
        """On labels of a table: with ``noise`` on their sums, or on flips alone.

        Flips of flips tell less than either, and flips behind noise less than the noise; how much less is not counted.
        """
        cells = [cell for cell in content.labels or () if len(cell.draws) == (noise is None)]
        draws, noises = (start.draws, start.noises) if start else ({}, {})
        if noise is None:
            own = {cell.label: cell.draws | draws.get(cell.label, frozenset()) for cell in cells}
            return cls(document, {**draws, **own}, noises)
        added = {cell.label: (noise, *noises.get(cell.label, ())) for cell in cells if not cell.derived}
        return cls(document, draws, {**noises, **added})

    @property
    def of_labels(self) -> set[tuple[Mechanism, ...]]:
        """What went in of one label, of all labels."""
        labels = {*self.draws, *self.noises}
        return {mechanisms_of(self.draws.get(each, ()), self.noises.get(each, ())) for each in labels}


@dataclass
class Part:
    """One party's part of a task.

    Attributes:
        inputs: what its data inputs and models are, by their names; a party without one lacks it.
        keys: {party: number of its key}.
        told: facts that are checked afterwards.
    """

    ctx: Any
    parameters: Mapping[str, Any]
    inputs: Mapping[str, Any]
    truth: Truth
    keys: Mapping[str, int]
    told: dict[str, Any] = field(default_factory=dict)

    @property
    def role(self) -> str:
        return self.ctx.federation.local_party[0]

    @property
    def party(self) -> str:
        return self.ctx.federation.local_party[1]

    @property
    def table(self) -> Table:
        return self.inputs["input_data"]

    @property
    def frame(self) -> Any:
        return self.table.as_fate(self.ctx)

    @property
    def hosts(self) -> int:
        return sum(role == HOST for role, _ in self.ctx.federation.parties)


@dataclass
class Output:
    """Stands for what a component writes; ``then`` sees it at that moment."""

    then: Callable[[Any], None] = lambda frame: None
    content: Any = None

    def write(self, content: Any = None, metadata: Any = None, df: Any = None) -> None:
        self.content = content if df is None else df
        self.then(self.content)


@dataclass
class Input:
    frame: Any

    def read(self) -> Any:
        return self.frame


def _labels_of(frame: Any) -> dict[str, float]:
    """{match id: label} of FATE's DataFrame."""
    ids = dict(frames.match_id_blocks(frame).collect())
    labels = dict(frames.label_blocks(frame).collect())
    return {match_id: float(label) for block in ids for match_id, label in zip(ids[block], labels[block])}


def play_label_flip(part: Part) -> dict[str, Any]:
    given, frame = part.parameters, Input(part.frame)
    if part.role == HOST:
        label_flip.pass_on(part.ctx, frame, Output())
        return {"output_data": part.table}
    draw = Draw(part.keys[part.party], given["label_source"], given["epsilon"], len(given["classes"]))
    output = Output(lambda _: part.truth.flipped(part.table.content, draw))
    label_flip.flip(part.ctx, FlipSettings(**given), frame, output, JobFiles.of_this_task())

    def flip(cell: Cell) -> Cell:
        return cell._replace(draws=cell.draws | {draw})

    return {"output_data": part.table.relabelled(_labels_of(output.content), flip)}


def play_flipback(part: Part) -> dict[str, Any]:
    if part.role == HOST:
        frames.pass_through(part.ctx, Input(part.frame), Output())
        return {"output_data": part.table}
    output, scores = Output(), part.inputs["scores"]
    flipback.revise_labels(
        part.ctx, FlipbackSettings(**part.parameters), Input(part.frame), Input(scores.frame), output
    )

    def derive(cell: Cell) -> Cell:
        return Cell(cell.label, cell.draws | scores.draws, derived=True)

    return {"output_data": part.table.relabelled(_labels_of(output.content), derive)}


def play_dp_hetero_lr(part: Part) -> dict[str, Any]:
    given = dict(part.parameters)
    if part.role == ARBITER:
        Preflight(part.ctx).agree()
        return {}
    # Flipback within a training changes nothing that is charged.
    settings = HeteroSettings(**given, flipback=flipback_setting({"mode": "none"}), epochs=2, tol=0)
    warm = part.inputs.get("warm_start_model")
    start = None if warm is None else warm.document
    content, noise = part.table.content, given.get("epsilon") and gaussian(given["epsilon"], settings.delta)
    if part.role == HOST:
        own = hetero.HeteroHostPreflight(part.ctx, settings, part.frame, None, start)
        terms = own.accept(own.agree())
        if settings.privacy == "record":
            part.truth.records_shown(content, [noise], holds=part.inputs["others stay"])
            own.noise.charges.mark_released()
        model = own.start_model(terms, fit_intercept=False)
        return {"output_model": Model(model.to_json())}
    guest = hetero.HeteroGuestPreflight(part.ctx, settings, part.frame, None, start)
    guest.agree()
    if settings.privacy == "label":
        part.truth.labels_shown(content, [noise])
    elif settings.privacy == "record":
        part.truth.records_shown(content, [noise])
    if settings.privacy != "none":
        guest.noise.charges.mark_released()
    model = guest.start_model(guest.terms, guest.descent.fit_intercept)
    privacy = guest.privacy.after(start)
    document = model.to_json(privacy.to_json("none"))
    trained = Model.trained(document, content, noise if settings.privacy == "label" else None, warm)
    part.told["model"] = (privacy.epsilon, privacy.delta, trained.of_labels)
    found = {"output_model": trained}
    if settings.train_scores:
        joint = frames.label_blocks(part.frame).mapValues(lambda labels: np.linspace(-2, 2, len(labels)))
        scored = prediction_frame(part.frame, [joint], document, "train_set")
        provenance.remember_scores(guest.home, scored, document)
        found["train_output_data"] = Scores(scored, frozenset().union(*trained.draws.values()))
    return found


def play_dp_binning(part: Part) -> dict[str, Any]:
    given = dict(part.parameters)
    settings = BinningSettings(**given, other_columns=other_columns({"range": [-4, 4], "bins": BINS}))
    own = (GuestAgreement if part.role == GUEST else HostAgreement)(part.ctx, settings, part.frame)
    own.agree()
    own.charge()
    content = part.table.content
    noise = None if settings.epsilon is None else gaussian(settings.epsilon, settings.delta)
    if settings.privacy == "label" and part.role == GUEST:
        part.truth.labels_shown(content, [noise])
    if settings.privacy == "record":
        part.truth.records_shown(content, [noise], holds=part.inputs["others stay"])
        # A replaced label moves as many counts as a replaced record.
        if part.role == GUEST:
            part.truth.labels_shown(content, [noise])
    own.mark_released()
    frame, columns = part.table.frame, part.table.columns
    codes = {name: np.floor((frame[name].clip(-4, 3.9) + 4) / 2) for name in columns}
    return {"output_data": replace(part.table, frame=frame.assign(**codes))}


def play_dp_scorecard(part: Part) -> dict[str, Any]:
    settings = ScorecardSettings(**part.parameters, bins=BINS)
    kind = ScorecardGuestPreflight if part.role == GUEST else ScorecardHostPreflight
    own = kind(part.ctx, settings, part.frame, None)
    terms = own.agree()
    if part.role == HOST:
        own.accept(terms)
    content = part.table.content
    noise = None if settings.epsilon is None else gaussian(settings.epsilon, settings.delta)
    if settings.privacy == "label" and part.role == GUEST:
        part.truth.labels_shown(content, [noise])
    elif noise is not None:
        part.truth.records_shown(content, [noise], holds=part.inputs["others stay"])
    if own.charges is not None:
        own.charges.mark_released()
    return {}


def play_label_count(part: Part) -> dict[str, Any]:
    settings = CountSettings(**part.parameters)
    counts, labelled = [Mechanism("response", settings.epsilon / 2)] * 2, part.table.label is not None

    def shown(_: Any) -> None:
        if labelled:
            part.truth.records_shown(part.table.content, counts)
            part.truth.labels_shown(part.table.content, counts)

    publish(part.ctx, settings, part.frame, Output(shown))
    return {}


def play_dp_homo_gbdt(part: Part) -> dict[str, Any]:
    given = {**part.parameters, "trees": part.parameters["rounds"], "depth": 1}
    given["other_columns"] = {"range": [-4, 4], "bins": BINS}
    frame = None if part.role == ARBITER else part.frame
    agreement = agree_on_trees(part.ctx, given, frame)
    if isinstance(agreement, TreesDataAgreement):
        position = agreement.federation.data.index(part.ctx.federation.local_party)
        _play_rounds(part, agreement, TreesMember(agreement, frame, position))
    return {}


def play_dp_homo_nn(part: Part) -> dict[str, Any]:
    frame = None if part.role == ARBITER else part.frame
    agreement = agree_on_network(part.ctx, dict(part.parameters), frame)
    if isinstance(agreement, HomoNNDataAgreement):
        position = agreement.federation.data.index(part.ctx.federation.local_party)
        _play_rounds(part, agreement, HomoNNMember(agreement, frame, position))
    return {}


def _play_rounds(part: Part, agreement: Any, member: Any) -> None:
    # Sums are of clipped contributions of all records: a replaced one moves them by two clips.
    moved = Mechanism("gaussian", 2 / agreement.terms.noise_multiplier)
    for number in range(agreement.terms.rounds):
        if not member.charge_round(number):
            break
        part.truth.records_shown(part.table.content, [moved], part.parameters["relation"])
        agreement.charges.mark_released()


def play_shuffler(part: Part) -> dict[str, Any]:
    """What hides among messages is not counted here: its truth is small, and at least nothing."""
    settings = ShufflerSettings(**{**part.parameters, "requests": requests(part.parameters["requests"])})
    table = part.inputs.get("input_data")
    shuffler.run(part.ctx, settings, None if table is None else part.frame)
    if table is not None:
        part.truth.records_shown(table.content, [])
    return {}


def play_align(part: Part) -> dict[str, Any]:
    given = dict(part.parameters)
    settings = AlignSettings(hide_size=hide_size(given["hide_size"]), label_source=given.get("label_source"))
    own = align.AlignmentTerms(part.ctx, settings, part.frame, _private_key())
    align.peer_key(own, own.agree())
    own.charge()
    if own.charges is not None:
        # One match more or less moves the count by one, whatever labels say.
        shown = [Mechanism("response", settings.hide_size.epsilon)]
        part.truth.records_shown(replace(part.table.content, labels=None), shown)
        own.charges.mark_released()
    return {}


@cache
def _private_key() -> Any:
    return generate_keypair(2048, primes=3)[1]


Adapter = Callable[[Part], dict[str, Any]]
ADAPTERS: dict[str, Adapter] = {
    name.removeprefix("play_"): play for name, play in list(globals().items()) if name.startswith("play_")
}
WITH_ARBITER = ("dp_hetero_lr", "dp_homo_gbdt", "dp_homo_nn", "shuffler")


@cache
def messages_of(component: str) -> Mapping[str, Any]:
    """What the component declares that its parties send."""
    entry = getattr(import_module(f"fate_dp.components.{component}.component"), component)
    return (entry.stage_components or [entry])[0].callback.messages


# What operators do, and what ledgers say.


def declare(home: Path, step: Mapping[str, Any], ids: list[str]) -> None:
    """What `fate-dp upload` tells the policy of a party, perhaps with `--population`."""
    own, table = PartyHome(home_path(home, step["party"])), step["name"]
    population = settled(own, table, step["named"], number_rows(ids))
    declare_facts(own.path / POLICY_FILE, table, TableFacts(population))
    if step["label"] is not None:
        declare_source(own.path / POLICY_FILE, step["source"], cap=step["cap"])


def set_cap(home: Path, party: str, columns: list[str], epsilon: float) -> None:
    """What `fate-dp cap` tells the policy of a table of these columns."""
    declare_caps(home_path(home, party) / POLICY_FILE, columns_name(columns), epsilon=epsilon)


def set_job_check(home: Path, party: str, job_check: str) -> None:
    """What an operator says about jobs that leak."""
    write_job_check(home_path(home, party) / POLICY_FILE, job_check)


def label_cap(home: Path, party: str, source: str) -> float:
    return PartyHome(home_path(home, party)).policy.label_cap(source)


def record_cap(home: Path, party: str, columns: list[str]) -> float:
    return PartyHome(home_path(home, party)).policy.dataset_cap(columns_name(columns)).epsilon


def label_total(home: Path, party: str, names: frozenset[str], delta: float) -> float:
    """What the ledger says that labels cost that it knows by these names; the smallest, if it says several things."""
    ledger = PartyHome(home_path(home, party)).ledger
    accounts = [name for name in names if is_label_account(name)]
    return min((ledger.spent_of_labels(account, delta) for account in accounts), default=0.0)


def record_total(home: Path, party: str, names: frozenset[str], delta: float) -> float:
    """The same of records."""
    ledger = PartyHome(home_path(home, party)).ledger
    datasets = [name for name in names if not is_label_account(name)]
    return min((ledger.spent_by_steps(dataset, delta) for dataset in datasets), default=0.0)
