"""What a job may not do with the rows that smote made, told from its DAG before it is submitted.

A synthetic row lies between two training records. Split afterwards, its neighbours come to lie on the other side, and a
model is praised for what it has seen; tested on it, it is judged on records that do not exist.
"""
from __future__ import annotations

from fate_dp.components.common.job_plan import receivers

SPLIT_FIRST = "{task} would split rows that {smote} has over-sampled; put data_split before smote."
NOT_FOR_TESTS = "{task} takes rows that {smote} has over-sampled as {key}; models are tested on real rows only."
FLIP_FIRST = "{task} would flip labels after {smote} has made rows from the true ones; put label_flip before smote."
FOLD_FIRST = "{task} would cross-validate over rows that {smote} has over-sampled; cross-validate on real rows only."
TWICE = "{task} would over-sample rows that {smote} has over-sampled; one of the two is enough."

BY_COMPONENT = {"data_split": SPLIT_FIRST, "label_flip": FLIP_FIRST, "smote": TWICE}
BY_INPUT = {"validate_data": NOT_FOR_TESTS, "test_data": NOT_FOR_TESTS, "cv_data": FOLD_FIRST}


def misuse_of_synthetic_rows(tasks: dict) -> str | None:
    """One sentence on the first task that may not have the rows of a smote task, directly or through others, or None.

    `tasks` is `dag.tasks` of a compiled pipeline. Models carry no rows, and are not followed.
    """
    for smote in (name for name, task in tasks.items() if task["component_ref"] == "smote"):
        for name, key in receivers(tasks, smote):
            sentence = BY_COMPONENT.get(tasks[name]["component_ref"]) or BY_INPUT.get(key)
            if sentence is not None:
                return sentence.format(task=f"Task {name}", smote=smote, key=key)
    return None
