"""Certificates: the verdict follows from the counts, can be computed again, and no file that says otherwise passes."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from bench.audit_certificate import MUTANTS, audit_of_mutant
from fate_dp.components.protocols.noisy_rounds import aggregation
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms
from fate_dp.privacy.auditing.certificate import CONSISTENT, REFUTED, VOID, Certificate, Claim, read
from fate_dp.privacy.auditing.games import GAMES, audit_mechanism
from fate_dp.privacy.auditing.one_run import GAUSSIAN, GuessEvidence, SumStatistic
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument
from tests.support.audit_training import audit_training

CLAIM = Claim("flips of a test", 1.0, 0.0, "label", "replace_one", ("host",))
ALL_RIGHT = GuessEvidence(1000, 1000, 1000)
SOUND = Certificate(CLAIM, 0.95, GuessEvidence(1000, 1000, 720), ALL_RIGHT)
# Of small ones a Gaussian mechanism shows too little to 600 canaries.
EPSILONS = {"gaussian_mechanism": 4.0}
TERMS = dict(aggregation="local", unit="record", clients=2, max_dropouts=1, rounds=3, batch_size=300, records=300)
TERMS |= dict(clips=(0.5,), dimension=5, delta=1e-5, noise_multiplier=2.0)


def test_a_bound_below_the_claim_is_consistent_and_one_above_refutes():
    assert SOUND.verdict == CONSISTENT and "does not refute the claim of 1" in SOUND.reason
    leaky = replace(SOUND, evidence=GuessEvidence(1000, 1000, 850))
    assert leaky.verdict == REFUTED and "above the claim of 1" in leaky.reason


def test_a_bound_that_exceeds_the_claim_by_chance_alone_refutes_nothing():
    """At 95 % it does, once in twenty audits of what is sound; at the verdict's confidence it does not."""
    lucky = replace(SOUND, evidence=GuessEvidence(1000, 1000, 765))
    assert lucky.found.epsilon > 1 > lucky.refuting.epsilon and lucky.verdict == CONSISTENT


def test_a_control_that_is_not_broken_makes_it_void_whatever_was_found():
    weak = replace(SOUND, evidence=GuessEvidence(10, 10, 10), control=GuessEvidence(10, 10, 10))
    assert weak.verdict == VOID and "it takes more canaries than 10" in weak.reason
    assert replace(SOUND, claim=replace(CLAIM, epsilon=math.inf)).verdict == VOID
    assert Certificate(CLAIM, 0.95, blocker="No canaries.").verdict == VOID


def test_noise_that_repeats_itself_refutes():
    assert replace(SOUND, repeated=True).verdict == REFUTED


def test_guesses_at_a_delta_refute_with_no_smaller_error_than_delta_allows():
    approximate = replace(SOUND, claim=replace(CLAIM, delta=1e-6))
    assert approximate.verdict_confidence == pytest.approx(0.96)
    assert replace(SOUND, claim=replace(CLAIM, delta=1e-2)).verdict_confidence == 0.95
    assert SOUND.verdict_confidence == 1 - 1e-5


@pytest.mark.parametrize(
    "certificate",
    [
        SOUND,
        Certificate(CLAIM, 0.9, blocker="No canaries.", inputs={"table": "0" * 64}),
        Certificate(replace(CLAIM, epsilon=math.inf), 0.9, blocker="No canaries."),
        Certificate(
            replace(CLAIM, delta=1e-5, kind=GAUSSIAN),
            0.95,
            GuessEvidence(100, 20, 15, SumStatistic(52, 48, 0.7, 1.1)),
            GuessEvidence(100, 20, 20, SumStatistic(52, 48, 0.7, 0.0)),
        ),
    ],
)
def test_a_certificate_is_read_as_it_was_written(certificate):
    again = read(certificate.to_json())
    assert again.document() == certificate.document()


@pytest.mark.parametrize(
    "changes, sentence",
    [
        ({"verdict": "refuted"}, "verdict is 'refuted', but its counts give 'consistent'"),
        ({"lower_bound": 0.1}, "lower_bound is 0.1, but its counts give"),
        ({"evidence": {"canaries": 1000, "guessed": 1000, "correct": 900, "scores": None}}, "but its counts give"),
        (
            {"evidence": {"canaries": 1000, "guessed": 1000, "correct": 1900, "scores": None}},
            "correct must be .*, got 1900",
        ),
        ({"schema": 9}, "schema of the certificate must be 2, that of this version, got 9"),
        ({"claim": None}, "no certificate of an audit"),
        ({"versions": 7}, "no certificate of an audit"),
        ({"lower_bound": 10**400}, "lower_bound is 1000.*, but its counts give"),
        ({"more": 1}, "other fields than its schema"),
        ({"confidence": 1.5}, "confidence must be .*, got 1.5"),
    ],
)
def test_a_file_that_says_otherwise_than_its_counts_is_refused(changes, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        read(json.dumps({**SOUND.document(), **changes}))


@pytest.mark.parametrize("text", ["", "[]", "{}", '"x"', "[" * 100_000])
def test_what_is_no_certificate_is_refused(text):
    with pytest.raises(InvalidArgument, match="no certificate of an audit"):
        read(text)


def test_a_certificate_must_hold_counts_or_say_why_it_has_none():
    for given in ({"blocker": "why", "evidence": ALL_RIGHT, "control": ALL_RIGHT}, {}, {"evidence": ALL_RIGHT}):
        with pytest.raises(InvalidArgument, match="either evidence and a control, or a blocker"):
            Certificate(CLAIM, 0.95, **given)


@pytest.mark.statistical
@pytest.mark.parametrize("name", GAMES)
def test_a_sound_mechanism_is_consistent_and_its_audit_not_absurdly_weak(name):
    certificate = audit_mechanism(name, EPSILONS.get(name, 1.0), 1e-5, 600, rng=ReproducibleStream(11))
    assert certificate.verdict == CONSISTENT, certificate.reason
    assert certificate.refuting.epsilon <= certificate.claim.epsilon
    assert certificate.found.epsilon > 0.25 * certificate.claim.epsilon


@pytest.mark.statistical
@pytest.mark.parametrize("name", MUTANTS)
def test_every_deliberate_fault_is_refuted(name):
    assert audit_of_mutant(name).verdict == REFUTED


@pytest.mark.parametrize("trust", ["local", "secure_sum"])
def test_rounds_of_horizontal_training_are_consistent_and_without_their_noise_refuted(trust, monkeypatch):
    terms = RoundTerms(**{**TERMS, "aggregation": trust})
    certificate = audit_training(terms, 200, rng=ReproducibleStream(3))
    assert certificate.verdict == CONSISTENT, certificate.reason
    assert 0.25 * certificate.claim.epsilon < certificate.found.epsilon
    from fate_dp.privacy.mechanisms import gaussian

    for module in (aggregation, gaussian):
        monkeypatch.setattr(module, "discrete_gaussian", lambda sigma, size, rng=None: np.zeros(size, dtype=np.int64))
    assert audit_training(terms, 200, rng=ReproducibleStream(3)).verdict == REFUTED


def test_terms_that_canaries_cannot_audit_are_refused():
    for changes, sentence in (
        (
            {"unit": "client", "records": 2, "batch_size": 2, "local_learning_rate": 0.1},
            "unit must be .*, got 'client'",
        ),
        ({"noise_multiplier": None}, "noise_multiplier must be a number.*, got None"),
        ({"upload_fraction": 0.5}, "upload_fraction must be 1.*, got 0.5"),
    ):
        with pytest.raises(InvalidArgument, match=sentence):
            audit_training(RoundTerms(**{**TERMS, **changes}))
