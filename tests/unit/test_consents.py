"""What a party agrees to show: scores, losses, weights. Each is counted before, and a check that says no ends it."""

import math
from functools import reduce
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pandas as pd
import pytest

from fate_dp.components.common import provenance
from fate_dp.components.common.charges import home_of, job_of, refuse_derived_labels
from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.components.common.units import Units
from fate_dp.components.dp_hetero_lr import noise
from fate_dp.components.dp_hetero_lr.predict import AskedRows, _answer_guest
from fate_dp.components.dp_hetero_lr.scores import ScoreRelease
from fate_dp.components.flipback import guest as flipback
from fate_dp.components.protocols.joined_tables import Alignment
from fate_dp.components.protocols.score_counts import CountedLosses, remember_training
from fate_dp.components.protocols.shared_descent import LossConsent
from fate_dp.components.score_correction import party as score_correction
from fate_dp.components.share_lr import scoring, training
from fate_dp.components.share_lr.agreement import SharedRows
from fate_dp.components.smote.party import check_table
from fate_dp.crypto.paillier import generate_keypair
from fate_dp.data_prep import SYNTHETIC_PREFIX
from fate_dp.privacy.labels.flipback import marked
from fate_dp.privacy.labels.flips import LabelRelease
from fate_dp.privacy.ledger.policy import Policy, SourcePolicy
from fate_dp.privacy.private_files import party_folder
from fate_dp.testing import frame_at, play

HOST = ("host", "10000")
NAMES = [f"person {row}" for row in range(8)]
TABLE = pd.DataFrame({"sample_id": NAMES, "id": NAMES, **{f"x{at}": np.arange(8.0) for at in range(8)}})
ONE_DERIVED = TABLE.assign(y=[0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, *marked([1.0])])
OTHERS = TABLE.assign(id=[f"stranger {row}" for row in range(8)])
MODELS = [np.full(8, value) for value in (0.5, 1.5, 2.5)]
PUBLIC, FLIPS = (LabelPrivacy("a/b/y", (LabelRelease("a/b/y", epsilon, classes=2),)) for epsilon in (math.inf, 1.0))


class Peer:
    """Another party, that answers as it is told; ``sent`` is what it got."""

    def __init__(self, role="host", **answers):
        self.role, self.rank, self.answers, self.sent = role, role, answers, {}

    def put(self, name, value):
        self.sent[name] = value

    def get(self, name):
        return self.answers[name]


def at_host(step, home, policy=""):
    folder = party_folder(home, HOST[1])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "policy.yaml").write_text(policy)
    (folder / "policy.yaml").chmod(0o600)
    return play(step, (HOST,), home, messages={}).check().values[HOST]


def test_each_model_counts_on_rows_that_were_trained_on_and_none_is_shown_beyond_the_cap(tmp_path):
    def step(ctx):
        home, frame, others = home_of(ctx), frame_at(ctx, TABLE), frame_at(ctx, OTHERS)
        release = ScoreRelease.of(home, job_of(ctx), frame)
        remember_training(home, release.dataset, frame)
        release.record_prediction(others, MODELS)
        counted = [release.released()]
        guest = Peer("guest")
        release.give_round(SimpleNamespace(guest=guest), prepared(frame), MODELS[2], 0.5, "a round")
        counted.append(release.released())
        release.record_prediction(frame, MODELS[:1])
        counted.append(release.released())
        assert guest.sent and counted == [0, 1, 2] == [0, 1, release.cap]
        assert release.allows(frame, MODELS[:1]) and release.allows(others, MODELS)
        assert not release.allows(frame, MODELS)

    def prepared(frame):
        from fate_dp.components.dp_hetero_lr.rows import prepare_rows

        return prepare_rows(frame)

    at_host(step, tmp_path)


def test_every_class_is_a_model_of_its_own(tmp_path):
    def step(ctx):
        frame = frame_at(ctx, TABLE)
        release = ScoreRelease.of(home_of(ctx), job_of(ctx), frame)
        release.record(MODELS[:2], "two classes")
        return release.released()

    assert at_host(step, tmp_path) == 2


def test_every_encrypted_row_counts(tmp_path):
    def step(ctx):
        asked = AskedRows.of(home_of(ctx), job_of(ctx), [f"x{at}" for at in range(8)])
        asked.record(2)
        return asked.left()

    assert at_host(step, tmp_path) == 0


class Messages(tuple):
    """As much of a table as is asked of one here."""

    def mapValues(self, function):
        return Messages(map(function, self))

    def reduce(self, function):
        return reduce(function, self)


def test_scales_follow_from_what_was_released_of_contributions(monkeypatch):
    released = np.array([0.5, 0.1])
    monkeypatch.setattr(noise.OwnNoise, "_released", lambda own, sums: SimpleNamespace(value=released))
    monkeypatch.setattr(noise, "_contributions", lambda block, weights: np.array([0.1, 0.5]))
    own = noise.OwnNoise.__new__(noise.OwnNoise)
    own.epsilon, own.records, own.bounds = 1.0, 8, SimpleNamespace(features=2)
    np.testing.assert_array_equal(own.scales(Messages([None]), np.ones(2)), noise.adaptive_scales(released))


def test_a_host_scores_no_encrypted_row_that_it_has_not_counted():
    _, private = generate_keypair(2048)
    three = bytes(3 * private.public_key.ciphertext_bytes)
    guest = Peer("guest", public_key=private.to_wire(), queries=Messages([three]))
    with pytest.raises(ValueError, match="sent 3 rows but had announced 2"):
        _answer_guest(SimpleNamespace(guest=guest), [np.ones(1)], 2, Units(np.zeros(1), np.ones(1)))


def columns(peers, own):
    return SimpleNamespace(peers=lambda ctx: peers, is_guest=own == 0)


@pytest.mark.parametrize("consents, shown", [((True, True), True), ((True, False), False)])
def test_losses_are_shown_where_every_host_agrees(consents, shown):
    hosts = {at + 1: Peer(consent=consent) for at, consent in enumerate(consents)}
    consent = LossConsent(None, columns(hosts, 0), 10)
    consent.answer()
    assert consent.agreed() is shown and {host.sent["all_consent"] for host in hosts.values()} == {shown}


@pytest.mark.parametrize("cap, shown", [(1, True), (0, False)])
def test_a_host_agrees_to_losses_within_its_cap_and_counts_them(tmp_path, cap, shown):
    def step(ctx):
        home, guest = home_of(ctx), Peer("guest", all_consent=True)
        losses = CountedLosses(home, job_of(ctx), ScoreRelease.of(home, job_of(ctx), frame_at(ctx, TABLE)).dataset, 8)
        consent = LossConsent(None, columns({0: guest}, 1), 10, losses)
        assert guest.sent["consent"] is shown and consent.agreed() is shown
        return losses.told()["trainings whose losses were shown to the guest (all jobs)"]

    def dataset(ctx):
        return ScoreRelease.of(home_of(ctx), job_of(ctx), frame_at(ctx, TABLE)).dataset

    name = at_host(dataset, tmp_path)
    assert at_host(step, tmp_path, f'loss_caps: {{"{name}": {cap}}}\n') == int(shown)


def test_the_guest_of_a_training_on_shares_keeps_no_loss_that_the_host_did_not_agree_to():
    descent = SimpleNamespace(family="binomial", epochs=3, early_stop="weight_diff", tol=1e-4)
    trained = SimpleNamespace(descent=descent, passes=lambda loss: True, shows_losses=False)
    progress = training.Progress()
    training.StoppingRule(trained, progress)(SimpleNamespace(epoch=0, ctx=MagicMock()), [0.1])
    assert progress.losses == []


@pytest.mark.parametrize("reveal, told", [("guest", []), ("both", ["weight_shares"])])
def test_shares_of_weights_go_to_those_that_reveal_names(reveal, told):
    host = Peer("host", weight_shares=[1 << 20])
    ctx = SimpleNamespace(parties=[host], rank="guest", local=SimpleNamespace(role="guest"))
    scoring.open_weights(ctx, [1 << 20], reveal)
    assert list(host.sent) == told


def test_rows_of_which_the_number_is_hidden_are_not_scored():
    alignment = Alignment("session", 5, ("guest_x0",), ("host_x0",), True, {"epsilon": 1.0, "delta": 1e-6, "pool": 8})
    with pytest.raises(ValueError, match="hid how many ids matched"):
        SharedRows(None, alignment).refuse_hidden_size("Rows are to be scored")


def known(monkeypatch, **answers):
    """A home whose ledger answers so."""
    for name in ("record_tag_stream", "labelled_stream"):
        monkeypatch.setattr(provenance, name, lambda *given: [])
    asked = {"sources": ["a/b/y"], "sources_of_other_keys": [], **answers}
    ledger = SimpleNamespace(**{name: lambda *given, _of=name, **named: asked[_of] for name in asked})
    return SimpleNamespace(ledger=ledger, key=b"", key_id="key", policy=Policy())


LABELLED = SimpleNamespace(schema=SimpleNamespace(label_name="y"))


def test_true_labels_of_records_whose_flips_were_released_are_not_shown(monkeypatch):
    home = known(monkeypatch, has_released=True, find_labels=None)
    with pytest.raises(ValueError, match="whose flips were released"):
        provenance.refuse_true_labels_of_released_records(home, LABELLED)


def test_labels_that_are_not_the_declared_ones_are_not_public(monkeypatch):
    home = known(monkeypatch, are_public=False, find_labels=None)
    home.policy = Policy(label_sources={"a/b/y": SourcePolicy(public=True)})
    with pytest.raises(ValueError, match="not flips that label_flip released"):
        provenance.find_label_privacy(home, LABELLED, "a/b/y")


def test_no_step_promises_anything_to_records_whose_labels_follow_from_all(tmp_path):
    with pytest.raises(ValueError, match="went through flipback"):
        at_host(lambda ctx: refuse_derived_labels(frame_at(ctx, ONE_DERIVED)), tmp_path)
    with pytest.raises(ValueError, match="went through flipback"):
        flipback.revertible_flips(LabelPrivacy("a/b/y", FLIPS.releases, derived=True))


def test_flipback_takes_no_scores_of_a_model_of_true_labels(monkeypatch):
    monkeypatch.setattr(flipback, "scores_digest", lambda home, scored: b"")
    with pytest.raises(ValueError, match="labels without privacy"):
        flipback.releases_of_model(known(monkeypatch, releases_of_scores=PUBLIC.releases), None)


def refuse(sentence):
    def refused(*given):
        raise ValueError(sentence)

    return refused


def test_score_correction_asks_which_labels_stand_beside_the_scores(monkeypatch):
    for name in ("home_of", "checked_kind"):
        monkeypatch.setattr(score_correction, name, lambda *given: None)
    monkeypatch.setattr(score_correction, "refuse_other_flips", refuse("true labels"))
    monkeypatch.setattr(score_correction, "feature_blocks", refuse("nobody asked"))
    with pytest.raises(ValueError, match="true labels"):
        score_correction.correct_scores(None, SimpleNamespace(epsilon=1.0), MagicMock(), None)


def test_flipback_asks_of_which_labels_the_scores_are(monkeypatch):
    for name in ("home_of", "find_label_privacy", "revertible_flips"):
        monkeypatch.setattr(flipback, name, lambda *given: None)
    monkeypatch.setattr(flipback.frames, "check_guest_table", lambda frame: None)
    monkeypatch.setattr(flipback, "check_scores", refuse("scores of other labels"))
    monkeypatch.setattr(flipback, "releases_of_model", refuse("nobody asked"))
    with pytest.raises(ValueError, match="scores of other labels"):
        flipback.FlipbackGuestPreflight(None, None, None, None).check()


def test_scores_beside_flips_of_another_epsilon_are_not_corrected(monkeypatch):
    monkeypatch.setattr(score_correction, "refuse_true_labels_of_released_records", lambda home, scored: FLIPS)
    score_correction.refuse_other_flips(None, None, 1.0)
    with pytest.raises(ValueError, match="were flipped at epsilon 1.0"):
        score_correction.refuse_other_flips(None, None, 2.0)


def test_a_table_is_over_sampled_once(tmp_path):
    table = TABLE.assign(y=np.resize([0.0, 1.0], 8), id=[f"{SYNTHETIC_PREFIX}{each}" for each in NAMES])

    def step(ctx):
        check_table(frame_at(ctx, table.assign(id=NAMES)), (), {"x0"})
        with pytest.raises(ValueError, match="over-sampled before"):
            check_table(frame_at(ctx, table), (), {"x0"})

    at_host(step, tmp_path)
