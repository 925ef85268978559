"""keyed_split: every party keeps its rows, each on the side that its id says; nothing is sent but settings, nothing charged."""

import hashlib
import hmac

import numpy as np

from fate_dp.components.keyed_split.component import keyed_split
from fate_dp.testing import ComponentStep

from ..cases import GUEST, HOST, SECOND_HOST, Case, Neighbour, base_table, changed_row

SALT, TEST = "spring", 0.3
TABLES = {
    GUEST: base_table(40, ("x0",), 1, labels=(0, 1, 1)),
    HOST: base_table(40, ("x1",), 2),
    SECOND_HOST: base_table(40, ("x2",), 3),
}


def step(tables):
    return ComponentStep(keyed_split, {"salt": SALT, "test_share": TEST}, {"input_data": tables})


def output_of(match_id):
    digest = hmac.new(SALT.encode(), f"fate-dp split {match_id}".encode(), hashlib.sha256).digest()
    place = int.from_bytes(digest[:8], "big") / 2**64
    return "test_output_data" if place < TEST else "train_output_data"


def each_row_is_where_its_id_says(played, tables):
    for party, table in tables.items():
        columns = [name for name in table if name.startswith("x")]
        sides = np.array([output_of(each) for each in table["id"]])
        for name in set(sides):
            written, expected = played.values[party][name].set_index("id"), table[sides == name].set_index("id")
            yield len(written), len(expected)
            yield written.loc[expected.index, columns].to_numpy(float), expected[columns].to_numpy(float)


CASES = [
    Case(
        "keyed_split",
        None,
        "parts for training and testing",
        tuple(TABLES),
        TABLES,
        step,
        lambda played, tables: [],
        neighbours=tuple(
            Neighbour(f"a value of {party[0]}", party, changed_row(table, 2, **{table.columns[-1]: 1.0}))
            for party, table in TABLES.items()
        ),
        persistent={b"fate-dp split": "a row lies on one side in every job"},
        equal=each_row_is_where_its_id_says,
        light=True,
    )
]
