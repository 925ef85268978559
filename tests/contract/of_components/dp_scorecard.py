"""dp_scorecard: tables with every party's noise, or totals of labels with the guest's."""

import math
from functools import partial
from itertools import product

import numpy as np

from fate_dp.components.dp_scorecard.component import dp_scorecard
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import Gaussian
from fate_dp.privacy.mechanisms.contingency_tables import FRACTION_BITS
from fate_dp.testing import ComponentStep

from ..cases import GUEST, HOST, Case, Law, Neighbour, Released, base_table, changed_row, charged_events
from ..labels import SOURCE, declare, declare_public, not_private

BINS, ROWS, EPSILON, DELTA, TARGET = 3, 30, 2.0, 1e-5, 2.0
PARTIES = (GUEST, HOST)


def binned(rows, columns, seed, labels=None):
    table = base_table(rows, columns, seed, labels)
    return table.assign(**{name: np.digitize(table[name], (-0.4, 0.4)).astype(float) for name in columns})


TABLES = {GUEST: binned(ROWS, ("x0", "x1"), 1, (0, 1, 1, 0, 1)), HOST: binned(ROWS, ("x2", "x3"), 2)}


def step(tables, **given):
    """Hosts have noise with any privacy; the guest sets no epsilon where its labels are public."""
    own = {HOST: {"epsilon": EPSILON, "delta": DELTA}}
    return ComponentStep(dp_scorecard, {"bins": BINS, **given}, {"train_data": tables}, stage="train", own=own)


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


def ones_of(tables):
    columns = [tables[GUEST]["x0"], tables[GUEST]["x1"], tables[HOST]["x2"], tables[HOST]["x3"]]
    return np.hstack([np.eye(BINS)[column.to_numpy().astype(int)] for column in columns])


def weights_follow_from_the_draws(played, tables):
    """With every draw the guest solves the sum of the exact tables, or totals of labels, and the noise on them."""
    from ..cases import noise_of

    width = 2 * BINS
    noise, linear = np.zeros((2 * width, 2 * width)), np.zeros(2 * width)
    for at, party in enumerate(PARTIES):
        draws = noise_of(played, party)
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
        "train",
        setting,
        PARTIES,
        TABLES,
        partial(step, **given),
        released,
        sealed=SEALED,
        made=MADE,
        free=FREE,
        allowed=(
            "has a value that is none of its bins",
            "All labels are of one class",
            "A label is neither 0 nor 1",
            "labels do not allow",
        ),
        **more,
    )


HOSTS_SENSITIVITY = sensitivity_of_tables(False, 2.0 + TARGET**2)
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
__all__ = ["CASES", "FLIPPED", "Neighbour", "OTHER"]
