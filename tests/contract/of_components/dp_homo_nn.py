"""dp_homo_nn: noisy rounds in every trust model."""

import base64
import math
from dataclasses import replace
from functools import partial

import numpy as np

from fate_dp.components.dp_homo_nn.component import dp_homo_nn
from fate_dp.privacy.accounting.secure_sum import noise_share_sigma
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import Gaussian, PoissonSampledGaussian, PureDP, Shuffled
from fate_dp.testing import ComponentStep, Message

from ..cases import (
    ARBITER,
    GUEST,
    HOST,
    SECOND_HOST,
    Case,
    Law,
    Neighbour,
    Released,
    base_table,
    changed_row,
    charged_events,
    models_of,
    noise_of,
)

SHUFFLER = ("host", "10003")
SIZES = {GUEST: 12, HOST: 16, SECOND_HOST: 8}
ROWS, FEATURES, ROUNDS, DELTA, CLIP = sum(SIZES.values()), 3, 2, 1e-5, 0.5
DIMENSION, MULTIPLIER, SAMPLING = FEATURES + 1, 2.0, 0.5
DATA = tuple(SIZES)
TABLES = {
    party: base_table(rows, (f"x{at}" for at in range(FEATURES)), rows, (0, 1, 1)).assign(
        id=[f"person {party[1]} {row}" for row in range(rows)]
    )
    for party, rows in SIZES.items()
}
STEPS = 2.0**34
"""Of the clip; the noise lies on their grid."""
GRID = CLIP / STEPS
QUICK = {
    "rounds": ROUNDS,
    "batch_size": ROWS * SAMPLING,
    "records": ROWS,
    "delta": DELTA,
    "clip": CLIP,
    "optimizer": {"method": "sgd", "optimizer_params": {"lr": 0.5}},
}


def step(tables, **given):
    return ComponentStep(dp_homo_nn, {**QUICK, **given}, {"train_data": tables}, stage="train")


# What the parties draw and pay in a round.


def share(steps, multiplier, clients=3, dropouts=1):
    return noise_share_sigma(multiplier, steps, clients, dropouts)


def multiplier_of(played, party):
    """Of the rounds; what it must be is the business of `costs`."""
    return next(
        event.process.noise_multiplier
        for event, _ in charged_events(played, party)
        if isinstance(event.process, PoissonSampledGaussian)
    )


def sampled():
    return tuple(Law("poisson_sample", {"probability": SAMPLING}, None) for _ in range(2))


def rounds(played, tables, masked, length=DIMENSION, walks=1):
    found = []
    for party in DATA:
        charged = multiplier_of(played, party)
        # Shares that are on their own grids together have a little less than was drawn for.
        drawn = asked(played) if asked(played) is not None else charged
        assert charged <= drawn * (1 + 1e-9) and charged > drawn * (1 - 1e-6)
        scale = share(STEPS, drawn) if masked else drawn * STEPS * (1 + math.sqrt(length) / STEPS)
        event = {"process": PoissonSampledGaussian(SAMPLING, charged), "unit": "record", "count": walks}
        noise = Law("discrete_gaussian", {"scale": Near(scale)}, length)
        found += [Released(party, ("record", event), (*sampled(), noise) * walks) for _ in range(ROUNDS)]
    return found


def asked(played):
    return None


class Near(float):
    """A scale that may be larger by the rounding of its grid."""

    def __eq__(self, other):
        return self * (1 - 1e-8) <= float(other) <= self * (1 + 1e-8)

    __hash__ = float.__hash__


# What the server can put together.


def bodies(played, name="message"):
    """{(round, party): bytes} that went to the server."""
    return {
        (each.namespace, each.party): each.value
        for each in played.timeline.of(Message)
        if each.name == name and each.receiver == ARBITER
    }


def draws_by_round(played, party, laws=("discrete_gaussian", "discrete_laplace")):
    return [draw.result for draw in noise_of(played, party) if draw.law in laws]


def opened_sums(played):
    found = {}
    for (namespace, _), body in bodies(played).items():
        found[namespace] = found.get(namespace, 0) + np.frombuffer(body, dtype="<u8").astype(np.uint64)
    return found


def noise_of_sums(played):
    names = list(dict.fromkeys(namespace for namespace, _ in bodies(played)))
    return {
        name: sum(draws_by_round(played, party)[at] for party in DATA).astype(float) for at, name in enumerate(names)
    }


def own_messages(played):
    return {place: np.frombuffer(body, dtype="<f8") for place, body in bodies(played).items()}


def noise_of_messages(played):
    names = list(dict.fromkeys(namespace for namespace, _ in bodies(played)))
    return {(name, party): draws_by_round(played, party)[at] * GRID for at, name in enumerate(names) for party in DATA}


def neighbours(norms):
    """Three records of the guest and the host, of which some are sampled in every round."""
    return tuple(
        Neighbour(
            f"record {row} of {party[0]}", party, changed_row(TABLES[party], row, x0=9.5, x2=-3.0, y=label), left=norms
        )
        for party in (GUEST, HOST)
        for row, label in ((1, 1.0), (5, 0.0), (8, 1.0))
    )


def contributions(played, tables, masked):
    """The release of contributions once, before the second round."""
    found = []
    for party in DATA:
        events = [
            event for event, _ in charged_events(played, party) if not isinstance(event.process, PoissonSampledGaussian)
        ]
        (event,) = events
        if masked:
            assert isinstance(event.process, Gaussian)
            law = Law("discrete_gaussian", {"scale": Near(share(2.0**30, event.process.noise_multiplier))}, FEATURES)
        else:
            assert isinstance(event.process, PureDP)
            law = Law("discrete_laplace", {"scale": Near(2.0**30 / event.process.epsilon)}, FEATURES)
        found.append(Released(party, ("record", {"process": event.process, "count": 1}), (law,)))
    return found


def adaptive(played, tables, masked):
    in_rounds, once = rounds(played, tables, masked), contributions(played, tables, masked)
    found = []
    for at, party in enumerate(DATA):
        found += [in_rounds[2 * at], once[at], in_rounds[2 * at + 1]]
    return found


def shuffled(played, tables):
    """Every record answers once in an epoch, which two rounds are here."""
    terms = {"epsilon": 1.0, "radius": CLIP}
    found = []
    for party in DATA:
        ((event, _),) = charged_events(played, party)
        assert event.process == Shuffled(1.0, 10)
        laws = tuple(Law("duchi_l2", terms, SIZES[party] // 2 * DIMENSION) for _ in range(ROUNDS))
        found.append(Released(party, ("record", {"process": event.process, "unit": "record", "count": 1}), laws))
    return found


def clients(played, tables):
    """A client's update of two own steps, as a whole, with the indicator of its norm; a coin decides whether it takes part."""
    found = []
    for party in DATA:
        event = {
            "process": PoissonSampledGaussian(COIN, multiplier_of(played, party)), "unit": "client", "count": 1
        }  # fmt: skip
        for steps in steps_of_clips(played):
            laws = (
                Law("poisson_sample", {"probability": COIN, "records": 1}, None),
                Law("discrete_gaussian", {"scale": Near(share(steps, MULTIPLIER))}, DIMENSION + 1),
            )
            found.append(Released(party, ("record", event), laws))
    return found


COIN, INDICATOR = 0.5, 1 / 8
"""Of a client, and the weight of its norm's indicator beside its update."""


def steps_of_clips(played):
    """How many steps of its grid the clip of each round holds, from sums that the server opened before it."""
    clip = CLIP
    for total in opened_sums(played).values():
        joint = clip * math.sqrt(1 + INDICATOR**2 / 4)
        grid = 2.0 ** (math.floor(math.log2(joint)) - 34)
        yield joint / grid
        below = float(total.view(np.int64)[-1]) * grid / (INDICATOR * clip * len(DATA) * COIN) + 0.5
        clip *= math.exp(-0.2 * (min(1.0, max(0.0, below)) - 0.5))


FIRST_ROUND = "default.iterations-0"
OTHER_CLIENT = base_table(SIZES[HOST], (f"x{at}" for at in range(FEATURES)), 99, (1, 0))


def predict(tables):
    models = {"input_model": models_of(CASES[0])}
    return ComponentStep(dp_homo_nn, {}, {"test_data": tables}, models, stage="predict")


def scores_are_those_of_the_model(played, tables):
    """Of a logistic regression of two classes."""
    for party in DATA:
        written = played.values[party]["test_output_data"].set_index("id")
        document = models_of(CASES[0])[party]["data"]["estimator"]["param"]
        weights = np.frombuffer(base64.b64decode(document["weights"]), dtype="<f4").astype(float)
        features = tables[party].set_index("id").loc[written.index, [f"x{at}" for at in range(FEATURES)]]
        score = 1 / (1 + np.exp(-(features.to_numpy() @ weights[:-1] + weights[-1])))
        yield written["predict_score"].to_numpy(dtype=float), score


def cost(epsilon):
    def of(played, tables):
        for party in DATA:
            yield total_epsilon(charged_events(played, party), DELTA), epsilon

    return of


MASKED = {"message": "steps under masks that cancel in the sum of all", "public_key": "a key of the task"}
PLAIN = {"message": "opened as ``left``"}
MADE = dict.fromkeys(("round", "outcome", "contributions", "scales", "start_weights"), "what the server opened")
ALLOWED = ("got [0-9]+, fewer than that party has",)
FREE = {
    ("preflight", "columns"): "its own",
    ("preflight", "dimension"): "its own",
    ("preflight", "groups"): "its own",
    ("preflight", "records"): "its own",
}
SUM = {None: (2, 2 * STEPS + 2 * math.sqrt(DIMENSION))}
OWN = {None: (2, (2 * STEPS + 2 * math.sqrt(DIMENSION)) * GRID)}


def case(setting, released, given, parties=(*DATA, ARBITER), light=True, **more):
    return Case(
        "dp_homo_nn",
        "train",
        setting,
        parties,
        TABLES,
        partial(step, **given),
        released,
        made=MADE,
        replayed=tuple(MADE),
        allowed=ALLOWED,
        free=FREE,
        light=light,
        **more,
    )


CASES = [
    case(
        "secure_sum",
        partial(rounds, masked=True),
        {"noise_multiplier": MULTIPLIER},
        light=False,
        sealed=MASKED,
        left=opened_sums,
        added=noise_of_sums,
        neighbours=neighbours(SUM),
    ),
    case(
        "local",
        partial(rounds, masked=False),
        {"noise_multiplier": MULTIPLIER, "aggregation": "local"},
        sealed=PLAIN,
        left=own_messages,
        added=noise_of_messages,
        neighbours=neighbours(OWN),
    ),
]
CASES += [
    case(
        "adaptive, secure_sum",
        partial(adaptive, masked=True),
        {"noise_spread": "adaptive", "epsilon": 4.0},
        sealed=MASKED,
        left=opened_sums,
        added=noise_of_sums,
        neighbours=neighbours({**SUM}),
        costs=cost(4.0),
        checked=CASES[1],
    ),
    case(
        "shuffle",
        shuffled,
        {"aggregation": "shuffle", "epsilon0": 1.0, "shuffler": SHUFFLER[1]},
        parties=(*DATA, SHUFFLER, ARBITER),
        sealed={"message": "sealed to the server", "shuffled": "sealed to the server"},
        checked=CASES[1],
    ),
    case(
        "adaptive, local",
        partial(adaptive, masked=False),
        {"noise_spread": "adaptive", "epsilon": 4.0, "aggregation": "local"},
        sealed=PLAIN,
        left=own_messages,
        neighbours=neighbours(OWN)[1:4:2],
        costs=cost(4.0),
        hostile=(HOST,),
        checked=CASES[1],
    ),
    case(
        "clients of two steps, a followed clip",
        clients,
        {
            "privacy": "client",
            "records": len(DATA),
            "batch_size": len(DATA) * COIN,
            "local_steps": 2,
            "local_learning_rate": 0.5,
            "clip": {"quantile": 0.5, "start": CLIP},
            "noise_multiplier": MULTIPLIER,
        },
        sealed=MASKED,
        left=opened_sums,
        added=noise_of_sums,
        neighbours=(
            Neighbour(
                "all records of the host",
                HOST,
                OTHER_CLIENT,
                left={None: (2, 2 * STEPS + 2 * math.sqrt(DIMENSION + 1))},
            ),
        ),
        hostile=(HOST,),
        checked=CASES[1],
    ),
    case(
        "local, two noised steps",
        partial(rounds, masked=False, walks=2),
        {"noise_multiplier": MULTIPLIER, "aggregation": "local", "local_steps": 2, "local_learning_rate": 0.5},
        sealed=PLAIN,
        hostile=(HOST,),
        checked=CASES[1],
    ),
]
CASES += [
    replace(
        CASES[0],
        stage="predict",
        setting="own rows",
        step=predict,
        released=lambda played, tables: [],
        equal=scores_are_those_of_the_model,
        left=lambda played: {},
        added=lambda played: {},
        neighbours=(replace(CASES[0].neighbours[0], left={}),),
        light=True,
    )
]
