"""A party's part of smote, the same at guest and hosts: nothing leaves the party but the verdict of its checks.

Guarantee: none. One record decides between which records others are interpolated, so nothing that is computed from the
rows afterwards protects a record, which the party's ledger says. Labels that label_flip released keep their epsilon:
over-sampling reads the flipped ones, which is post-processing.
"""
import secrets

import numpy as np

from fate_dp.components.common.parties import roles
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.summary import show_summary
from fate_dp.data_prep.over_sampling import OverSampling, over_sample_arrays
from fate_dp.data_prep.smote_methods import KEEP_CATEGORIES

from .checks import check_labels, check_table, check_values
from .settings import LARGEST_SEED
from .table import Rows, pull, with_synthetic_rows


def over_sample_table(ctx, train_data, train_output_data, over_sampling, *, groups, seed, dataset) -> None:
    """Check, over-sample, note it in the party's ledger, write the table.

    Refused at every party before any work: a table without labels or with weights, labels that do not allow it, missing
    values, groups that are not one-hot, synthetic rows.
    """
    check_one_guest(ctx)
    frame, home, job, tag = train_data.read(), home_of(ctx), job_of(ctx), ctx.federation.local_party[1]
    known = {}

    def check():
        known["rows"] = checked_rows(frame, over_sampling, groups)
        return {}

    agree(ctx, check)
    rows = known["rows"]
    synthetic = synthetic_rows(rows, frame.schema.columns.to_list(), over_sampling, groups, seed, tag)
    new_rows = len(synthetic.labels)
    home.ledger.record_over_sampling(
        dataset=dataset, method=_described(over_sampling, seed),
        rows=len(rows.labels) + new_rows, synthetic_rows=new_rows, job_id=job.job_id, task_id=job.task_id,
    )  # fmt: skip
    train_output_data.write(with_synthetic_rows(frame, synthetic.features, synthetic.labels, tag))
    show_summary(ctx, _summary(rows, synthetic, over_sampling, seed, dataset))


def rule_of(method: str, neighbours: int, groups) -> OverSampling:
    """What the parameters ask for; among numeric columns alone every method is smote."""
    return OverSampling(method=method if groups else "smote", neighbours=neighbours)


def check_one_guest(ctx) -> None:
    """The guest passes the verdicts on, so there must be one; hosts and an own model without any are welcome."""
    guests = roles(ctx).count("guest")
    if guests != 1:
        raise ValueError(f"The job names {guests} guests; smote needs exactly one to tell all of a refusal.")


def checked_rows(frame, over_sampling, groups) -> Rows:
    """The rows of a table that can be over-sampled."""
    columns = frame.schema.columns.to_list()
    categories = {name for group in groups for name in group} if over_sampling.method in KEEP_CATEGORIES else set()
    check_table(frame, groups, interpolated=set(columns) - categories)
    rows = pull(frame)
    check_values(columns, rows.features, groups)
    check_labels(rows.labels, over_sampling.neighbours)
    return rows


def synthetic_rows(rows: Rows, columns, over_sampling, groups, seed, tag):
    """New rows of the smaller class; the same rows, seed and tag give the same ones."""
    places = tuple(tuple(columns.index(name) for name in group) for group in groups)
    start = secrets.randbelow(LARGEST_SEED + 1) if seed is None else seed
    return over_sample_arrays(rows.features, rows.labels, over_sampling, groups=places, seed=start, tag=tag)


def _described(over_sampling, seed) -> str:
    return f"{over_sampling.method}, {over_sampling.neighbours} neighbours, {_draws(seed)}"


def _draws(seed) -> str:
    """Whoever knows the draws and sees synthetic rows knows at which share between two records each of them lies."""
    return "secret draws" if seed is None else "draws NOT SECRET, from a seed that all parties know"


def _summary(rows: Rows, synthetic, over_sampling, seed, dataset) -> dict:
    return {
        "mechanism": "over-sampling of this party's own rows",
        "method": over_sampling.method,
        "neighbours": over_sampling.neighbours,
        "draws": _draws(seed),
        "dataset": dataset,
        **_counts("rows before", rows.labels),
        **_counts("rows after", np.concatenate([rows.labels, synthetic.labels])),
        "most synthetic rows that one record influenced (a diagnostic, no bound)": int(synthetic.largest_influence),
        "record-level epsilon from here on": "infinity",
    }


def _counts(name, labels) -> dict:
    classes, counts = np.unique(labels, return_counts=True)
    return {f"{name}, label {label:g}": int(count) for label, count in zip(classes, counts)}
