"""dp_homo_gbdt over party processes: a guest and two hosts with data, and the arbiter."""

import numpy as np
import pandas as pd

from .scenarios import Scenario, frame_at, summary

GUEST, HOST, SECOND_HOST, ARBITER = ("guest", "9999"), ("host", "10000"), ("host", "9998"), ("arbiter", "10001")
DATA = (GUEST, HOST, SECOND_HOST)
EVERYBODY = (*DATA, ARBITER)
SIZES = {GUEST: 400, HOST: 500, SECOND_HOST: 300}
ROWS = sum(SIZES.values())
FEATURES = 4
# Of x1 a third is missing, and x3 is a category.
COLUMNS = {"x3": {"categories": [0, 1, 2]}}
# Within the cap of 8 that a party has without a policy, and still learned from.
QUICK = {
    "columns": COLUMNS,
    "trees": 12,
    "rounds": 3,
    "depth": 3,
    "records": ROWS,
    "noise_multiplier": 3.0,
    "delta": 1e-5,
}


def tables(seed=5) -> dict:
    """{party: pandas table}: of labels that x0 decides and the category x3 shifts."""
    generator, made = np.random.default_rng(seed), {}
    for party, rows in SIZES.items():
        features = generator.normal(size=(rows, FEATURES))
        features[:, 3] = generator.integers(0, 4, rows)
        labels = (features[:, 0] + 0.7 * (features[:, 3] == 1) + 0.3 * generator.normal(size=rows) > 0).astype(int)
        features[generator.random(rows) < 1 / 3, 1] = np.nan
        made[party] = pd.DataFrame(
            {
                "sample_id": [f"s {party[1]} {row}" for row in range(rows)],
                "id": [f"person {party[1]} {row}" for row in range(rows)],
                **{f"x{column}": features[:, column] for column in range(FEATURES)},
                "y": labels,
            }
        )
    return made


TABLES = tables()


def train(ctx, earlier, tables, partitions=2, policies=None, label_type="int32", by_party=None, **given):
    """The stage train as FATE calls it; ``by_party`` has parameters, ``policies`` the policy of single parties."""
    from fate_dp.components.dp_homo_gbdt.train import train_party

    from .homo_nn_parties import write_policy

    me = tuple(ctx.federation.local_party)
    if me in (policies or {}):
        write_policy(ctx, policies[me])
    frame = frame_at(ctx, tables, partitions, label_type)
    document, scored = train_party(ctx, {**given, **(by_party or {}).get(me, {})}, frame)
    return {"model": document, "scored": None if scored is None else scored.as_pd_df(), "summary": summary(ctx)}


def predict(ctx, earlier, model_of, tables, partitions=2):
    """The stage predict with the model of an earlier scenario, as JSON keeps it."""
    import json

    from fate_dp.components.dp_homo_gbdt.model import predict_party

    document = json.loads(json.dumps(earlier[model_of].value["model"]))
    return predict_party(ctx, document, frame_at(ctx, tables, partitions)).as_pd_df()


def training(tables=TABLES, parties=EVERYBODY, **given) -> Scenario:
    """A training in one trust model; quick settings unless given, None leaves one out."""
    return Scenario(train, {"tables": tables, **QUICK, **given}, parties)


def changed(party, **columns) -> dict:
    """The tables with columns of one party replaced; None drops one."""
    table = TABLES[party].assign(**{name: value for name, value in columns.items() if value is not None})
    return {**TABLES, party: table.drop(columns=[name for name, value in columns.items() if value is None])}


def train_with_failures(ctx, earlier, failing, at, **arguments):
    """A training in which the parties of ``failing`` ({party: rounds}) fail in a method of ``train.TreesMember``.

    ``at`` sums fails before a party says that it is ready, ``at`` charge_round after it was named as present.
    """
    from unittest import mock

    from fate_dp.components.dp_homo_gbdt import train as data_party

    me, kept = tuple(ctx.federation.local_party), getattr(data_party.TreesMember, at)

    def failing_now(member, *given):
        number = given[0] if at == "sums" else given[-1]
        if number not in failing.get(me, ()):
            return kept(member, *given)
        if at == "sums":
            raise RuntimeError("This party fails.")
        return False

    with mock.patch.object(data_party.TreesMember, at, failing_now):
        return train(ctx, earlier, **arguments)
