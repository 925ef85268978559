"""What FATE-Board makes of a metric record: a chart, a table, or nothing.

The board looks at the type first: one that contains 'loss' goes into the task's loss chart, 'data_split' into a table
of all such records. Whatever is left is drawn only if the record has one of three names
(FATE-Board 2.1.0, transform/metric/index.ts).
"""
from __future__ import annotations

import re

LOSS, DATA_SPLIT, SUMMARY, EVALUATION, UPLOAD = "loss", "data_split", "summary", "evaluation", "upload"
DRAWN_BY_NAME = (SUMMARY, EVALUATION, UPLOAD)
WORDS = {
    LOSS: "the line chart 'Loss' over steps, one for the task",
    DATA_SPLIT: "a row of a table, whose last row is called 'total'",
    SUMMARY: "a table of variable and value",
    EVALUATION: "the table 'Evaluation Scores', and curves",
    UPLOAD: "lines of name and value",
}


def kind_of(record: dict) -> str | None:
    """How the board draws a record, None if it does not."""
    kind = record.get("type")
    if isinstance(kind, str) and re.search("loss", kind, re.IGNORECASE):
        return LOSS
    if kind == DATA_SPLIT:
        return DATA_SPLIT
    return record.get("name") if record.get("name") in DRAWN_BY_NAME else None


def drawings(records: list[dict]) -> list[str]:
    """What a person sees of a task, in words, in the order in which the board shows it."""
    kinds = [kind_of(record) for record in records]
    single = [WORDS[kind] for kind in kinds if kind in DRAWN_BY_NAME]
    return single + [WORDS[kind] for kind in (LOSS, DATA_SPLIT) if kind in kinds] or ["NO DATA"]
