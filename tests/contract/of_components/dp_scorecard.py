"""dp_scorecard: tables with every party's noise, or totals of labels with the guest's."""

import math
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from fate_dp.components.dp_scorecard.component import dp_scorecard
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import Gaussian
from fate_dp.privacy.mechanisms.contingency_tables import FRACTION_BITS
from fate_dp.testing import ComponentStep

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
    charged_events,
    homes_after,
    models_of,
    noise_of,
)
from ..labels import DIGEST, SOURCE, allow_scores, declare, declare_public, flipped, not_private, release_of_flips

BINS, ROWS, EPSILON, DELTA, TARGET, FOLDS = 3, 30, 2.0, 1e-5, 2.0, 2
PARTIES = (GUEST, HOST)


def binned(rows, columns, seed, labels=None):
    table = base_table(rows, columns, seed, labels)
    return table.assign(**{name: np.digitize(table[name], (-0.4, 0.4)).astype(float) for name in columns})


TABLES = {GUEST: binned(ROWS, ("x0", "x1"), 1, (0, 1, 1, 0, 1)), HOST: binned(ROWS, ("x2", "x3"), 2)}


OWN = {HOST: {"epsilon": EPSILON, "delta": DELTA}}
"""Hosts have noise with any privacy; the guest sets no epsilon where its labels are flips or public."""


def step(tables, **given):
    return ComponentStep(dp_scorecard, {"bins": BINS, **given}, {"train_data": tables}, stage="train", own=OWN)


def on_flips(tables, **given):
    def before(made, ctx):
        return replace(made, tables={"train_data": flipped(ctx, tables)})

    return After(dp_scorecard, {"bins": BINS, **given}, {}, stage="train", own=OWN, before=before)


def folds(tables, **given):
    parameters = {"bins": BINS, "cv_param": {"n_splits": FOLDS, "shuffle": True, "random_state": 3}, **given}
    return ComponentStep(dp_scorecard, parameters, {"cv_data": tables}, stage="cross_validation", own=OWN)


def predict(tables):
    models = {"input_model": models_of(CASES[0])}
    return ComponentStep(dp_scorecard, {}, {"test_data": tables}, models, stage="predict")


def rows_of(columns, labelled):
    """All rows that a record of a party can have: a one for each column's bin, and the target."""
    for bins in product(range(BINS), repeat=columns):
        row = np.zeros(columns * BINS)
        row[[column * BINS + bin for column, bin in enumerate(bins)]] = 1
        yield from (np.append(row, target) for target in (-TARGET, TARGET)) if labelled else (row,)


def sensitivity_of_tables(labelled, others_square):
    """l2, by trying all pairs of records: own products, each counted as often as it stands in the table, and the cross tables.

    The product of the target with itself is the same for all and left out.
    """

    def weighed(change):
        own = np.outer(change[0], change[0]) - np.outer(change[1], change[1])
        if labelled:
            own[-1, -1] = 0.0
        return (own**2).sum() + others_square * ((change[0] - change[1]) ** 2).sum()

    return math.sqrt(max(map(weighed, product(rows_of(2, labelled), repeat=2))))


def record_noise(played, tables, parties=(GUEST, HOST), reads=1):
    found = []
    for party, labelled, square in ((GUEST, True, 2.0), (HOST, False, 2.0 + TARGET**2)):
        if party not in parties:
            continue
        ((event, _),) = charged_events(played, party)
        scale = event.process.noise_multiplier * sensitivity_of_tables(labelled, square) * 2.0**FRACTION_BITS
        width, other = 2 * BINS + labelled, 2 * BINS + (not labelled)
        pairs = BINS * BINS + 2 * BINS * labelled
        laws = (
            Law("discrete_gaussian", {"scale": scale}, 2 * BINS),
            Law("discrete_gaussian", {"scale": scale / math.sqrt(2)}, pairs),
            Law("discrete_gaussian", {"scale": scale}, width * other),
        )
        assert isinstance(event.process, Gaussian)
        found.append(
            Released(party, ("record", {"process": event.process, "unit": "record", "count": reads}), laws * reads)
        )
    return found


def label_noise(played, tables):
    """A label moves four at each of the record's four bins."""
    ((event, _),) = charged_events(played, GUEST)
    sigma = event.process.noise_multiplier * 2 * TARGET * math.sqrt(4)
    law = Law("discrete_gaussian", {"scale": sigma * 4.0 ** bits_of(sigma)}, 4 * BINS)
    totals = Released(GUEST, ("record", {"process": event.process, "unit": "label", "count": 1}), (law,))
    return [totals, *record_noise(played, tables, (HOST,))]


def bits_of(sigma):
    return min(24, math.floor((50 - math.log2(sigma)) / 2))


SHOWN = Released(HOST, ("record_scores", {}), (), told_by="scores")


def of_folds(played, tables):
    """Each fold has noise and shown points of its own; noise is charged for all folds before the first."""
    return [*record_noise(played, tables, reads=FOLDS), *[SHOWN] * FOLDS]


def noise_of_host_and_flips(played, tables):
    return [release_of_flips(played, tables), *record_noise(played, tables, (HOST,))]


def weights_follow_from_flips(played, tables):
    flips = dict(
        pair for draw in noise_of(played, GUEST) for pair in zip(draw.private[1], np.asarray(draw.result, dtype=float))
    )
    return weights_follow_from_the_draws(
        played, {**tables, GUEST: tables[GUEST].assign(y=tables[GUEST]["id"].map(flips))}
    )


def points_are_added(played, tables):
    """A row's points are the base and those of its bins at both parties; the score follows from them."""
    models = models_of(CASES[0])
    card = models[GUEST]["data"]["scorecard"]
    written = played.values[GUEST]["test_output_data"].set_index("id")
    total = np.full(len(written), float(card["base_points"]))
    for party in PARTIES:
        rows = tables[party].set_index("id").loc[written.index]
        for column in models[party]["data"]["scorecard"]["columns"]:
            total += np.array(column["points"])[rows[column["column"]].to_numpy().astype(int)]
    scores = written["predict_score"].to_numpy(dtype=float)
    odds = (total - 600) / 20 * math.log(2) + math.log(50)
    yield scores, 1 / (1 + np.exp(odds))


def ones_of(tables):
    columns = [tables[GUEST]["x0"], tables[GUEST]["x1"], tables[HOST]["x2"], tables[HOST]["x3"]]
    return np.hstack([np.eye(BINS)[column.to_numpy().astype(int)] for column in columns])


def weights_follow_from_the_draws(played, tables):
    """With every draw the guest solves the sum of the exact tables, or totals of labels, and the noise on them."""
    width = 2 * BINS
    noise, linear = np.zeros((2 * width, 2 * width)), np.zeros(2 * width)
    for at, party in enumerate(PARTIES):
        draws = [draw for draw in noise_of(played, party) if draw.law == "discrete_gaussian"]
        if len(draws) == 1:
            ((event, _),) = charged_events(played, party)
            sigma = event.process.noise_multiplier * 2 * TARGET * math.sqrt(4)
            linear += draws[0].result / 4.0 ** bits_of(sigma)
        if len(draws) < 3:
            continue
        diagonal, pairs, cross = (draw.result / 2.0**FRACTION_BITS for draw in draws)
        start, labelled = at * width, party == GUEST
        places = range(start, start + width)
        noise[places, places] += diagonal
        for value, i, j in zip(pairs, *order_of_pairs(width, labelled)):
            if width in (i, j):
                linear[start + min(i, j)] += value
            else:
                noise[start + i, start + j] += value
                noise[start + j, start + i] += value
        if labelled:
            noise[:width, width:] += cross[:width]
            noise[width:, :width] += cross[:width].T
            linear[width:] += cross[width]
        else:
            noise[width:, :width] += cross[:, :width]
            noise[:width, width:] += cross[:, :width].T
            linear[width:] += cross[:, width]
    rows, target = ones_of(tables), np.where(tables[GUEST]["y"] == 1, TARGET, -TARGET)
    matrix, linear = rows.T @ rows + noise, rows.T @ target + linear
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    solved = vectors @ ((vectors.T @ linear) / (np.maximum(values, 0) + RIDGE))
    yield from zip(weights_told(played), solved)


def order_of_pairs(width, labelled):
    """Bins of different columns, and bins with the target, as a row-by-row walk over the upper triangle has them."""
    size = width + labelled
    column = [at // BINS for at in range(width)] + [-1] * labelled
    return zip(*[(i, j) for i in range(size) for j in range(i + 1, size) if column[i] != column[j]])


def weights_told(played):
    (points,) = [each.value for each in played.timeline.seen_by(HOST) if getattr(each, "name", "") == "points"]
    own = played.values[GUEST]["output_model"]
    return np.concatenate([weights_of(own), np.array(points["weights"])])


def weights_of(model):
    return np.concatenate([np.ravel(column["weights"]) for column in model["data"]["scorecard"]["columns"]])


RIDGE = 5.0


def costs(party):
    def of(played, tables):
        yield total_epsilon(charged_events(played, party), DELTA), EPSILON

    return of


def costs_of_a_fold(played, tables):
    ((event, _),) = charged_events(played, HOST)
    yield total_epsilon([(event, 1)], DELTA), EPSILON


SEALED = {"encrypted_rows": "ciphertexts under the sender's key", "masked_products": "ciphertexts of masked sums"}
MADE = {"points": "the weights, which follow from noisy tables or totals"}
OTHER = changed_row(TABLES[HOST], 4, x2=(TABLES[HOST]["x2"][4] + 1) % BINS, x3=(TABLES[HOST]["x3"][4] + 1) % BINS)
FLIPPED = changed_row(TABLES[GUEST], 4, y=1 - TABLES[GUEST]["y"][4])


FREE = {
    ("preflight", "ordered"): "a host's own columns",
    ("preflight", "directions"): "a host's own columns",
    ("preflight", "counts"): "a host's own columns",
    ("preflight", "multiplier"): "a host's own noise",
    ("preflight", "rows"): "the digest says it",
    ("verdict", "multipliers", "0"): "the guest's own noise",
    ("verdict", "counts", "0"): "the guest's own columns",
}


def case(setting, released, **more):
    given = more.pop("given")
    return Case(
        "dp_scorecard",
        more.pop("stage", "train"),
        setting,
        PARTIES,
        TABLES,
        partial(more.pop("step", step), **given),
        released,
        sealed=SEALED,
        made=MADE,
        free=FREE,
        **more,
    )


HOSTS_SENSITIVITY = sensitivity_of_tables(False, 2.0 + TARGET**2)
ANY = (1, math.inf)
"""Of a host's points, which nothing but their count bounds."""
OF_THE_HOST = Neighbour(
    "a record of the host", HOST, OTHER, {"contingency_tables": (2, HOSTS_SENSITIVITY * 2.0**FRACTION_BITS)}
)
CASES = [
    case(
        "record",
        record_noise,
        given={"privacy": "record", "epsilon": EPSILON, "delta": DELTA, "ridge": RIDGE},
        costs=costs(HOST),
        neighbours=(Neighbour("a label and a record of the guest", GUEST, FLIPPED), OF_THE_HOST),
        equal=weights_follow_from_the_draws,
    ),
    case(
        "label",
        label_noise,
        given={"privacy": "label", "epsilon": EPSILON, "delta": DELTA, "label_source": SOURCE, "ridge": RIDGE},
        costs=costs(GUEST),
        neighbours=(Neighbour("a label", GUEST, FLIPPED), OF_THE_HOST),
        equal=weights_follow_from_the_draws,
        prepare=declare,
        light=True,
    ),
    case(
        "public labels",
        lambda played, tables: [not_private(), *record_noise(played, tables, (HOST,))],
        given={"privacy": "none", "label_source": SOURCE, "ridge": RIDGE},
        costs=costs(HOST),
        equal=weights_follow_from_the_draws,
        neighbours=(OF_THE_HOST,),
        prepare=declare_public(TABLES),
        light=True,
    ),
]
CASES += [
    case(
        "flips",
        noise_of_host_and_flips,
        given={"privacy": "none", "ridge": RIDGE},
        step=on_flips,
        costs=costs(HOST),
        equal=weights_follow_from_flips,
        neighbours=(OF_THE_HOST, Neighbour("a label", GUEST, FLIPPED)),
        prepare=declare,
        persistent=DIGEST,
        hostile=(GUEST,),
        checked=CASES[2],
        light=True,
    ),
    case(
        "record",
        of_folds,
        stage="cross_validation",
        given={"privacy": "record", "epsilon": EPSILON, "delta": DELTA, "ridge": RIDGE},
        step=folds,
        costs=costs_of_a_fold,
        persistent=DIGEST,
        neighbours=(replace(OF_THE_HOST, moves={**OF_THE_HOST.moves, "scores": ANY}),),
        prepare=allow_scores(("x2", "x3"), FOLDS),
        hostile=(HOST,),
        checked=CASES[0],
        light=True,
    ),
    case(
        "points of a training",
        lambda played, tables: [SHOWN],
        stage="predict",
        given={},
        step=predict,
        neighbours=(replace(OF_THE_HOST, moves={"scores": ANY}),),
        prepare=lambda home: (homes_after(CASES[0])(home), allow_scores(("x2", "x3"), 1)(home)),
        equal=points_are_added,
        persistent=DIGEST,
        light=True,
    ),
]
