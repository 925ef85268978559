"""How a party's ledger and policy call a table."""
import hashlib
from dataclasses import dataclass
from typing import Tuple

from fate_dp.privacy.policy import Policy
from fate_dp.privacy.secret_key import key_id

from .job_files import tables_of_this_task
from .party_home import PartyHome
from .record_stream import record_tag_stream

# In place of a source in tags of records whose labels nobody asks for; no declared source reads like it.
RECORDS = "records"


def columns_name(columns) -> str:
    """A hash of the column names, the same for every upload and subset of a dataset.

    It must not come from a job parameter, since the party that submits the job is the one the count holds against.
    """
    return "columns:" + hashlib.sha256("\x00".join(sorted(columns)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Dataset:
    """What the ledger calls a table, and all that counts together with it.

    Attributes:
        name: of this table.
        related: names of all datasets that share records with it, its own among them.
    """

    name: str
    related: Tuple[str, ...]


def remembered_dataset(home: PartyHome, frame, key: str | None = None) -> Dataset:
    """Tell the ledger which records these columns are of, before anything is asked or charged.

    Leaving columns away, or taking some rows, must not open a new budget.

    Args:
        key: the task's data input that the table is; None where it has one only.
    """
    columns = frame.schema.columns.to_list()
    tags = record_tag_stream(frame, home.key, id_space(home.policy, frame.schema.match_id_name))
    name = home.ledger.remember_dataset(
        columns_name(columns), columns, records=tags, key_id=key_id(home.key), tables=tables_of_this_task(key)
    )
    return Dataset(name, tuple(home.ledger.related(name)))


def id_space(policy: Policy, id_column: str) -> str:
    """Within which equal match ids are one record: all tables, but for id columns that the operator named as others'."""
    return f"{RECORDS} of {id_column}" if id_column in policy.separate_ids else RECORDS
