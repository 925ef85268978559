"""Plays a task of FATE 2.2.0 between parties in processes, and lets one of them read what it can off what it received.

The task is FATE's own: the function that its component registers, with the defaults that the component declares and the
settings that a user changed. Around each party's federation stands a recorder; what an observer reads, it reads from that
recording, its own rows, the model and the shares that it holds, and from nothing else.
"""

import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from fate_dp.components.common.wire.channel import plain_messages
from fate_dp.components.label_flip.component import MESSAGES
from tests.support.local_parties import frame_of, recorded_messages, run_parties

GUEST, HOST, ARBITER, OTHER_HOST = ("guest", "9999"), ("host", "10000"), ("arbiter", "10001"), ("host", "10002")
LABEL = "y"
LABEL_SOURCE = f"experiment/firewall/{LABEL}"
UNREAD = float("nan")
CLOSE = 1e-3
"""Of a standard deviation: what a number may lie off one that it is said to be."""
NUMBER = re.compile(r"[-_]\d+$")
"""SSHE and networks number their messages at the end of their names."""


@dataclass
class PartyView:
    """What a party has of a task when it is over.

    Attributes:
        received: (sender, name, value) of every message, in order.
        ids: of its own rows, in their order.
        features: its own, (rows, features).
        labels: its own (rows,), of a guest alone or of all parties.
        shares: of every tensor that guest and host share and that is multiplied with its features, its own share
            (rows,), and how many messages had been received then.
        opened: (name, array) of what it decrypted with a key of its own.
        outputs: what the component wrote at this party, by name.
    """

    received: list[tuple[str, str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    features: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    labels: np.ndarray = field(default_factory=lambda: np.empty(0))
    shares: list[tuple[np.ndarray, int]] = field(default_factory=list)
    opened: list[tuple[str, Any]] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)

    def named(self, name: str) -> list:
        """The values of all messages of one name, numbers at its end aside, in order."""
        return [value for _, message, value in self.received if NUMBER.sub("", message) == name]


Reading = Callable[[PartyView], np.ndarray]
"""For each of the observer's rows, in their order, a number or several: `UNREAD` where it finds none."""


@dataclass(frozen=True)
class Task:
    """One task, and whether `label_flip` stands before it (epsilon in nats) or not.

    ``stage`` `predict` comes behind a training, of which nothing is read. ``by_role`` are settings of single roles.
    """

    component: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    parties: tuple = (GUEST, HOST)
    epsilon: float | None = None
    stage: str = "train"
    by_role: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Read:
    """What came of a task.

    Attributes:
        found: what the observer read (rows,) or (rows, k), `UNREAD` where it found nothing.
        given: the labels (rows,) that entered the task: true ones, or flips.
        true: the labels (rows,) of the guest's table.
        messages: how many messages of which name, numbers aside, the observer received.
        reading_seconds: of the observer, when the task is over.
        task_seconds: of all, processes and imports included.
    """

    found: np.ndarray
    given: np.ndarray
    true: np.ndarray
    messages: dict[str, int]
    reading_seconds: float
    task_seconds: float
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Features (rows, k) of every table, by the name of the table."""

    @property
    def share_of_true(self) -> float:
        """The share of all rows whose true label the host names."""
        return float(np.mean(self.found == self.true))

    @property
    def share_of_given(self) -> float:
        """The share of all rows of which the host names the label that entered the task."""
        return float(np.mean(self.found == self.given))

    def share_linear(self, *owners: str) -> float:
        """The share of all rows of which a number was found that is linear in these owners' columns and the label."""
        known = np.column_stack([np.ones(len(self.true)), *(self.columns[owner] for owner in owners), self.true])
        shares = []
        for numbers in self.found.reshape(len(self.true), -1).T:
            rows = np.isfinite(numbers)
            if rows.sum() <= known.shape[1] + 1:
                return 0.0
            rest = numbers[rows] - known[rows] @ np.linalg.lstsq(known[rows], numbers[rows], rcond=None)[0]
            shares.append(float((np.abs(rest) < CLOSE * numbers[rows].std()).sum() / len(numbers)))
        return min(shares)

    @property
    def share_up_to_a_number(self) -> float:
        """The share of all rows whose true label is named, but for one number common to all rows."""
        shifts = np.unique(self.found - self.true, return_counts=True)[1]
        return float(shifts.max() / len(self.true))

    @property
    def share_up_to_swap(self) -> float:
        """The share of all rows whose true label is named, if one bit is given: which of both labels is 1."""
        return max(self.share_of_true, float(np.mean(self.found == 1 - self.true)))

    @property
    def share_up_to_swap_of_found(self) -> float:
        """The same among the rows of which anything was found."""
        rows = np.isfinite(self.found)
        return max(float(np.mean(self.found[rows] == guess[rows])) for guess in (self.true, 1 - self.true))

    def share_of_columns(self, owner: str) -> float:
        """1 where for each of the owner's columns a number was found of every row that it alone gives, else 0."""
        if not np.isfinite(self.found).all():
            return 0.0
        own = self.columns[owner]
        alike = np.corrcoef(own, self.found, rowvar=False)[: own.shape[1], own.shape[1] :]
        return float((np.abs(alike).max(axis=1) > 1 - CLOSE**2).all())

    def share_split(self, owner: str) -> float:
        """The share of all rows for which a node was found that tells on which side of one of the owner's columns they are.

        Nodes (rows, layers) of two siblings are an odd number and the one after it.
        """
        split = np.zeros(len(self.true), dtype=bool)
        for nodes in self.found.reshape(len(self.true), -1).T:
            for left in {int(node) for node in nodes[np.isfinite(nodes)] if node % 2}:
                low, high = self.columns[owner][nodes == left], self.columns[owner][nodes == left + 1]
                if len(low) and len(high) and (low.max(axis=0) < high.min(axis=0)).any():
                    split |= (nodes == left) | (nodes == left + 1)
        return float(split.mean())

    @property
    def share_found(self) -> float:
        """The share of all rows of which anything was found."""
        return float(np.isfinite(self.found.reshape(len(self.true), -1)).any(axis=1).mean())

    @property
    def share_in_majority(self) -> float:
        """The share of all rows whose true label is the commonest in their group: 0 where no groups were found."""
        groups = [self.true[self.found == group] for group in np.unique(self.found[~np.isnan(self.found)])]
        return float(sum(max(group.sum(), len(group) - group.sum()) for group in groups) / len(self.true))


def play(
    task: Task, tables: dict[str, pd.DataFrame], home: str, reads: Sequence[tuple[tuple, Reading]], timeout: float = 600
) -> list[Read]:
    """Run the task on the tables of `guest`, `host` and `host 10002`, which have the same rows in one order.

    Args:
        reads: an observer and how it reads, as often as there are readings.

    Raises:
        RuntimeError: a party failed; its error is the message.
    """
    began = time.perf_counter()
    results = run_parties(
        _play,
        task.parties,
        {"OMP_NUM_THREADS": "1", "FATE_DP_HOME": home},
        timeout,
        record=False,
        forked=True,
        task=task,
        tables=tables,
        reads=reads,
    )
    for (role, _), result in results.items():
        if result.error:
            raise RuntimeError(f"{task.component} failed at the {role}: {result.error}")
    seconds = time.perf_counter() - began
    ids, given = results[GUEST].value[0]
    by_id = {name: table.set_index("id").loc[ids] for name, table in tables.items()}
    columns = {name: table.drop(columns=["sample_id", LABEL], errors="ignore") for name, table in by_id.items()}
    arrays = {name: table.to_numpy(float) for name, table in columns.items()}
    true = by_id["guest"][LABEL].to_numpy(float)
    found = [results[observer].value[1][number] for number, (observer, _) in enumerate(reads)]
    return [Read(numbers, given, true, counted, reading, seconds, arrays) for numbers, counted, reading in found]


def _play(ctx, task: Task, tables: dict[str, pd.DataFrame], reads: Sequence[tuple[tuple, Reading]]):
    (role, party), view = ctx.local.party, PartyView()
    table = tables.get(f"{role} {party}", tables.get(role))
    frame: Any = None if table is None else _frame_of(ctx, table)
    if task.epsilon is not None:
        frame = _flipped(ctx, frame, task.epsilon)
    if frame is not None:
        rows = frame.as_pd_df()
        view.ids, view.features = rows["id"].to_list(), rows[frame.schema.columns.to_list()].to_numpy(float)
        view.labels = rows[LABEL].to_numpy(float) if LABEL in rows else view.labels
    with (
        recorded_messages(view.received),
        _noted_shares(view),
        _noted_histograms(view),
        _noted_triples(view),
        _noted_order(view),
    ):
        _run_stages(ctx, task, frame, view)
    names = [NUMBER.sub("", name) for _, name, _ in view.received]
    counted, found = {name: names.count(name) for name in dict.fromkeys(names)}, {}
    for number, (observer, read) in enumerate(reads):
        if observer == (role, party):
            began = time.perf_counter()
            found[number] = read(view), counted, time.perf_counter() - began
    return (view.ids, view.labels), found


def _frame_of(ctx, table: pd.DataFrame):
    label = LABEL if LABEL in table else None
    kind = "float32" if label and table[label].dtype.kind == "f" else "int32"
    return frame_of(ctx, table, label, dtype="float32", label_type=kind)


def _run_stages(ctx, task: Task, frame, view: PartyView) -> None:
    known, settings = (stages_of(task.component), {**task.settings, **task.by_role.get(ctx.local.role, {})})
    if task.stage != "predict":
        data = {"cross_validation": "cv_data", "train": "train_data"}.get(task.stage, "input_data")
        written = run_stage(ctx, known[task.stage], settings, {data: reader_of(frame)})
        view.outputs.update({name: output.value for name, output in written.items()})
        return
    trained = run_stage(ctx.sub_ctx("trained"), known["train"], settings, {"train_data": reader_of(frame)})
    view.received.clear()
    view.opened.clear()
    given = {"test_data": reader_of(frame), "input_model": trained["output_model"]}
    written = run_stage(ctx.sub_ctx("predicted"), known["predict"], settings, given)
    view.outputs.update({name: output.value for name, output in written.items()})


def reader_of(frame) -> Any:
    """What FATE's networks take for an artifact."""
    from fate.components.core.component_desc.artifacts.data import DataframeReader

    reader: Any = object.__new__(DataframeReader)
    reader.read = lambda: frame
    return reader


def run_train(ctx, name: str, settings: Mapping[str, Any], frame, written: Mapping[str, Any] | None = None) -> None:
    """FATE's own train stage of a component at this party, which may write into artifacts that the caller reads then."""
    run_stage(ctx, stages_of(name)["train"], settings, {"train_data": Artifact(frame)}, written)


def stages_of(name: str) -> dict[str, Any]:
    """The stages of one of FATE's components by name; a component without any is its own, `default`."""
    from importlib import import_module

    component = getattr(import_module(f"fate.components.components.{name}"), name)
    return {stage.name: stage for stage in component.stage_components} or {"default": component}


def run_stage(
    ctx, stage, settings: Mapping[str, Any], given: Mapping[str, Any], written: Mapping[str, Any] | None = None
) -> dict[str, "Artifact"]:
    """What FATE's own stage writes at this party, by output; what is not in ``settings`` has the component's default."""
    from fate.components.core.essential import Role

    known = stage.parameters.mapping
    parameters = {key: known[key].apply(settings[key]) if key in settings else known[key].default for key in known}
    artifacts = stage.artifacts
    names = (*artifacts.data_outputs, *artifacts.model_outputs)
    outputs: dict[str, Any] = {key: Artifact() for key in names} | dict(written or {})
    outputs |= {key: Endless() for key in names if key.startswith("cv_output")}
    inputs = dict.fromkeys((*artifacts.data_inputs, *artifacts.model_inputs)) | dict(given)
    stage.execute(ctx, Role.from_str(ctx.local.role), **parameters, **inputs, **outputs)
    return {key: output for key, output in outputs.items() if isinstance(output, Artifact)}


@dataclass
class Artifact:
    """Stands for an artifact of FATE: a table to read, or a place to write."""

    value: Any = None
    metadata: Any = None

    def read(self) -> Any:
        return self.value

    def get_directory(self) -> str:
        self.value = self.value or tempfile.mkdtemp()
        return self.value

    def write_metadata(self, metadata: Any) -> None:
        self.metadata = metadata

    def get_metadata(self) -> Any:
        return self.metadata

    def write(self, df: Any = None, metadata: Any = None) -> None:
        self.value = df


class Endless:
    """Artifacts to write into, one after the other."""

    def __next__(self) -> Artifact:
        return Artifact()


def _flipped(ctx, frame, epsilon: float):
    """The table as label_flip leaves it, flips of a key that the guest draws now; the host passes its own on."""
    from fate_dp.components.common.charges import home_of
    from fate_dp.components.label_flip import guest
    from fate_dp.components.label_flip.settings import Settings
    from fate_dp.privacy.ledger.policy import declare_source

    source, written = Artifact(frame), Artifact()
    with plain_messages(ctx, MESSAGES) as plain:
        if ctx.local.role == "guest":
            declare_source(home_of(plain).path / "policy.yaml", LABEL_SOURCE)
            guest.flip(plain, Settings(epsilon=epsilon, label_source=LABEL_SOURCE), source, written)
        else:
            guest.pass_on(plain, source, written)
    return written.value


@contextmanager
def _noted_shares(view: PartyView) -> Iterator[None]:
    """Note this party's share of whatever it multiplies with features of its own, while SSHE runs."""
    from fate.arch.protocol.mpc.primitives.sshe import SSHE

    multiply = SSHE.smm_mpc_tensor

    def noting(ctx, group, *, op, mpc_tensor, rank_1, **others):
        if ctx.rank == rank_1:
            parts = sorted(mpc_tensor.share.shardings._data.collect())
            view.shares.append((np.concatenate([part.numpy().ravel() for _, part in parts]), len(view.received)))
        return multiply(ctx, group, op=op, mpc_tensor=mpc_tensor, rank_1=rank_1, **others)

    with mock.patch.object(SSHE, "smm_mpc_tensor", noting):
        yield


@contextmanager
def _noted_histograms(view: PartyView) -> Iterator[None]:
    """Note the histograms of hosts that a guest of SecureBoost decrypts: of every split the sums and the number of rows."""
    from fate.ml.ensemble.learner.decision_tree.tree_core.splitter import SBTSplitter

    find = SBTSplitter._find_best_splits

    def noting(splitter, node_hist, sitename, nodes, *others, pack_info=None, **more):
        if not more.get("recover_bucket", True):
            sums = splitter._extract_hist(node_hist, pack_info)
            view.opened.append(("histograms", [np.asarray(each.detach(), dtype=float) for each in sums]))
        return find(splitter, node_hist, sitename, nodes, *others, pack_info=pack_info, **more)

    with mock.patch.object(SBTSplitter, "_find_best_splits", noting):
        yield


@contextmanager
def _noted_triples(view: PartyView) -> Iterator[None]:
    """Note the random matrices that this party draws for products of shares, and the masked factors that all parties open."""
    from fate.arch.protocol.mpc.primitives.arithmetic import ArithmeticSharedTensor
    from fate.arch.protocol.mpc.provider import tfp_provider

    draw, reveal = tfp_provider.generate_random_ring_element, ArithmeticSharedTensor.reveal_batch

    def drawing(ctx, *others, **more):
        drawn = draw(ctx, *others, **more)
        # Of what all parties draw, that of the first is used.
        if ctx.rank == 0:
            view.opened.append(("drawn", drawn))
        return drawn

    def opening(*given, **more):
        found = reveal(*given, **more)
        view.opened.append(("revealed", found))
        return found

    with (
        mock.patch.object(tfp_provider, "generate_random_ring_element", drawing),
        mock.patch.object(ArithmeticSharedTensor, "reveal_batch", staticmethod(opening)),
    ):
        yield


@contextmanager
def _noted_order(view: PartyView) -> Iterator[None]:
    """Note in which order a network takes this party's rows, and what its layer between two parties opens for this one."""
    from fate.arch.protocol.mpc.nn.sshe.nn_layer import SSHENeuralNetworkAggregator as Layer
    from fate.arch.protocol.mpc.nn.sshe.nn_layer import SSHENeuralNetworkAggregatorFunction as Forward
    from fate.ml.nn.dataset.table import TableDataset

    take, backward, forward = TableDataset.__getitem__, Layer.backward, Forward.forward

    def opening(layer, *given):
        gradient = backward(layer, *given)
        if layer.ctx.rank == layer.rank_a:
            view.opened.append(("gradient", gradient))
        return gradient

    def putting_out(ctx, given, aggregator):
        output = forward(ctx, given, aggregator)
        if aggregator.ctx.rank == aggregator.rank_b:
            view.opened.append(("output", output))
        return output

    def noting(dataset, row):
        view.opened.append(("row", row))
        return take(dataset, row)

    with (
        mock.patch.object(TableDataset, "__getitem__", noting),
        mock.patch.object(Layer, "backward", opening),
        mock.patch.object(Forward, "forward", staticmethod(putting_out)),
    ):
        yield
