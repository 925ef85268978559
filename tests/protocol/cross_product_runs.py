"""Trainings by cross products whose transcripts are tested, and what is known of them.

``runs`` is what `scenarios.play` returns of ``SCENARIOS``.
"""

import numpy as np

from fate_dp.components.protocols.optimizers import batch_bounds
from fate_dp.crypto.descent_steps import HESSIAN_FRACTION_BITS
from fate_dp.crypto.slots import encode_features

from .attacks import Public, Secret, combined
from .messages import ciphertexts, numbers, public_moduli, values_of
from .protected_numbers import protected_numbers
from .scenarios import ARBITER, GUEST, HOST, SECOND_HOST, Scenario, features_of, flip, tables, weights
from .watched_training import train_watched

TABLES, OTHER_TABLES = (tables(rows=100, guest=3, hosts=(4,), seed=seed) for seed in (0, 1))
THREE_TABLES = tables(rows=100, guest=3, hosts=(4, 2), seed=2)
PAIR, TRIO = (GUEST, HOST), (GUEST, HOST, SECOND_HOST)
WITH_ARBITER, ALL = (*PAIR, ARBITER), (*TRIO, ARBITER)
CALLED = {GUEST: "guest", HOST: "host", SECOND_HOST: "second host", ARBITER: "arbiter"}
INIT = {"method": "kaiming", "fill_val": 0.0, "fit_intercept": True, "random_state": 3}
PLAIN = dict(tables=TABLES, public=True, init_param=INIT, tol=0, train_scores=False, epochs=5)
# Two corrections of the sigmoid, at epochs 2 and 4.
EXACT = {**PLAIN, "sigmoid": "exact", "sigmoid_rounds": 2, "score_cap": 9}
FLIPPED = {
    **PLAIN,
    "public": False,
    "labels_of": "flip",
    "score_cap": 9,
    "flipback": {"mode": "swap", "every": 2, "fraction": 0.5, "max_rounds": 1},
}
SOUND = {
    "first": Scenario(train_watched, PLAIN, WITH_ARBITER, "plain"),
    "two chunks": Scenario(train_watched, {**PLAIN, "epochs": 14}, PAIR, "plain"),
    "exact": Scenario(train_watched, EXACT, WITH_ARBITER, "exact"),
    "exact, other data": Scenario(train_watched, {**EXACT, "tables": OTHER_TABLES}, WITH_ARBITER),
    "two hosts": Scenario(train_watched, {**PLAIN, "tables": THREE_TABLES, "batch_size": 50, "epochs": 3}, ALL),
    "exact, two hosts": Scenario(
        train_watched, {**EXACT, "tables": THREE_TABLES, "sigmoid_rounds": 1, "epochs": 3}, TRIO
    ),
    "flipback": Scenario(train_watched, FLIPPED, WITH_ARBITER, "flips"),
    "flipback changes nothing": Scenario(train_watched, {**FLIPPED, "without": ["new labels"]}, WITH_ARBITER, "flips"),
}
CONTROLS = {
    "bare products": Scenario(train_watched, {**EXACT, "without": ["masks of products"]}, PAIR, "exact"),
    "bare steps": Scenario(train_watched, {**PLAIN, "without": ["masks of steps"]}, PAIR, "plain"),
    "narrow masks, bare answers": Scenario(
        train_watched, {**EXACT, "without": ["wide masks", "blinding of answers"]}, PAIR, "exact"
    ),
    "steps used again": Scenario(train_watched, {**PLAIN, "without": ["fresh steps"]}, PAIR, "plain"),
}
SCENARIOS = {"flip": Scenario(flip, dict(tables=TABLES, epsilon=0.5), PAIR, "flips"), **SOUND, **CONTROLS}
ANOTHER_RUN = {"first": "two chunks", "exact": "exact, other data", "flipback": "flipback changes nothing"}
"""Runs that an attack compares with: on the same rows from the same start, on other rows, with other labels later."""
KINDS = [
    "opened sums",
    "opened weights",
    "opened losses",
    "hidden weights",
    "changes of hidden weights",
    "hidden losses",
    "loss shares",
    "leading bits",
    "weight shares",
]
"""Masked numbers that data parties open or receive."""


def data_parties(name):
    return [party for party in SCENARIOS[name].parties if party != ARBITER]


def notes(runs, name, party):
    return runs[name][party].value["notes"]


def view(runs, name, party) -> list:
    """What a party received, sent to the first of the other data parties, and opened."""
    own, received = "-".join(party), runs[name][party].received
    if party == ARBITER:
        return received
    peer = next(other for other in data_parties(name) if other != party)
    sent = [message for message in runs[name][peer].received if message[0] == own and message[1] != "scores"]
    opened = {kind: [value for value, _ in values] for kind, values in notes(runs, name, party)["opened"].items()}
    return [*received, *sent, *((own, f"opened {kind}", values) for kind, values in opened.items() if values)]


def attacked(runs, name, party, beside=()) -> list:
    """The view but for some messages, and what comparing messages with one another and with another run's gives."""
    chosen = [run for run in (name, ANOTHER_RUN.get(name)) if run and party in SCENARIOS[run].parties]
    return combined(*([message for message in view(runs, run, party) if message[1] not in beside] for run in chosen))


def public(runs, name) -> Public:
    """What everybody knows."""
    everything = [message for outcome in runs[name].values() for message in outcome.received]
    of_parties = [notes(runs, name, party) for party in data_parties(name)]
    moduli = [modulus for kind in of_parties[0]["moduli"].values() for modulus in kind]
    return Public(public_moduli(everything), moduli, [of["layout"] for of in of_parties if "layout" in of])


def ordered(runs, name, table):
    """A table's rows in the order in which they travel, which is the frame's."""
    return table.set_index("id").loc[runs[name][GUEST].value["order"]].reset_index()


def features(runs, name, party):
    return features_of(ordered(runs, name, SCENARIOS[name].arguments["tables"][party]))


def guests_matrix(runs, name):
    """What the guest multiplies the rows of a host with, in units of 2^-20: features, intercept, target."""
    own, labels = features(runs, name, GUEST), label_columns(runs, name)
    return in_units(np.column_stack([own, np.ones(len(own)), labels.get("flipped", labels["true"]) - 0.5]))


def in_units(values):
    """Features as they are multiplied: rounded twice, to 2^-24 and to 2^-20."""
    return encode_features(values) + 8 >> 4


def label_columns(runs, name) -> dict:
    """Columns of labels that only the guest knows: true, flipped, as flipback made them, and which ones it changed."""
    arguments = SCENARIOS[name].arguments
    known = {"true": ordered(runs, name, arguments["tables"][GUEST])["y"].to_numpy(float)}
    if "labels_of" in arguments:
        known["flipped"] = ordered(runs, name, runs["flip"][GUEST].value["table"])["y"].to_numpy(float)
        (revised,) = notes(runs, name, GUEST)["labels"]
        known |= {"revised": np.array(revised), "changed": (np.array(revised) != known["flipped"]).astype(float)}
    return {what: labels for what, labels in known.items() if len(set(labels)) == 2}


def protected(runs, name) -> dict:
    """`protected_numbers` of the steps before any joint score was seen, and of the final weights."""
    arguments, terms = SCENARIOS[name].arguments, values_of(runs[name][HOST].received, "verdict")[0]["terms"]
    parts = {CALLED[party]: features(runs, name, party) for party in data_parties(name)}
    parts["guest"] = np.column_stack([parts["guest"], np.ones(100)])
    labels, batches = label_columns(runs, name), batch_bounds(100, arguments.get("batch_size"))
    start = np.concatenate([runs[name][party].value["start"] for party in data_parties(name)])
    epochs = min([*terms["score_epochs"], arguments["epochs"]])
    targets = labels.get("flipped", labels["true"]) - 0.5
    secrets = protected_numbers(parts, targets, batches, terms["optimizer"], start, epochs * len(batches))
    for party in data_parties(name):
        what, trained = f"weights of {CALLED[party]}", weights(runs[name], party)
        secrets[what] = Secret([*np.ravel(secrets[what].values), *trained], secrets[what].fraction_bits)
    return secrets


def all_ciphertexts(runs, name, party) -> list:
    key = public(runs, name).keys[0]  # all of them are of one length
    return [number for _, _, value in runs[name][party].received for number in ciphertexts(value, key)]


def hosts_sums(runs, name) -> list:
    """What the host would open without masks: products of the guest's columns and its own, in units of 2^-40."""
    left, right = guests_matrix(runs, name).astype(object), in_units(features(runs, name, HOST)).astype(object)
    return (left.T @ right).ravel().tolist()


def pooled(runs, scenarios, parties=TRIO) -> dict:
    """{kind: [(number, what it should be uniform below), ...]} at some parties; what one sends to all counts once."""
    pools = {kind: [] for kind in KINDS}
    for name in scenarios:
        present = [party for party in parties if party in data_parties(name)]
        for party in present:
            for kind, opened in notes(runs, name, party)["opened"].items():
                pools[f"opened {kind}"].extend(opened)
        for sender in data_parties(name):
            for receiver in [party for party in present if party != sender][:1]:
                for kind, received in _hidden_numbers(runs, name, receiver, "-".join(sender)):
                    pools[kind].extend(received)
    return pools


def _hidden_numbers(runs, name, party, sender):
    """What a party received of one sender, by kind."""
    # Moduli of different steps differ by less than 2^-32 of their size.
    moduli, terms = notes(runs, name, party)["moduli"], values_of(runs[name][HOST].received, "verdict")[0]["terms"]
    # A share of a weight adds up numbers below the modulus times the learning rate, in coarser units.
    bits = moduli["weights"][0].bit_length() - HESSIAN_FRACTION_BITS
    width = 1 << bits + int(np.log2(terms["optimizer"]["optimizer_params"]["lr"])) - 8
    received = runs[name][party].received
    steps = values_of(received, "hidden_weights", sender)
    changes = [second - first for pair in zip(steps, steps[1:]) for first, second in zip(*pair)]
    for kind, values, below in (
        ("hidden weights", steps, moduli["weights"][0]),
        ("changes of hidden weights", changes, moduli["weights"][0]),
        ("hidden losses", values_of(received, "hidden_losses", sender), moduli["losses"][0]),
        ("loss shares", values_of(received, "loss_shares", sender), moduli["losses"][0]),
        ("leading bits", values_of(received, "leading_bits", sender), 1 << 4),
        ("weight shares", values_of(received, "weight_shares", sender), width),
    ):
        yield kind, [(value % below, below) for value in numbers(values)]
