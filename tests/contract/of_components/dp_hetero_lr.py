"""dp_hetero_lr: noise on second moments, for records by every party or for labels by the guest."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from fate_dp.components.dp_hetero_lr.component import dp_hetero_lr
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import Gaussian, PureDP
from fate_dp.testing import ComponentStep

from ..cases import (
    GUEST,
    HOST,
    Case,
    Law,
    Neighbour,
    Released,
    base_table,
    changed_row,
    charged_events,
    homes_after,
    models_of,
)
from ..labels import DIGEST, SOURCE, allow_scores, declare, declare_public, not_private

ROWS, EPSILON, DELTA, EPOCHS, RADIUS, TARGET = 30, 2.0, 1e-5, 2, 2.0, 2.0
TABLES = {GUEST: base_table(ROWS, ("x0", "x1"), 1, (0, 1, 1)), HOST: base_table(ROWS, ("x2", "x3"), 2)}
FEATURES = {GUEST: 2, HOST: 2}


def step(tables, **given):
    parameters = {"epochs": EPOCHS, "epsilon": EPSILON, "delta": DELTA, "clip": RADIUS, "label_source": SOURCE, **given}
    return ComponentStep(dp_hetero_lr, parameters, {"train_data": tables}, stage="train")


def sensitivity(moving, others):
    """Largest change of a record's own products and its products with a row of others, whose square is given.

    By trying all angles between its two rows, both of the largest square.
    """
    cosines = np.linspace(-1, 1, 200_001)
    return math.sqrt((2 * moving**2 * (1 - cosines**2) + 2 * moving * others * (1 - cosines)).max())


SENSITIVITY = {
    GUEST: sensitivity(RADIUS**2 + TARGET**2, RADIUS**2 + 2),
    HOST: sensitivity(RADIUS**2, RADIUS**2 + TARGET**2 + 1),
}
"""The guest's record meets its own intercept twice in the table."""


def on_grid(scale, largest):
    """In steps of the finest grid on which the largest scale is no more than 2^50 steps."""
    return scale * 4.0 ** min(24, math.floor((50 - math.log2(largest)) / 2))


def released(played, tables):
    """Each fit has three draws of one scale, but for pairs within a party, which stand in a table twice."""
    found, sizes = [], {GUEST: (3, 6, 3 * 2), HOST: (2, 1, 2 * 4)}
    of_fits = {
        party: [event for event, _ in charged_events(played, party) if isinstance(event.process, Gaussian)]
        for party in SENSITIVITY
    }
    for party, gaussian in of_fits.items():
        others = [event for event, _ in charged_events(played, party) if not isinstance(event.process, Gaussian)]
        for at, event in enumerate(gaussian):
            sigmas = {each: of_fits[each][at].process.noise_multiplier * SENSITIVITY[each] for each in of_fits}
            scale = on_grid(sigmas[party], max(sigmas.values()))
            scales = (scale, scale / 2**0.5, scale)
            laws = tuple(Law("discrete_gaussian", {"scale": each}, size) for each, size in zip(scales, sizes[party]))
            found.append(Released(party, ("record", {"process": event.process, "unit": "record", "count": 1}), laws))
        if party == HOST:
            found[-1] = and_losses(found[-1])
        for event in others:
            assert isinstance(event.process, PureDP)
            law = Law("discrete_laplace", {"scale": 2 * 2.0**30 / event.process.epsilon}, FEATURES[party])
            release = Released(party, ("record", {"process": event.process, "count": 1}), (law,))
            found.append(and_losses(release) if party == HOST else release)
    return [*found, not_private()]


def and_losses(release):
    """Shown by a descent on what was released, at no cost."""
    return replace(release, laws=(*release.laws, *loss_parts()))


def loss_parts(rows=ROWS, epochs=EPOCHS):
    """The host rounds what the guest sees of the mean loss of each epoch."""
    return tuple(Law("loss_part", {"deviation": 2.0**-16, "rows": rows}, 1) for _ in range(epochs))


SCORES = Released(HOST, ("record_scores", {}), (), told_by="scores")


def predict(tables):
    """Rows that were trained on."""
    models = {"input_model": models_of(CASES[2])}
    return ComponentStep(dp_hetero_lr, {}, {"test_data": tables}, models, stage="predict")


def encrypted(tables):
    """The guest has all columns of the rows, and no host sees them."""
    models = {"input_model": models_of(CASES[2])}
    return ComponentStep(dp_hetero_lr, {"scoring": "encrypted"}, {"test_data": tables}, models, stage="predict")


def folds(tables):
    parameters = {
        "epochs": 1,
        "cv_param": {"n_splits": FOLDS, "shuffle": True, "random_state": 3},
        "init_param": {"method": "zeros", "fit_intercept": False},
        "label_source": SOURCE,
    }
    return ComponentStep(dp_hetero_lr, parameters, {"cv_data": tables}, stage="cross_validation")


def of_folds(played, tables):
    rows = len(tables[GUEST]) // FOLDS
    losses = Released(HOST, ("record_losses", {"trainings": 1}), loss_parts(rows, 1))
    return [*[losses] * FOLDS, *[SCORES] * FOLDS, not_private()]


def scores_are_those_of_the_models(played, tables):
    """Within a step of the host's rounding, and where the guest does not have all columns, the host's part is whole steps."""
    models, written = models_of(CASES[2]), played.values[GUEST]["test_output_data"].set_index("id")
    parts = {}
    for party in (GUEST, HOST):
        estimator = models[party]["data"]["estimator"]
        rows = tables[GUEST if estimator["header"][0] in tables[GUEST] else HOST].set_index("id").loc[written.index]
        parts[party] = rows[estimator["header"]].to_numpy() @ np.ravel(estimator["param"]["coef_"])
        parts[party] += estimator["param"]["intercept_"] if estimator["fit_intercept"] else 0.0
    score = written["predict_score"].to_numpy(dtype=float)
    found = np.log(score / (1 - score))
    total = parts[GUEST] + parts[HOST]
    yield np.clip(found, total - ROUNDING, total + ROUNDING), found
    if "x2" not in tables[GUEST]:
        steps = (found - parts[GUEST]) / ROUNDING
        yield steps, np.rint(steps)


FOLDS, ROUNDING = 2, 2.0**-7
ALL_COLUMNS = base_table(4, ("x0", "x1", "x2", "x3"), 5)
SMALL = {GUEST: base_table(40, ("x0",), 6, (0, 1, 1)), HOST: base_table(40, ("x2",), 7)}


def label_noise(played, tables):
    """A label moves its target by four, at each of the columns of a row, the intercept's among them."""
    ((event, _),) = charged_events(played, GUEST)
    sigma = event.process.noise_multiplier * 2 * TARGET * math.sqrt(RADIUS**2 + 1 + RADIUS**2)
    law = Law("discrete_gaussian", {"scale": on_grid(sigma, sigma)}, 5)
    charge = ("record", {"process": event.process, "unit": "label", "count": 1})
    return [Released(GUEST, charge, (law,)), Released(HOST, ("record_losses", {"trainings": 1}), loss_parts())]


def costs(*parties):
    def of(played, tables):
        for party in parties:
            yield total_epsilon(charged_events(played, party), DELTA), EPSILON

    return of


SEALED = dict.fromkeys(
    ("encrypted_rows", "masked_products", "masks", "products", "step", "weight_shares"),
    "ciphertexts, or shares of numbers that are hidden from their receiver",
)


def allow_rows(home):
    """The host's operator lets rows be scored with the weights of its columns."""
    allow_scores(("x2", "x3"), len(ALL_COLUMNS), of="weights of ")(home)


NEIGHBOURS = (
    Neighbour("a record of the guest", GUEST, changed_row(TABLES[GUEST], 4, x0=-1.5, x1=2.25)),
    Neighbour("a record of the host", HOST, changed_row(TABLES[HOST], 4, x2=-1.5, x3=2.25)),
)
"""Nothing that leaves is in the clear; what is opened, weights and losses, rests on moments with every party's noise."""

LABEL = Neighbour("a label", GUEST, changed_row(TABLES[GUEST], 4, y=0.0))
FREE = {
    ("preflight", "rows"): "the digest says it",
    ("preflight", "mean_square_bits"): "a host's own columns; the guest's terms are checked",
    ("preflight", "score_releases_left"): "a host's own consent",
    ("preflight", "rows_left"): "a host's own consent",
    ("preflight", "scales"): "units of a host's own columns",
    ("verdict", "run"): "a name that the guest draws",
    ("verdict", "parties", "0", "multipliers"): "the guest's own noise",
}


def case(setting, released, prepare, parties, neighbours=NEIGHBOURS, **given):
    return Case(
        "dp_hetero_lr", "train", setting, (GUEST, HOST), TABLES, partial(step, **given), released,
        sealed=SEALED, neighbours=neighbours, free=FREE, persistent=DIGEST, prepare=prepare, costs=costs(*parties), light=True,
    )  # fmt: skip


CASES = [
    case("noise uniform", released, declare_public(TABLES), (GUEST, HOST), privacy="record"),
    case("noise adaptive", released, declare_public(TABLES), (GUEST, HOST), privacy="record", noise_spread="adaptive"),
    case("noise label", label_noise, declare, (GUEST,), (*NEIGHBOURS, LABEL), privacy="label"),
]
FIT = CASES[2]
CASES[1:] = [replace(each, checked=CASES[0]) for each in CASES[1:]]
ANY = (1, math.inf)
SCORES_ONCE = DIGEST | {b"rounding of scores": "whoever asks again gets the same, and cannot average it away"}
CASES += [
    replace(
        FIT,
        stage="predict",
        setting="scores of rows that were trained on",
        step=predict,
        persistent=SCORES_ONCE,
        released=lambda played, tables: [SCORES],
        costs=lambda played, tables: (),
        equal=scores_are_those_of_the_models,
        prepare=lambda home: (homes_after(CASES[2])(home), allow_scores(("x2", "x3"), 1)(home)),
        neighbours=(
            Neighbour("a record of the host", HOST, changed_row(TABLES[HOST], 3, x2=2.5), {"scores": ANY}),
            Neighbour("a record of the guest", GUEST, changed_row(TABLES[GUEST], 3, x0=2.5)),
        ),
    ),
    replace(
        FIT,
        stage="predict",
        setting="encrypted",
        tables={GUEST: ALL_COLUMNS, HOST: TABLES[HOST]},
        step=encrypted,
        released=lambda played, tables: [replace(SCORES, told_by=None)] * len(tables[GUEST]),
        costs=lambda played, tables: (),
        equal=scores_are_those_of_the_models,
        prepare=lambda home: (homes_after(CASES[2])(home), allow_rows(home)),
        neighbours=(
            Neighbour("a record of the host", HOST, changed_row(TABLES[HOST], 3, x2=2.5)),
            Neighbour("a record of the guest", GUEST, changed_row(ALL_COLUMNS, 3, x0=2.5)),
        ),
        sealed=SEALED | dict.fromkeys(("public_key", "queries", "answers"), "ciphertexts of the guest's key"),
    ),
    replace(
        FIT,
        stage="cross_validation",
        setting="public labels",
        tables=SMALL,
        step=folds,
        persistent=SCORES_ONCE,
        released=of_folds,
        made={"step": "a share under a mask: uniform, so that its length varies by chance"},
        costs=lambda played, tables: (),
        prepare=lambda home: (declare_public(SMALL)(home), allow_scores(("x2",), FOLDS)(home)),
        hostile=(HOST,),
        neighbours=(
            Neighbour("a record of the host", HOST, changed_row(SMALL[HOST], 3, x2=2.5), {"scores": ANY}),
            # Within the units of the other table: the host's answers are those of it, and fit no others.
            Neighbour("a record of the guest", GUEST, changed_row(SMALL[GUEST], 3, x0=1.0)),
        ),
    ),
]
