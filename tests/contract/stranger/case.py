"""The case of share_above."""

from importlib import import_module

import numpy as np

from fate_dp.privacy.events import PureDP
from fate_dp.testing import ComponentStep

from ..cases import GUEST, HOST, SECOND_HOST, Case, Law, Neighbour, Released, base_table, changed_row

EPSILON, COLUMNS, THRESHOLD = 1.5, ("x0", "x1"), 0.25
TABLES = {GUEST: base_table(12, ("x0",), 1), HOST: base_table(16, COLUMNS, 2), SECOND_HOST: base_table(14, COLUMNS, 3)}


def step(tables):
    entry = import_module("fate_dp.components.share_above.component").share_above
    settings = {"epsilon": EPSILON, "columns": COLUMNS, "threshold": THRESHOLD}
    return ComponentStep(entry, settings, {"input_data": tables})


def released(played, tables):
    found = []
    for host in (HOST, SECOND_HOST):
        told = played.values[GUEST]["output_model"][" ".join(host)]
        for column, count in zip(COLUMNS, told):
            exact = (tables[host][column] > THRESHOLD).sum()
            found.append(
                Released(
                    host,
                    ("record", {"process": PureDP(EPSILON), "unit": "record", "count": 1}),
                    (Law("discrete_laplace", {"scale": 1 / EPSILON}, 1),),
                    count,
                    lambda results, exact=exact: exact + results[0],
                )
            )
    return found


CASE = Case(
    "share_above",
    None,
    "two columns at two hosts",
    (GUEST, HOST, SECOND_HOST),
    TABLES,
    step,
    released,
    neighbours=tuple(
        Neighbour(
            f"a record of a host holds {value}",
            HOST,
            changed_row(TABLES[HOST], 3, x0=value, x1=value),
            {"above": (1, 2.0)},
        )
        for value in (1e6, -1e6, np.nan)
    ),
    hostile=(GUEST, HOST),
)
