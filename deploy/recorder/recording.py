"""The recorder: what one party receives in one task goes to a private file of that party, if its operator wants that.

It is switched on by ``record_views`` in the party's ``policy.yaml`` and by nothing else: no job and no other party can. It is
entered where FATE begins to execute a component (`deploy.fate_patches`), so that it works for FATE's components as for ours, in
tasks that start warm or cold. Then, in this order:

1. The party's ledger notes that the recorder is on for this task. Where it cannot, nothing is recorded.
2. Every message that the task asks for is kept, as plain values (`fate_values`), until the bytes of ``record_bytes`` are
   used; what comes then is kept by its name alone, and the view says so.
3. When the task ends, well or not, the view is written in one step. A process that is killed leaves none.

Nothing that goes wrong here may end a task, which would tell other parties that somebody records: it stands in the view and
in the task's log. A peer chooses names of tasks and what it sends; so names are checked before they name a file.
"""

import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fate_dp.attacks.recorded_view import Message, RecordedView, Task, to_bytes
from fate_dp.components.common.frames import match_id_blocks
from fate_dp.components.common.job_files import JobFiles
from fate_dp.components.common.wire.channel import Channel
from fate_dp.components.common.wire.codec import NotPlain
from fate_dp.privacy import Ledger
from fate_dp.privacy.ledger.policy import load_policy
from fate_dp.privacy.private_files import (
    LEDGER_FILE,
    POLICY_FILE,
    VIEWS_FOLDER,
    parties_folder,
    party_folder,
    replace_file,
)

from .fate_values import plain_form

logger = logging.getLogger(__name__)
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,120}")
TOO_LARGE = "the view has its record_bytes already"
MAX_PROBLEMS = 100


@dataclass
class Recorder:
    """What one task has received so far, in the form of a file, and at most ``most`` bytes of contents."""

    task: Task
    folder: Path
    most: int
    messages: list[bytes] = field(default_factory=list)
    tables: list[tuple[str, ...]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    used: int = 0
    dropped: int = 0

    def keep(self, sender: tuple[str, str], name: str, tag: str, value: Any) -> None:
        """Take in one message; never raises."""
        try:
            self._keep("-".join(sender), name, tag, value)
        except Exception as error:
            self.tell(f"The message {name!r} was not recorded ({type(error).__name__}).")

    def keep_ids(self, frame: Any) -> None:
        """Take in the ids of a table of this party's own; never raises."""
        try:
            rows = int(frame.shape[0])
            if self.used + rows > self.most:
                self.tell(f"The ids of a table of {rows} rows were not recorded: {TOO_LARGE}.")
                return
            ids = tuple(each for _, block in sorted(match_id_blocks(frame).collect()) for each in block)
            self.used += sum(map(len, ids))
            self.tables.append(ids)
        except Exception as error:
            self.tell(f"The ids of a table were not recorded ({type(error).__name__}).")

    def write(self, finished: bool) -> None:
        """Put the view in its place, whole; never raises."""
        try:
            if self.dropped:
                self.problems.append(f"{self.dropped} further messages were received: {TOO_LARGE}.")
            view = RecordedView(self.task, (), tuple(self.tables), tuple(self.problems), finished)
            replace_file(self.folder / self.task.file_name, to_bytes(view, self.messages))
            logger.info("what this party received was recorded: %d messages", len(self.messages))
        except Exception as error:
            logger.warning("What this party received could not be recorded: %s", error)

    def _keep(self, sender: str, name: str, tag: str, value: Any) -> None:
        left = self.most - self.used
        try:
            if left <= 0:
                raise NotPlain(TOO_LARGE)
            data = Message(sender, name, tag, plain_form(value, left)).to_bytes()
            if len(data) > left:
                raise NotPlain(f"it has {len(data)} bytes, and {left} were left")
        except NotPlain as error:
            if self.used > self.most:
                # Names alone may fill a disk where a peer sends without end.
                self.dropped += 1
                return
            data = Message(sender, name, tag, None, str(error)).to_bytes()
        self.messages.append(data)
        self.used += len(data)

    def tell(self, sentence: str) -> None:
        """Say what went wrong in the task's log and in the view."""
        if len(self.problems) < MAX_PROBLEMS:
            logger.warning(sentence, exc_info=sys.exc_info()[0] is not None)
            self.problems.append(sentence)


def recorder_of(config: Any) -> Recorder | None:
    """The recorder of a task, by FATE's `TaskConfigSpec`; None where nobody wants one, or it cannot be had."""
    try:
        home = party_folder(parties_folder(), config.party_id)
        policy = load_policy(home / POLICY_FILE)
        if not policy.records(config.component):
            return None
        task = noted_task(config, home)
        return Recorder(task, home / VIEWS_FOLDER / task.job, policy.record_bytes)
    except Exception as error:
        logger.warning("What this party receives is not recorded: %s", error)
        return None


def noted_task(config: Any, home: Path) -> Task:
    """Which task it is, noted in the party's ledger with what is kept of it; raises where either cannot be done."""
    files = JobFiles.of_this_task()
    plan = None if files is None else files.plan() or files.so_far()
    task = Task(
        os.environ.get("FATE_JOB_ID", "local"),
        config.task_name,
        config.component,
        config.stage,
        config.role,
        config.party_id,
        json.dumps(config.parameters, default=str),
        "" if plan is None else json.dumps(plan.dag, default=str),
    )
    if not all(map(FILE_NAME.fullmatch, (task.job, task.name, task.role))):
        raise ValueError(f"the task {task.name!r} of the job {task.job!r} cannot name a file")
    Ledger(home / LEDGER_FILE).note_recorder(
        component=task.component, role=task.role, job_id=task.job, task_id=config.party_task_id
    )
    return task


@contextmanager
def recording(config: Any) -> Iterator[None]:
    """Record what this party receives, if its operator wants that."""
    recorder = recorder_of(config)
    if recorder is None:
        yield
        return
    try:
        changes = _changes(recorder)
    except Exception as error:
        recorder.tell(f"No message was recorded: this FATE is not 2.2 ({type(error).__name__}).")
        changes = []
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    finished = False
    try:
        _set(changes)
        yield
        finished = True
    finally:
        _set(before)
        recorder.write(finished)


def _set(attributes: list[tuple[Any, str, Any]]) -> None:
    for owner, name, value in attributes:
        setattr(owner, name, value)


def _changes(recorder: Recorder) -> list[tuple[Any, str, Any]]:
    """(module or class, name, function): FATE's and our own ways to receive, and to read a table, which tell the recorder."""
    from fate.arch.context import _parties
    from fate.components.core.component_desc.artifacts.data._dataframe import DataframeReader

    pull, receive, read = _parties._pull, Channel.receive, DataframeReader.read

    def recorded_pull(ctx: Any, federation: Any, name: str, namespace: Any, parties: list[Any]) -> list[Any]:
        values: list[Any] = pull(ctx, federation, name, namespace, parties)
        for party, value in zip(parties, values):
            recorder.keep(tuple(party), name, namespace.federation_tag, value)
        return values

    def recorded_receive(channel: Channel, party: tuple[str, str], namespace: str, name: str) -> Any:
        value = receive(channel, party, namespace, name)
        recorder.keep((party[0], party[1]), name, namespace, value)
        return value

    def recorded_read(reader: Any) -> Any:
        frame = read(reader)
        recorder.keep_ids(frame)
        return frame

    return [
        (_parties, "_pull", recorded_pull),
        (Channel, "receive", recorded_receive),
        (DataframeReader, "read", recorded_read),
    ]
