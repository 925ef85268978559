"""What the ledger's tests share: small releases, what a file holds, and processes that start together or die."""

import multiprocessing
import os
import signal
import sqlite3
import sys
import traceback
from itertools import count
from pathlib import Path

from fate_dp.privacy import LedgerError, private_files
from fate_dp.privacy import ledger as ledger_package
from fate_dp.privacy.labels.flips import flip_labels, label_tags, record_tags
from fate_dp.privacy.private_files import key_id

SOURCE = "experiment/breast_guest/y"
DATASET = "experiment/breast_host"
KEY, OTHER_KEY = b"k" * 32, b"o" * 32
FORK = multiprocessing.get_context("fork")
LEDGER_FILES = (str(Path(ledger_package.__file__).parent), private_files.__file__)


def labels_of(numbers):
    return [int(number) % 2 for number in numbers]


def rows_of(numbers, epsilon, key=KEY, labels=None, source=SOURCE, classes=2):
    labels = labels_of(numbers) if labels is None else labels
    flipped = flip_labels(numbers, labels, epsilon, classes, key, source)
    tags = record_tags(numbers, key, source), label_tags(numbers, labels, key, source)
    return list(zip(*tags, map(str, flipped.tolist())))


def release(ledger, numbers, epsilon, key=KEY, cap=8.0, rows=None, source=SOURCE, classes=2, **more):
    return ledger.record_flips(
        source=source,
        epsilon=epsilon,
        classes=classes,
        key_id=key_id(key),
        rows=rows_of(numbers, epsilon, key, source=source, classes=classes) if rows is None else rows,
        cap=cap,
        job_id=more.pop("job_id", "job"),
        task_id="task",
        fingerprint="f",
        **more,
    )


def in_family(ledger, *sources, numbers=range(10), key=KEY):
    """Tell the ledger that these sources are labels of tables with these records."""
    for source in sources:
        records = [b"records %d" % number for number in numbers]
        ledger.remember_dataset(
            f"columns:{source.replace('/', '-')}", ["x"], records=records, key_id=key_id(key), labels=source
        )


def released_texts(numbers, epsilon, key=KEY):
    return [(id_tag, label) for id_tag, _, label, *_ in rows_of(numbers, epsilon, key)]


def derive(ledger, parent, rows, description="flipback swap", job_id="job"):
    return ledger.record_derived(
        parent_entry_id=parent, rows=rows, description=description, job_id=job_id, task_id="task"
    )


def score(ledger, digest, cap=5, purpose="flipback", dataset=DATASET):
    return ledger.record_scores(
        dataset=dataset, weights_digest=digest, purpose=purpose, rows=10, cap=cap, job_id="job", task_id="task"
    )


def dump(path):
    """Everything in the file except the times."""
    if not path.exists() or path.stat().st_size == 0:
        return []
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1").fetchall()
        content = [(name, sorted(connection.execute(f"SELECT * FROM {name}"))) for (name,) in tables]
    connection.close()
    return [(name, [row[:4] + row[5:] for row in rows] if name == "release" else rows) for name, rows in content]


def run_at_once(*functions):
    """Run functions in processes of their own that start together; return their results in order."""
    start, queue = FORK.Barrier(len(functions)), FORK.Queue()

    def run(position, function):
        start.wait()
        try:
            queue.put((position, function()))
        except LedgerError as error:
            queue.put((position, type(error).__name__))

    processes = [FORK.Process(target=run, args=pair) for pair in enumerate(functions)]
    for process in processes:
        process.start()
    results = dict(queue.get(timeout=600) for _ in processes)
    for process in processes:
        process.join()
    return [results[position] for position in range(len(functions))]


def forked(operation):
    """What became of an operation in a process of its own: 'done', 'killed', or the refusal's class and sentence."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, _outcome(operation).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return text or "killed"


def _outcome(operation):
    try:
        operation()
    except LedgerError as refusal:
        return f"{type(refusal).__name__}: {refusal}"
    except BaseException:
        return traceback.format_exc()
    return "done"


def killed_at_line(number, operation, files=LEDGER_FILES):
    """Run ``operation`` in a process that is killed before its n-th line within ``files``; see ``forked``."""
    lines = count(1)

    def trace(frame, event, _):
        if not frame.f_code.co_filename.startswith(files):
            return None
        if event == "line" and next(lines) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    def traced():
        sys.settrace(trace)
        try:
            operation()
        finally:
            sys.settrace(None)

    return forked(traced)
