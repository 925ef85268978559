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
BASE = "drawn by the owner of the key; nobody else can tell a residue"


EPSILON, DELTA, POOL = 2.0, 1e-7, 20


def step(tables, **given):
    return ComponentStep(align, given, {"input_data": tables})


def numbers_of_dummies(played, tables):
    """Each party draws its own number of dummies and pays for it."""
    law = Law("draw_dummy_count", {"epsilon": EPSILON, "pool": POOL}, 1)
    charge = ("record", {"process": PureDP(EPSILON), "unit": "record", "count": 1})
    return [Released(party, charge, (law,)) for party in (GUEST, HOST)]


def rows_that_both_brought(played, tables):
    """All records of the two tables match, and as many dummies as both drew."""
    drawn = sum(draw.result for party in (GUEST, HOST) for draw in noise_of(played, party))
    for party in (GUEST, HOST):
        yield len(played.values[party]["output_data"]), ROWS + drawn


def case(setting, released, **given):
    return Case(
        "align",
        None,
        setting,
        (GUEST, HOST),
        TABLES,
        partial(step, **given),
        released,
        neighbours=(
            Neighbour("a record of the host", HOST, changed_row(TABLES[HOST], 3, x1=2.5)),
            Neighbour("a label", GUEST, changed_row(TABLES[GUEST], 3, y=0.0)),
        ),
        sealed=SEALED,
        light=True,
        free={("preflight", "blinding_base"): BASE, ("verdict", "blinding_base"): BASE},
        opened={b"fate-dp align masks ": 2 * ROWS},
        equal=rows_that_both_brought,
    )


CASES = [case("sizes told", lambda played, tables: [])]
HIDDEN = case("size hidden", numbers_of_dummies, hide_size={"epsilon": EPSILON, "delta": DELTA, "pool": POOL})
CASES += [replace(HIDDEN, checked=CASES[0])]
