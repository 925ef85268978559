"""What one task asked of this party's private records, in a private file, from which an audit repeats it on neighbours.

The file is ``calls/JOB/TASK.ROLE.calls`` of the party's home (mode 0600). It holds the calls of queries
(`privacy.recorded`), each with its private input, its result, and the sensitivity that the result reported then under
either relation. Like a view it holds plain values alone, in the form of our own messages
(`components.common.wire.codec`), so that reading one can run nothing: a query is one of `QUERIES`, and a model is built
again from what the job said of it, with the modules alone that the operator allows.

A call is turned into bytes when it is heard, so that nothing that a task does to its arrays later changes it.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from fate_dp.attacks.recorded_view import Task
from fate_dp.components.common.wire import codec
from fate_dp.components.common.wire.kinds import own_value, own_values
from fate_dp.components.dp_homo_gbdt.boosting import sums_of_records
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.registry import ModelSource
from fate_dp.privacy.auditing.certificate import versions_here
from fate_dp.privacy.events import RELATIONS
from fate_dp.privacy.mechanisms.clipping import ClippedSum, clip_records
from fate_dp.privacy.private_files import CALLS_FOLDER, AnyPath, replace_file
from fate_dp.privacy.recorded import Call
from fate_dp.privacy.validation import InvalidArgument

logger = logging.getLogger(__name__)
FORMAT, VERSION, SUFFIX = "fate-dp calls", 1, ".calls"
MOST_PROBLEMS = 100
QUERIES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "clip_records": (inspect.unwrap(clip_records), (0,)),
    "clipped_sum": (inspect.unwrap(RecordGradients.clipped_sum), (2, 3)),
    "sums_of_records": (inspect.unwrap(sums_of_records), (3, 4)),
}
"""By name, what is asked, without its recorder, and which of its arguments have a row per record."""


@dataclass(frozen=True, eq=False)
class RecordedSum(ClippedSum):
    """A clipped sum with the sensitivities that it reported when it was recorded, in steps, by relation."""

    claimed: Mapping[str, float] = field(default_factory=dict)

    def sensitivity_in_steps(self, relation: str) -> float:
        return self.claimed[relation]


def plain_call(call: Call) -> bytes:
    """A call in the form of a file; raises `codec.NotPlain`, a clause, for one that no audit repeats."""
    name = call.query.__name__
    if QUERIES.get(name, (None,))[0] is not call.query or not isinstance(call.result, ClippedSum):
        raise codec.NotPlain(f"calls of {name} are not repeated by any audit")
    bound = inspect.signature(call.query).bind(*call.arguments, **call.keywords)
    bound.apply_defaults()
    arguments = list(bound.arguments.values())
    if isinstance(arguments[0], RecordGradients):
        if arguments[0].origin is None:
            raise codec.NotPlain("its model is none that a job names")
        arguments[0] = arguments[0].origin
    result = call.result
    claimed = {str(relation): float(result.sensitivity_in_steps(relation)) for relation in RELATIONS}
    return codec.encode((name, arguments, (np.asarray(result.steps), result.grid, result.clip, claimed)))


def call_of(data: bytes, allowed: Mapping[str, str]) -> Call:
    """The call of `plain_call`; ``allowed`` are the modules that the operator lets jobs train.

    Raises:
        ValueError or TypeError: the bytes are no call, or its model cannot be built here.
    """
    name, arguments, (steps, grid, clip, claimed) = own_value(data)
    query, private = QUERIES[name]
    if name == "clipped_sum":
        given = ModelSource(*arguments[0])
        arguments[0] = ModelSource.of(given.spec(), given.loss, allowed, given.class_factors).gradients()
    return Call(query, private, tuple(arguments), {}, RecordedSum(steps, grid, clip, claimed))


@dataclass
class CallRecorder:
    """What one task asked so far, in the form of a file, and at most ``most`` bytes of calls; nothing here raises."""

    task: Task
    folder: Path
    most: int
    calls: list[bytes] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    used: int = 0
    seen: int = 0

    def add(self, call: Call) -> None:
        """Take in one call, or count it only where the file is full."""
        self.seen += 1
        if self.used >= self.most:
            return
        try:
            data = plain_call(call)
        except Exception as error:
            # An exception of other code may quote what is private; a clause of ours does not.
            why = str(error) if type(error) is codec.NotPlain else type(error).__name__
            self.tell(f"A call was not recorded: {why}.")
            return
        self.used += len(data)
        if self.used <= self.most:
            self.calls.append(data)

    def tell(self, sentence: str) -> None:
        """Say what went wrong in the task's log and in the file; every sentence once."""
        if sentence not in self.problems and len(self.problems) < MOST_PROBLEMS:
            logger.warning(sentence)
            self.problems.append(sentence)

    def write(self, finished: bool) -> None:
        """Put the file in its place, whole."""
        try:
            task = {item.name: getattr(self.task, item.name) for item in fields(Task)}
            content = (task, versions_here()["fate-dp"], self.calls, self.seen, self.problems, finished)
            path = self.folder / f"{self.task.name}.{self.task.role}{SUFFIX}"
            replace_file(path, codec.encode((FORMAT, VERSION)) + codec.encode(content))
            logger.info("what was asked of private records was recorded: %d of %d calls", len(self.calls), self.seen)
        except Exception as error:
            logger.warning("What was asked of private records could not be recorded: %s", error)


@dataclass(frozen=True, eq=False)
class RecordedCalls:
    """What one task asked of one party's records.

    Attributes:
        task: which one.
        version: of FATE-DP, by which it was recorded.
        calls: those that are kept, the first ones, each as `plain_call` gives it.
        seen: how many there were.
        problems: what went wrong while they were recorded, whole sentences.
        finished: whether the task ended without an error.
    """

    task: Task
    version: str
    calls: tuple[bytes, ...] = field(repr=False)
    seen: int
    problems: tuple[str, ...] = ()
    finished: bool = True


def read_calls(path: AnyPath) -> RecordedCalls:
    """The calls in a file; raises InvalidArgument, one sentence, where it holds none or those of another version."""
    try:
        heading, rest = own_values(Path(path).read_bytes())
        name, version = heading
    except OSError as error:
        raise InvalidArgument(f"The calls {path} cannot be read: {error.strerror}.") from error
    except (codec.Malformed, ValueError, TypeError):
        name, version, rest = "", 0, b""
    if name != FORMAT:
        raise InvalidArgument(f"{path} holds no calls that a recorder wrote.")
    if version != VERSION:
        raise InvalidArgument(f"{path} holds calls of version {version} but this program reads version {VERSION}.")
    try:
        task, program, calls, seen, problems, finished = own_value(rest)
        return RecordedCalls(Task(**task), program, tuple(calls), seen, tuple(problems), finished)
    except (codec.Malformed, ValueError, TypeError) as error:
        raise InvalidArgument(f"The calls {path} are damaged.") from error


def calls_of(home: Path, job: str) -> list[Path]:
    """Files of all tasks of a job at the party of a home."""
    return sorted((home / CALLS_FOLDER / job).glob(f"*{SUFFIX}"))
