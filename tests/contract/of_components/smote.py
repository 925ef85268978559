"""smote: each party over-samples its own rows; nothing leaves, and its ledger says that no record is protected any more."""

from functools import partial

import numpy as np

from fate_dp.components.smote.component import smote
from fate_dp.testing import ComponentStep

from ..cases import GUEST, HOST, SECOND_HOST, Case, Neighbour, Released, base_table, changed_row

NEIGHBOURS = 2
GROUP = ["one", "two"]
TABLES = {
    party: base_table(rows, ("x0", "x1"), rows, (0, 1, 0, 0)).assign(
        one=np.resize([0.0, 1.0, 1.0], rows), two=np.resize([1.0, 0.0, 0.0], rows)
    )
    for party, rows in ((GUEST, 20), (HOST, 16), (SECOND_HOST, 12))
}


def step(tables, **given):
    own = {party: {"dataset": f"experiment/{party[1]}"} for party in TABLES}
    return ComponentStep(smote, {"neighbours": NEIGHBOURS, **given}, {"train_data": tables}, stage="train", own=own)


def released(played, tables, method):
    """A line for each party, of as many synthetic rows as bring both classes to one size."""
    return [
        Released(
            party,
            ("record_over_sampling", {"method": method, "synthetic_rows": missing(tables[party])}),
            (),
            told_by="train_output_data",
        )
        for party in TABLES
    ]


def missing(table):
    counts = table["y"].value_counts()
    return int(counts.max() - counts.min())


def real_rows_stay_and_others_lie_between(played, tables):
    for party, table in tables.items():
        written = played.values[party]["train_output_data"]
        real = written[written["id"].isin(table["id"])].set_index("id")
        made = written[~written["id"].isin(table["id"])]
        columns = ["x0", "x1", *GROUP, "y"]
        yield real.loc[table["id"], columns].to_numpy(dtype=float), table[columns].to_numpy(dtype=float)
        yield len(made), missing(table)
        smaller = table[table["y"] == 1]
        yield made["y"].to_numpy(dtype=float), 1.0
        for name in ("x0", "x1"):
            yield np.clip(made[name], smaller[name].min(), smaller[name].max()), made[name]


def case(setting, method, light=False, **given):
    return Case(
        "smote",
        "train",
        setting,
        tuple(TABLES),
        TABLES,
        partial(step, **given),
        partial(released, method=method),
        neighbours=tuple(
            Neighbour(f"a record of {party[0]} has {name} {value}", party, changed_row(table, 2, **{name: value}))
            for party, table in list(TABLES.items())[:2]
            for name, value in (("x0", 3.5), ("y", 1.0))
        ),
        equal=real_rows_stay_and_others_lie_between,
        light=light,
        hostile=(HOST,) if light else (GUEST,),
    )


CASES = [
    case("categories kept", f"smotenc, {NEIGHBOURS} neighbours, secret draws", groups=[GROUP]),
    case(
        "all interpolated, a public seed",
        f"smote, {NEIGHBOURS} neighbours, draws NOT SECRET, from a seed that all parties know",
        light=True,
        seed=7,
    ),
]
