"""dp_hetero_lr: noise on second moments, for records by every party or for labels by the guest."""

import math
from functools import partial

import numpy as np

from fate_dp.components.dp_hetero_lr.component import dp_hetero_lr
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import Gaussian, PureDP
from fate_dp.testing import ComponentStep

from ..cases import GUEST, HOST, Case, Law, Neighbour, Released, base_table, changed_row, charged_events
from ..labels import SOURCE, declare, declare_public, not_private

ROWS, EPSILON, DELTA, RADIUS, TARGET = 30, 2.0, 1e-5, 2.0, 2.0
TABLES = {GUEST: base_table(ROWS, ("x0", "x1"), 1, (0, 1, 1)), HOST: base_table(ROWS, ("x2", "x3"), 2)}
FEATURES = {GUEST: 2, HOST: 2}


def step(tables, **given):
    parameters = {
        "epochs": 2,
        "noise_epsilon": EPSILON,
        "noise_delta": DELTA,
        "noise_radius": RADIUS,
        "label_source": SOURCE,
        **given,
    }
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
        for event in others:
            assert isinstance(event.process, PureDP)
            law = Law("discrete_laplace", {"scale": 2 * 2.0**30 / event.process.epsilon}, FEATURES[party])
            found.append(Released(party, ("record", {"process": event.process, "count": 1}), (law,)))
    return [*found, not_private()]


def label_noise(played, tables):
    """A label moves its target by four, at each of the columns of a row, the intercept's among them."""
    ((event, _),) = charged_events(played, GUEST)
    sigma = event.process.noise_multiplier * 2 * TARGET * math.sqrt(RADIUS**2 + 1 + RADIUS**2)
    law = Law("discrete_gaussian", {"scale": on_grid(sigma, sigma)}, 5)
    return [Released(GUEST, ("record", {"process": event.process, "unit": "label", "count": 1}), (law,))]


def costs(*parties):
    def of(played, tables):
        for party in parties:
            yield total_epsilon(charged_events(played, party), DELTA), EPSILON

    return of


SEALED = dict.fromkeys(
    ("encrypted_rows", "masked_products", "masks", "products", "step", "weight_shares"),
    "ciphertexts, or shares of numbers that are hidden from their receiver",
)


PERSISTENT = {
    b"\x00\x00\x00\x00\x00\x00\x00\x08person": "digest of the rows",
    b"\x00\x00\x00\x00\x00\x00\x00\x09person": "digest of the rows",
}


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
    ("verdict", "run"): "a name that the guest draws",
    ("verdict", "parties", "0", "multipliers"): "the guest's own noise",
}


def case(setting, released, prepare, parties, neighbours=NEIGHBOURS, **given):
    return Case(
        "dp_hetero_lr", "train", setting, (GUEST, HOST), TABLES, partial(step, **given), released,
        sealed=SEALED, neighbours=neighbours, free=FREE, persistent=PERSISTENT, prepare=prepare, costs=costs(*parties), light=True,
    )  # fmt: skip


CASES = [
    case("noise uniform", released, declare_public(TABLES), (GUEST, HOST), noise="uniform"),
    case("noise adaptive", released, declare_public(TABLES), (GUEST, HOST), noise="adaptive"),
    case("noise label", label_noise, declare, (GUEST,), (*NEIGHBOURS, LABEL), noise="label"),
]
