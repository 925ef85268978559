"""Parameters of smote, checked. No FATE in here."""
from fate_dp.components.common import checks

LARGEST_SEED = 2**63 - 1


def method(value) -> str:
    """smotenc or smotenc_parents, which draw one-hot groups as categories, or smote, which interpolates all columns."""
    from fate_dp.data_prep.over_sampling import METHODS

    return checks.choice("method", value, tuple(METHODS))


def neighbours(value) -> int:
    """How many nearest records of its class a record is interpolated with."""
    return checks.number("neighbours", value, at_least=1, whole=True)


def groups(value) -> tuple:
    """Lists of one-hot column names: each column in one group only, at least two in a group."""
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"groups is {value!r}; it must be a list of lists of one-hot column names.")
    for group in value:
        if not isinstance(group, (list, tuple)) or len(group) < 2 or not all(map(_is_name, group)):
            raise ValueError(f"groups has {group!r}; each group must list at least two column names.")
    names = [name for group in value for name in group]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"groups has the column {repeated!r} more than once; a column belongs to one group.")
    return tuple(tuple(group) for group in value)


def seed(value) -> int:
    """Start of all draws; every party of the job sees it."""
    return checks.number("seed", value, at_least=0, at_most=LARGEST_SEED, whole=True)


def dataset(value) -> str:
    """namespace/name under which this party's ledger knows the table; may be given for each party by itself."""
    parts = value.split("/") if isinstance(value, str) else []
    # With white space around it, the line would stand under a name that no private step can be charged to.
    if len(parts) != 2 or not all(part and part == part.strip() for part in parts):
        raise ValueError(f"dataset is {value!r}; it must read namespace/name, without white space around either.")
    return value


def _is_name(value) -> bool:
    return isinstance(value, str) and bool(value)
