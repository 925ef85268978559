"""What the fork server imports before the first task comes, and whether a new Python process would import the same."""

import gc
import importlib
import os
import sys
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

# Imports only: nothing here makes a key, opens a database or reads data. Between them they import nearly all that the
# tasks of FATE's common components and of ours do; what is missing here, or not installed, a task imports by itself.
MODULES = (
    *(
        "numpy",
        "pandas",
        "torch",
        "scipy.stats",
        "sklearn.metrics",
        "pkg_resources",
        "ruamel.yaml",
        "click",
        "requests",
    ),
    *("multiprocessing.pool", "concurrent.futures.process", "sqlite3", "lmdb"),
    *("fate.arch", "fate.arch.launchers.logger", "fate.arch.dataframe", "fate.arch.tensor", "fate.arch.protocol.psi"),
    *("fate.arch.computing.backends.standalone", "fate.arch.federation.backends.standalone"),
    *("fate.components.core", "fate.components.core.spec.task", "fate.components.entrypoint.utils"),
    *("fate.components.components.reader", "fate.components.components.psi", "fate.components.components.evaluation"),
    *("fate.components.components.coordinated_lr", "fate.components.components.nn.nn_runner"),
    *("fate_flow.entity.spec.dag", "fate_flow.hub.flow_hub", "fate_flow.hub.components_wraps.fate"),
    *("fate_flow.components.components", "ofx.api.client", "ofx.api.models.fate_flow.worker", "beautifultable"),
)
# FATE's components, and those that others add: whatever else they import, they import with these.
COMPONENTS = "fate.ext.component_desc"
OURS = "fate_dp."
# A module that each process writes into a new folder, and then imports.
WRITTEN_BY_TORCH = "_remote_module_non_scriptable"
# Without these, pyarrow's memory and numpy's linear algebra start threads, with which no process may fork. Each child
# gives the latter the number of threads that it would have had (`Inheritance.make_own`).
NO_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Imported:
    """What was read, and how it stood on disk then."""

    begun: int
    """When reading began, in nanoseconds: what changed later may have been read before the change or after."""
    stamps: dict[str, tuple[int, int, int]]

    def changed(self) -> str:
        """The path of something that is no longer as it was; empty where all is."""
        for path, stamp in self.stamps.items():
            if stamp[0] > self.begun or stamp_of(path) != stamp:
                return path
        return ""


def import_all() -> Imported:
    """Import the list, and say which files that has read."""
    begun = time.time_ns()
    # FATE-Flow puts its program's folder there, not the one from which this was started.
    sys.path[:] = [entry for entry in sys.path if entry]
    folders = {path: stamp_of(path) for path in filter(os.path.isdir, sys.path)}
    before = dict(os.environ)
    os.environ.update(NO_THREADS)
    # A search for garbage among ever more modules would find none.
    gc.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in (*MODULES, *own_components()):
            try:
                importlib.import_module(name)
            except Exception as error:
                # What does not import here, the tasks that need it will say.
                print(f"{name} is not imported in advance: {type(error).__name__}: {error}", flush=True)
    gc.enable()
    os.environ.clear()
    os.environ.update(before)
    return Imported(begun, {path: stamp_of(path) for path in files_read(folders)} | folders)


def own_components() -> list[str]:
    """The modules of our components; others' are not known to be fit for a fork."""
    return [entry.module for entry in entry_points(group=COMPONENTS) if entry.module.startswith(OURS)]


def files_read(folders: Iterable[str]) -> Iterator[str]:
    """The files of all modules, those that name further folders, and FATE-Flow's and FATE's configuration."""
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path and name != WRITTEN_BY_TORCH:
            yield path
    for folder in folders:
        yield from map(str, Path(folder).glob("*.pth"))
    flow, fate = map(sys.modules.get, ("fate_flow.runtime.system_settings", "fate.arch.config"))
    of_fate = [Path(str(fate.__file__)).parent] if fate else []
    for configuration in [Path(flow.FATE_FLOW_CONF_PATH), *of_fate] if flow else of_fate:
        yield from map(str, [configuration, *configuration.glob("*.yaml")])


def stamp_of(path: str) -> tuple[int, int, int]:
    """When a file was changed last, its size and its place on the disk; zeros where there is none. Of a folder, how
    many names it holds and a hash of them: its time would tell of the bytecode that the very import writes."""
    try:
        if os.path.isdir(path):
            names = sorted(name for name in os.listdir(path) if name != "__pycache__")
            return 0, len(names), zlib.crc32("/".join(names).encode(errors="surrogateescape"))
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return status.st_mtime_ns, status.st_size, status.st_ino
