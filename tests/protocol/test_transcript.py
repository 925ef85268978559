"""What each party receives where solver per_epoch trains, and that no label can be read from it.

FATE's own protocol is the control. The transcript of the other solver: test_transcript_cross_product.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.crypto.paillier import PublicKey
from fate_dp.crypto.slots import MASK_BITS, PRODUCT_BITS, SLOT_BITS, SlotLayout, encode_scores, slots_per_ciphertext
from tests.support.paillier import embed

from .attacks import (
    Public,
    columns_readable,
    combined,
    labels_readable,
    nearer_to_first,
    unblinded_ciphertexts,
    uniformity,
)
from .messages import byte_strings, ciphertexts, clear_beyond_public, names, noted_sending, public_moduli, unread
from .scenarios import ARBITER, GUEST, HOST, Scenario, features_of, flip, frame_at, play, role_of, tables, train

TABLES, OTHER_TABLES = (tables(rows=100, guest=3, hosts=(4,), seed=seed) for seed in (0, 1))
LABELS = TABLES[GUEST]["y"].to_numpy(float)
# All weights start at 0, so that the very first residuals are plus or minus one half: the labels themselves.
ZEROS = {"method": "zeros", "fill_val": 0.0, "fit_intercept": True, "random_state": None}
PLAIN = dict(tables=TABLES, public=True, init_param=ZEROS, epochs=2, tol=0, train_scores=False, solver="per_epoch")
OTHER = {**PLAIN, "tables": OTHER_TABLES}
FLIPBACK = {"mode": "posterior", "every": 1, "max_rounds": 1}
STEP = TrainSettings().score_step
NEVER = 1e-7
"""Chance does not bring a p-value below this."""


def train_watched(ctx, earlier, masks=True, **arguments):
    """Training in which the arbiter writes down every plaintext it decrypts; ``masks`` False sends them bare."""
    from fate_dp.crypto import slots

    seen, decrypt, entropy = [], slots.decrypt_masked, slots.secrets
    slots.decrypt_masked = lambda packed, key: seen.append(decrypt(packed, key)) or seen[-1]
    if not masks:
        slots.secrets = SimpleNamespace(randbits=lambda bits: 0)
    try:
        with noted_sending() as sent:
            return {**train(ctx, earlier, **arguments), "decrypted": seen, "sent": sent}
    finally:
        slots.decrypt_masked, slots.secrets = decrypt, entropy


def train_fate(ctx, earlier, tables):
    """FATE's CoordinatedLR as shipped, with the same data and start."""
    from fate.ml.glm import CoordinatedLRModuleArbiter, CoordinatedLRModuleGuest, CoordinatedLRModuleHost

    ctx.cipher.set_phe(ctx.device, {"kind": "paillier", "key_length": 1024})
    settings = dict(
        epochs=1,
        batch_size=None,
        optimizer_param={"method": "sgd", "penalty": "l2", "alpha": 0.01, "optimizer_params": {"lr": 0.1}},
        learning_rate_param={"method": "constant", "scheduler_params": {"factor": 1.0, "total_iters": 1}},
    )
    start = {"method": "zeros", "fill_val": 0.0, "fit_intercept": True, "random_state": None}
    if role_of(ctx) == "arbiter":
        CoordinatedLRModuleArbiter(early_stop="diff", tol=1e-4, **settings).fit(ctx)
    elif role_of(ctx) == "guest":
        CoordinatedLRModuleGuest(init_param=start, **settings).fit(ctx, frame_at(ctx, tables))
    else:
        CoordinatedLRModuleHost(init_param=start, **settings).fit(ctx, frame_at(ctx, tables))


SCENARIOS = {
    "first": Scenario(train_watched, PLAIN),
    "bare": Scenario(train_watched, {**PLAIN, "masks": False}),
    "other data": Scenario(train_watched, OTHER),
    "bare, other data": Scenario(train_watched, {**OTHER, "masks": False}),
    "weights watched": Scenario(train_watched, {**PLAIN, "early_stop": "weight_diff"}),
    "flip": Scenario(flip, dict(tables=TABLES, epsilon=0.5), (GUEST, HOST), home="flips"),
    "scores released": Scenario(
        train_watched,
        {**PLAIN, "public": False, "labels_of": "flip", "train_scores": True, "flipback": FLIPBACK, "score_cap": 9},
        home="flips",
    ),
    "fate": Scenario(train_fate, dict(tables=TABLES), of_fate=True),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    outcomes = play(SCENARIOS, tmp_path_factory.mktemp("homes"), (GUEST, HOST, ARBITER))
    errors = {(name, party): o.error for name, by_party in outcomes.items() for party, o in by_party.items()}
    assert set(errors.values()) == {None}, errors
    return outcomes


def labels_in_frame_order(runs, name):
    """Labels in the order in which rows travel, which is the frame's."""
    by_id = TABLES[GUEST].set_index("id")["y"]
    return by_id.loc[runs[name][GUEST].value["order"]].to_numpy(float)


def attacked(runs, name, party) -> list:
    """What a party received or decrypted, and what comparing it within the run and with another one gives."""
    views = []
    for run in (name, "weights watched" if name == "first" else None):
        if run:
            decrypted = [("own", "slots", slots_at_arbiter(runs[run]))] if party == ARBITER else []
            views.append([*runs[run][party].received, *decrypted])
    return combined(*views)


def public(runs, name) -> Public:
    """What everybody knows: the arbiter's key, and what masked numbers are below."""
    return Public(public_moduli(runs[name][HOST].received), [1 << MASK_BITS, 1 << SLOT_BITS])


def slots_at_arbiter(outcomes) -> list:
    """Every slot of every plaintext that the arbiter decrypted in a run."""
    per_ciphertext = slots_per_ciphertext(PublicKey(1 << 2047))
    values = [int.from_bytes(item, "big") for answer in outcomes[ARBITER].value["decrypted"] for item in answer]
    slots = [value >> (SLOT_BITS * at) & ((1 << SLOT_BITS) - 1) for value in values for at in range(per_ciphertext)]
    return [slot for slot in slots if slot]


def test_the_host_receives_these_messages_and_no_other(runs):
    expected = {
        ("guest", "verdict"),
        ("arbiter", "public_key"),
        ("guest", "encrypted_scores"),
        ("arbiter", "decrypted"),
        ("guest", "training_state"),
    }
    for name in ("first", "weights watched"):
        assert names(runs[name][HOST].received) == expected
    assert names(runs["scores released"][HOST].received) == expected | {("guest", "all_consent")}


def test_the_arbiter_receives_these_messages_and_no_other(runs):
    expected = {("guest", "verdict"), ("guest", "masked"), ("host", "masked"), ("guest", "training_state")}
    for name in ("first", "weights watched", "scores released"):
        assert names(runs[name][ARBITER].received) == expected


def test_the_guest_receives_scores_only_when_they_are_released(runs):
    expected = {
        ("host", "preflight"),
        ("arbiter", "preflight"),
        ("arbiter", "public_key"),
        ("arbiter", "decrypted"),
        ("host", "encrypted_scores"),
        ("host", "loss_part"),
    }
    assert names(runs["first"][GUEST].received) == expected
    assert names(runs["weights watched"][GUEST].received) == expected | {("host", "weight_change")}
    released = runs["scores released"][GUEST].received
    assert names(released) == expected | {("host", "scores"), ("host", "consent")}
    assert [name for _, name, _ in released].count("scores") == 2


@pytest.mark.parametrize("name", ["first", "weights watched", "scores released"])
def test_all_that_is_sent_is_among_what_is_received(runs, name):
    sent = {party: outcome.value["sent"] for party, outcome in runs[name].items()}
    assert unread(runs[name], sent) == {}
    sent[GUEST] = [*sent[GUEST], ("host-10000", "something else")]
    assert unread(runs[name], sent) == {("guest-9999", "host-10000", "something else"): 1}


def test_what_is_said_in_clear_holds_public_numbers_only(runs):
    for name in ("first", "weights watched", "scores released"):
        assert [clear_beyond_public(runs[name][party].received) for party in (GUEST, HOST, ARBITER)] == [[], [], []]


@pytest.mark.parametrize(
    "party, name, secret",
    [
        (HOST, "verdict", {"terms": {"mean_square_bits": 1.37}}),
        (HOST, "verdict", {"terms": {"positives": 61}}),
        (HOST, "verdict", {"problem": "The loss is 0.61."}),
        (GUEST, "preflight", {"facts": {"means": [0.5]}}),
        (GUEST, "preflight", {"facts": {"features": 4.5}}),
        (HOST, "training_state", "at a loss of 0.61"),
    ],
)
def test_the_same_look_finds_other_numbers_said_in_clear(runs, party, name, secret):
    sender, _, value = next(message for message in runs["first"][party].received if message[1] == name)
    if isinstance(secret, dict):
        ((part, added),) = secret.items()
        secret = {**value, part: {**value[part], **added} if isinstance(added, dict) else added}
    assert clear_beyond_public([(sender, name, secret)]) == [(sender, name)]


@pytest.mark.parametrize("name", ["first", "weights watched", "scores released"])
@pytest.mark.parametrize("party", [HOST, ARBITER])
def test_no_label_can_be_read_from_what_host_and_arbiter_received(runs, name, party):
    received, known = attacked(runs, name, party), public(runs, name)
    assert labels_readable(received, labels_in_frame_order(runs, name), known) == []
    assert unblinded_ciphertexts(received, known) == []


def test_the_same_attack_reads_the_labels_from_what_fates_protocol_sends_the_host(runs):
    received = runs["fate"][HOST].received
    labels = labels_in_frame_order(runs, "first")
    assert "half_d" in labels_readable(received, labels)
    assert labels_readable(received, 1 - labels) == labels_readable(received, labels)
    assert labels_readable(received, np.roll(labels, 1)) == []


def test_the_same_attack_reads_the_labels_from_our_protocol_without_blinding(runs):
    received = [message for message in runs["first"][HOST].received if message[1] == "public_key"]
    public_key, labels = PublicKey(*public_moduli(received)), labels_in_frame_order(runs, "first")
    bare = [embed(public_key, int(value)) for value in encode_scores(0.5 - labels)]
    column = b"".join(int(value).to_bytes(public_key.ciphertext_bytes, "big") for value in bare)
    received.append(("guest-9999", "encrypted_scores", [(0, column)]))
    assert labels_readable(received, labels) == unblinded_ciphertexts(received) == ["encrypted_scores"]


KEY = (1 << 2047) + 1
MODULUS = (1 << 150) - 3
PACKED = SlotLayout(value_bits=63, key_length=2048)
SIGNS = [int(2 * label - 1) for label in LABELS]
NOISE = [(7**at) % MODULUS for at in range(100, 200)]


def said(*values, sender="guest-1", name="leak") -> list:
    return [(sender, name, value) for value in values]


def encrypted(plaintexts, factor=1) -> list:
    """One byte string for each plaintext, all blinded with one factor."""
    return [int((1 + plaintext * KEY) * factor % KEY**2).to_bytes(512, "big") for plaintext in plaintexts]


LEAKS = {
    "numbers": said(LABELS),
    "a list": said(LABELS.tolist()),
    "a table": said([(0, LABELS[:60]), (1, LABELS[60:])]),
    "in a mapping": said({"y": 2 * LABELS - 1}),
    "one column of several": said(np.column_stack([np.arange(100), LABELS, np.ones(100)])),
    "below a modulus": said([sign % MODULUS for sign in SIGNS]),
    "big integers": said([(3 + sign) << 3000 for sign in SIGNS]),
    "the lowest bit": said([number - number % 2 + int(label) for number, label in zip(NOISE, LABELS)]),
    "changes": said(NOISE, [(number + sign) % MODULUS for number, sign in zip(NOISE, SIGNS)]),
    "summed": [*said(NOISE), *said([(sign - number) % MODULUS for number, sign in zip(NOISE, SIGNS)], sender="host-1")],
    "so far": said(NOISE, [sign - number for number, sign in zip(NOISE, SIGNS)]),
    "unblinded": said(encrypted(SIGNS)),
    "unblinded, packed": said(encrypted([PACKED.pack([5 + at, sign, -at]) for at, sign in enumerate(SIGNS)])),
    "one blinding factor": said(encrypted(SIGNS, factor=10**600 + 7)),
    "ciphertexts in order": said([int(10**600 * (2 + sign)).to_bytes(512, "big") for sign in SIGNS]),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_the_same_attack_reads_labels_that_are_hidden_badly(leak):
    known = Public([KEY], [MODULUS, MODULUS + 2], [PACKED])
    found = labels_readable(combined(LEAKS[leak]), LABELS, known)
    assert found == [f"leak, {leak}" if leak in ("changes", "summed", "so far") else "leak"]
    assert columns_readable(combined(LEAKS[leak]), LABELS[:, None], known) == found
    assert labels_readable(combined(LEAKS[leak]), np.roll(LABELS, 1), known) == []


def test_the_same_attack_reads_labels_from_two_runs_with_the_same_masks():
    first, second = said(NOISE), said([(number + sign) % MODULUS for number, sign in zip(NOISE, SIGNS)])
    known = Public([KEY], [MODULUS])
    assert labels_readable(combined(first, second), LABELS, known) == ["leak, run to run"]
    assert labels_readable(combined(first, first), LABELS, known) == []
    assert labels_readable(combined(second), LABELS, known) == []


def test_ciphertexts_never_repeat_within_or_between_runs(runs):
    for party in (GUEST, HOST):
        sent = [
            (run, value)
            for run in ("first", "weights watched")
            for _, name, value in runs[run][party].received
            if name in ("encrypted_scores", "loss_part")
        ]
        found = [c for run, value in sent for c in ciphertexts(value, *public(runs, run).keys)]
        assert len(found) == len(set(found)) >= 400
        assert {len(data) % 512 for _, value in sent for data in byte_strings(value)} == {0}


def test_the_arbiters_decrypted_values_of_two_runs_share_none(runs):
    first, second = (slots_at_arbiter(runs[name]) for name in ("first", "weights watched"))
    assert len(first) == len(second) == 2 * (4 + 1 + 4)
    assert len(set(first)) == len(first) and not set(first) & set(second)


def test_an_arbiter_that_knows_two_candidates_for_the_data_cannot_tell_which_of_them_was_used(runs):
    bare = zip(slots_at_arbiter(runs["bare"]), slots_at_arbiter(runs["bare, other data"]))
    # In the first epoch all weights are 0, and sums of scores with them.
    candidates = {at: pair for at, pair in enumerate(bare) if pair[0] != pair[1]}
    assert len(candidates) >= 9
    verdicts = {}
    for name in ("first", "other data", "bare", "bare, other data"):
        slots = slots_at_arbiter(runs[name])
        verdicts[name] = nearer_to_first([slots[at] for at in candidates], *zip(*candidates.values()))
    assert all(verdicts["bare"]) and not any(verdicts["bare, other data"])
    assert verdicts["first"] == verdicts["other data"]


def test_the_arbiters_decrypted_values_are_uniform_unless_they_are_bare(runs):
    masked, bare = (
        [(slot - (1 << PRODUCT_BITS), 1 << MASK_BITS) for name in chosen for slot in slots_at_arbiter(runs[name])]
        for chosen in (["first", "other data", "weights watched", "scores released"], ["bare"])
    )
    assert uniformity(masked) > NEVER > uniformity(bare)


def test_masks_do_not_change_the_result(runs):
    for party in (GUEST, HOST):
        masked, bare = (runs[name][party].value["model"]["data"]["estimator"]["param"] for name in ("first", "bare"))
        assert masked == bare


def test_the_guest_reads_no_feature_of_the_host(runs):
    by_id = TABLES[HOST].set_index("id").loc[runs["first"][GUEST].value["order"]].reset_index()
    columns = features_of(by_id)
    assert columns_readable(attacked(runs, "first", GUEST), columns, public(runs, "first")) == []
    leaking = [*runs["first"][GUEST].received, ("host-1", "leak", [(0, 3 * columns[:, 2])])]
    assert columns_readable(leaking, columns) == ["leak"]


def test_the_released_scores_are_the_hosts_part_of_the_score_and_nothing_else(runs):
    outcomes = runs["scores released"]
    *_, last = [value for _, name, value in outcomes[GUEST].received if name == "scores"]
    own = np.concatenate([block for _, block in last]) * STEP
    by_id = TABLES[HOST].set_index("id").loc[outcomes[GUEST].value["order"]].reset_index()
    weights = np.ravel(outcomes[HOST].value["model"]["data"]["estimator"]["param"]["coef_"])
    np.testing.assert_allclose(own, features_of(by_id) @ weights, atol=STEP + 1e-5)
