"""A small two-party table, and the jobs that the end-to-end tests run on it."""

import numpy as np
import pandas as pd

from fate_dp.pipelines.jobs.ready import Parties, Tables, evaluation, joined_tables, new_pipeline
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table

PARTIES = Parties()
NAMESPACE = "loans"
# Few epochs: these tests ask whether the tasks work together, accuracy is the benchmark's business.
QUICK = {"epochs": 2, "tol": 0, "init_param": {"method": "kaiming", "random_state": 1}}


def loans(rows=120, seed=5):
    """A pandas table of each side: the guest's with label y, ids shared, rows of the host in another order."""
    generator = np.random.default_rng(seed)
    features = generator.standard_normal((rows, 8))
    labels = (features @ generator.standard_normal(8) + generator.standard_normal(rows) > 0).astype(int)
    ids = [f"loan-{number}" for number in range(rows)]
    guest = pd.DataFrame(features[:, :4], columns=[f"x{column}" for column in range(4)])
    guest.insert(0, "y", labels)
    guest.insert(0, "id", ids)
    host = pd.DataFrame(features[:, 4:], columns=[f"z{column}" for column in range(4)])
    host.insert(0, "id", ids)
    return guest, host.iloc[::-1]


def upload(address, home, folder, name, table):
    """Upload a pandas table; one with a column y has it as its label."""
    path = folder / f"{name}.csv"
    table.to_csv(path, index=False)
    meta = TableMeta(label_name="y" if "y" in table else None, least_classes=1)
    upload_table(address, path, NAMESPACE, name, meta, home=home)


def tables(guest, host):
    return Tables(NAMESPACE, guest, host)


def flipped_pipeline(guest="guest", host="host", epsilon=1.0, source=None, flip=None):
    """reader -> psi -> label_flip; returns the pipeline and the flip task."""
    from fate_dp.pipelines.clients import LabelFlip

    reader, psi = joined_tables(PARTIES, tables(guest, host))
    task = LabelFlip(
        "label_flip_0",
        runtime_parties=PARTIES.data_parties(),
        epsilon=epsilon,
        label_source=source or tables(guest, host).label_source(),
        input_data=psi.outputs["output_data"],
        **(flip or {}),
    )
    return new_pipeline(PARTIES).add_tasks([reader, psi, task]), task


def evaluated(scored):
    return evaluation(PARTIES, scored)
