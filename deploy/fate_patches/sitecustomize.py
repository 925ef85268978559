"""A FATE-Flow whose tasks start warm and take from peers only values on a list, and whose jobs name no code.

Python runs this module at its start wherever this folder is on PYTHONPATH. A task's process first offers itself to the
fork server, which has FATE imported already (`warm_handover`). If that takes it, nothing below happens here. Otherwise,
and in the fork server itself, `fence`, `job_gate`, `model_classes`, `fate_faults` and `view_hook` change a few modules
of FATE when they are imported. All of them import Python's own modules only, since every process of FATE-Flow starts
with them.
"""

if __package__:
    # Imported as a module of FATE-DP, as tools do that look at all of them.
    from . import warm_handover
else:
    import warm_handover  # type: ignore[no-redef]

# Before all else: a task that runs elsewhere needs none of the rest.
warm_handover.hand_over()

import importlib.abc  # noqa: E402
import importlib.machinery  # noqa: E402
import importlib.util  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402

if __package__:
    from . import fate_faults, fence, job_gate, model_classes, view_hook  # noqa: E402
else:
    import fate_faults  # type: ignore[no-redef]  # noqa: E402
    import fence  # type: ignore[no-redef]  # noqa: E402
    import job_gate  # type: ignore[no-redef]  # noqa: E402
    import model_classes  # type: ignore[no-redef]  # noqa: E402
    import view_hook  # type: ignore[no-redef]  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
            "fate.arch.federation.backends.rabbitmq._rabbit_manager": fate_faults.wait_for_queues,
            "fate.arch.computing.backends.standalone._standalone": fate_faults.mend_standalone,
            "fate.arch.trace._profile": fate_faults.skip_source_lookup,
            "fate.components.entrypoint.cli.component.execute_cli": at_execution,
            "fate.components.components.nn.loader": model_classes.load_classes_only,
            "fate.ml.nn.trainer.trainer_base": model_classes.take_numbers_only,
            "fate_flow.controller.job": job_gate.guard_jobs,
        }
    ),
)
run_the_environments_own()
