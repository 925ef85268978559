"""What each party receives where the cross product trains, and that nothing can be read from it but what it may know."""
from collections import Counter
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from gmpy2 import mpz
from scipy.stats import ks_2samp

from fate_dp.components.dp_hetero_lr.settings import batch_bounds
from fate_dp.crypto import ciphertext, residue_products
from fate_dp.crypto.blinding import BlindingFactor, FixedBaseBlinding
from fate_dp.crypto.cross_product import encrypt_rows, multiply_rows, product_layout, seal_sums
from fate_dp.crypto.fixed_base import FixedBasePowers
from fate_dp.crypto.fixed_point import encode_features
from fate_dp.crypto.paillier import keypair_of_any_length
from fate_dp.crypto.residues import ResidueSystem
from fate_dp.crypto.shared_quadratic import HESSIAN_FRACTION_BITS
from fate_dp.crypto.slots import SlotLayout

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
from .messages import byte_strings, ciphertexts, clear_beyond_public, names, numbers, public_moduli, shape, values_of
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
    sent = [message for message in runs[name][peer].received if message[0] == own and message[1] != "scores"]
    opened = notes(runs, name, party)["opened"].items()
    return [*received, *sent, *((own, f"opened {kind}", [value for value, _ in values]) for kind, values in opened if values)]


def attacked(runs, name, party, beside=()) -> list:
    """The view but for some messages, and what comparing messages with one another and with another run's gives."""
    views = [view(runs, run, party) for run in (name, ANOTHER_RUN.get(name)) if run]
    return combined(*([message for message in messages if message[1] not in beside] for messages in views))


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
    expected = {**dict.fromkeys(per_training, 1), **dict.fromkeys(per_epoch, 5), "weight_shares": 1 + rounds,
                "training_state": 2 * 5 + rounds}
    statistics = {"masked_products": 1 + rounds} if rounds else {"encrypted_rows": 1}
    assert Counter(message for _, message, _ in runs[name][HOST].received) == {**expected, **statistics}
    assert Counter(message for _, message, _ in runs[name][ARBITER].received) == {"verdict": 1, "training_state": 5}
    assert len(values_of(runs[name][GUEST].received, "scores")) == rounds


@pytest.mark.parametrize("name, party", PARTY_RUNS)
def test_what_is_said_in_clear_holds_public_numbers_only(runs, name, party):
    assert clear_beyond_public(runs[name][party].received) == []


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
    """Scores, which the guest is to see, are so many numbers that some are near to others."""
    secrets = kept_from(CALLED[party], protected(runs, name))
    assert numbers_readable(attacked(runs, name, party, beside=["scores"]), secrets, public(runs, name)) == []


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
    (lambda powers, count: np.ones((count, len(powers._widths)), dtype=np.uint16), "one for all"),
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


def test_no_ciphertext_that_anybody_decrypts_is_sent(runs):
    for name, party in RECEIVERS:
        assert unblinded_ciphertexts(runs[name][party].received, public(runs, name)) == []


@pytest.mark.parametrize("party, least", [(GUEST, 800), (HOST, 800), (SECOND_HOST, 200)])
def test_a_party_never_receives_a_ciphertext_or_its_blinding_twice(runs, party, least):
    of_runs = {name: all_ciphertexts(runs, name, party) for name, receiver in RECEIVERS if receiver == party}
    received = [number for of_run in of_runs.values() for number in of_run]
    assert len(set(received)) == len(received) > least
    # What is left of a ciphertext modulo n is its blinding factor, whatever the plaintext.
    for name, of_run in of_runs.items():
        assert all(len({number % n for number in of_run}) == len(of_run) for n in public(runs, name).keys)


def all_ciphertexts(runs, name, party) -> list:
    key = public(runs, name).keys[0]  # all of them are of one length
    return [number for _, _, value in runs[name][party].received for number in ciphertexts(value, key)]


@pytest.mark.parametrize("name, confirmed", [("exact", 0), ("exact, other data", 0), ("narrow masks, bare answers", 5)])
def test_blinding_hides_from_the_owner_of_a_key_what_its_rows_were_multiplied_with(runs, name, confirmed):
    """Even if the owner has the right columns to compare with; without blinding of the answers that would do."""
    (key,) = values_of(runs[name][GUEST].received, "public_key", "host")
    (rows,) = values_of(runs[name][GUEST].received, "encrypted_rows", "host")
    answer, *_ = values_of(runs[name][HOST].received, "masked_products")
    returned, encrypted = ciphertexts(answer, key["n"]), ciphertexts(rows, key["n"])
    assert (len(returned), len(encrypted)) == (5, 100)
    assert multipliers_confirmed(returned, encrypted, guests_matrix(runs, name), key["n"]) == confirmed


@pytest.mark.parametrize("blinded", [True, False])
def test_the_same_computation_comes_back_with_other_randomness(monkeypatch, blinded):
    public_key, private_key = keypair_of_any_length(1024)
    slots, system = product_layout(20, public_key), ResidueSystem.below(60, 4)
    layout = residue_products.ProductLayout(system, 3, 30, 1024)
    matrix, vectors = np.arange(40, dtype=np.int64).reshape(20, 2) << 20, np.full((3, 4), 7, dtype=object)
    sums = multiply_rows(matrix, encrypt_rows(matrix, private_key.encryption(), slots, 20), 2, slots, public_key)
    encrypted = residue_products.encrypt_vectors(vectors, system, private_key.encryption(), 3)
    monkeypatch.setattr(residue_products, "secrets", SimpleNamespace(randbits=lambda bits: 5))
    monkeypatch.setattr(SlotLayout, "draw_masks", lambda layout, count: [5] * count)
    if not blinded:
        monkeypatch.setattr(ciphertext, "full_blinding", lambda key: BlindingFactor(mpz(1), key))
        monkeypatch.setattr(FixedBaseBlinding, "factor", lambda blinding: BlindingFactor(mpz(1), public_key))
    for compute in (
        lambda: seal_sums(sums, 2, slots, public_key)[0],
        lambda: residue_products.multiply_vectors(encrypted, [[3, 5, 9]], layout, public_key, 80)[0],
    ):
        first, second = (ciphertexts(compute(), public_key.n) for _ in range(2))
        assert [private_key.decrypt(number) for number in first] == [private_key.decrypt(number) for number in second]
        assert not blinded or not {number % public_key.n for number in first} & {number % public_key.n for number in second}
        assert blinded or first == second


KINDS = ["opened sums", "opened weights", "opened losses", "hidden weights", "changes of hidden weights", "hidden losses",
         "loss shares", "leading bits", "weight shares"]  # fmt: skip


def pooled(runs, scenarios, parties=TRIO) -> dict:
    """{kind: [(number, what it should be uniform below), ...]} of all masked numbers that parties open or receive."""
    pools = {kind: [] for kind in KINDS}
    for name, party in product(scenarios, parties):
        if party in data_parties(name):
            for kind, opened in notes(runs, name, party)["opened"].items():
                pools[f"opened {kind}"].extend(opened)
            for sender in data_parties(name):
                for kind, received in hidden_numbers(runs, name, party, "-".join(sender)):
                    pools[kind].extend(received)
    return pools


def hidden_numbers(runs, name, party, sender):
    """What a party received of one sender, by kind. Moduli of different steps differ by less than 2^-32 of their size."""
    moduli, terms = notes(runs, name, party)["moduli"], values_of(runs[name][HOST].received, "verdict")[0]["terms"]
    # A share of a weight adds up numbers below the modulus times the learning rate, in coarser units.
    bits = moduli["weights"][0].bit_length() - HESSIAN_FRACTION_BITS
    width = 1 << bits + int(np.log2(terms["optimizer"]["optimizer_params"]["lr"])) - 8
    received = runs[name][party].received
    steps = values_of(received, "hidden_weights", sender)
    changes = [second - first for pair in zip(steps, steps[1:]) for first, second in zip(*pair)]
    for kind, values, below in (
        ("hidden weights", steps, moduli["weights"][0]), ("changes of hidden weights", changes, moduli["weights"][0]),
        ("hidden losses", values_of(received, "hidden_losses", sender), moduli["losses"][0]),
        ("loss shares", values_of(received, "loss_shares", sender), moduli["losses"][0]),
        ("leading bits", values_of(received, "leading_bits", sender), 1 << 4),
        ("weight shares", values_of(received, "weight_shares", sender), width),
    ):  # fmt: skip
        yield kind, [(value % below, below) for value in numbers(values)]


@pytest.fixture(scope="module")
def sound_pools(runs):
    """Without the second host: what is sent to all would count twice."""
    return pooled(runs, SOUND, PAIR)


@pytest.mark.parametrize("kind", KINDS)
def test_masked_numbers_are_uniform(sound_pools, kind):
    assert len(sound_pools[kind]) >= 20 and uniformity(sound_pools[kind]) > NEVER


@pytest.mark.parametrize("name, kinds", [
    ("narrow masks, bare answers", KINDS[:6]),
    ("bare products", ["opened sums", "opened weights", "opened losses"]),
    ("bare steps", ["hidden weights", "changes of hidden weights", "hidden losses"]),
    ("steps used again", ["changes of hidden weights"]),
])  # fmt: skip
def test_the_same_test_tells_bare_narrow_and_repeated_masks(runs, name, kinds):
    pools = pooled(runs, [name])
    assert {kind for kind in KINDS if pools[kind] and uniformity(pools[kind]) < NEVER} == set(kinds)


def test_the_same_test_tells_shares_that_are_not_masked(runs):
    below, pools = notes(runs, "first", HOST)["moduli"]["losses"][0], {"losses": [], "weights": [], "bits": []}
    for secrets in (protected(runs, name) for name in SOUND):
        pools["losses"].extend((round(loss * 2**61) % below, below) for loss in np.ravel(secrets["losses"].values))
        for party in ("guest", "host"):
            trained, gradients = (np.ravel(secrets[f"{what} of {party}"].values) for what in ("weights", "gradients"))
            pools["weights"].extend((round(weight * 2**40) % (1 << 90), 1 << 90) for weight in trained)
            pools["bits"].extend((round(entry * 2**84) % (1 << 150) >> 146, 1 << 4) for entry in gradients)
    assert {what: uniformity(pool) < NEVER for what, pool in pools.items()} == dict.fromkeys(pools, True)


@pytest.mark.parametrize("party", [GUEST, HOST])
def test_masked_numbers_of_runs_on_different_data_come_from_one_distribution(runs, party):
    first, second, bare = (pooled(runs, [name], [party]) for name in ("exact", "exact, other data", "bare products"))
    told = {kind: difference(first[kind], second[kind]) for kind in KINDS if first[kind]}
    assert len(told) >= 6 and min(told.values()) > NEVER
    assert difference(first["opened weights"], bare["opened weights"]) < 1e-3


def difference(first, second) -> float:
    """p-value of the hypothesis that two pools are of one distribution."""
    return ks_2samp(*([value / width for value, width in pool] for pool in (first, second))).pvalue


def sums_of(runs, name) -> list:
    """What the host would open without masks: products of the guest's columns and its own, in units of 2^-48."""
    return (guests_matrix(runs, name).T.astype(object) @ encode_features(features(runs, name, HOST)).astype(object)).ravel().tolist()


def test_a_host_that_knows_two_candidates_for_the_data_cannot_tell_which_of_them_was_used(runs):
    candidates = [sums_of(runs, name) for name in ("exact", "exact, other data")]
    verdicts = {}
    for name in ("exact", "exact, other data", "bare products"):
        opened = [value for value, _ in notes(runs, name, HOST)["opened"]["sums"]][: len(candidates[0])]
        verdicts[name] = nearer_to_first(opened, *candidates)
    assert all(verdicts["bare products"]) and len(verdicts["bare products"]) == 20
    assert verdicts["exact"] == verdicts["exact, other data"]


def test_the_arbiters_view_of_runs_on_different_data_is_the_same(runs):
    first, second = (without_run_name(runs[name][ARBITER].received) for name in ("exact", "exact, other data"))
    assert first == second and features(runs, "exact", HOST).tolist() != features(runs, "exact, other data", HOST).tolist()


def without_run_name(received) -> list:
    """Messages without the random name that the guest gives every run."""
    return [(sender, name, {**value["terms"], "run": len(value["terms"]["run"])} if name == "verdict" else value)
            for sender, name, value in received]


def test_flipback_sends_the_same_whatever_it_changes_and_never_a_column(runs):
    changing, changeless = "flipback", "flipback changes nothing"
    changed = [int((label_columns(runs, name)["flipped"] != np.ravel(notes(runs, name, GUEST)["labels"])).sum())
               for name in (changing, changeless)]
    assert changed[0] > 30 and changed[1] == 0
    for party in WITH_ARBITER:
        first, second = ([(sender, message, shape(value)) for sender, message, value in runs[name][party].received]
                         for name in (changing, changeless))
        assert first == second
    assert np.abs(weights(runs[changing], HOST) - weights(runs[changeless], HOST)).max() > 1e-3
    # A column would be one ciphertext for each of 100 rows. What comes are two columns' products for each of the batch.
    answers = [len(ciphertexts(value, public(runs, changing).keys[0])) for _, _, value in runs[changing][HOST].received]
    assert max(answers) < 20
    first, last = values_of(runs[changing][HOST].received, "masked_products")
    assert [len(byte_strings(answer)) for answer in (first, last)] == [5, 1]


@pytest.mark.parametrize("name", list(SOUND))
def test_shares_of_weights_go_to_their_owner_alone(runs, name):
    for party in data_parties(name):
        own_columns, trained = len(weights(runs[name], party)), weights(runs[name], party)
        received = values_of(runs[name][party].received, "weight_shares")
        assert {len(share) for share in received} == {own_columns}
        own_share, of_others = notes(runs, name, party)["shares"][-1]
        assert of_others == received[-len(of_others) :] and len(of_others) == len(data_parties(name)) - 1
        np.testing.assert_allclose([sum(parts) / 2**40 for parts in zip(own_share, *of_others)], trained, atol=2**-22)
        for other in data_parties(name):
            if other != party:
                total = np.array([sum(parts) / 2.0**40 for parts in zip(*received)])
                assert not np.isclose(total[:2], weights(runs[name], other)[:2], rtol=1e-3).any()


def test_masks_of_steps_are_used_once(runs):
    for kind in ("weights", "losses"):
        drawn = [number for name in SOUND for party in data_parties(name) for step in notes(runs, name, party)["used"]
                 for number in step[kind]]  # fmt: skip
        assert len(set(drawn)) == len(drawn) > 900
    assert [len(notes(runs, name, HOST)["used"]) for name in ("first", "two chunks", "two hosts")] == [5, 14, 6]
    assert len(values_of(runs["two chunks"][HOST].received, "masks")) == 2
    again = [number for step in notes(runs, "steps used again", HOST)["used"] for number in step["weights"]]
    assert len(again) == 5 * len(set(again))
