"""flipback: the guest revises flips by scores of a model of them; no epsilon, nothing sent but that it can be done."""

from dataclasses import replace
from functools import partial

import numpy as np

from fate_dp.components.common.charges import home_of
from fate_dp.components.common.provenance import LabelPrivacy, remember_scores
from fate_dp.components.flipback.component import flipback
from fate_dp.privacy.labels.flipback import are_marked
from fate_dp.privacy.labels.flips import LabelRelease

from ..cases import GUEST, HOST, SECOND_HOST, After, Case, Neighbour, Released, base_table, changed_row, noise_of
from ..labels import DIGEST, RATE, SOURCE, declare, flipped, probabilities, release_of_flips, scored

ROWS, FRACTION = 30, 0.2
TABLES = {
    GUEST: base_table(ROWS, ("x0",), 1, (0, 1, 1)),
    HOST: base_table(ROWS, ("x1",), 2),
    SECOND_HOST: base_table(ROWS, ("x2",), 3),
}
OTHER = LabelRelease("experiment/earlier/y", 0.5)
"""What the model of the scores rests on beside the flips."""


def step(tables, **given):
    """Scores that this guest's ledger knows to be those of a model of the flips."""

    def before(made, ctx):
        found = flipped(ctx, tables)
        if not ctx.is_on_guest:
            return replace(made, tables={"input_data": found})
        frame = scored(ctx, found[GUEST])
        model = {"meta": {"privacy": LabelPrivacy(SOURCE, (OTHER,)).to_json("none")}}
        remember_scores(home_of(ctx), frame, model)
        return replace(made, tables={"input_data": found, "scores": {GUEST: frame}})

    return After(flipback, {"fraction": FRACTION, **given}, {}, before=before)


def released(played, tables):
    """The flips, and a line without epsilon on the labels that were made of them and of the other release."""
    return [
        release_of_flips(played, tables),
        Released(GUEST, ("record_derived", {"releases": (OTHER,)}), (), told_by="output_data"),
    ]


def revised(played):
    """(flips, scores, revised labels) by id."""
    flips = dict(
        pair for draw in noise_of(played, GUEST) for pair in zip(draw.private[1], np.asarray(draw.result, dtype=float))
    )
    written = played.values[GUEST]["output_data"].set_index("id")
    scores = probabilities(written["x0"])
    return np.array([flips[each] for each in written.index]), scores, written["y"].to_numpy(dtype=float)


def labels_are_swapped(played, tables):
    """The farthest from their scores, a fraction of all, and no more than flips are expected."""
    flips, scores, found = revised(played)
    chosen = np.argsort(-np.abs(flips - scores), kind="stable")[: min(int(FRACTION * ROWS), int(ROWS * RATE))]
    expected = flips.copy()
    expected[chosen] = 1 - expected[chosen]
    yield found.round(), expected
    yield are_marked(found).all(), True


def labels_are_probable(played, tables):
    """Bayes' rule with the rate of flips; the scores, raised to the share of ones if they grant less, are the prior."""
    flips, scores, found = revised(played)
    prior = np.clip((flips.mean() - RATE) / (1 - 2 * RATE), 0, 1)
    if (scores.mean() < prior) == (prior <= 0.5):
        logits = np.log(scores / (1 - scores))
        by = max(np.linspace(-20, 20, 400001), key=lambda by: -abs(probabilities(logits + by).mean() - prior))
        scores = probabilities(logits + by)
    of_one = np.where(flips == 1, 1 - RATE, RATE) * scores
    of_zero = np.where(flips == 1, RATE, 1 - RATE) * (1 - scores)
    yield found, of_one / (of_one + of_zero)


def case(setting, equal, **given):
    return Case(
        "flipback",
        None,
        setting,
        (GUEST, HOST, SECOND_HOST),
        TABLES,
        partial(step, **given),
        released,
        neighbours=(
            Neighbour("a label", GUEST, changed_row(TABLES[GUEST], 2, y=0.0)),
            Neighbour("a record of the guest", GUEST, changed_row(TABLES[GUEST], 2, x0=3.5)),
            Neighbour("a record of the host", HOST, changed_row(TABLES[HOST], 2, x1=3.5)),
        ),
        prepare=declare,
        persistent=DIGEST,
        equal=equal,
        light=True,
    )


CASES = [case("swap", labels_are_swapped, mode="swap"), case("posterior", labels_are_probable, mode="posterior")]
