"""What the loans are called: the ids of the raw file where they can tell the loans apart, else their record numbers."""
from __future__ import annotations

import numpy
import pyarrow
import pyarrow.compute as compute

from fate_dp.data_prep.over_sampling import SYNTHETIC_PREFIX

from .text_columns import shown

PLAIN_ID = r"^[A-Za-z0-9_.-]+$"


def names_of(ids: pyarrow.ChunkedArray, numbers: numpy.ndarray) -> tuple[numpy.ndarray, str | None]:
    """A text of its own for each loan (n,), and a notice where it is not the id; `numbers` (n,) are of the records."""
    why = why_unusable(ids)
    if why is None:
        return ids.to_numpy(), None
    names = numpy.array([f"row-{number}" for number in numbers], dtype=object)
    return names, f"{why}; the loans are named by their record numbers."


def why_unusable(ids: pyarrow.ChunkedArray) -> str | None:
    """Why the ids cannot name the loans, None if they can."""
    if ids.null_count:
        return f"{ids.null_count} of {len(ids)} loans have no id"
    plain = compute.match_substring_regex(ids, PLAIN_ID)
    if not compute.all(plain).as_py():
        odd = ids.filter(compute.invert(plain))[0].as_py()
        return f"The id {shown(odd)} has other characters than letters, digits, '_', '.' and '-'"
    marked = compute.starts_with(ids, SYNTHETIC_PREFIX)
    if compute.any(marked).as_py():
        return f"The id {shown(ids.filter(marked)[0].as_py())} begins like those of over-sampled rows"
    counts = compute.value_counts(ids)
    repeated = counts.filter(compute.greater(counts.field("counts"), 1))
    if len(repeated):
        text, times = repeated[0].as_py().values()
        return f"The id {shown(text)} occurs {times} times with different values"
    return None
