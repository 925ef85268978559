"""align: records joined on hidden ids, shared between two parties; without hide_size nothing is released with noise."""

from dataclasses import replace
from functools import partial

from fate_dp.components.align.component import align
from fate_dp.privacy.events import PureDP
from fate_dp.testing import ComponentStep

from ..cases import GUEST, HOST, Case, Law, Neighbour, Released, base_table, changed_row, noise_of

ROWS = 40
"""So many that two records' tags share a first byte."""
TABLES = {GUEST: base_table(ROWS, ("x0",), 1, (0, 1)), HOST: base_table(ROWS, ("x1",), 2)}
SEALED = {
    "records": "hashed ids under a secret exponent, and ciphertexts",
    "double_tags": "hashed ids under both parties' exponents",
    "masked": "ciphertexts of masked records",
}


def step(tables, **given):
    return ComponentStep(align, given, {"input_data": tables})


HIDDEN = {"epsilon": 6.0, "delta": 1e-7, "pool": 8}


def hidden_sizes(played, tables):
    """Each party's dummies hide how many matched, of one record more or less."""
    law = Law("draw_dummy_count", {"epsilon": HIDDEN["epsilon"], "pool": HIDDEN["pool"]}, 1)
    charge = ("record", {"process": PureDP(HIDDEN["epsilon"]), "unit": "record", "count": 1})
    return [Released(party, charge, (law,)) for party in (GUEST, HOST)]


def rows_are_matches_and_dummies(played, tables):
    drawn = sum(draw.result for party in (GUEST, HOST) for draw in noise_of(played, party))
    matches = len(set(tables[GUEST]["id"]) & set(tables[HOST]["id"]))
    for party in (GUEST, HOST):
        yield played.values[party]["alignment"]["rows"], matches + drawn


CASES = [
    Case(
        "align",
        None,
        "sizes told",
        (GUEST, HOST),
        TABLES,
        step,
        lambda played, tables: [],
        neighbours=(
            Neighbour("a record of the host", HOST, changed_row(TABLES[HOST], 3, x1=2.5)),
            Neighbour("a label", GUEST, changed_row(TABLES[GUEST], 3, y=0.0)),
        ),
        sealed=SEALED,
        light=True,
        opened={b"fate-dp align masks ": 2 * ROWS},
    )
]
CASES += [
    replace(
        CASES[0],
        setting="a hidden size",
        step=partial(step, hide_size=HIDDEN),
        released=hidden_sizes,
        equal=rows_are_matches_and_dummies,
        checked=CASES[0],
    )
]
