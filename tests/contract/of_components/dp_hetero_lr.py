"""dp_hetero_lr: noise on second moments, for records by every party or for labels by the guest."""

from dataclasses import replace
from functools import partial

from fate_dp.components.dp_hetero_lr.component import dp_hetero_lr
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import Gaussian, PureDP
from fate_dp.testing import ComponentStep

from ..cases import GUEST, HOST, Case, Law, Released, base_table, charged_events, noise_of
from ..labels import SOURCE, declare, declare_public, not_private

ROWS, EPSILON, DELTA, EPOCHS = 30, 2.0, 1e-5, 2
TABLES = {GUEST: base_table(ROWS, ("x0", "x1"), 1, (0, 1, 1)), HOST: base_table(ROWS, ("x2", "x3"), 2)}
FEATURES = {GUEST: 2, HOST: 2}


def step(tables, **given):
    parameters = {"epochs": EPOCHS, "noise_epsilon": EPSILON, "noise_delta": DELTA, "label_source": SOURCE, **given}
    return ComponentStep(dp_hetero_lr, parameters, {"train_data": tables}, stage="train")


def released(played, tables):
    """Each fit has three draws of one scale, but for pairs within a party, which stand in a table twice.

    The scale over the sensitivity is the business of tests/statistical/test_second_moments_noise.py.
    """
    found = []
    for party in (GUEST, HOST):
        gaussian = [event for event, _ in charged_events(played, party) if isinstance(event.process, Gaussian)]
        others = [event for event, _ in charged_events(played, party) if not isinstance(event.process, Gaussian)]
        draws, scales = [draw for draw in noise_of(played, party) if draw.law != "loss_part"], []
        for at, event in enumerate(gaussian):
            one, pairs, cross = draws[3 * at : 3 * at + 3]
            scale = one.terms["scale"]
            scales.append(scale / event.process.noise_multiplier)
            laws = (
                Law("discrete_gaussian", {"scale": scale}, one.size),
                Law("discrete_gaussian", {"scale": scale / 2**0.5}, pairs.size),
                Law("discrete_gaussian", {"scale": scale}, cross.size),
            )
            found.append(Released(party, ("record", {"process": event.process, "unit": "record", "count": 1}), laws))
        for event in others:
            assert isinstance(event.process, PureDP)
            law = Law("discrete_laplace", {"scale": 2 * 2.0**30 / event.process.epsilon}, FEATURES[party])
            found.append(Released(party, ("record", {"process": event.process, "count": 1}), (law,)))
    *others, last = found
    return [*others, replace(last, laws=(*last.laws, *loss_parts())), not_private()]


def loss_parts():
    """The host rounds what the guest sees of the mean loss of each epoch."""
    return tuple(Law("loss_part", {"deviation": 2.0**-16, "rows": ROWS}, 1) for _ in range(EPOCHS))


def label_noise(played, tables):
    ((event, _),) = charged_events(played, GUEST)
    (draw,) = noise_of(played, GUEST)
    return [
        Released(
            GUEST,
            ("record", {"process": event.process, "unit": "label", "count": 1}),
            (Law("discrete_gaussian", draw.terms, 5),),
        ),
        Released(HOST, ("record_losses", {"trainings": 1}), loss_parts()),
    ]


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


def case(setting, released, prepare, parties, **given):
    return Case(
        "dp_hetero_lr", "train", setting, (GUEST, HOST), TABLES, partial(step, **given), released,
        sealed=SEALED, persistent=PERSISTENT, prepare=prepare, costs=costs(*parties), light=True,
    )  # fmt: skip


CASES = [
    case("noise uniform", released, declare_public(TABLES), (GUEST, HOST), noise="uniform"),
    case("noise adaptive", released, declare_public(TABLES), (GUEST, HOST), noise="adaptive"),
    case("noise label", label_noise, declare, (GUEST,), noise="label"),
]
