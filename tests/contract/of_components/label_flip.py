"""label_flip: flips of classes, and noise on numbers, once for each record."""

import hashlib
from functools import partial

import numpy as np

from fate_dp.components.label_flip.component import label_flip
from fate_dp.privacy.mechanisms.local_numbers import piecewise_law
from fate_dp.testing import ComponentStep

from ..cases import GUEST, HOST, SECOND_HOST, Case, Law, Neighbour, Released, base_table, changed_row, noise_of
from ..labels import EPSILON, SOURCE, declare

CLASSES, BOUNDS = (0.0, 1.0, 3.0), (-1.0, 2.0)
TABLES = {
    GUEST: base_table(20, ("x0",), 1, labels=(0, 1, 1, 3)),
    HOST: base_table(20, ("x1",), 2),
    SECOND_HOST: base_table(20, ("x2",), 3),
}


def step(tables, **more):
    return ComponentStep(label_flip, {"epsilon": EPSILON, "label_source": SOURCE, **more}, {"input_data": tables})


def released(played, tables, law, terms, recorded, draws_to_values):
    (draws,) = [noise_of(played, GUEST)]
    written = played.values[GUEST]["output_data"]
    # By id: a block has no order of its own.
    drawn = dict(
        zip((each for draw in draws for each in draw.private[1]), np.concatenate([each.result for each in draws]))
    )
    left = written.set_index("id")["y"].to_dict()
    labels = tables[GUEST].set_index("id")["y"]
    # Nobody else knows the key, which is the party's own.
    assert {draw.private[2] for draw in draws} == {
        hashlib.sha256(f"{played.home.name} of {GUEST[1]}".encode()).digest()
    }
    sizes = [len(draw.private[1]) for draw in draws]
    assert sum(sizes) == len(tables[GUEST])
    laws = tuple(
        Law(law, terms, draw.size, private=draws_to_values(labels[list(draw.private[1])].to_numpy(), back=True))
        for draw in draws
    )
    ids = sorted(left)
    return [
        Released(
            GUEST,
            ("record_flips", {"epsilon": EPSILON, "source": SOURCE, **recorded}),
            laws,
            [left[each] for each in ids],
            lambda results: draws_to_values(np.array([drawn[each] for each in ids])),
        )
    ]


def classes_of(values, back=False):
    return np.searchsorted(CLASSES, values) if back else np.array(CLASSES)[values]


def numbers_of(values, back=False):
    return values


LAW = piecewise_law(EPSILON, BOUNDS)
NUMBERS = {**TABLES, GUEST: base_table(20, ("x0",), 1, labels=(0.0, 0.5, 1.25, 2.0, -1.0))}
CASES = [
    Case(
        "label_flip",
        None,
        setting,
        (GUEST, HOST, SECOND_HOST),
        tables,
        partial(step, **parameters),
        releases,
        neighbours=tuple(
            Neighbour(f"a label is {value}", GUEST, changed_row(tables[GUEST], 2, y=value)) for value in values
        ),
        prepare=declare,
    )
    for setting, tables, parameters, releases, values in (
        (
            "classes",
            TABLES,
            {"classes": CLASSES},
            partial(
                released,
                law="flip_labels",
                terms={"epsilon": EPSILON, "classes": 3, "source": SOURCE},
                recorded={"classes": 3},
                draws_to_values=classes_of,
            ),
            (0.0, 3.0),
        ),
        (
            "numbers",
            NUMBERS,
            {"bounds": BOUNDS},
            partial(
                released,
                law="noisy_numbers",
                terms={"law": LAW, "source": SOURCE},
                recorded={"classes": LAW.points, "bounds": BOUNDS},
                draws_to_values=numbers_of,
            ),
            (-1.0, 1.9),
        ),
    )
]
