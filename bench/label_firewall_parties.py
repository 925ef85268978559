"""Plays a train task of FATE 2.2.0 between parties in processes, and lets its host read labels off what it received.

The task is FATE's own: the function that its component registers, with the defaults that the component declares and the
settings that a user changed. Around the host's federation stands a recorder; what the host reads, it reads from that
recording, its own rows and the shares that it holds, and from nothing else.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from fate_dp.components.common.wire.channel import plain_messages
from fate_dp.components.label_flip.messages import MESSAGES
from tests.support.local_parties import frame_of, recorded_messages, run_parties

GUEST, HOST, ARBITER = ("guest", "9999"), ("host", "10000"), ("arbiter", "10001")
LABEL = "y"
LABEL_SOURCE = f"experiment/firewall/{LABEL}"
UNREAD = float("nan")
NUMBER = re.compile(r"-\d+$")
"""SSHE numbers its messages at the end of their names."""


@dataclass
class HostView:
    """What the host has of a task when it is over.

    Attributes:
        received: (sender, name, value) of every message, in order.
        ids: of the host's own rows, in their order.
        features: the host's own, (rows, features).
        shares: of every tensor that guest and host share and that is multiplied with the host's features, the host's
            share (rows,), and how many messages had been received then.
    """

    received: list[tuple[str, str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    features: np.ndarray | None = None
    shares: list[tuple[np.ndarray, int]] = field(default_factory=list)

    def named(self, name: str) -> list:
        """The values of all messages of one name, in order."""
        return [value for _, message, value in self.received if message == name]


Reading = Callable[[HostView], np.ndarray]
"""One number for each of the host's rows, in their order: a label, or the group of a row; `UNREAD` where it finds none."""


@dataclass(frozen=True)
class Task:
    """One train task, how its host reads, and whether `label_flip` stands before it (epsilon in nats) or not."""

    component: str
    read: Reading
    settings: Mapping[str, Any] = field(default_factory=dict)
    parties: tuple = (GUEST, HOST)
    epsilon: float | None = None


@dataclass(frozen=True)
class Read:
    """What came of a task.

    Attributes:
        found: what the host read (rows,), `UNREAD` where it found nothing.
        given: the labels (rows,) that entered the task: true ones, or flips.
        true: the labels (rows,) of the guest's table.
        messages: how many messages of which name, numbers aside, the host received.
        reading_seconds: of the host, when the task is over.
        task_seconds: of all, processes and imports included.
    """

    found: np.ndarray
    given: np.ndarray
    true: np.ndarray
    messages: dict[str, int]
    reading_seconds: float
    task_seconds: float

    @property
    def share_of_true(self) -> float:
        """The share of all rows whose true label the host names."""
        return float(np.mean(self.found == self.true))

    @property
    def share_of_given(self) -> float:
        """The share of all rows of which the host names the label that entered the task."""
        return float(np.mean(self.found == self.given))

    @property
    def share_in_majority(self) -> float:
        """The share of all rows whose true label is the commonest in their group: 0 where no groups were found."""
        groups = [self.true[self.found == group] for group in np.unique(self.found[~np.isnan(self.found)])]
        return float(sum(max(group.sum(), len(group) - group.sum()) for group in groups) / len(self.true))


def play(task: Task, tables: dict[str, pd.DataFrame], home: str, timeout: float = 600) -> Read:
    """Run the task on the tables of `guest` and `host`, which have the same rows in one order.

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
    )
    for (role, _), result in results.items():
        if result.error:
            raise RuntimeError(f"{task.component} failed at the {role}: {result.error}")
    found, messages, seconds = results[HOST].value
    true = tables["guest"].set_index("id")[LABEL]
    ids, given = results[GUEST].value
    return Read(found, given, true.loc[ids].to_numpy(float), messages, seconds, time.perf_counter() - began)


def _play(ctx, task: Task, tables: dict[str, pd.DataFrame]):
    role, view = ctx.local.role, HostView()
    frame: Any = frame_of(ctx, tables[role], LABEL if role == "guest" else None) if role in tables else None
    if task.epsilon is not None:
        frame = _flipped(ctx, frame, task.epsilon)
    if role == "guest":
        rows = frame.as_pd_df()
        given = rows["id"].to_list(), rows[LABEL].to_numpy(float)
    if role == "host":
        rows = frame.as_pd_df()
        view.ids, view.features = rows["id"].to_list(), rows[frame.schema.columns.to_list()].to_numpy(float)
    with recorded_messages(view.received), _noted_shares(view):
        run_train(ctx, task.component, task.settings, frame)
    if role != "host":
        return given if role == "guest" else None
    began = time.perf_counter()
    found = task.read(view)
    names = [NUMBER.sub("", name) for _, name, _ in view.received]
    return found, {name: names.count(name) for name in dict.fromkeys(names)}, time.perf_counter() - began


def run_train(ctx, name: str, settings: Mapping[str, Any], frame, written: Mapping[str, Any] | None = None) -> None:
    """FATE's own train stage of a component at this party; what is not in ``settings`` has the component's default.

    ``written`` are outputs that the caller wants to read afterwards, by name.
    """
    from importlib import import_module

    from fate.components.core.essential import Role

    component = getattr(import_module(f"fate.components.components.{name}"), name)
    stage = next(stage for stage in component.stage_components if stage.name == "train")
    known = stage.parameters.mapping
    parameters = {key: known[key].apply(settings[key]) if key in settings else known[key].default for key in known}
    artifacts = stage.artifacts
    outputs = {key: Artifact() for key in (*artifacts.data_outputs, *artifacts.model_outputs)} | dict(written or {})
    inputs = dict.fromkeys((*artifacts.data_inputs, *artifacts.model_inputs)) | {"train_data": Artifact(frame)}
    stage.execute(ctx, Role.from_str(ctx.local.role), **parameters, **inputs, **outputs)


@dataclass
class Artifact:
    """Stands for an artifact of FATE: a table to read, or a place to write."""

    value: Any = None

    def read(self) -> Any:
        return self.value

    def write(self, value: Any, metadata: Any = None) -> None:
        self.value = value


def _flipped(ctx, frame, epsilon: float):
    """The table as label_flip leaves it, flips of a key that the guest draws now; the host passes its own on."""
    from fate_dp.components.common.charges import home_of
    from fate_dp.components.label_flip import guest
    from fate_dp.components.label_flip.settings import Settings
    from fate_dp.privacy.policy import declare_source

    source, written = Artifact(frame), Artifact()
    with plain_messages(ctx, MESSAGES) as plain:
        if ctx.local.role == "guest":
            declare_source(home_of(plain).path / "policy.yaml", LABEL_SOURCE)
            guest.flip(plain, Settings(epsilon=epsilon, label_source=LABEL_SOURCE), source, written)
        else:
            guest.pass_on(plain, source, written)
    return written.value


@contextmanager
def _noted_shares(view: HostView) -> Iterator[None]:
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
