"""dp_binning: bins, quantiles, and counts by bin with noise for labels or records."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from fate_dp.components.dp_binning.component import dp_binning
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import ExponentialMechanism, Gaussian, PureDP
from fate_dp.testing import ComponentStep

from ..cases import (
    GUEST,
    HOST,
    SECOND_HOST,
    After,
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
from ..labels import RATE, SOURCE, declare, declare_public, flipped, not_private, release_of_flips

ROWS, UNIT, EPSILON, DELTA, BINS_EPSILON = 24, 2.0**28, 2.0, 1e-5, 1.5
PARTIES = (GUEST, HOST, SECOND_HOST)
TABLES = {
    GUEST: base_table(ROWS, ("x0", "x1"), 1, labels=(0, 1, 1, 0, 1)),
    HOST: base_table(ROWS, ("x2", "x3", "x4"), 2),
    SECOND_HOST: base_table(ROWS, ("x5",), 3),
}
QUANTILES = {"range": [-4, 4], "quantiles": 4}
RULES = {"x0": {"cuts": [0.0]}, "x2": QUANTILES, "x3": QUANTILES, "x4": {"range": [-2, 2], "bins": 3}}
OTHERS = {"range": [-3, 3], "bins": 2}
COLUMNS = {GUEST: 2, HOST: 3, SECOND_HOST: 1}
MAX_BINS = {GUEST: 3 + 3, HOST: 5 + 5 + 4, SECOND_HOST: 3}
"""With one for missing values."""
BINS_OF_QUANTILES = 3


def step(tables, flips=False, **given):
    parameters = {"columns": RULES, "other_columns": OTHERS, "bins_epsilon": BINS_EPSILON, **given}

    def before(made, ctx):
        return replace(made, tables={"train_data": flipped(ctx, tables) if flips else tables})

    return After(dp_binning, parameters, {}, stage="train", before=before)


def predict(tables):
    """Other rows in the bins of an earlier training."""
    return ComponentStep(dp_binning, {}, {"test_data": tables}, {"input_model": models_of(CASES[0])}, stage="predict")


def of_quantiles():
    """Two columns of the host share the epsilon; each has two levels, and at each a record is in two nodes."""
    share = BINS_EPSILON / 2 / 2
    laws = tuple(Law("exponential_mechanism", {"epsilon": share / 2}, 1) for _ in range(2 * BINS_OF_QUANTILES))
    return Released(HOST, ("record", {"process": ExponentialMechanism(share), "count": 2 * 2}), laws)


def counts_of(played, party, tables):
    """Exact (events, others) of each bin of a party, by the numbers of bins that it wrote."""
    written, model = played.values[party]["train_output_data"], played.values[party]["output_model"]
    labels = tables[GUEST].set_index("id")["y"]
    events = (labels[written["id"]] == 1).to_numpy()
    found = []
    for column in model["columns"]:
        codes = written[column["name"]].to_numpy().astype(int)
        of_events = np.bincount(codes[events], minlength=len(column["labels"]))
        found.append((of_events, np.bincount(codes, minlength=len(column["labels"])) - of_events))
    return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])


def told_of(played, party, which):
    return np.concatenate([column[which] for column in played.values[party]["output_model"]["columns"]])


def noise_event(played, party):
    (event,) = [each for each, _ in charged_events(played, party) if not isinstance(each.process, ExponentialMechanism)]
    return event


def label_noise(played, tables, laplace=False):
    """The guest's noise on the hosts' sums: a label moves one count in each of their columns."""
    columns = COLUMNS[HOST] + COLUMNS[SECOND_HOST]
    process = noise_event(played, GUEST).process
    if laplace:
        law, scale = "discrete_laplace", columns / EPSILON
        assert process == PureDP(EPSILON)
    else:
        law, scale = "discrete_gaussian", process.noise_multiplier * math.sqrt(columns) * UNIT
        assert isinstance(process, Gaussian)
    laws = tuple(Law(law, {"scale": scale}, MAX_BINS[host]) for host in (HOST, SECOND_HOST))
    unit = 1.0 if laplace else UNIT

    def made(results):
        return np.concatenate(
            [
                counts_of(played, host, tables)[0] + result[: len(told_of(played, host, "events"))] / unit
                for host, result in zip((HOST, SECOND_HOST), results)
            ]
        )

    left = np.concatenate([told_of(played, host, "events") for host in (HOST, SECOND_HOST)])
    return [
        of_quantiles(),
        Released(GUEST, ("record", {"process": process, "unit": "label", "count": 1}), laws, left, made),
    ]


def record_noise(played, tables):
    """Laplace, delta 0: every party's noise on both counts of each of its bins, and the guest's on the hosts' events."""
    found = [of_quantiles()]
    hosts = COLUMNS[HOST] + COLUMNS[SECOND_HOST]
    for party in PARTIES:
        scale = (2 * COLUMNS[party] + (hosts if party == GUEST else 0)) / EPSILON
        bins = len(told_of(played, party, "events"))
        laws = (Law("discrete_laplace", {"scale": scale}, 2 * bins),)
        if party == GUEST:
            laws = (*(Law("discrete_laplace", {"scale": scale}, MAX_BINS[host]) for host in (HOST, SECOND_HOST)), *laws)

        def made(results, party=party):
            events, others = counts_of(played, party, tables)
            of_guest = guests_part(played, party)
            return np.concatenate([events + of_guest + results[-1][0], others - of_guest + results[-1][1]])

        left = np.concatenate([told_of(played, party, "events"), told_of(played, party, "others")])
        found.append(Released(party, ("record", {"process": PureDP(EPSILON), "count": 1}), laws, left, made))
    return found


def guests_part(played, party):
    draws = [each for each in noise_of(played, GUEST) if each.law == "discrete_laplace"]
    if party == GUEST:
        return 0
    return draws[(HOST, SECOND_HOST).index(party)].result[: len(told_of(played, party, "events"))]


def by_flips(played, tables):
    """Hosts get sums of flips, which the known rate reverts."""
    return [of_quantiles(), release_of_flips(played, tables)]


def told_counts_are_reverted(played, tables):
    flips = dict(
        pair for draw in noise_of(played, GUEST) for pair in zip(draw.private[1], np.asarray(draw.result, dtype=float))
    )
    of_flips = {**tables, GUEST: tables[GUEST].assign(y=tables[GUEST]["id"].map(flips))}
    for party in tables:
        events, others = counts_of(played, party, of_flips)
        yield told_of(played, party, "events"), (events - RATE * (events + others)) / (1 - 2 * RATE)


def of_public_labels(played, tables):
    return [of_quantiles(), not_private()]


def counts_are_exact(played, tables):
    for party in tables:
        for told, exact in zip(("events", "others"), counts_of(played, party, tables)):
            yield told_of(played, party, told), exact


def bins_are_those_of_training(played, tables):
    """Each value lies in the bin that the model's labels say."""
    for party in tables:
        written = played.values[party]["test_output_data"].set_index("id")
        trained = CASES[0].base.values[party]["train_output_data"].set_index("id")
        same_rows = [each for each in trained.index if each in written.index]
        columns = list(written)[2:]
        yield (
            written.loc[same_rows, columns].to_numpy(dtype=float),
            trained.loc[same_rows, columns].to_numpy(dtype=float),
        )


def costs(played, tables):
    """What the parties asked for is what the lines of their ledgers come to."""
    yield total_epsilon([(noise_event(played, GUEST), 1)], DELTA), EPSILON
    quantiles = [each for each in charged_events(played, HOST) if isinstance(each[0].process, ExponentialMechanism)]
    yield sum(event.process.epsilon * count for event, count in quantiles), BINS_EPSILON


SEALED = {"encrypted_rows": "ciphertexts under the guest's key", "masked": "ciphertexts of masked sums"}
LABEL = [
    Neighbour(
        f"a label is {value}",
        GUEST,
        changed_row(TABLES[GUEST], 3, y=value),
        {"label_sums": (2, math.sqrt(COLUMNS[HOST]) * UNIT)},
    )
    for value in (1.0, 9.0, np.nan)
]
FEATURES = [
    Neighbour(f"a record of {party[0]} is {value}", party, changed_row(TABLES[party], 3, **{column: value}))
    for party, column in ((GUEST, "x1"), (HOST, "x4"))
    for value in (2.9, -1e300, np.nan)
]
FREE = {
    ("preflight", "columns"): "a host's own number of columns",
    ("preflight", "bins"): "a host's own number of bins",
    ("verdict", "flips"): "the epsilon that the guest's flips were released with",
    ("verdict", "sigma"): "told for the report",
}


def nothing(home):
    """Operators did nothing."""


def case(setting, released, neighbours, prepare=nothing, costs=lambda played, tables: (), light=False, **given):
    return Case(
        "dp_binning",
        "train",
        setting,
        PARTIES,
        TABLES,
        partial(step, **given),
        released,
        neighbours=tuple(neighbours),
        sealed=SEALED,
        free=FREE,
        prepare=prepare,
        costs=costs,
        light=light,
    )


def variant(setting, released, equal, prepare, neighbours=(), **given):
    """Of two parties; only what differs from the first case is played again."""
    made = case(setting, released, [HOSTS_RECORD, *neighbours], prepare, light=True, **given)
    return replace(
        made,
        parties=PAIR,
        tables={party: TABLES[party] for party in PAIR},
        equal=equal,
        hostile=(GUEST,),
        checked=CASES[0],
    )


PAIR = (GUEST, HOST)
HOSTS_RECORD, GUESTS_LABEL = FEATURES[-3], Neighbour("a label", GUEST, LABEL[0].table)
CASES = [
    case(
        "label, Gaussian",
        label_noise,
        [*LABEL, *FEATURES],
        declare,
        costs=costs,
        privacy="label",
        epsilon=EPSILON,
        delta=DELTA,
        label_source=SOURCE,
    ),
    case(
        "record, Laplace",
        record_noise,
        [*LABEL, *FEATURES],
        light=True,
        privacy="record",
        epsilon=EPSILON,
        noise="laplace",
    ),
]
CASES += [
    variant("flips", by_flips, told_counts_are_reverted, declare, (GUESTS_LABEL,), flips=True, privacy="none"),
    variant(
        "public labels", of_public_labels, counts_are_exact, declare_public(TABLES), privacy="none", label_source=SOURCE
    ),
    variant("nothing counted", lambda played, tables: [of_quantiles()], lambda played, tables: [], nothing, woe=False),
    replace(
        CASES[0],
        stage="predict",
        setting="bins of a training",
        step=predict,
        released=lambda played, tables: [],
        neighbours=(HOSTS_RECORD, GUESTS_LABEL),
        costs=lambda played, tables: [],
        equal=bins_are_those_of_training,
        checked=CASES[0],
        light=True,
    ),
]
