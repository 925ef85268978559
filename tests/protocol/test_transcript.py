"""What each party receives in a run, and that no label can be read from it; FATE's own protocol is the control."""
from types import SimpleNamespace

import numpy as np
import pytest

from fate_dp.crypto.fixed_point import encode_scores
from fate_dp.crypto.masked_packing import SLOT_BITS, slots_per_ciphertext
from fate_dp.crypto.paillier import PublicKey

from . import messages
from .messages import columns_readable, labels_readable, names, public_modulus, unblinded_ciphertexts
from .scenarios import ARBITER, GUEST, HOST, Scenario, features_of, flip, frame_at, play, role_of, tables, train

TABLES = tables(rows=100, guest=3, hosts=(4,))
LABELS = TABLES[GUEST]["y"].to_numpy(float)
# All weights start at 0, so that the very first residuals are plus or minus one half: the labels themselves.
ZEROS = {"method": "zeros", "fill_val": 0.0, "fit_intercept": True, "random_state": None}
PLAIN = dict(tables=TABLES, public=True, init_param=ZEROS, epochs=2, tol=0, train_scores=False)
FLIPBACK = {"mode": "posterior", "every": 1, "max_rounds": 1}


def train_watched(ctx, earlier, masks=True, **arguments):
    """Training in which the arbiter writes down every plaintext it decrypts; ``masks`` False sends them bare."""
    from fate_dp.components.dp_hetero_lr.per_epoch import arbiter
    from fate_dp.crypto import masked_packing

    seen, decrypt, entropy = [], arbiter.decrypt_masked, masked_packing.secrets
    arbiter.decrypt_masked = lambda packed, key: seen.append(decrypt(packed, key)) or seen[-1]
    if not masks:
        masked_packing.secrets = SimpleNamespace(randbits=lambda bits: 0)
    try:
        return {**train(ctx, earlier, **arguments), "decrypted": seen}
    finally:
        arbiter.decrypt_masked, masked_packing.secrets = decrypt, entropy


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
    "second": Scenario(train_watched, PLAIN),
    "bare": Scenario(train_watched, {**PLAIN, "masks": False}),
    "bare again": Scenario(train_watched, {**PLAIN, "masks": False}),
    "weights watched": Scenario(train_watched, {**PLAIN, "early_stop": "weight_diff"}),
    "flip": Scenario(flip, dict(tables=TABLES, epsilon=0.5), (GUEST, HOST), home="flips"),
    "scores released": Scenario(train_watched, {
        **PLAIN, "public": False, "labels_of": "flip", "train_scores": True, "flipback": FLIPBACK, "score_cap": 9,
    }, home="flips"),
    "fate": Scenario(train_fate, dict(tables=TABLES)),
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    outcomes = play(SCENARIOS, tmp_path_factory.mktemp("homes"), (GUEST, HOST, ARBITER))
    refused = {name: {party: o.error for party, o in by_party.items() if o.error} for name, by_party in outcomes.items()}
    assert not any(refused.values()), refused
    return outcomes


def labels_in_frame_order(runs, name):
    """Labels in the order in which rows travel, which is the frame's."""
    by_id = TABLES[GUEST].set_index("id")["y"]
    return by_id.loc[runs[name][GUEST].value["order"]].to_numpy(float)


def slots_at_arbiter(outcomes) -> list:
    """Every slot of every plaintext that the arbiter decrypted in a run."""
    per_ciphertext = slots_per_ciphertext(PublicKey(1 << 2047))
    values = [int.from_bytes(item, "big") for answer in outcomes[ARBITER].value["decrypted"] for item in answer]
    slots = [value >> (SLOT_BITS * at) & ((1 << SLOT_BITS) - 1) for value in values for at in range(per_ciphertext)]
    return [slot for slot in slots if slot]


def test_the_host_receives_these_messages_and_no_other(runs):
    expected = {("guest", "verdict"), ("arbiter", "public_key"), ("guest", "encrypted_scores"),
                ("arbiter", "decrypted"), ("guest", "training_state")}
    for name in ("first", "weights watched", "scores released"):
        assert names(runs[name][HOST].received) == expected


def test_the_arbiter_receives_these_messages_and_no_other(runs):
    expected = {("guest", "verdict"), ("guest", "masked"), ("host", "masked"), ("guest", "training_state")}
    for name in ("first", "weights watched", "scores released"):
        assert names(runs[name][ARBITER].received) == expected


def test_the_guest_receives_scores_only_when_they_are_released(runs):
    expected = {("host", "preflight"), ("arbiter", "preflight"), ("arbiter", "public_key"), ("host", "encrypted_scores"),
                ("host", "loss_part"), ("arbiter", "decrypted")}
    assert names(runs["first"][GUEST].received) == expected
    assert names(runs["weights watched"][GUEST].received) == expected | {("host", "weight_change")}
    released = runs["scores released"][GUEST].received
    assert names(released) == expected | {("host", "scores")}
    assert [name for _, name, _ in released].count("scores") == 2


def test_what_is_said_in_clear_holds_public_numbers_only(runs):
    for party in (HOST, ARBITER):
        clear = {name: value for _, name, value in runs["first"][party].received if name in ("verdict", "training_state")}
        assert set(clear["verdict"]) == {"problem", "terms"}
        assert set(clear["verdict"]["terms"]) == {"rows", "batches", "optimizer", "flipback_epochs", "sums"}
        assert clear["training_state"] in ("goes on", "converged", "exhausted")
    facts = {sender: value["facts"] for sender, name, value in runs["first"][GUEST].received if name == "preflight"}
    assert set(facts["host-10000"]) == {"rows", "features", "digest", "score_releases_left"}
    assert facts["arbiter-10002"] == {}


@pytest.mark.parametrize("name", ["first", "second", "scores released"])
@pytest.mark.parametrize("party", [HOST, ARBITER])
def test_no_label_can_be_read_from_what_host_and_arbiter_received(runs, name, party):
    received = [*runs[name][party].received, ("arbiter", "key", {"n": public_modulus(runs[name][HOST].received)})]
    received = [(sender, "public_key" if message == "key" else message, value) for sender, message, value in received]
    assert labels_readable(received, labels_in_frame_order(runs, name)) == []
    assert unblinded_ciphertexts(received) == []


def test_the_same_attack_reads_the_labels_from_what_fates_protocol_sends_the_host(runs):
    received = runs["fate"][HOST].received
    labels = labels_in_frame_order(runs, "first")
    assert "half_d" in labels_readable(received, labels)
    assert labels_readable(received, 1 - labels) == labels_readable(received, labels)
    assert labels_readable(received, np.roll(labels, 1)) == []


def test_the_same_attack_reads_the_labels_from_our_protocol_without_blinding(runs):
    received = [message for message in runs["first"][HOST].received if message[1] == "public_key"]
    public_key, labels = PublicKey(public_modulus(received)), labels_in_frame_order(runs, "first")
    bare = [public_key.embed(int(value)) for value in encode_scores(0.5 - labels)]
    column = b"".join(int(value).to_bytes(public_key.ciphertext_bytes, "big") for value in bare)
    received.append(("guest-9999", "encrypted_scores", [(0, column)]))
    assert labels_readable(received, labels) == unblinded_ciphertexts(received) == ["encrypted_scores"]


@pytest.mark.parametrize("leak", [LABELS, LABELS.tolist(), [(0, LABELS[:60]), (1, LABELS[60:])], {"y": 2 * LABELS - 1}])
def test_the_same_attack_reads_labels_sent_in_clear(leak):
    received = [("arbiter-1", "public_key", {"n": (1 << 2047) + 1}), ("guest-1", "leak", leak)]
    assert labels_readable(received, LABELS) == ["leak"]


def test_ciphertexts_never_repeat_within_or_between_runs(runs):
    n = public_modulus(runs["first"][HOST].received)
    for party in (GUEST, HOST):
        ciphertexts = [c for _, name, value in runs["first"][party].received if name in ("encrypted_scores", "loss_part")
                       for c in messages._ciphertexts(value, n)]
        assert len(ciphertexts) == len(set(ciphertexts)) >= 200
        sizes = {len(blob) % 512 for _, name, value in runs["first"][party].received
                 if name in ("encrypted_scores", "loss_part") for blob in messages._byte_strings(value)}
        assert sizes == {0}


def test_the_arbiters_decrypted_values_of_two_runs_share_none(runs):
    first, second = (slots_at_arbiter(runs[name]) for name in ("first", "second"))
    assert len(first) == len(second) == 2 * (4 + 1 + 4)
    assert len(set(first)) == len(first) and not set(first) & set(second)


def test_without_masks_the_arbiters_values_of_two_runs_are_the_same(runs):
    assert slots_at_arbiter(runs["bare"]) == slots_at_arbiter(runs["bare again"])


def test_masks_do_not_change_the_result(runs):
    for party in (GUEST, HOST):
        masked, bare = (runs[name][party].value["model"]["data"]["estimator"]["param"] for name in ("first", "bare"))
        assert masked == bare


def test_the_guest_reads_no_feature_of_the_host(runs):
    by_id = TABLES[HOST].set_index("id").loc[runs["first"][GUEST].value["order"]].reset_index()
    columns = features_of(by_id)
    assert columns_readable(runs["first"][GUEST].received, columns) == []
    leaking = [*runs["first"][GUEST].received, ("host-1", "leak", [(0, 3 * columns[:, 2])])]
    assert columns_readable(leaking, columns) == ["leak"]


def test_the_released_scores_are_the_hosts_part_of_the_score_and_nothing_else(runs):
    outcomes = runs["scores released"]
    *_, last = [value for _, name, value in outcomes[GUEST].received if name == "scores"]
    own = np.concatenate([block for _, block in last])
    by_id = TABLES[HOST].set_index("id").loc[outcomes[GUEST].value["order"]].reset_index()
    weights = np.ravel(outcomes[HOST].value["model"]["data"]["estimator"]["param"]["coef_"])
    np.testing.assert_allclose(own, features_of(by_id) @ weights, atol=1e-6)
