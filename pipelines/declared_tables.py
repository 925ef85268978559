"""An operator's declaration of a table before its first job: its caps in the policy, its records in the ledger.

A job may leave columns away or take some rows. The ledger knows the table by its records then, as soon as it has seen
them; here it sees them before anybody can ask for less.
"""
from __future__ import annotations

from pathlib import Path

from fate_dp.components.common.dataset_names import columns_name, id_space
from fate_dp.privacy import InvalidPolicy, Ledger
from fate_dp.privacy.label_flips import record_tags
from fate_dp.privacy.party_files import KEY_FILE, LEDGER_FILE, POLICY_FILE
from fate_dp.privacy.policy import declare_caps, load_policy
from fate_dp.privacy.secret_key import key_id, load_or_create_key


def declare_table(home: Path, csv_file, *, id_name="id", label=None, epsilon=None, delta=None, scores=None) -> str:
    """Set the caps of a table, None leaving one as it is; returns the dataset's name in the ledger.

    :param label: name of the label column, which is no feature.
    :raises InvalidPolicy: for a malformed cap or a file without these columns; no cap is declared.
    """
    import pandas

    table = pandas.read_csv(csv_file, dtype=str, keep_default_na=False)
    missing = next((name for name in (id_name, label) if name is not None and name not in table), None)
    if missing is not None:
        raise InvalidPolicy(f"The file {csv_file} has no column {missing!r}; name its id column with --id, its label with --label.")
    columns = [name for name in table if name not in (id_name, label)]
    key, space = load_or_create_key(home / KEY_FILE), id_space(load_policy(home / POLICY_FILE), id_name)
    tags = record_tags(table[id_name], key, space)
    # Another table with these columns has their name already; the caps are of these records.
    name = Ledger(home / LEDGER_FILE).remember_dataset(columns_name(columns), columns, records=tags, key_id=key_id(key))
    declare_caps(home / POLICY_FILE, name, epsilon=epsilon, delta=delta, scores=scores)
    return name
