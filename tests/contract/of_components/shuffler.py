"""shuffler: each record answers each request by randomised response, sealed to the server."""

import numpy as np

from fate_dp.components.shuffler.component import shuffler
from fate_dp.privacy.events import Shuffled
from fate_dp.testing import ComponentStep

from ..cases import ARBITER, GUEST, HOST, SECOND_HOST, Case, Law, Neighbour, Released, base_table, changed_row, noise_of

REQUESTS = [
    {"column": "x0", "kind": "mean", "low": -2, "high": 2},
    {"column": "x1", "kind": "histogram", "low": -1.5, "high": 1.5, "bins": 3},
    {"column": "x1", "kind": "frequency", "values": [1.0, 0.5]},
]
CLASSES, LEAST, EPSILON0 = (2, 3, 3), 10, 1.5
RANDOMIZERS = ("randomized_response", "any", "any")
ROWS = {GUEST: 14, HOST: 18}
TABLES = {party: base_table(rows, ("x0", "x1"), rows) for party, rows in ROWS.items()}


def step(tables):
    parameters = {"requests": REQUESTS, "shuffler": SECOND_HOST[1], "min_messages": LEAST, "epsilon0": EPSILON0}
    return ComponentStep(shuffler, parameters, {"input_data": tables})


def released(played, tables):
    found = []
    for party in ROWS:
        # A kernel answers block after block: two blocks for each request.
        draws = noise_of(played, party)
        sizes = [[draw.size for draw in draws[2 * at : 2 * at + 2]] for at in range(3)]
        for number, (classes, randomizer) in enumerate(zip(CLASSES, RANDOMIZERS)):
            assert sum(sizes[number]) == len(tables[party])
            terms = {"epsilon": EPSILON0, "classes": classes}
            found.append(
                Released(
                    party,
                    ("record", {"process": Shuffled(EPSILON0, LEAST, randomizer), "unit": "record", "count": 1}),
                    tuple(Law("flip_indices", terms, size) for size in sizes[number]),
                )
            )
    return found


def statistics_are_those_of_the_draws(played, tables):
    """What the server tells is made of the recorded answers alone."""
    told = played.values[ARBITER]["output_model"]["data"]["statistics"]
    answers = {party: [draw.result for draw in noise_of(played, party)] for party in ROWS}
    for number, classes in enumerate(CLASSES):
        drawn = np.concatenate([each for party in ROWS for each in answers[party][2 * number : 2 * number + 2]])
        share = np.bincount(drawn, minlength=classes) / len(drawn)
        odds = np.exp(-EPSILON0)
        estimated = (share * (1 + (classes - 1) * odds) - odds) / (1 - odds)
        if number == 0:
            yield float(estimated @ [-2.0, 2.0]), told[number]["estimate"]
        else:
            yield from zip(estimated, [each["estimate"] for each in told[number]["shares"]])


SEALED = {f"messages_{number}": "sealed to the server, then in random order" for number in range(3)}
CASES = [
    Case(
        "shuffler",
        None,
        "epsilon0, three requests",
        (GUEST, HOST, SECOND_HOST, ARBITER),
        TABLES,
        step,
        released,
        neighbours=tuple(
            Neighbour(f"a record of {party[0]}, {value}", party, changed_row(TABLES[party], 2, x0=value, x1=value))
            for party in ROWS
            for value in (1.9, 1e300, np.nan)
        ),
        sealed=SEALED,
        free={("preflight", "asked"): "the arbiter's and the guest's are compared by the arbiter"},
        allowed=("fewer than min_messages",),
        equal=statistics_are_those_of_the_draws,
    )
]
