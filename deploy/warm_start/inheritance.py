"""What a forked child would share with all others and must not: above all, random numbers.

A fork copies generators with their state, so that two tasks would draw the same keys, masks, noise or weights from
them. The fork server looks for all that there are when it has imported everything, each child makes them anew, and
where there is one that cannot be made anew nothing is served. Randomness that comes from the operating system at each
call (`secrets`, `os.urandom`, numpy's `default_rng()`, `cryptography`) needs nothing.
"""

import gc
import os
import random
import re
import sys
import tempfile
from dataclasses import dataclass
from typing import Any

from threadpoolctl import LibController, ThreadpoolController

# By which OpenBLAS is told how many threads to start.
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")

# Names of types that hold random numbers or secrets, or sound like it.
SOUNDS_RANDOM = re.compile(
    r"rng|random_?state|bit_?generator|twister|prng|drbg|chacha|^generator$|^random$|key(ed)?stream|reproduciblestream"
    r"|private_?key|secret_?key|signing_?key|keypair",
    re.IGNORECASE,
)
# They sound like it, and hold none: Python's generator functions, an enumeration, and three steps of torch's compiler.
HARMLESS = {
    "builtins.generator",
    "random.SystemRandom",
    "accelerate.utils.dataclasses.RNGType",
    "torch._prims.rng_prims.register_run_and_save_rng_state_op.<locals>.RunAndSaveRngState",
    "torch._prims.rng_prims.register_run_with_rng_state_op.<locals>.RunWithRngState",
}


@dataclass(frozen=True)
class Inheritance:
    """What the fork server's memory holds that each child makes its own."""

    generators: tuple[Any, ...] = ()
    """Those of Python, numpy and torch, all of which can be made anew."""
    unknown: tuple[str, ...] = ()
    """The types of those that cannot."""
    folders: tuple[tempfile.TemporaryDirectory, ...] = ()
    """Made by modules while they were imported; a child that ended would remove them under all others."""
    algebra: tuple[LibController, ...] = ()
    """Libraries of linear algebra, which had no threads while they were imported,"""
    algebra_threads: int = 1
    """and would have had so many in a new process."""

    def make_own(self) -> None:
        """In a child: draw new states from the operating system, and leave the fork server its folders."""
        for each in self.generators:
            if name_of(each).startswith("numpy.random._") and hasattr(each, "state"):
                each.state = type(each)().state
            else:
                each.seed()
        process = sys.modules.get("multiprocessing.process")
        if process is not None:
            # By this key Python's multiprocessing knows its own processes; it was drawn on import.
            process.current_process().authkey = os.urandom(32)
        for folder in self.folders:
            folder._finalizer.detach()  # type: ignore[attr-defined]
        if self.algebra_threads > 1:
            for library in self.algebra:
                library.set_num_threads(self.algebra_threads)


def find_inheritance() -> Inheritance:
    """Everything that this process would hand to its children and that they must not share."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    renewable: tuple[type, ...] = (random.Random,)
    if numpy is not None:
        renewable += (numpy.random.BitGenerator, numpy.random.RandomState)
    if torch is not None:
        renewable += (torch.Generator,)
    # A numpy Generator holds no state beside that of its bit generator, which is found by itself.
    harmless = (random.SystemRandom, *((numpy.random.Generator,) if numpy is not None else ()))
    kinds: dict[type, str] = {}
    found: dict[str, dict[int, Any]] = {"renewable": {}, "folder": {}, "unknown": {}}
    # Every object that another one refers to; some come several times.
    for each in (thing for holder in gc.get_objects() for thing in gc.get_referents(holder)):
        kind = type(each)
        if kind not in kinds:
            kinds[kind] = kind_of(kind, renewable, harmless)
        if kinds[kind]:
            found[kinds[kind]][id(each)] = each
    threads = [os.environ[name] for name in THREAD_VARIABLES if os.environ.get(name, "").isdigit()]
    return Inheritance(
        tuple(found["renewable"].values()),
        tuple(sorted(set(map(name_of, found["unknown"].values())))),
        tuple(found["folder"].values()),
        tuple(each for each in ThreadpoolController().lib_controllers if each.internal_api == "openblas"),
        max(1, min([len(os.sched_getaffinity(0)), *map(int, threads)])),
    )


def kind_of(kind: type, renewable: tuple[type, ...], harmless: tuple[type, ...]) -> str:
    """What is to be done with objects of a type; empty for nothing."""
    if issubclass(kind, tempfile.TemporaryDirectory):
        return "folder"
    if issubclass(kind, harmless) or f"{kind.__module__}.{kind.__qualname__}" in HARMLESS:
        return ""
    if issubclass(kind, renewable):
        return "renewable"
    return "unknown" if SOUNDS_RANDOM.search(kind.__name__) else ""


def name_of(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
