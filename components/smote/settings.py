"""Parameters of smote. No FATE in here."""

from dataclasses import dataclass
from typing import Any

from ..common.parameters import choice, parameter
from ..common.preflight import Refusal

MAX_SEED = 2**63 - 1


def method(value: object) -> str:
    """smotenc or smotenc_parents, which draw one-hot groups as categories, or smote, which interpolates all columns."""
    from fate_dp.data_prep.over_sampling import METHODS

    return choice("method", value, tuple(METHODS))


def groups(value: object) -> tuple[tuple[str, ...], ...]:
    """Lists of one-hot column names: each column in one group only, at least two in a group."""
    if not isinstance(value, (list, tuple)):
        raise Refusal.of("groups", value, "a list of lists of one-hot column names")
    for group in value:
        if (
            not isinstance(group, (list, tuple))
            or len(group) < 2
            or not all(isinstance(each, str) and each for each in group)
        ):
            raise Refusal.of("each of groups", group, "a list of at least two column names")
    names = [name for group in value for name in group]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise Refusal(f"groups has the column {repeated!r} more than once; a column belongs to one group.")
    return tuple(tuple(group) for group in value)


def dataset(value: Any) -> str:
    """namespace/name under which this party's ledger knows the table; may be given for each party by itself."""
    parts = value.split("/") if isinstance(value, str) else []
    # With white space around it, the line would stand under a name that no private step can be charged to.
    if len(parts) != 2 or not all(part and part == part.strip() for part in parts):
        raise Refusal.of("dataset", value, "namespace/name, without white space around either")
    return value


@dataclass(frozen=True)
class Settings:
    """Over-sampling of each party's own training rows; what is computed from them protects no record.

    For the stage train only: a deployed pipeline leaves it out, and `run_job` refuses to split or test on its output.
    ``dataset`` is the same at all parties unless it is given for each of them:
    ``task.guest.task_parameters(dataset=...)``, ``task.hosts[0].task_parameters(dataset=...)``.
    """

    dataset: str = parameter("namespace/name of the table in the party's ledger", check=dataset)
    method: str = parameter(
        "how rows are made: smotenc, smotenc_parents, or smote to compare with", "smotenc", check=method
    )
    neighbours: int = parameter(
        "nearest records to interpolate with",
        5,
        at_least=1,
        note="How many nearest records of its class a record is interpolated with.",
    )
    groups: tuple[tuple[str, ...], ...] = parameter(
        "lists of one-hot column names; none means that all columns are numeric", (), check=groups
    )
    seed: int | None = parameter(
        "start of the draws, known to all parties; None means the operating system's entropy",
        None,
        at_least=0,
        at_most=MAX_SEED,
        note="Start of all draws; every party of the job sees it.",
    )
