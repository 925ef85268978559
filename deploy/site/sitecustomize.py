"""Tasks of FATE that start warm, take from other parties only what is on a list, wait until the broker has made a
queue, do not measure themselves at length, and do not wait for themselves; and a FATE-Flow whose jobs name no code.

Python runs this module when it starts with this folder on PYTHONPATH. A task's process is first offered to the fork
server, which has FATE imported already (`warm_handover`); where that takes it, nothing of what follows happens here.
Otherwise, and in the fork server itself, a few modules of FATE are changed when, and if, they are imported; it imports
nothing but Python's own, since every process of FATE-Flow starts with it.

What other parties' messages and tables may name is the list of `fence`, in FATE's components as in ours; what their jobs may
name and do is in `job_gate` and `model_classes`.

Two parties of a task make its virtual host at RabbitMQ at the same moment. The second is told that it exists while
RabbitMQ still starts it, and may then be refused the queue that it asks for. FATE 2.2.0 takes no notice: what it sends
to that queue is lost, and the other party waits for ever. Here the queue is asked for until it is there, and a task
that does not get it fails and says so.

FATE 2.2.0 notes for each operation on a table which functions called it, with the lines of source around each call, of
which it uses the name alone, and in the end lays it all out in a table that it logs at a level that FATE-Flow leaves
out: more than half of the CPU time of a small task. Here it notes the same names without reading source, and what
nobody will see is not laid out; the log is the same.

A table of FATE 2.2.0's standalone engine that Python's garbage collector finds strikes itself off FATE's register of
tables. Where that happens while the same thread writes there, it waits for a lock that it holds, and all parties of the
machine with it. Here nothing is collected meanwhile.

What a party receives is kept for it, where its operator wants that (`view_hook`).
"""

if __package__:
    # Imported as a module of FATE-DP, as tools do that look at all of them.
    from . import warm_handover
else:
    import warm_handover  # type: ignore[no-redef]

# Before all else: a task that runs elsewhere needs none of the rest.
warm_handover.hand_over()

import gc  # noqa: E402
import importlib.abc  # noqa: E402
import importlib.machinery  # noqa: E402
import importlib.util  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

if __package__:
    from . import fence, job_gate, model_classes, view_hook  # noqa: E402
else:
    import fence  # type: ignore[no-redef]  # noqa: E402
    import job_gate  # type: ignore[no-redef]  # noqa: E402
    import model_classes  # type: ignore[no-redef]  # noqa: E402
    import view_hook  # type: ignore[no-redef]  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

PATIENCE_SECONDS = 30.0
PAUSE_SECONDS = 0.1
# The innermost frames are the profile's own and the outermost the program's, in FATE's reckoning.
OWN_FRAMES, OUTERMOST_FRAMES = 2, 2


class ChangeOnImport(importlib.abc.MetaPathFinder):
    """Changes some of FATE's modules when they are imported, and no import otherwise."""

    def __init__(self, changes: dict) -> None:
        self.changes = dict(changes)

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        change = self.changes.pop(name, None)
        if change is None:
            return None
        specification = importlib.util.find_spec(name)
        if specification is not None and specification.loader is not None:
            execute = specification.loader.exec_module

            def exec_module(module: "Any") -> None:
                execute(module)
                change(module)

            specification.loader.exec_module = exec_module  # type: ignore[method-assign]
        return specification


def make_patient(module: "Any") -> None:
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


def make_brief(module: "Any") -> None:
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


def at_execution(module: "Any") -> None:
    model_classes.remember_party(module)
    view_hook.record_views(module)


def run_the_environments_own() -> None:
    """This module hides another of its name, which the environment may have for its own purposes."""
    own = os.path.dirname(os.path.abspath(__file__))
    others = [folder for folder in sys.path if os.path.abspath(folder) != own]
    specification = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if specification is not None and specification.loader is not None:
        specification.loader.exec_module(importlib.util.module_from_spec(specification))


sys.meta_path.insert(
    0,
    ChangeOnImport(
        {
            "fate.arch.federation.api._serdes": fence.fence_messages,
            "fate.arch.computing.serdes": fence.fence_tables,
            "fate_flow.engine.storage.serdes": fence.fence_tables,
            "fate.arch.federation.backends.rabbitmq._rabbit_manager": make_patient,
            "fate.arch.computing.backends.standalone._standalone": keep_collector_out,
            "fate.arch.trace._profile": make_brief,
            "fate.components.entrypoint.cli.component.execute_cli": at_execution,
            "fate.components.components.nn.loader": model_classes.load_classes_only,
            "fate.ml.nn.trainer.trainer_base": model_classes.take_numbers_only,
            "fate_flow.controller.job": job_gate.guard_jobs,
        }
    ),
)
run_the_environments_own()
