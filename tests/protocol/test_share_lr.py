"""share_lr computes what plaintext training on the joined rows computes, and shows nobody more than it says."""

import numpy as np
import pytest

from fate_dp.components.common.charges import columns_name
from fate_dp.components.share_lr.scoring import score_modulus

from .attacks import uniformity
from .joined_rows import joined, plain_training, predict, train, train_watched, weights_of
from .messages import changed_sending, names, unread, values_of
from .scenarios import GUEST, HOST, Scenario, assert_refused, play, score_lines

PAIR = (GUEST, HOST)
MOMENTUM = {"method": "sgd", "penalty": "l2", "alpha": 0.02, "optimizer_params": {"lr": 0.4, "momentum": 0.5}}
NESTEROV = {
    "method": "sgd",
    "penalty": "none",
    "alpha": 0.0,
    "optimizer_params": {"lr": 0.1, "momentum": 0.8, "nesterov": True},
}
WITH_DUMMIES, NUMBERS = joined(rows=180, members=150), joined(rows=120, seed=1, family="gaussian")
NEW, NEW_NUMBERS = joined(rows=70, seed=2), joined(rows=30, seed=3, family="gaussian")
HIDDEN = {"hide_size": {"epsilon": 1.0, "delta": 1e-6, "pool": 40}}
LOGISTIC = dict(made=WITH_DUMMIES, epochs=6, tol=0, optimizer=MOMENTUM, changes=HIDDEN)
LINEAR = dict(
    made=NUMBERS,
    epochs=7,
    tol=0,
    optimizer=NESTEROV,
    family="gaussian",
    init_param={"method": "zeros", "fit_intercept": False},
)
TO_GUEST = dict(made=joined(rows=160, seed=4), epochs=5, tol=0, optimizer=MOMENTUM, reveal="guest")
NEVER = 1e-7


def truncated(ctx, earlier, **arguments):
    """The host sends encrypted rows that are no whole ciphertexts."""
    from unittest import mock

    from fate_dp.components.share_lr import training

    cut = training._encrypted if ctx.is_on_guest else lambda block, **_: b"no ciphertext"
    with mock.patch.object(training, "_encrypted", cut):
        return train(ctx, earlier, **arguments)


def asked_for_other(ctx, earlier, other, **arguments):
    """The host gets other parameters than the guest."""
    return train(ctx, earlier, **{**arguments, **({} if ctx.is_on_guest else other)})


def with_another_host_model(ctx, earlier, **arguments):
    """The host brings the model of another training."""
    return predict(ctx, earlier, **{**arguments, "model": "to the guest" if ctx.is_on_guest else "to the host"})


def malformed(ctx, earlier, sent, **arguments):
    """Training in which the host sends other values: {name of a message: value}."""
    with changed_sending({} if ctx.is_on_guest else sent):
        return train(ctx, earlier, **arguments)


def with_a_label_of(value):
    made = joined(rows=160, seed=4)
    made["columns"][7, -2] = value
    return made


SCENARIOS = {
    "logistic": Scenario(train, LOGISTIC, PAIR),
    "linear": Scenario(train, {**LINEAR, "reveal": "nobody"}, PAIR, "linear"),
    "to the guest": Scenario(train_watched, TO_GUEST, PAIR, "guest"),
    "bare": Scenario(train_watched, {**TO_GUEST, "without": ["masks of products"]}, PAIR),
    "to the host": Scenario(train, {**TO_GUEST, "reveal": "host", "train_scores": True}, PAIR, "host"),
    "scores of linear": Scenario(predict, dict(made=NEW_NUMBERS, model="linear"), PAIR, "linear"),
    "to both": Scenario(train, {**TO_GUEST, "reveal": "both"}, PAIR, "both"),
    "scores": Scenario(predict, dict(made=NEW, model="to the guest"), PAIR, "guest"),
    "scores rounded anew": Scenario(predict, dict(made=NEW, model="to the guest"), PAIR, "guest"),
    "scores of both": Scenario(predict, dict(made=NEW, model="to both"), PAIR, "both"),
    "scores of both again": Scenario(predict, dict(made=NEW, model="to both"), PAIR, "both"),
    "scores beyond the cap": Scenario(predict, dict(made=NEW, model="to both", session="another one"), PAIR, "both"),
    "hidden, not opened": Scenario(train, {**LOGISTIC, "reveal": "nobody"}, PAIR),
    "another session": Scenario(train, {**TO_GUEST, "session": None}, PAIR),
    "unknown labels": Scenario(train, {**TO_GUEST, "changes": {"label_privacy": None}}, PAIR),
    "number labels": Scenario(train, {**LINEAR, "family": "binomial"}, PAIR),
    "two classes but others": Scenario(train, {**TO_GUEST, "made": with_a_label_of(2.0)}, PAIR),
    "few rows": Scenario(train, {**TO_GUEST, "made": joined(rows=79)}, PAIR),
    "hidden size and scores": Scenario(train, {**LOGISTIC, "train_scores": True}, PAIR),
    "scores of a hidden size": Scenario(predict, dict(made=NEW, model="to the guest", changes=HIDDEN), PAIR),
    "other columns": Scenario(predict, dict(made=joined(rows=70, guest=4, host=3), model="to the guest"), PAIR),
    "too fast": Scenario(
        train, {**TO_GUEST, "optimizer": {**MOMENTUM, "optimizer_params": {"lr": 1e6, "momentum": 0.99}}}, PAIR
    ),
    "diverging": Scenario(train, {**TO_GUEST, "optimizer": {**MOMENTUM, "optimizer_params": {"lr": 50.0}}}, PAIR),
    "table of another alignment": Scenario(train, {**TO_GUEST, "changes": {"of_table": "another"}}, PAIR),
    "other epochs": Scenario(asked_for_other, {**TO_GUEST, "other": {"epochs": 4}}, PAIR),
    "model of another training": Scenario(with_another_host_model, dict(made=NEW), PAIR),
    "malformed key": Scenario(
        malformed, {**TO_GUEST, "sent": {"public_key": {"n": 35, "blinding_base": None, "proof": b""}}}, PAIR
    ),
    "malformed masks": Scenario(malformed, {**TO_GUEST, "sent": {"masks": [[b"no ciphertext"]]}}, PAIR),
    "malformed products": Scenario(malformed, {**TO_GUEST, "sent": {"products": [[[b"no ciphertext"]]]}}, PAIR),
    "malformed weights": Scenario(malformed, {**TO_GUEST, "sent": {"weight_shares": [1, 2, 3]}}, PAIR),
    "malformed rows": Scenario(truncated, TO_GUEST, PAIR),
}
REFUSED = {
    "another session": "are not of one alignment",
    "unknown labels": "training labels",
    "number labels": "A label is neither 0 nor 1",
    "two classes but others": "A label is neither 0 nor 1",
    "few rows": "Of the 79 joined rows at least 79 stand for records; training needs at least 80",
    "hidden size and scores": "but align hid how many ids matched",
    "scores of a hidden size": "but align hid how many ids matched",
    "other columns": "The columns that align joined must be those of the model",
    "scores rounded anew": "1 more are planned, and the cap is 1",
    "scores beyond the cap": "1 more are planned, and the cap is 1",
    "diverging": "The loss left all bounds",
    "table of another alignment": "rows are not the 160 of its alignment",
    "other epochs": "epochs at the host must be 5, as at the guest, got 4.",
    "model of another training": "do not come from the same training",
    "malformed key": "he_param.key_length must be",
    "too fast": "could take the weights beyond",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return play(SCENARIOS, tmp_path_factory.mktemp("homes"), PAIR)


def model(runs, name, party):
    assert runs[name][party].error is None
    return runs[name][party].value["model"]


def test_weights_are_those_of_plaintext_training_with_rows_that_stand_for_no_record(runs):
    plain = plain_training(WITH_DUMMIES, 6, MOMENTUM)
    for party in PAIR:
        np.testing.assert_allclose(weights_of(model(runs, "logistic", party)), plain, atol=1e-5)


def test_only_the_party_that_the_model_is_for_has_weights(runs):
    plain = plain_training(TO_GUEST["made"], 5, MOMENTUM)
    for name, owner, other in (("to the guest", GUEST, HOST), ("to the host", HOST, GUEST)):
        np.testing.assert_allclose(weights_of(model(runs, name, owner)), plain, atol=1e-5)
        kept = model(runs, name, other)["data"]["estimator"]
        assert kept["param"] is kept["weight_shares"] is None


def test_shares_of_a_model_that_nobody_knows_add_up_to_plaintext_weights(runs):
    both = [model(runs, "linear", party)["data"]["estimator"] for party in PAIR]
    assert [estimator["param"] for estimator in both] == [None, None]
    total = [int(one) + int(other) for one, other in zip(*(estimator["weight_shares"] for estimator in both))]
    plain = plain_training(NUMBERS, 7, NESTEROV, "gaussian", fit_intercept=False)
    np.testing.assert_allclose(np.array(total) / 2.0**22, plain, atol=1e-5)
    for estimator in both:
        assert min(abs(int(share)) for share in estimator["weight_shares"]) > 2**70


def test_losses_fall_and_only_the_guest_sees_them(runs):
    for name in ("logistic", "linear"):
        losses = model(runs, name, GUEST)["data"]["estimator"]["losses"]
        assert len(losses) > 5 and (np.diff(losses) < 2.0**-16).all()
        assert model(runs, name, HOST)["data"]["estimator"]["losses"] == []


def test_the_guest_gets_scores_and_labels_of_new_rows_whoever_knows_the_weights(runs):
    plain = plain_training(NUMBERS, 7, NESTEROV, "gaussian", fit_intercept=False)
    assert_scored(
        runs["scores of linear"][GUEST].value, NEW_NUMBERS, NEW_NUMBERS["columns"][:, :7] @ plain, linear=True
    )
    plain = plain_training(TO_GUEST["made"], 5, MOMENTUM)
    for name, made in (("scores", NEW), ("scores of both", NEW), ("to the host", TO_GUEST["made"])):
        value = runs[name][GUEST].value
        scored = value if name.startswith("scores") else value["scored"]
        z = made["columns"][:, :7] @ plain[:-1] + plain[-1]
        assert_scored(scored, made, 1 / (1 + np.exp(-z)))


def assert_scored(scored, made, expected, linear=False):
    rows = scored.assign(at=scored["id"].astype(int)).sort_values("at")
    # One unit of 2^-12 in z, a quarter of which arrives here.
    np.testing.assert_allclose(
        rows["predict_score"].to_numpy(float), expected, atol=2.0 ** (-12 if linear else -14) + 1e-5
    )
    if linear:
        # Labels that are numbers would name the records that matched.
        assert "label" not in scored
    else:
        np.testing.assert_array_equal(rows["label"].to_numpy(float), made["columns"][:, -2])


def test_every_model_on_every_alignment_counts_once_in_the_hosts_ledger(runs):
    counts = {"scores": 1, "scores rounded anew": 1, "scores of both again": 1, "to the host": 1, "scores of linear": 1}
    for name, count in counts.items():
        entries = score_lines(runs[name][HOST])
        dataset = columns_name([f"host column {number}" for number in range(4)])
        (entry,) = [entry for entry in entries if entry["source"] == dataset]
        assert entry["rounds"] == count and entry["parameters"] == {"purpose": "scores of joined rows"}
        assert runs[name][GUEST].ledger["entries"] == []


def test_a_ledger_says_that_what_was_opened_tells_the_hidden_number_of_matches(runs):
    for name, charged in (("logistic", PAIR), ("hidden, not opened", [HOST]), ("to the guest", [])):
        assert runs[name][GUEST].error is None
        for party, other in (PAIR, PAIR[::-1]):
            lines = [
                (entry["mechanism"], entry["unit"], entry["observer"]) for entry in runs[name][party].ledger["entries"]
            ]
            hidden = [("NotPrivate", "record", other[0])] if party in charged else []
            assert lines == hidden + ([("losses of trainings", "record", "guest")] if party == HOST else [])


@pytest.mark.parametrize("name", list(REFUSED))
def test_both_parties_learn_why_a_task_is_refused(runs, name):
    assert_refused(runs[name], REFUSED[name])


@pytest.mark.parametrize("what", ["key", "rows", "masks", "products", "weights"])
def test_what_is_malformed_ends_the_task_at_both_parties(runs, what):
    errors = [outcome.error for outcome in runs[f"malformed {what}"].values()]
    assert all(error.startswith("guest 9999: ") for error in errors), errors


TO_HOST = {
    ("guest", name)
    for name in (
        "verdict",
        "public_key",
        "encrypted_rows",
        "masked_products",
        "masks",
        "products",
        "hidden_weights",
        "hidden_losses",
        "training_state",
        "all_consent",
        "label_excess",
    )
}


def test_a_host_that_the_model_is_not_for_receives_these_messages_and_no_other(runs):
    assert names(runs["to the guest"][HOST].received) == TO_HOST
    sent = {party: runs["to the guest"][party].value["notes"]["sent"] for party in PAIR}
    assert unread(runs["to the guest"], sent) == {}
    verdicts = [verdict["terms"] for verdict in values_of(runs["to the guest"][HOST].received, "verdict")]
    assert [bool(terms) for terms in verdicts] == [True] + [False] * 8
    assert verdicts[0]["features"] == [8, 0] and verdicts[0]["mean_square_bits"] == 8


def host_view(runs, name) -> dict:
    """{kind: [(number, width it should be uniform below), ...]} of all numbers that the host opens or receives."""
    notes, received = runs[name][HOST].value["notes"], runs[name][HOST].received
    gradient, loss = (notes["moduli"][kind][0] for kind in ("weights", "losses"))
    weights = [number for message in values_of(received, "hidden_weights") for number in message]
    losses = [number for group in values_of(received, "hidden_losses") for step in group for number in step]
    return {
        **notes["opened"],
        "hidden weights": [(number, gradient) for number in weights],
        "hidden losses": [(number, loss) for number in losses],
    }


def test_what_the_host_opens_and_receives_is_uniform_and_would_not_be_without_masks(runs):
    for kind, pool in host_view(runs, "to the guest").items():
        assert len(pool) >= 2 and uniformity(pool) > NEVER, kind
    bare = host_view(runs, "bare")
    assert uniformity(bare["sums"]) < NEVER


def test_shares_of_scores_and_labels_come_to_the_guest_uniform(runs):
    modulus = score_modulus(8)
    sent = {
        name: [int(share) for _, block in values_of(runs[name][GUEST].received, "score_shares")[0] for share in block]
        for name in ("scores", "scores of both", "scores of both again")
    }
    for shares in sent.values():
        assert len(shares) == 70 and uniformity([(share, modulus) for share in shares]) > NEVER
    assert not set(sent["scores"]) & set(sent["scores of both"])
    # Where both know the weights nothing is rounded anew, and nothing new is told.
    assert sent["scores of both"] == sent["scores of both again"]
