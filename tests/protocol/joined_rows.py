"""Made shares of joined rows, as align leaves them at both parties, and share_lr's stages played on them."""

import json
from contextlib import ExitStack
from unittest import mock

import numpy as np

from fate_dp.components.protocols import shared_descent
from fate_dp.components.protocols.joined_tables import Alignment, feature_names
from fate_dp.components.share_lr import training
from fate_dp.crypto.joined_records import FRACTION_BITS, SHARE_BITS, split_shares

from .messages import noted_sending
from .scenarios import role_of, summary
from .watched_training import SABOTAGE
from .watched_training import _noting_products as noting_products
from .watched_training import _noting_sums as noting_sums

PRIVACY = {
    "source": "experiment/train/y",
    "epsilon": 1.0,
    "unit": "label",
    "relation": "replace_one",
    "flipback": "none",
    "flipback before": False,
}
BLOCK_ROWS = 57
"""So that blocks have several sizes."""


def joined(rows=200, guest=3, host=4, seed=0, members=None, family="binomial"):
    """A dictionary of what joined rows say: features, label, membership, in multiples of 2^-20.

    Args:
        members: only the first so many rows stand for records.
    """
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(rows, guest + host))
    scores = features @ generator.normal(size=guest + host) / 2 + 0.3
    label = (scores + generator.logistic(size=rows) > 0).astype(float)
    if family == "gaussian":
        label = scores + generator.normal(size=rows)
    membership = np.ones(rows)
    membership[members if members is not None else rows :] = 0
    columns = np.column_stack([features, label, np.ones(rows)]) * membership[:, None]
    return {
        "columns": np.rint(columns * 2.0**FRACTION_BITS) / 2.0**FRACTION_BITS,
        "guest": guest,
        "host": host,
        "seed": seed,
    }


def shares_of(made: dict, role: str) -> np.ndarray:
    """A party's shares, object array: masks as wide as align's at the guest, what is left at the host."""
    values = np.rint(made["columns"] * 2.0**FRACTION_BITS).astype(np.int64).astype(object)
    generator = np.random.default_rng([made["seed"], 1])
    halves = generator.integers(0, 1 << 32, (2, *values.shape)).astype(object)
    masks = ((halves[0] << 32) + halves[1]) << SHARE_BITS - 1 - 64
    return masks if role == "guest" else values - masks


def frame_and_alignment(ctx, made: dict, session="session", of_table=None, **changes):
    """This party's table and the JSON of its alignment; ``of_table``: the table is of another alignment."""
    from fate_dp.components.protocols.joined_tables import write_shares

    role, shares = role_of(ctx), shares_of(made, role_of(ctx))
    starts = dict(enumerate(range(0, len(shares), BLOCK_ROWS)))
    blocks = [(at, split_shares(shares[start : start + BLOCK_ROWS])) for at, start in starts.items()]
    table = ctx.computing.parallelize(blocks, include_key=True, partition=2)
    own = {"own": tuple(f"{role} column {number}" for number in range(made[role]))}
    if role == "guest":
        own |= {"label_privacy": PRIVACY}
    alignment = Alignment(
        session,
        len(shares),
        feature_names("guest", made["guest"]),
        feature_names("host", made["host"]),
        True,
        **{**own, **changes},
    )
    frame = write_shares(ctx, table, alignment.names, starts, of_table or session)
    return frame, json.loads(json.dumps(alignment.to_json()))


def train(ctx, earlier, made: dict, changes=None, session="session", **settings):
    """share_lr's train stage; {"model": JSON, "scored": pandas table at the guest or None}.

    Without a ``session`` both parties bring tables of different ones.
    """
    from fate_dp.components.share_lr import train as stage
    from fate_dp.components.share_lr.settings import ShareSettings

    rows = frame_and_alignment(ctx, made, session or role_of(ctx), **(changes or {}))
    arguments = (ctx, ShareSettings(**settings), *rows)
    if role_of(ctx) == "host":
        return {"model": stage.train_host(*arguments), "scored": None}
    model, scored = stage.train_guest(*arguments)
    return {"model": model, "scored": None if scored is None else scored.as_pd_df(), "summary": summary(ctx)}


def predict(ctx, earlier, made: dict, model: str, session="session of new rows", changes=None, **given):
    """share_lr's predict stage with the model of an earlier scenario; the guest's pandas table."""
    from fate_dp.components.share_lr import predict as stage
    from fate_dp.components.share_lr.settings import Prediction

    document = json.loads(json.dumps(earlier[model].value["model"]))
    arguments = (ctx, Prediction(), document, *frame_and_alignment(ctx, made, session, **(changes or {})))
    if role_of(ctx) == "host":
        return stage.predict_host(*arguments)
    return stage.predict_guest(*arguments).as_pd_df()


def plain_training(made: dict, epochs: int, optimizer: dict, family="binomial", fit_intercept=True) -> np.ndarray:
    """Weights of gradient descent on the joined rows themselves: torch's sgd with constant learning rate."""
    columns, features = made["columns"], made["guest"] + made["host"]
    membership, label = columns[:, -1], columns[:, -2]
    design = np.column_stack([columns[:, :features], *([membership] if fit_intercept else [])])
    target = label - membership / 2 if family == "binomial" else label
    rows, divisor = len(columns), 4 if family == "binomial" else 1
    penalties = np.full(design.shape[1], optimizer["alpha"] if optimizer["penalty"] == "l2" else 0.0)
    if fit_intercept:
        penalties[-1] = 0.0
    weights, velocity, params = np.zeros(design.shape[1]), None, optimizer["optimizer_params"]
    for _ in range(epochs):
        gradient = design.T @ (design @ weights / divisor - target) / rows + penalties * weights
        momentum = params.get("momentum", 0.0)
        velocity = gradient if velocity is None else momentum * velocity + gradient
        direction = gradient + momentum * velocity if params.get("nesterov") else velocity
        weights = weights - params["lr"] * (direction if momentum else gradient)
    return weights


def weights_of(document: dict) -> np.ndarray:
    """Weights of a model that was opened, the intercept last."""
    estimator = document["data"]["estimator"]
    intercept = [estimator["param"]["intercept_"]] if estimator["fit_intercept"] else []
    return np.ravel([*estimator["param"]["coef_"], *intercept])


def train_watched(ctx, earlier, without=(), **arguments):
    """`train`, with what this party opened: {"opened": ..., "moduli": ..., "sent": ...} as `watched_training` notes it.

    Args:
        without: names in `watched_training.SABOTAGE`: the protection that both parties go without.
    """
    notes = {"opened": {"sums": [], "weights": [], "losses": []}, "moduli": {}}
    with ExitStack() as stack:
        notes["sent"] = stack.enter_context(noted_sending())
        for patch in [patch for name in without for patch in SABOTAGE[name](notes)]:
            stack.enter_context(patch)
        for owner, name, wrapper in (
            (training, "open_sums", noting_sums),
            (shared_descent, "open_answer", noting_products),
        ):
            stack.enter_context(mock.patch.object(owner, name, wrapper(getattr(owner, name), notes)))
        return {**train(ctx, earlier, **arguments), "notes": notes}
