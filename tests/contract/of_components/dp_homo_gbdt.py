"""dp_homo_gbdt: noisy sums at the leaves of trees whose splits read no record."""

import math
from dataclasses import replace
from functools import partial

from fate_dp.components.dp_homo_gbdt.component import dp_homo_gbdt
from fate_dp.testing import ComponentStep

from ..cases import ARBITER, HOST, Case, Law, Neighbour, Released, changed_row, charged_events, models_of, noise_of
from . import dp_homo_nn as rounds

DATA, MULTIPLIER, ROUNDS = rounds.DATA, 3.0, 2
TABLES = rounds.TABLES
QUICK = {
    "other_columns": {"range": [-3, 3], "bins": 4},
    "trees": 4,
    "rounds": ROUNDS,
    "depth": 2,
    "records": rounds.ROWS,
    "noise_multiplier": MULTIPLIER,
    "delta": 1e-5,
}
LEAVES = 2 * 4 * 2
"""A gradient and a weight for each leaf of a round's trees."""


def step(tables, **given):
    return ComponentStep(dp_homo_gbdt, {**QUICK, **given}, {"train_data": tables}, stage="train")


def moves(scale, clients):
    """What a record may move at the noise of all but the one party that may be missing: two clips under replace-one."""
    clip = scale * math.sqrt(clients) / MULTIPLIER
    return 2 * clip + 2 * math.sqrt(LEAVES)


LATER = MULTIPLIER * 2.0**34
FIRST = LATER * math.sqrt(1.25)
"""Scales of a share: the first round clips at another place of its grid than those after it."""


def released(played, tables, scales=(FIRST, LATER)):
    """That a round's noise has this scale for a reason is settled by `moves`: a neighbour moves the sums by what it is for."""
    found = []
    for party in DATA:
        for (event, _), scale in zip(charged_events(played, party), scales):
            assert math.isclose(event.process.noise_multiplier, MULTIPLIER, rel_tol=1e-8)
            assert event.process.sampling_probability == 1
            charge = ("record", {"process": event.process, "unit": "record", "count": 1})
            found.append(Released(party, charge, (Law("discrete_gaussian", {"scale": rounds.Near(scale)}, LEAVES),)))
        assert len(charged_events(played, party)) == len(noise_of(played, party)) == ROUNDS
    return found


def neighbours(left):
    return tuple(
        Neighbour(
            f"a record of {party[0]} is {label}",
            party,
            changed_row(TABLES[party], 4, x0=9.0, x1=-9.0, y=label),
            left=left,
        )
        for party in DATA[:2]
        for label in (0.0, 1.0)
    )


def predict(tables):
    models = {"input_model": models_of(CASES[0])}
    return ComponentStep(dp_homo_gbdt, {}, {"test_data": tables}, models, stage="predict")


CLIPS, GRIDS = (math.sqrt(2 * (1 + 0.25)) / 2, math.sqrt(2)), (2.0**-35, 2.0**-34)
"""Of a record in the two trees of a round: gradients and weighted curvatures of two leaves; a clip holds 2^34 to 2^35 steps."""


SCALES_ALONE = tuple(MULTIPLIER * (clip / grid + math.sqrt(LEAVES)) for clip, grid in zip(CLIPS, GRIDS))


def noise_of_messages(played):
    names = list(dict.fromkeys(namespace for namespace, _ in rounds.bodies(played)))
    return {
        (name, party): noise_of(played, party)[at].result * GRIDS[at] for at, name in enumerate(names) for party in DATA
    }


ALONE = {
    (f"default.iterations-{number}", party): (2, 2 * CLIPS[number] + 2 * math.sqrt(LEAVES) * GRIDS[number])
    for number in range(ROUNDS)
    for party in DATA
}
CASES = [
    Case(
        "dp_homo_gbdt",
        "train",
        "secure_sum",
        (*DATA, ARBITER),
        TABLES,
        partial(step),
        released,
        sealed=rounds.MASKED,
        made=rounds.MADE,
        replayed=tuple(rounds.MADE),
        allowed=rounds.ALLOWED,
        free={**rounds.FREE, ("verdict", "to arbiter", "columns"): "it has no table"},
        left=rounds.opened_sums,
        added=rounds.noise_of_sums,
        neighbours=neighbours(
            {"default.iterations-0": (2, moves(FIRST, 2)), "default.iterations-1": (2, moves(LATER, 2))}
        ),
    )
]
CASES += [
    replace(
        CASES[0],
        setting="local",
        step=partial(step, aggregation="local"),
        released=partial(released, scales=SCALES_ALONE),
        sealed=rounds.PLAIN,
        left=rounds.own_messages,
        added=noise_of_messages,
        neighbours=neighbours(ALONE),
        light=True,
        hostile=(HOST,),
        checked=CASES[0],
    ),
    replace(
        CASES[0],
        stage="predict",
        setting="own rows",
        step=predict,
        released=lambda played, tables: [],
        left=lambda played: {},
        added=lambda played: {},
        neighbours=neighbours({})[:1],
        light=True,
    ),
]
