"""What each party receives where the cross product trains, and that nothing can be read from it but what it may know."""
from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy.stats import ks_2samp

from fate_dp.components.dp_hetero_lr.settings import batch_bounds
from fate_dp.crypto import ciphertext, residue_products
from fate_dp.crypto.blinding import BlindingFactor, FixedBaseBlinding
from fate_dp.crypto.cross_product import encrypt_rows, multiply_rows, product_layout, seal_sums
from fate_dp.crypto.fixed_base import FixedBasePowers
from fate_dp.crypto.fixed_point import encode_features
from fate_dp.crypto.paillier import PublicKey, keypair_of_any_length
from fate_dp.crypto.slots import SlotLayout
from gmpy2 import mpz

from .attacks import (
    Public,
    Secret,
    columns_readable,
    combined,
    labels_readable,
    multipliers_confirmed,
    nearer_to_first,
    numbers_readable,
    unblinded_ciphertexts,
    uniformity,
)
from .messages import byte_strings, ciphertexts, names, numbers, public_moduli, shape, values_of
from .protected_numbers import kept_from, protected_numbers
from .scenarios import ARBITER, GUEST, HOST, SECOND_HOST, Scenario, features_of, flip, play, tables, weights
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
FLIPPED = {**PLAIN, "public": False, "labels_of": "flip", "score_cap": 9, "flipback": {
    "mode": "swap", "every": 2, "fraction": 0.5, "max_rounds": 1}}  # fmt: skip
SOUND = {
    "first": Scenario(train_watched, PLAIN, WITH_ARBITER, "plain"),
    "second": Scenario(train_watched, PLAIN, WITH_ARBITER, "plain"),
    "two chunks": Scenario(train_watched, {**PLAIN, "epochs": 14}, PAIR),
    "exact": Scenario(train_watched, EXACT, WITH_ARBITER, "exact"),
    "exact, other data": Scenario(train_watched, {**EXACT, "tables": OTHER_TABLES}, WITH_ARBITER),
    "two hosts": Scenario(train_watched, {**PLAIN, "tables": THREE_TABLES, "batch_size": 50, "epochs": 3}, ALL),
    "exact, two hosts": Scenario(train_watched, {**EXACT, "tables": THREE_TABLES, "sigmoid_rounds": 1, "epochs": 3}, TRIO),
    "flipback": Scenario(train_watched, FLIPPED, WITH_ARBITER, "flips"),
    "flipback changes nothing": Scenario(train_watched, {**FLIPPED, "without": ["new labels"]}, WITH_ARBITER, "flips"),
}  # fmt: skip
CONTROLS = {
    "bare products": Scenario(train_watched, {**EXACT, "without": ["masks of products"]}, WITH_ARBITER, "exact"),
    "bare steps": Scenario(train_watched, {**PLAIN, "without": ["masks of steps"]}, WITH_ARBITER, "plain"),
    "narrow masks, bare answers": Scenario(
        train_watched, {**EXACT, "without": ["wide masks", "blinding of answers"]}, WITH_ARBITER, "exact"),
    "steps used again": Scenario(train_watched, {**PLAIN, "without": ["fresh steps"]}, WITH_ARBITER, "plain"),
}  # fmt: skip
SCENARIOS = {"flip": Scenario(flip, dict(tables=TABLES, epsilon=0.5), PAIR, "flips"), **SOUND, **CONTROLS}
ANOTHER_RUN = {"first": "second", "exact": "exact, other data", "flipback": "flipback changes nothing"}
"""Runs with the same labels, or with the same start, that an attack compares with."""
RECEIVERS = [(name, party) for name, scenario in SOUND.items() for party in scenario.parties]
PARTY_RUNS = [pytest.param(name, party, id=f"{name} at {CALLED[party]}") for name, party in RECEIVERS]

NEVER = 1e-7
"""Chance does not bring a p-value below this."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    outcomes = play(SCENARIOS, tmp_path_factory.mktemp("homes"))
    refused = {name: {party: o.error for party, o in by_party.items() if o.error} for name, by_party in outcomes.items()}
    assert not any(refused.values()), refused
    return outcomes


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
    sent = [message for message in runs[name][peer].received if message[0] == own]
    opened = notes(runs, name, party)["opened"].items()
    return [*received, *sent, *((own, f"opened {kind}", [value for value, _ in values]) for kind, values in opened if values)]


def attacked(runs, name, party) -> list:
    """The view, and what comparing messages with one another and with another run's gives."""
    other = ANOTHER_RUN.get(name)
    return combined(view(runs, name, party), view(runs, other, party) if other else ())


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
    """What the guest multiplies the rows of a host with, in units of 2^-24: features, intercept, target."""
    own, labels = features(runs, name, GUEST), label_columns(runs, name)
    return encode_features(np.column_stack([own, np.ones(len(own)), labels.get("flipped", labels["true"]) - 0.5]))


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
        secret = secrets[f"weights of {CALLED[party]}"]
        secrets[f"weights of {CALLED[party]}"] = Secret([*np.ravel(secret.values), *weights(runs[name], party)], secret.fraction_bits)
    return secrets


FROM_GUEST = product(["guest"], ["verdict", "public_key", "masks", "products", "hidden_weights", "hidden_losses",
                                 "training_state", "weight_shares"])  # fmt: skip
TO_HOST = frozenset(FROM_GUEST)
BETWEEN_HOSTS = set(product(["host"], ["public_key", "masks", "products", "hidden_weights", "hidden_losses", "weight_shares"]))
TO_GUEST = BETWEEN_HOSTS | {("host", "preflight"), ("host", "loss_shares")}
GUESTS_ROWS, HOSTS_ROWS = ("guest", "encrypted_rows"), ("host", "encrypted_rows")
GUESTS_ANSWER, HOSTS_ANSWER = ("guest", "masked_products"), ("host", "masked_products")
FROM_ARBITER, SCORES, BITS = ("arbiter", "preflight"), ("host", "scores"), ("host", "leading_bits")
RECEIVED = {
    ("first", GUEST): TO_GUEST | {FROM_ARBITER, HOSTS_ANSWER},
    ("first", HOST): TO_HOST | {GUESTS_ROWS},
    ("two chunks", GUEST): TO_GUEST | {HOSTS_ANSWER},
    ("two chunks", HOST): TO_HOST | {GUESTS_ROWS},
    ("exact", GUEST): TO_GUEST | {FROM_ARBITER, HOSTS_ROWS, SCORES},
    ("exact", HOST): TO_HOST | {GUESTS_ANSWER},
    ("flipback", GUEST): TO_GUEST | {FROM_ARBITER, HOSTS_ROWS, SCORES},
    ("flipback", HOST): TO_HOST | {GUESTS_ANSWER},
    ("two hosts", GUEST): TO_GUEST | {FROM_ARBITER, HOSTS_ANSWER, BITS},
    ("two hosts", HOST): TO_HOST | BETWEEN_HOSTS | {GUESTS_ROWS, HOSTS_ANSWER},
    ("two hosts", SECOND_HOST): TO_HOST | BETWEEN_HOSTS | {GUESTS_ROWS, HOSTS_ROWS},
    ("exact, two hosts", GUEST): TO_GUEST | {HOSTS_ROWS, SCORES, BITS},
    ("exact, two hosts", HOST): TO_HOST | BETWEEN_HOSTS | {GUESTS_ANSWER, HOSTS_ANSWER},
    ("exact, two hosts", SECOND_HOST): TO_HOST | BETWEEN_HOSTS | {GUESTS_ANSWER, HOSTS_ROWS},
    **{(name, ARBITER): {("guest", "verdict"), ("guest", "training_state")}
       for name in ("first", "exact", "flipback", "two hosts")},
}  # fmt: skip


@pytest.mark.parametrize("name, party", [pytest.param(*key, id=f"{key[0]} at {CALLED[key[1]]}") for key in RECEIVED])
def test_a_party_receives_these_messages_and_no_other(runs, name, party):
    assert names(runs[name][party].received) == RECEIVED[name, party]


@pytest.mark.parametrize("name, rounds", [("first", 0), ("flipback", 1), ("exact", 2)])
def test_the_number_of_messages_follows_from_public_numbers(runs, name, rounds):
    per_training, per_epoch = {"verdict", "public_key", "masks", "products"}, {"hidden_weights", "hidden_losses"}
    expected = {**dict.fromkeys(per_training, 1), **dict.fromkeys(per_epoch, 5), "training_state": 10, "weight_shares": 1 + rounds}
    statistics = {"masked_products": 1 + rounds} if rounds else {"encrypted_rows": 1}
    assert Counter(message for _, message, _ in runs[name][HOST].received) == {**expected, **statistics}
    assert Counter(message for _, message, _ in runs[name][ARBITER].received) == {"verdict": 1, "training_state": 5}
    assert len(values_of(runs[name][GUEST].received, "scores")) == rounds


@pytest.mark.parametrize("name, party", PARTY_RUNS)
def test_what_is_said_in_clear_holds_public_numbers_only(runs, name, party):
    for sender, message, value in runs[name][party].received:
        if message == "verdict":
            assert set(value) == {"problem", "terms"} and set(value["terms"]) == {
                "rows", "batches", "optimizer", "flipback_epochs", "correction_epochs", "score_epochs", "features",
                "mean_square_bits", "noise"}  # fmt: skip
            assert value["terms"]["mean_square_bits"] in range(9) and value["terms"]["noise"] is None
        elif message == "preflight" and sender.startswith("host"):
            assert set(value["facts"]) == {"rows", "features", "digest", "score_releases_left", "mean_square_bits", "noise"}
            assert value["facts"]["mean_square_bits"] in range(9) and value["facts"]["noise"] is None
        elif message == "preflight":
            assert value == {"facts": {}, "problem": None}
        elif message == "public_key":
            assert set(value) == {"n", "blinding_base"}
        elif message == "training_state":
            assert value in ("goes on", "converged", "exhausted")


@pytest.mark.parametrize("name, party", PARTY_RUNS)
def test_everything_else_is_ciphertexts_of_one_size_or_numbers_below_their_modulus(runs, name, party):
    moduli = public(runs, name).moduli
    for _, message, value in runs[name][party].received:
        if message in ("encrypted_rows", "masked_products", "masks", "products"):
            assert byte_strings(value) and {len(data) % 512 for data in byte_strings(value)} == {0}
            assert message == "encrypted_rows" or not numbers(value)
        elif message in ("hidden_weights", "hidden_losses", "loss_shares", "leading_bits", "weight_shares"):
            assert {type(number) for number in numbers(value)} == {int} and not byte_strings(value)
            low = -max(moduli) if message == "weight_shares" else 0
            assert all(low <= number < max(moduli) for number in numbers(value))


@pytest.mark.parametrize("name", ["first", "two hosts", "two chunks"])
def test_protected_numbers_are_those_of_the_training(runs, name):
    secrets = protected(runs, name)
    for party in data_parties(name):
        own = secrets[f"weights of {CALLED[party]}"].values
        trained = weights(runs[name], party)
        assert np.abs(np.array(own[-2 * len(trained) : -len(trained)]) - trained).max() < 1e-5 < np.abs(trained).max()


@pytest.mark.parametrize("name, party", [case for case in PARTY_RUNS if case.values[1] != GUEST])
def test_no_label_can_be_read_by_hosts_and_arbiter(runs, name, party):
    received, known = attacked(runs, name, party), public(runs, name)
    for labels in label_columns(runs, name).values():
        assert labels_readable(received, labels, known) == []


@pytest.mark.parametrize("name, party", PARTY_RUNS)
def test_no_feature_of_others_can_be_read(runs, name, party):
    received, known = attacked(runs, name, party), public(runs, name)
    for other in data_parties(name):
        if other != party:
            assert columns_readable(received, features(runs, name, other), known) == []


@pytest.mark.parametrize("name, party", PARTY_RUNS)
def test_no_protected_number_can_be_read(runs, name, party):
    secrets = kept_from(CALLED[party], protected(runs, name))
    assert numbers_readable(attacked(runs, name, party), secrets, public(runs, name)) == []


@pytest.mark.parametrize("name, party, read", [
    ("bare products", HOST, {("opened sums", "labels x host"), ("opened sums", "guest x host")}),
    ("bare steps", HOST, {
        ("hidden_weights", "weights of guest"), ("hidden_weights, summed", "weights on the way of guest"),
        ("hidden_losses, summed", "slopes of guest")}),
    ("bare steps", GUEST, {
        ("hidden_weights", "weights of host"), ("hidden_weights, summed", "weights on the way of host"),
        ("hidden_losses, summed", "slopes of host")}),
    ("steps used again", HOST, {("hidden_weights, summed, changes", "steps of guest")}),
    ("steps used again", GUEST, {("hidden_weights, summed, changes", "steps of host")}),
])  # fmt: skip
def test_the_same_attack_reads_numbers_without_masks_or_with_masks_used_again(runs, name, party, read):
    secrets = kept_from(CALLED[party], protected(runs, name))
    assert read <= set(numbers_readable(attacked(runs, name, party), secrets, public(runs, name)))


def test_the_same_attack_reads_weights_from_two_runs_with_the_same_masks(runs):
    modulus, known = public(runs, "first").moduli[0], public(runs, "first")
    shift = [round(weight * 2**40) for weight in weights(runs["first"], HOST)]
    again = [(sender, name, [(a + b) % modulus for a, b in zip(value, [*shift, 0, 0, 0, 0])] if name == "hidden_weights" else value)
             for sender, name, value in view(runs, "first", GUEST)]
    secrets = kept_from("guest", protected(runs, "first"))
    found = numbers_readable(combined(view(runs, "first", GUEST), again), secrets, known)
    assert ("hidden_weights, run to run", "weights of host") in found


@pytest.mark.parametrize("draw, blindings", [
    (lambda powers, count: np.zeros((count, len(powers._widths)), dtype=np.uint16), "none"),
    (lambda powers, count: np.full((count, len(powers._widths)), 3, dtype=np.uint16), "one for all"),
])  # fmt: skip
def test_the_same_attack_reads_labels_and_features_from_rows_that_are_not_blinded(runs, monkeypatch, draw, blindings):
    """As the guest sends them, but for the blinding; the host would refuse those without any."""
    public_key, private_key = keypair_of_any_length(512)
    layout = product_layout(100, public_key)
    columns, labels = features(runs, "first", GUEST), label_columns(runs, "first")["true"]
    matrix, own = guests_matrix(runs, "first")[:, [0, 4]], features(runs, "first", HOST)
    known = Public([public_key.n], layouts=[layout])
    sent = [("guest-9999", "encrypted_rows", [(0, encrypt_rows(matrix, private_key.encryption(), layout, 100))])]
    assert labels_readable(sent, labels, known) == columns_readable(sent, columns, known) == []
    monkeypatch.setattr(FixedBasePowers, "random_digits", draw)
    encrypted = encrypt_rows(matrix, private_key.encryption(), layout, 100)
    sent = [("guest-9999", "encrypted_rows", [(0, encrypted)])]
    assert labels_readable(sent, labels, known) == columns_readable(sent, columns, known) == ["encrypted_rows"]
    assert labels_readable(sent, np.roll(labels, 1), known) == columns_readable(sent, own, known) == []
    assert unblinded_ciphertexts(sent, known) == (["encrypted_rows"] if blindings == "none" else [])
    if blindings == "none":
        with pytest.raises(ValueError, match="without blinding"):
            multiply_rows(encode_features(own), encrypted, 2, layout, public_key)
