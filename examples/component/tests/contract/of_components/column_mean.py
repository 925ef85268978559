"""column_mean: noisy means of two columns at two parties."""

import numpy as np

from fate_dp.components.column_mean.component import column_mean
from fate_dp.privacy.events import PureDP
from fate_dp.testing import ComponentStep

from ..cases import GUEST, HOST, Case, Law, Neighbour, Released, base_table, changed_row

EPSILON, COLUMNS, LOWER, UPPER, STEPS = 2.0, ["x0", "x1"], -1.0, 2.0, 2**30
TABLES = {GUEST: base_table(12, COLUMNS, 1), HOST: base_table(20, COLUMNS, 2)}


def step(tables):
    settings = {"epsilon": EPSILON, "columns": COLUMNS, "lower": LOWER, "upper": UPPER}
    return ComponentStep(column_mean, settings, {"input_data": tables})


def released(played, tables):
    found = []
    for party, table in tables.items():
        steps = np.rint((table[COLUMNS].clip(LOWER, UPPER) - LOWER) / (UPPER - LOWER) * STEPS).sum().to_numpy()
        whole = len(table) * STEPS / (UPPER - LOWER)
        found.append(
            Released(
                party,
                ("record", {"process": PureDP(EPSILON), "unit": "record", "count": 1}),
                (Law("discrete_laplace", {"scale": len(COLUMNS) * STEPS / EPSILON}, len(COLUMNS)),),
                played.values[GUEST]["output_model"][" ".join(party)]["means"],
                lambda results, steps=steps, whole=whole: LOWER + (steps + results[0]) / whole,
            )
        )
    return found


CASES = [
    Case(
        "column_mean",
        None,
        "two columns",
        (GUEST, HOST),
        TABLES,
        step,
        released,
        free={("verdict", "means"): "what others publish", ("preflight", "means"): "what a host publishes"},
        neighbours=tuple(
            Neighbour(
                f"a record of {' '.join(party)} holds {value}",
                party,
                changed_row(TABLES[party], 3, x0=value, x1=value),
                {message: (1, len(COLUMNS) * (UPPER - LOWER) / len(TABLES[party]))},
            )
            for party, message in ((GUEST, "verdict"), (HOST, "preflight"))
            for value in (1e9, -1e9, np.nan)
        ),
    )
]
