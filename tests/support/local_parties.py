"""Runs one function per party in a process of its own over FATE's standalone engines, without FATE-Flow.

Each party records what it receives, so that tests can ask what a party saw.
"""

import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
import uuid
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from multiprocessing import forkserver
from types import MappingProxyType
from typing import Any
from unittest import mock

import yaml

from fate_dp.deploy.warm_start.preload import MODULES, NO_THREADS, own_components
from fate_dp.privacy.private_files import replace_file

# Not imported here: it would change FATE in every process that imports this module.
CHANGES_TO_FATE = "fate_dp.deploy.fate_patches.sitecustomize"


def set_job_check(policy, job_check):
    """What an operator writes into the policy of a party, about jobs that leak."""
    content = yaml.safe_load(policy.read_text(encoding="utf-8")) if policy.exists() else {}
    replace_file(policy, yaml.safe_dump({**content, "job_check": job_check}).encode())


class Artifact:
    """Stands for FATE's dataframe artifact; ``frame`` is what a component wrote into it."""

    def __init__(self, frame=None):
        self.frame = frame

    def read(self):
        return self.frame

    def write(self, frame):
        self.frame = frame


@dataclass
class PartyResult:
    value: Any = None
    error: str = None
    cpu_seconds: float = 0.0
    received: list[tuple[str, str, Any]] = field(default_factory=list)
    """(sender, message name, value) of every message, tables as lists of (key, value)."""


def run_parties(
    function,
    parties,
    environment=None,
    timeout=300,
    *,
    record=True,
    environments=MappingProxyType({}),
    forked: bool = False,
    workers: int = 1,
    **arguments,
) -> dict:
    """Call ``function(ctx, **arguments)`` as every party of ``parties`` (pairs of role and id); results by party.

    ``environment`` holds variables of all parties, ``environments`` those of single ones; libraries see them as they are
    loaded. ``record`` False leaves `PartyResult.received` empty: a recorded table is read through once more, which costs time.
    Parties that are ``forked`` come from a process that has imported FATE and our components once: they start in a tenth
    of the time, but their processor seconds leave imports out, and ``environment`` is read at the first such call only.
    ``workers`` is the number of processes that each party computes its tables with.
    """
    queue, session = multiprocessing.get_context("spawn").Queue(), uuid.uuid4().hex
    context = _forking(environment or {}) if forked else multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as data_dir:
        processes = [
            context.Process(
                target=_party_process,
                args=(queue, session, data_dir, party, list(parties), function, arguments, record, workers),
            )
            for party in parties
        ]
        for party, process in zip(parties, processes):
            with _variables({**(environment or {}), **environments.get(party, {})}):
                process.start()
        try:
            results, deadline = {}, time.monotonic() + timeout
            while len(results) < len(processes):
                party, blob = queue.get(timeout=max(1, deadline - time.monotonic()))
                results[party] = pickle.loads(blob)
                if results[party].error and not results[party].error.startswith("ValueError"):
                    break  # The others may wait for a message of the failed one forever.
        finally:
            for party, process in zip(parties, processes):
                process.join(timeout=5 if party in results else 0)
                if process.is_alive():
                    process.kill()
    return results


def _forking(environment):
    """Python's own fork server, started with these variables unless it runs.

    It imports the servers' changes to FATE first, as a task of theirs does: they take hold when FATE is imported.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([CHANGES_TO_FATE, *MODULES, *own_components(), __name__])
    with _variables({**environment, **NO_THREADS}):
        forkserver.ensure_running()
    return context


def _draw_anew():
    """A forked process has the generators of the one that it was forked from, with their states."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed()
    if torch is not None:
        torch.seed()


@contextmanager
def _variables(values):
    """A spawned process inherits the variables that are set while it is started."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _party_process(queue, session, data_dir, party, parties, function, arguments, record, workers):
    # As under FATE-Flow: a spawned process would else spawn its workers too, which then import everything anew.
    multiprocessing.set_start_method("fork", force=True)
    _draw_anew()
    result = PartyResult()
    try:
        ctx = _context(session, data_dir, party, parties, workers)
        with recorded_messages(result.received) if record else nullcontext():
            before = cpu_seconds()
            result.value = function(ctx, **arguments)
            result.cpu_seconds = cpu_seconds() - before
        # Otherwise the process waits at its end for workers that wait for work, until it is killed.
        ctx.computing.get_standalone_session()._pool.shutdown()
    except ValueError as error:
        result.error = f"ValueError: {error}"
    except BaseException:
        result.error = traceback.format_exc()
    queue.put((party, _pickled(result)))


def _pickled(result: PartyResult) -> bytes:
    try:
        return pickle.dumps(result)
    except Exception:
        return pickle.dumps(PartyResult(error=traceback.format_exc()))


def cpu_seconds() -> float:
    """Processor seconds, user and system, that this process and its descendants have used so far.

    A living descendant is asked; one that has ended is counted in its parent's ``children_*`` times once the parent has
    waited for it and disappeared from the list then, so that nothing counts twice.
    """
    import psutil

    process = psutil.Process()
    while True:
        try:
            family = [process, *process.children(recursive=True)]
            return sum(_with_ended_children(member.cpu_times()) for member in family)
        except psutil.NoSuchProcess:
            continue  # One ended in between: its parent knows its time by now.


def _with_ended_children(times):
    return times.user + times.system + times.children_user + times.children_system


def _context(session, data_dir, party, parties, workers):
    from fate.arch.computing.backends.standalone import CSession
    from fate.arch.context import Context
    from fate.arch.federation import FederationBuilder

    computing = CSession(
        session_id=f"{session}_{party[0]}_{party[1]}", data_dir=data_dir, options={"task_cores": workers}
    )
    builder = FederationBuilder(federation_session_id=session, party=party, parties=parties)
    return Context(computing=computing, federation=builder.build_standalone(computing))


@contextmanager
def recorded_messages(received):
    """Whatever this party receives meanwhile, by FATE's messages or ours, is appended to ``received``."""
    from fate.arch.computing.api import KVTable
    from fate.arch.context import _parties

    from fate_dp.components.common.wire.channel import Channel

    pull, receive = _parties._pull, Channel.receive

    def record(party, name, value):
        kept = sorted(value.collect(), key=lambda item: str(item[0])) if isinstance(value, KVTable) else value
        received.append(("-".join(party), name, kept))

    def recording_pull(ctx, federation, name, namespace, parties):
        values = pull(ctx, federation, name, namespace, parties)
        for party, value in zip(parties, values):
            record(party, name, value)
        return values

    def recording_receive(channel, party, namespace, name):
        value = receive(channel, party, namespace, name)
        record(party, name, value)
        return value

    with mock.patch.object(_parties, "_pull", recording_pull), mock.patch.object(Channel, "receive", recording_receive):
        yield


def frame_of(ctx, table, label=None, partitions=2, dtype="float64", label_type="int32"):
    """A pandas table with columns ``sample_id`` and ``id`` as a FATE DataFrame."""
    from fate.arch.dataframe import PandasReader

    reader = PandasReader(
        sample_id_name="sample_id",
        match_id_name="id",
        label_name=label,
        label_type=label_type,
        dtype=dtype,
        partition=partitions,
    )
    return reader.to_frame(ctx, table)
