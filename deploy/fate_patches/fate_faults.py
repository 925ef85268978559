"""Five faults of FATE 2.2, corrected where its modules are imported; docs/upstream.md shows each.

- `wait_for_queues`: FATE ignores that RabbitMQ refused a queue, and the other party waits for ever.
- `skip_source_lookup`: FATE's profile reads source around each caller, more than half of a small task's CPU time.
- `sync_kept_tables`: every operation on a table waits some ten times for the disk, to keep what ends with the task.
- `free_readers`: after some 200 jobs on one server no task finds a free place among the readers of the register of tables.
- `keep_collector_out`: a table that is collected in a transaction of its own thread waits for a lock that it holds.
"""

import gc
import os
import sys
import threading
import time
from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 0.1
# The innermost frames are the profile's own and the outermost the program's, in FATE's reckoning.
OWN_FRAMES, OUTERMOST_FRAMES = 2, 2


def wait_for_queues(module: "Any") -> None:
    """Let `create_queue` of FATE's RabbitManager return when the queue is there."""
    ask_once = module.RabbitManager.create_queue

    def create_queue(self, vhost: "Any", queue_name: "Any") -> bool:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not ask_once(self, vhost, queue_name):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"The broker at {self.endpoint} did not make the queue {queue_name} within {PATIENCE_SECONDS:.0f} "
                    "seconds; its log says why."
                )
            time.sleep(PAUSE_SECONDS)
        return True

    module.RabbitManager.create_queue = create_queue


def skip_source_lookup(module: "Any") -> None:
    """Let FATE's profile note callers by name only, and lay out no more than is logged."""
    lay_out = module._ComputingTimer.computing_statistics_table

    def call_stack_strings() -> list:
        # Names only: a list of frames, this one among them, would keep all that they hold until it is collected.
        frame: FrameType | None
        calls, frame = [], sys._getframe()
        while frame is not None:
            calls.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        return [
            f"[{os.path.basename(code.co_filename)}:{line}]{code.co_name}"
            for code, line in calls[OWN_FRAMES:-OUTERMOST_FRAMES]
        ]

    def computing_statistics_table(timer_aggregator: "Any" = None) -> "Any":
        # The callers stand in the detailed table only, which FATE logs for those who debug it.
        if not module.profile_logger.isEnabledFor(module.logging.DEBUG):
            for item in module._ComputingTimer._STATS.values():
                item.function_stack = ""
        return lay_out(timer_aggregator=timer_aggregator)

    module._call_stack_strings = call_stack_strings
    module._ComputingTimer.computing_statistics_table = staticmethod(computing_statistics_table)


class NothingCollected:
    """Python's garbage collector rests while any thread is within this context."""

    def __init__(self) -> None:
        # What is collected as a thread enters may enter itself.
        self._lock, self._inside, self._collects = threading.RLock(), 0, False

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._collects = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *error: "Any") -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._collects:
                gc.enable()


def keep_collector_out(module: "Any") -> None:
    """Let FATE's standalone engine write its register of tables without garbage collection in between."""
    register, nothing_collected = module._TableMetaManager, NothingCollected()

    def uncollected(change: "Any") -> "Any":
        def changed(cls, *arguments: "Any", **named: "Any") -> "Any":
            with nothing_collected:
                return change(cls, *arguments, **named)

        return classmethod(changed)

    for name in ("add_table_meta", "destroy_table"):
        setattr(register, name, uncollected(getattr(register, name).__func__))


def sync_kept_tables(module: "Any") -> None:
    """Let FATE's standalone engine wait for the disk where a table outlives its task, and nowhere else."""
    library, create_table = module.lmdb, module._create_table

    def open_without_waiting(path: str, **settings: "Any") -> "Any":
        return library.open(path, **{**settings, "sync": False})

    def create_and_keep(session: "Any", data_dir: str, name: str, namespace: str, **named: "Any") -> "Any":
        table = create_table(session, data_dir, name, namespace, **named)
        if not named["need_cleanup"]:
            for partition in range(table.partitions):
                with table._get_env_for_partition(partition, write=True) as written:
                    written.sync(True)
            module._TableMetaManager._get_meta_env(data_dir, namespace, name)[1].sync(True)
        return table

    def destroy(self) -> None:
        # FATE empties each file before it deletes them all.
        module._TableMetaManager.destroy_table(data_dir=self._data_dir, namespace=self._namespace, name=self._name)

    module.lmdb, module._create_table = SimpleNamespace(open=open_without_waiting, Error=library.Error), create_and_keep
    module.Table.destroy = destroy


def free_readers(module: "Any") -> None:
    """Let whoever opens FATE's register of tables free the places of tasks that ended without closing it."""
    register = module._TableMetaManager
    open_once = register._get_or_create_meta_env.__func__

    def opened(cls, data_dir: str, number: int) -> "Any":
        is_new = number not in cls._env
        environment = open_once(cls, data_dir, number)
        if is_new:
            environment.reader_check()
        return environment

    register._get_or_create_meta_env = classmethod(opened)


def mend_standalone(module: "Any") -> None:
    for mend in (keep_collector_out, sync_kept_tables, free_readers):
        mend(module)
