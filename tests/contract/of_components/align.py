"""align: records joined on hidden ids, shared between two parties; without hide_size nothing is released with noise."""

from fate_dp.components.align.component import align
from fate_dp.testing import ComponentStep

from ..cases import GUEST, HOST, Case, Neighbour, base_table, changed_row

ROWS = 40
"""So many that two records' tags share a first byte."""
TABLES = {GUEST: base_table(ROWS, ("x0",), 1, (0, 1)), HOST: base_table(ROWS, ("x1",), 2)}
SEALED = {
    "records": "hashed ids under a secret exponent, and ciphertexts",
    "double_tags": "hashed ids under both parties' exponents",
    "masked": "ciphertexts of masked records",
}
BASE = "drawn by the owner of the key; nobody else can tell a residue"


def step(tables):
    return ComponentStep(align, {}, {"input_data": tables})


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
        free={("preflight", "blinding_base"): BASE, ("verdict", "blinding_base"): BASE},
        opened={b"fate-dp align masks ": 2 * ROWS},
    )
]
