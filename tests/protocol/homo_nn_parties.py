"""dp_homo_nn over party processes: a guest and two hosts with data, a host that shuffles, and the arbiter."""

import numpy as np
import pandas as pd

from fate_dp.privacy.labels.flipback import marked

from .scenarios import Scenario, frame_at, summary

GUEST, HOST, SECOND_HOST = ("guest", "9999"), ("host", "10000"), ("host", "9998")
SHUFFLER, ARBITER = ("host", "9997"), ("arbiter", "10001")
DATA = (GUEST, HOST, SECOND_HOST)
WITHOUT_SHUFFLER = (*DATA, ARBITER)
EVERYBODY = (*DATA, SHUFFLER, ARBITER)
SIZES = {GUEST: 90, HOST: 120, SECOND_HOST: 60}
ROWS = sum(SIZES.values())
FEATURES = 4
# Within the cap of 8 that a party has without a policy, and still learned from.
QUICK = {
    "rounds": 6,
    "batch_size": 90,
    "records": ROWS,
    "noise_multiplier": 1.5,
    "delta": 1e-5,
    "optimizer": {"method": "sgd", "optimizer_params": {"lr": 2.0}},
}


def tables(classes=2, seed=5) -> dict:
    """{party: pandas table}: standard normal features, labels that the first ones decide."""
    generator, made = np.random.default_rng(seed), {}
    for party, rows in SIZES.items():
        features = generator.normal(size=(rows, FEATURES))
        labels = (
            features[:, :classes].argmax(axis=1) if classes > 2 else (features @ [2.0, -1.0, 0.5, 0.0] > 0).astype(int)
        )
        made[party] = pd.DataFrame(
            {
                "sample_id": [f"s {party[1]} {row}" for row in range(rows)],
                "id": [f"person {party[1]} {row}" for row in range(rows)],
                **{f"x{column}": features[:, column] for column in range(FEATURES)},
                "y": labels,
            }
        )
    return made


def rare_tables(rows=1000, share=0.1, seed=6) -> dict:
    """{party: pandas table}: of whose records a share is of class 1, which overlaps with class 0."""
    generator, made = np.random.default_rng(seed), {}
    for party in DATA:
        labels = (generator.random(rows) < share).astype(int)
        features = (generator.normal(size=(rows, FEATURES)) + 1.2 * labels[:, None] * [1, -1, 1, 0]) / 4
        made[party] = pd.DataFrame(
            {
                "sample_id": [f"s {party[1]} {row}" for row in range(rows)],
                "id": [f"customer {party[1]} {row}" for row in range(rows)],
                **{f"x{column}": features[:, column] for column in range(FEATURES)},
                "y": labels,
            }
        )
    return made


TABLES = tables()


def train(ctx, earlier, tables, partitions=2, policies=None, label_type="int32", by_party=None, **given):
    """The stage train as FATE calls it; ``by_party`` has parameters, ``policies`` the policy of single parties."""
    from fate_dp.components.dp_homo_nn.train import train_party

    me = tuple(ctx.federation.local_party)
    if me in (policies or {}):
        write_policy(ctx, policies[me])
    frame = frame_at(ctx, tables, partitions, label_type)
    document, scored = train_party(ctx, {**given, **(by_party or {}).get(me, {})}, frame)
    return {"model": document, "scored": None if scored is None else scored.as_pd_df(), "summary": summary(ctx)}


def predict(ctx, earlier, model_of, tables, partitions=2, meta=None):
    """The stage predict with the model of an earlier scenario, as JSON keeps it, but for `meta`."""
    import json

    from fate_dp.components.dp_homo_nn.model import predict_party

    document = json.loads(json.dumps(earlier[model_of].value["model"]))
    document["meta"].update(meta or {})
    return predict_party(ctx, document, frame_at(ctx, tables, partitions)).as_pd_df()


def training(tables=TABLES, parties=None, **given) -> Scenario:
    """A training in one trust model; quick settings unless given, None leaves one out."""
    arguments = {**QUICK, **given}
    if arguments.get("aggregation") == "shuffle" and "noise_multiplier" not in given:
        arguments.update(noise_multiplier=None, epsilon0=arguments.get("epsilon0", 4.0), shuffler=SHUFFLER[1])
    chosen = parties or (EVERYBODY if arguments.get("aggregation") == "shuffle" else WITHOUT_SHUFFLER)
    return Scenario(train, {"tables": tables, **arguments}, chosen)


def changed(party, **columns) -> dict:
    """The tables with columns of one party replaced; None drops one."""
    table = TABLES[party].assign(**{name: value for name, value in columns.items() if value is not None})
    return {**TABLES, party: table.drop(columns=[name for name, value in columns.items() if value is None])}


def train_with_failures(ctx, earlier, failing, at, **arguments):
    """A training in which the parties of ``failing`` ({party: rounds}) fail in a method of ``data_party.HomoNNMember``.

    ``at`` contribution fails before a party says that it is ready, ``at`` charge_round after it was named as present.
    """
    from unittest import mock

    from fate_dp.components.dp_homo_nn import train as data_party

    me, kept = tuple(ctx.federation.local_party), getattr(data_party.HomoNNMember, at)

    def failing_now(member, *given):
        number = given[0] if at == "charge_round" else given[1]
        return None if number in failing.get(me, ()) else kept(member, *given)

    with mock.patch.object(data_party.HomoNNMember, at, failing_now):
        return train(ctx, earlier, **arguments)


def train_on_derived(ctx, earlier, at, revised, **arguments):
    """A training in which so many labels of the party ``at`` are flipback's."""
    if tuple(ctx.federation.local_party) == at:
        table = arguments["tables"][at]
        labels = np.concatenate([marked(table["y"].head(revised)), table["y"].iloc[revised:].to_numpy(dtype=float)])
        arguments = {
            **arguments,
            "tables": {**arguments["tables"], at: table.assign(y=labels)},
            "label_type": "float64",
        }
    return train(ctx, earlier, **arguments)


def write_policy(ctx, text):
    """What the operator of this party with data allows."""
    from fate_dp.components.common.charges import home_of
    from fate_dp.privacy.private_files import replace_file

    home_of(ctx).ledger.entries()
    replace_file(home_of(ctx).path / "policy.yaml", text.encode())


def mixing_net(features, outputs):
    """A module whose records feel each other, as an operator may have allowed it by mistake."""
    from torch import nn

    return nn.Sequential(nn.BatchNorm1d(features), nn.Linear(features, outputs))


def small_net(features, outputs):
    """The model that an operator allows as ``net``."""
    from torch import nn

    return nn.Sequential(nn.Linear(features, 3), nn.Tanh(), nn.Linear(3, outputs))
