"""What each party receives where the cross product trains, and that it reads nothing from it but what it may know."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from gmpy2 import mpz
from scipy.stats import ks_2samp

from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.crypto import cross_product, paillier, residues
from fate_dp.crypto.cross_product import encrypt_rows, multiply_rows, product_layout, seal_sums
from fate_dp.crypto.paillier import BlindingFactor, DrawnBlinding, keypair_of_any_length
from fate_dp.crypto.powers import FixedBasePowers
from fate_dp.crypto.residues import ResidueSystem
from fate_dp.crypto.slots import encode_features

from .attacks import (
    Public,
    blinding_left,
    closest,
    columns_readable,
    combined,
    labels_readable,
    nearer_to_first,
    numbers_readable,
    unblinded_ciphertexts,
    uniformity,
)
from .cross_product_runs import (
    CALLED,
    KINDS,
    SCENARIOS,
    SOUND,
    WITH_ARBITER,
    all_ciphertexts,
    attacked,
    data_parties,
    features,
    guests_matrix,
    hosts_sums,
    label_columns,
    notes,
    pooled,
    protected,
    public,
    view,
)
from .messages import byte_strings, ciphertexts, clear_beyond_public, names, numbers, shape, unread, values_of
from .protected_numbers import kept_from
from .scenarios import ARBITER, GUEST, HOST, SECOND_HOST, play, weights

RECEIVERS = [(name, party) for name, scenario in SOUND.items() for party in scenario.parties]
PARTY_RUNS = [pytest.param(name, party, id=f"{name} at {CALLED[party]}") for name, party in RECEIVERS]
STEP = TrainSettings().score_step
NEVER = 1e-7
"""Chance does not bring a p-value below this."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    outcomes = play(SCENARIOS, tmp_path_factory.mktemp("homes"))
    errors = {(name, party): o.error for name, by_party in outcomes.items() for party, o in by_party.items()}
    assert set(errors.values()) == {None}, errors
    return outcomes


SHARED = ["public_key", "masks", "products", "hidden_weights", "hidden_losses", "weight_shares"]
TO_HOST, BETWEEN_HOSTS = (
    set(product(["guest"], [*SHARED, "verdict", "all_consent", "training_state"])),
    set(product(["host"], SHARED)),
)
TO_GUEST = BETWEEN_HOSTS | {("host", "preflight"), ("host", "consent"), ("host", "loss_shares")}
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
    **{
        (name, ARBITER): {("guest", "verdict"), ("guest", "training_state")}
        for name in ("first", "exact", "flipback", "two hosts")
    },
}


@pytest.mark.parametrize("name, party", [pytest.param(*key, id=f"{key[0]} at {CALLED[key[1]]}") for key in RECEIVED])
def test_a_party_receives_these_messages_and_no_other(runs, name, party):
    assert names(runs[name][party].received) == RECEIVED[name, party]


@pytest.mark.parametrize("name", list(SOUND))
def test_all_that_is_sent_is_among_what_is_received(runs, name):
    assert unread(runs[name], {party: notes(runs, name, party)["sent"] for party in SCENARIOS[name].parties}) == {}


@pytest.mark.parametrize("name, rounds", [("first", 0), ("flipback", 1), ("exact", 2)])
def test_the_number_of_messages_follows_from_public_numbers(runs, name, rounds):
    per_training, per_epoch = (
        {"verdict", "public_key", "all_consent", "masks", "products"},
        {"hidden_weights", "hidden_losses"},
    )
    expected = {
        **dict.fromkeys(per_training, 1),
        **dict.fromkeys(per_epoch, 5),
        "weight_shares": 1 + rounds,
        "training_state": 5 + rounds,
    }
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
    """But for scores, which the guest is to see: where one weight of a host exceeds its others they are nearly a column."""
    received, known = attacked(runs, name, party, beside=["scores"]), public(runs, name)
    for other in data_parties(name):
        if other != party:
            assert columns_readable(received, features(runs, name, other), known) == []


@pytest.mark.parametrize("name, party", PARTY_RUNS)
def test_no_protected_number_can_be_read(runs, name, party):
    """Fractions in clear, the public terms, are left out: one may well be near to one of so many."""
    received = attacked(runs, name, party, beside=["verdict", "preflight"])
    assert numbers_readable(received, kept_from(CALLED[party], protected(runs, name)), public(runs, name)) == []


@pytest.mark.parametrize(
    "name, party, read",
    [
        ("bare products", HOST, {("opened sums", "labels x host"), ("opened sums", "guest x host")}),
        (
            "bare steps",
            HOST,
            {
                ("hidden_weights", "weights of guest"),
                ("hidden_weights, summed", "weights on the way of guest"),
                ("hidden_losses, summed", "slopes of guest"),
            },
        ),
        (
            "bare steps",
            GUEST,
            {
                ("hidden_weights", "weights of host"),
                ("hidden_weights, summed", "weights on the way of host"),
                ("hidden_losses, summed", "slopes of host"),
            },
        ),
        ("steps used again", HOST, {("hidden_weights, summed, changes", "steps of guest")}),
        ("steps used again", GUEST, {("hidden_weights, summed, changes", "steps of host")}),
    ],
)
def test_the_same_attack_reads_numbers_without_masks_or_with_masks_used_again(runs, name, party, read):
    secrets = kept_from(CALLED[party], protected(runs, name))
    assert read <= set(numbers_readable(attacked(runs, name, party), secrets, public(runs, name)))


def test_the_same_attack_reads_weights_from_two_runs_with_the_same_masks(runs):
    modulus, known = public(runs, "first").moduli[0], public(runs, "first")
    shift = [*(round(weight * 2**40) for weight in weights(runs["first"], HOST)), 0, 0, 0, 0]
    once = [message for message in view(runs, "first", GUEST) if message[1] == "hidden_weights"]
    again = [(sender, name, [(a + b) % modulus for a, b in zip(value, shift)]) for sender, name, value in once]
    found = numbers_readable(combined(once, again), kept_from("guest", protected(runs, "first")), known)
    assert ("hidden_weights, run to run", "weights of host") in found


@pytest.mark.parametrize(
    "draw, blindings",
    [
        (lambda powers, count: np.zeros((count, len(powers._widths)), dtype=np.uint16), "none"),
        (lambda powers, count: np.ones((count, len(powers._widths)), dtype=np.uint16), "one for all"),
    ],
)
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


@pytest.mark.parametrize("party, least", [(GUEST, 700), (HOST, 700), (SECOND_HOST, 200)])
def test_a_party_never_receives_a_ciphertext_or_its_blinding_twice(runs, party, least):
    of_runs = {name: all_ciphertexts(runs, name, party) for name, receiver in RECEIVERS if receiver == party}
    received = [number for of_run in of_runs.values() for number in of_run]
    assert len(set(received)) == len(received) > least
    # What is left of a ciphertext modulo n is its blinding factor, whatever the plaintext.
    for name, of_run in of_runs.items():
        assert all(len({number % n for number in of_run}) == len(of_run) for n in public(runs, name).keys)


@pytest.mark.parametrize(
    "name, blinded", [("exact", True), ("exact, other data", True), ("narrow masks, bare answers", False)]
)
def test_blinding_hides_from_the_owner_of_a_key_what_was_computed(runs, name, blinded):
    """An owner that guesses right what its ciphertexts were multiplied with finds another factor in each answer."""
    (key,) = values_of(runs[name][GUEST].received, "public_key", "host")
    sent, received = runs[name][GUEST].received, runs[name][HOST].received
    sums, rows = values_of(received, "masked_products")[0], values_of(sent, "encrypted_rows", "host")[0]
    ((products,), (masks,)) = values_of(received, "products")[0], values_of(sent, "masks", "host")[0]
    for returned, encrypted, multipliers in (
        (sums, rows, guests_matrix(runs, name).T.tolist()),
        (products["weights"], masks["weights"], notes(runs, name, GUEST)["multipliers"][0]),
    ):
        left = blinding_left(ciphertexts(returned, key["n"]), ciphertexts(encrypted, key["n"]), multipliers, key["n"])
        assert len(left) in (5, 8)
        assert len({1, *left}) == (1 + len(left) if blinded else 1)


@pytest.mark.parametrize("blinded", [True, False])
def test_the_same_computation_comes_back_with_other_randomness(monkeypatch, blinded):
    public_key, private_key = keypair_of_any_length(1024)
    slots, system = product_layout(20, public_key), ResidueSystem.below(60, 4)
    layout = residues.ProductLayout(system, 3, 30, 1024)
    matrix, vectors = np.arange(40, dtype=np.int64).reshape(20, 2) << 20, np.full((3, 4), 7, dtype=object)
    sums = multiply_rows(matrix, encrypt_rows(matrix, private_key.encryption(), slots, 20), 2, slots, public_key)
    encrypted = residues.encrypt_vectors(vectors, system, private_key.encryption(), 3)
    for module in (cross_product, residues):
        monkeypatch.setattr(module, "draw_mask", lambda modulus, random_bits=None: 5)
    if not blinded:
        monkeypatch.setattr(
            paillier, "full_blindings", lambda key, count: [BlindingFactor(mpz(1), key) for _ in range(count)]
        )
        monkeypatch.setattr(
            DrawnBlinding, "factors", lambda blinding, count: [BlindingFactor(mpz(1), public_key) for _ in range(count)]
        )
    for compute in (
        lambda: seal_sums(sums, 2, slots, public_key)[0],
        lambda: residues.multiply_vectors(encrypted, [[3, 5, 9]], layout, public_key)[0],
    ):
        first, second = (ciphertexts(compute(), public_key.n) for _ in range(2))
        assert [private_key.decrypt(number) for number in first] == [private_key.decrypt(number) for number in second]
        in_common = {number % public_key.n for number in first} & {number % public_key.n for number in second}
        assert not in_common if blinded else first == second


@pytest.fixture(scope="module")
def sound_pools(runs):
    return pooled(runs, SOUND)


@pytest.mark.parametrize("kind", KINDS)
def test_masked_numbers_are_uniform(sound_pools, kind):
    assert len(sound_pools[kind]) >= 20 and uniformity(sound_pools[kind]) > NEVER


@pytest.mark.parametrize("kind", KINDS[:4])
def test_no_two_masked_numbers_share_a_mask(runs, sound_pools, kind):
    """Among so few uniform ones none are as near as this; what masks hide is 2^41 times smaller than they are, and steps of
    shares of weights are 2^44 times smaller. Of hidden weights there are so many that two may come within 2^-40."""
    near = 2**-43 if kind == "hidden weights" else 2**-40
    assert closest(sound_pools[kind]) > near > closest(pooled(runs, ["bare products", "steps used again"])[kind])


@pytest.mark.parametrize(
    "name, kinds",
    [
        ("narrow masks, bare answers", KINDS[:6]),
        ("bare products", ["opened sums", "opened weights", "opened losses"]),
        ("bare steps", ["hidden weights", "changes of hidden weights", "hidden losses"]),
        ("steps used again", ["changes of hidden weights"]),
    ],
)
def test_the_same_test_tells_bare_narrow_and_repeated_masks(runs, name, kinds):
    pools = pooled(runs, [name])
    assert {kind for kind in KINDS if pools[kind] and uniformity(pools[kind]) < NEVER} >= set(kinds)


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


def test_a_host_that_knows_two_candidates_for_the_data_cannot_tell_which_of_them_was_used(runs):
    candidates = [hosts_sums(runs, name) for name in ("exact", "exact, other data")]
    verdicts = {}
    for name in ("exact", "exact, other data", "bare products"):
        opened = [value for value, _ in notes(runs, name, HOST)["opened"]["sums"]][: len(candidates[0])]
        verdicts[name] = nearer_to_first(opened, *candidates)
    assert all(verdicts["bare products"]) and len(verdicts["bare products"]) == 20
    assert verdicts["exact"] == verdicts["exact, other data"]


def test_the_arbiters_view_of_runs_on_different_data_is_the_same(runs):
    first, second = (without_run_name(runs[name][ARBITER].received) for name in ("exact", "exact, other data"))
    assert first == second
    assert features(runs, "exact", HOST).tolist() != features(runs, "exact, other data", HOST).tolist()


def without_run_name(received) -> list:
    """Messages without the random name that the guest gives every run."""
    return [
        (sender, name, {**value["terms"], "run": len(value["terms"]["run"])} if name == "verdict" else value)
        for sender, name, value in received
    ]


def test_flipback_sends_the_same_whatever_it_changes_and_never_a_column(runs):
    changing, changeless = "flipback", "flipback changes nothing"
    changed = [
        int((label_columns(runs, name)["flipped"] != np.ravel(notes(runs, name, GUEST)["labels"])).sum())
        for name in (changing, changeless)
    ]
    assert changed[0] > 30 and changed[1] == 0
    for party in WITH_ARBITER:
        first, second = (
            [(sender, message, shape(value)) for sender, message, value in runs[name][party].received]
            for name in (changing, changeless)
        )
        assert first == second
    assert np.abs(weights(runs[changing], HOST) - weights(runs[changeless], HOST)).max() > 1e-3
    # A column would be one ciphertext for each of 100 rows. What comes are two columns' products for each of the batch.
    answers = [len(ciphertexts(value, public(runs, changing).keys[0])) for _, _, value in runs[changing][HOST].received]
    assert max(answers) < 20
    first, last = values_of(runs[changing][HOST].received, "masked_products")
    assert [len(byte_strings(answer)) for answer in (first, last)] == [5, 1]


@pytest.mark.parametrize("name", ["exact", "exact, two hosts", "flipback"])
def test_the_released_scores_are_each_hosts_part_of_the_score_and_nothing_else(runs, name):
    for party in data_parties(name)[1:]:
        released = values_of(runs[name][GUEST].received, "scores", "-".join(party))
        openings = notes(runs, name, party)["shares"][:-1]
        for scores, (own, of_others) in zip(released, openings, strict=True):
            known = np.array([sum(parts) / 2.0**40 for parts in zip(own, *of_others)])
            np.testing.assert_allclose(
                np.array(numbers(scores)) * STEP, features(runs, name, party) @ known, atol=STEP + 1e-5
            )


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
        drawn = [
            number
            for name in SOUND
            for party in data_parties(name)
            for step in notes(runs, name, party)["used"]
            for number in step[kind]
        ]
        assert len(set(drawn)) == len(drawn) > 800
    assert [len(notes(runs, name, HOST)["used"]) for name in ("first", "two chunks", "two hosts")] == [5, 14, 6]
    assert len(values_of(runs["two chunks"][HOST].received, "masks")) == 2
    again = [number for step in notes(runs, "steps used again", HOST)["used"] for number in step["weights"]]
    assert len(again) == 5 * len(set(again))
