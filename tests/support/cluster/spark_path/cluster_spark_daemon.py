"""Spark's mother of Python workers, which imports what FATE's functions need before it has children.

Spark gives up a worker whenever it took only the first rows of a table, as FATE does to see a table's shape, and the
next one would spend seconds on importing torch. Forked from a process that has it, a worker is there at once.
"""

from __future__ import annotations

import gc
import importlib
import sys

PRELOADED = (
    "numpy",
    "pandas",
    "torch",
    "pika",
    "fate.arch.computing.backends.spark",
    "fate.arch.dataframe",
    "fate.arch.tensor",
    "fate.arch.federation.backends.rabbitmq",
    "fate.arch.protocol.psi",
)


def main() -> None:
    """Import, then serve Spark until it ends."""
    leave_out_archives()
    from pyspark.daemon import manager

    for name in PRELOADED:
        importlib.import_module(name)
    # A worker collects garbage after every partition; without this it would look at all these modules each time.
    gc.collect()
    gc.freeze()
    manager()


def leave_out_archives() -> None:
    """Take pyspark from where pip installed it, not from the archives that Spark puts first on the path.

    A worker forgets what the import system knows before every partition, and would read the archives' directories anew:
    a third of a second each time, longer than most partitions take.
    """
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(".zip")]
    sys.path_importer_cache.clear()


if __name__ == "__main__":
    main()
