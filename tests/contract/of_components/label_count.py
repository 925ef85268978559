"""label_count: noisy counts of each party's labels."""

import numpy as np

from fate_dp.components.label_count.component import label_count
from fate_dp.privacy.events import PureDP
from fate_dp.testing import ComponentStep

from ..cases import GUEST, HOST, SECOND_HOST, Case, Law, Neighbour, Released, base_table, changed_row

CLASSES, EPSILON = (0.0, 1.0, 2.0), 2.0
TABLES = {
    GUEST: base_table(20, ("x0",), 1, labels=(0, 1, 1, 5)),
    HOST: base_table(12, ("x0",), 2, labels=(2, 1, 0)),
    SECOND_HOST: base_table(12, ("x1",), 3),
}


def step(tables):
    return ComponentStep(label_count, {"epsilon": EPSILON, "classes": CLASSES}, {"input_data": tables})


def released(played, tables):
    found = []
    for party in (GUEST, HOST):
        labels = tables[party]["y"]
        exact = np.array([*((labels == value).sum() for value in CLASSES), (~labels.isin(CLASSES)).sum()])
        told = played.values[SECOND_HOST]["output_model"]["counts"][" ".join(party)]
        found.append(
            Released(
                party,
                ("record", {"process": PureDP(EPSILON), "unit": "record", "count": 1}),
                (Law("discrete_laplace", {"scale": 2 / EPSILON}, len(CLASSES) + 1),),
                told,
                lambda results, exact=exact: exact + results[0],
            )
        )
    return found


CASES = [
    Case(
        "label_count",
        None,
        "labels at two of three parties",
        (GUEST, HOST, SECOND_HOST),
        TABLES,
        step,
        released,
        derived={"prior": "the noisy counts"},
        free={
            ("verdict", "prior"): "made of them",
            ("verdict", "counts"): "what other parties publish",
            ("preflight", "counts"): "what a host publishes",
        },
        neighbours=tuple(
            Neighbour(f"a label of {party[0]} is {value}", party, changed_row(TABLES[party], 2, y=value), moves)
            for party, moves in ((GUEST, {"verdict": (1, 2.0)}), (HOST, {"preflight": (1, 2.0)}))
            for value in (0.0, 7.0, np.nan)
        ),
    )
]
