"""share_lr: descents on shares of all rows; what is opened is rounded by the host, and counted by it before."""

from dataclasses import replace
from functools import partial

import numpy as np

from fate_dp.components.share_lr.component import share_lr
from fate_dp.privacy.events import NotPrivate

from ..cases import (
    GUEST,
    HOST,
    After,
    Case,
    Law,
    Neighbour,
    Released,
    base_table,
    changed_row,
    homes_after,
    models_of,
    noise_of,
)
from ..labels import allow_scores
from ..shares import joined, shared

ROWS, EPOCHS, RATE = 40, 2, 0.4
TABLES = {GUEST: base_table(ROWS, ("x0",), 1, (0, 1, 1)), HOST: base_table(ROWS, ("x1", "x2"), 2)}
LOSSES = 2.0**-16
"""Deviation of the host's part in a mean loss."""
QUICK = {
    "epochs": EPOCHS,
    "tol": 0,
    "optimizer": {"method": "sgd", "penalty": "none", "optimizer_params": {"lr": RATE}},
}
HIDDEN = {"epsilon": 1.0, "delta": 0.5, "pool": 2}
DUMMIES = 4


def step(tables, dummies=0, **given):
    hide_size = HIDDEN if dummies else None

    def before(made, ctx):
        frame, alignment = shared(ctx, tables, hide_size, dummies)
        me = tuple(ctx.federation.local_party)[:2]
        return replace(made, tables={"train_data": {me: frame}}, models={"alignment": {me: alignment}})

    return After(share_lr, {**QUICK, **given}, {}, stage="train", before=before)


def losses_shown(rows):
    laws = tuple(Law("loss_part", {"deviation": LOSSES, "rows": rows}, 1) for _ in range(EPOCHS))
    return Released(HOST, ("record_losses", {"trainings": 1}), laws)


def losses_and_size(played, tables):
    """The host counts the losses, and notes that they tell the number of matches; the guest sees nothing of the host's."""
    return [
        Released(HOST, ("record", {"process": NotPrivate(REASON), "unit": "record", "count": 1}), (), told_by="step"),
        losses_shown(ROWS + DUMMIES),
    ]


REASON = "exact losses or weights tell the number of matches that align hid"


def losses_and_scores(played, tables):
    return [losses_shown(ROWS), Released(HOST, ("record_scores", {}), (), told_by="score_shares")]


def losses_of(tables, dummies):
    """Taylor losses of gradient descent on the joined rows, before each epoch, and the weights after them all."""
    columns = joined(tables, dummies)
    design, target = np.delete(columns, -2, axis=1), columns[:, -2] - columns[:, -1] / 2
    rows, weights, losses = len(columns), np.zeros(design.shape[1]), []
    for _ in range(EPOCHS):
        scores = design @ weights
        losses.append(np.log(2) + np.sum(scores**2 / 8 - target * scores) / rows)
        weights = weights - RATE * design.T @ (scores / 4 - target) / rows
    return np.array(losses), weights


def losses_follow(dummies):
    def of(played, tables):
        losses, weights = losses_of(tables, dummies)
        yield losses_told(played), losses + loss_parts(played, len(joined(tables, dummies)))
        shares = [played.values[party]["output_model"]["data"]["estimator"]["weight_shares"] for party in (GUEST, HOST)]
        if shares[0] is not None:
            found = sum(np.array([int(each) for each in of_party], dtype=object) for of_party in shares)
            yield found.astype(float) / 2**22, weights

    return of


def losses_told(played):
    return np.array(played.values[GUEST]["output_model"]["data"]["estimator"]["losses"])


def loss_parts(played, rows):
    return np.array([draw.result for draw in noise_of(played, HOST)], dtype=float) / 2**UNIT / rows


UNIT = 61
"""Bits below one of a share of losses."""


def predict(tables):
    """The guest, which has the weights, scores rows that were trained on."""

    def before(made, ctx):
        frame, alignment = shared(ctx, tables)
        me = tuple(ctx.federation.local_party)[:2]
        models = {"alignment": {me: alignment}, "input_model": models_of(SCORED)}
        return replace(made, tables={"test_data": {me: frame}}, models=models)

    return After(share_lr, {}, {}, stage="predict", before=before)


SCORES = Released(HOST, ("record_scores", {}), (), told_by="score_shares")


def scores_are_rounded(played, tables):
    """To 12 bits, off by one unit at most, and the labels as they are."""
    written = played.values[GUEST]["test_output_data"].set_index("id")
    columns = joined(tables)[written.index.astype(int)]
    estimator = models_of(SCORED)[GUEST]["data"]["estimator"]["param"]
    weights = np.ravel([*estimator["coef_"], estimator["intercept_"]])
    scores = np.delete(columns, -2, axis=1) @ weights
    found = written["predict_score"].to_numpy(dtype=float)
    units = np.log(found / (1 - found)) * 2**12
    yield units, np.rint(units)
    yield np.clip(units - scores * 2**12, -1.001, 1.001), units - scores * 2**12
    yield written["label"].to_numpy(dtype=float), columns[:, -2]


MADE = {"step": "hidden numbers, uniform whatever they hide, so that their leading zeros vary"}
SEALED = dict.fromkeys(
    (
        "encrypted_rows", "masked_products", "masks", "products", "public_key", "leading_bits",
        "label_excess", "encrypted_columns", "masked_scores", "score_shares", "label_shares",
    ),
    "ciphertexts, or shares of what is hidden from their receiver",
)  # fmt: skip


def neighbours(*left):
    return tuple(
        Neighbour(name, party, table, left=dict.fromkeys(left, (1, np.inf)))
        for name, party, table in (
            ("a record of the host", HOST, changed_row(TABLES[HOST], 3, x1=2.5)),
            ("a label", GUEST, changed_row(TABLES[GUEST], 3, y=1.0)),
        )
    )


def case(setting, released, neighbours, **more):
    given = more.pop("given")
    return Case(
        "share_lr",
        "train",
        setting,
        (GUEST, HOST),
        TABLES,
        partial(step, **given),
        released,
        neighbours=neighbours,
        sealed=SEALED,
        made={**MADE, **more.pop("made", {})},
        free={("verdict", "run"): "the guest names the training"},
        allowed=("A label is neither 0 nor 1",),
        light=True,
        **more,
    )


TO_NOBODY = case(
    "weights to nobody, a hidden size",
    losses_and_size,
    neighbours("losses"),
    given={"reveal": "nobody", "dummies": DUMMIES},
    equal=losses_follow(DUMMIES),
    left=lambda played: {"losses": losses_told(played)},
    added=lambda played: {"losses": loss_parts(played, ROWS + DUMMIES)},
)
SCORED = case(
    "weights to the guest, scores",
    losses_and_scores,
    neighbours("losses"),
    given={"reveal": "guest", "train_scores": True},
    opened={b"masks of scores of block ": 2},
    checked=TO_NOBODY,
    made={"weight_shares": "the weights, which are opened"},
    prepare=allow_scores(("x1", "x2"), 2),
    equal=losses_follow(0),
    left=lambda played: {"losses": losses_told(played)},
)
CASES = [
    TO_NOBODY,
    SCORED,
    replace(
        SCORED,
        stage="predict",
        setting="the guest's weights",
        step=predict,
        released=lambda played, tables: [SCORES],
        neighbours=tuple(replace(each, left={}) for each in SCORED.neighbours),
        prepare=homes_after(SCORED),
        equal=scores_are_rounded,
        left=lambda played: {},
        checked=None,
    ),
]
