"""score_correction: the guest alone corrects scores that it has; nothing is sent, nothing charged."""

from dataclasses import replace

import numpy as np

from fate_dp.components.score_correction.component import score_correction

from ..cases import GUEST, HOST, After, Case, Neighbour, base_table, changed_row
from ..labels import EPSILON, RATE, declare, flipped, probabilities, release_of_flips, scored

ROWS = 20
TABLES = {GUEST: base_table(ROWS, ("x0",), 1, (0, 1, 1)), HOST: base_table(ROWS, ("x1",), 2)}


def step(tables):
    """Scores beside flips; a host takes part in label_flip alone."""

    def before(made, ctx):
        beside = flipped(ctx, tables)
        return replace(made, tables={"input_data": {GUEST: scored(ctx, beside[GUEST])}}) if ctx.is_on_guest else None

    return After(score_correction, {"epsilon": EPSILON}, {}, before=before)


def scores_are_corrected(played, tables):
    """Where a true label is 1 with probability p, its flip is 1 with probability q + (1 - 2 q) p."""
    written = played.values[GUEST]["output_data"].set_index("id")
    given = probabilities(tables[GUEST].set_index("id").loc[written.index, "x0"])
    corrected = np.clip((given - RATE) / (1 - 2 * RATE), 0, 1)
    yield written["predict_score"].to_numpy(dtype=float), corrected
    yield written["predict_result"].to_numpy(dtype=float), corrected > 0.5


CASES = [
    Case(
        "score_correction",
        None,
        "scores beside flips",
        (GUEST, HOST),
        TABLES,
        step,
        lambda played, tables: [release_of_flips(played, tables)],
        neighbours=(Neighbour("a label", GUEST, changed_row(TABLES[GUEST], 2, y=0.0)),),
        prepare=declare,
        hostile=(GUEST,),
        equal=scores_are_corrected,
        light=True,
    )
]
