"""How the rows of a task's table came about: what this party's tasks before it, in this job, made of uploaded rows.

A promise for a record holds for the record as it was uploaded. It survives tasks whose every row depends on one row and on public
settings, as `ComponentDisclosure.rows` declares for ours and FATE's; one for labels alone survives tasks that read no labels.
Where FATE-Flow's files are out of reach, nothing is refused.
"""

from functools import cache

from ..disclosure.declaration import FLIPPED, LABELS
from ..disclosure.tracing import Walk, trace
from ..disclosure.verdicts import enforce, refusal_for_labels
from .job_files import JobFiles
from .preflight import Refusal, about_settings

EXPECTED = ("The rows of {} must each depend on one uploaded row alone", "The rows of {} must not depend on labels")
"""Of a promise for records, and of one for labels alone."""


def refuse_mixed_rows(labels_alone: bool) -> None:
    """Raise a `Refusal` where a promise, for labels or for records, would not hold for rows as they were uploaded."""
    files = JobFiles.of_this_task()
    sentence = None if files is None else _refusal(files, labels_alone)
    if sentence is not None:
        raise Refusal(sentence)


def refuse_shown_labels(job_check: str) -> None:
    """Refuse, as the party's policy says, a job in which another task shows true labels that a step of it protects.

    Jobs come past ``run_job``, too: from another party's client, or from FATE's own.
    """
    files = JobFiles.of_this_task()
    plan = None if files is None else files.plan() or files.so_far()
    if plan is not None and plan.dag.get("parties"):
        with about_settings():
            enforce(job_check, refusal_for_labels(trace(plan)))


def labels_were_flipped() -> bool:
    """Whether every way from a reader to this task's labels leads through label_flip, whatever values they have.

    Labels that merely agree with released flips may be true ones: whether a job on a few of them is accepted would tell.
    True where FATE-Flow's files are out of reach.
    """
    files = JobFiles.of_this_task()
    return files is None or (
        Walk(files.so_far()).labels_into(files.task).state == FLIPPED and _written_before(files) is None
    )


def mixed_rows(walk: Walk, task: str, labels_alone: bool) -> str | None:
    """Why rows of a job's task do not bear a promise, and what to do; None where they do."""
    for name, how in walk.mixed_before[task].values():
        if how.reads == LABELS or not labels_alone:
            component = walk.plan.task(name).component
            return (
                f"{EXPECTED[labels_alone].format(task)}, got those of {name} ({component}), which reads "
                f"{'labels' if labels_alone else 'other records'}. {how.instead[:1].upper()}{how.instead[1:]}."
            )
    return None


@cache
def _refusal(files: JobFiles, labels_alone: bool) -> str | None:
    earlier = _written_before(files)
    if earlier is not None:
        return f"{EXPECTED[labels_alone].format(files.task)}, got a table that {earlier} wrote. Read the table that was uploaded."
    return mixed_rows(Walk(files.so_far()), files.task, labels_alone)


def _written_before(files: JobFiles) -> str | None:
    """The first writer of a table, other than an upload or a task of this job, that flows into this task."""
    tasks = (files.task, *Walk(files.so_far()).before(files.task))
    return next((writer for task in tasks for writer in files.foreign_writers(task)), None)
