"""How a party's ledger and policy call a table."""
import hashlib


def columns_name(columns) -> str:
    """A hash of the column names, the same for every upload and subset of a dataset.

    It must not come from a job parameter, since the party that submits the job is the one the count holds against.
    """
    return "columns:" + hashlib.sha256("\x00".join(sorted(columns)).encode()).hexdigest()[:16]
