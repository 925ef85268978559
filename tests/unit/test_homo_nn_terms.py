"""Terms of rounds: what is refused, and in which sentence; which record sends when in aggregation shuffle."""

import json
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.components.protocols.noisy_rounds.account import (
    client_sizes,
    epochs_of,
    honest_messages,
    min_messages,
    rounds_per_epoch,
    scheduled_messages,
    senders,
)
from fate_dp.components.protocols.noisy_rounds.terms import InvalidTerms, RoundTerms

GIVEN = {
    "aggregation": "secure_sum",
    "unit": "record",
    "clients": 4,
    "max_dropouts": 2,
    "rounds": 3,
    "batch_size": 10.0,
    "records": 100,
    "clips": 1.0,
    "dimension": 5,
    "delta": 1e-5,
}
SHUFFLED = {**GIVEN, "aggregation": "shuffle"}
CLIENTS = {**GIVEN, "unit": "client", "records": 4, "batch_size": 2.0, "local_learning_rate": 0.1}


def test_what_follows_from_the_terms():
    terms = RoundTerms(**GIVEN, clip_quantile=0.5)
    assert terms.sampling_probability == 0.1
    assert terms.vector_length == 6 and terms.least_arrivals == 3 and terms.noised_steps == 1
    assert RoundTerms(**{**GIVEN, "clips": (3, 2, 1)}).clip_of(1) == 2
    assert RoundTerms(**GIVEN).clip_of(2) == 1.0
    walk = {**GIVEN, "aggregation": "local", "local_steps": 3, "local_learning_rate": 1.0}
    assert RoundTerms(**walk).noised_steps == 3
    assert RoundTerms(**CLIENTS, local_steps=3).noised_steps == 1
    assert RoundTerms(**GIVEN).weight_of(2) == 0.25
    assert RoundTerms(**CLIENTS, client_weights=(0.4, 0.3, 0.2, 0.1)).weight_of(1) == 0.3


def test_terms_survive_json():
    terms = RoundTerms(**GIVEN, scales=np.arange(1.0, 6.0), client_records=[25, 25, 20, 30], noise_multiplier=1.5)
    assert RoundTerms(**json.loads(json.dumps(asdict(terms)))) == terms
    assert hash(terms) == hash(RoundTerms(**asdict(terms)))


def test_a_large_delta_is_remarked():
    assert RoundTerms(**GIVEN).delta_warning() is None
    assert "delta is 0.01, which is not below 1 / 100" in RoundTerms(**{**GIVEN, "delta": 0.01}).delta_warning()


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({"aggregation": "central"}, "aggregation must be one of local, shuffle, secure_sum, got 'central'."),
        ({"unit": "label"}, "unit must be one of record, client, got 'label'."),
        ({"clients": 1}, "clients must be at least 2, since one client has nobody to train with, got 1."),
        ({"max_dropouts": 0}, "max_dropouts must be a whole number of at least 1, got 0."),
        ({"max_dropouts": 4}, "max_dropouts must be less than the number of clients, 4, got 4."),
        ({"colluding": 3}, "colluding must be at most max_dropouts, 2, got 3."),
        ({"rounds": True}, "rounds must be a whole number of at least 1, got True."),
        ({"batch_size": 101.0}, "batch_size must be at most the number of records, 100, got 101.0."),
        ({"batch_size": float("nan")}, "batch_size must be a number greater than 0.*, got nan"),
        ({"delta": 1.0}, "delta must be a number greater than 0.*, got 1.0"),
        ({"clips": (1.0, 2.0)}, "number of clips must be 1, or 3, one per round, got 2."),
        ({"clips": -1.0}, "clips must be numbers from .*, got -1.0."),
        ({"clips": (3.0, 2.0, 1.0), "clip_quantile": 0.5}, "clips must be one number with clip_quantile"),
        ({"unit": "client"}, "records must be the number of clients, 4, with privacy client, got 100."),
        ({"scales": (1.0, 2.0)}, "scales must be positive numbers, one for each of 5 weights."),
        ({"scales": (1.0, 2.0, 3.0, 4.0, 0.0)}, "scales must be positive numbers, one for each of 5 weights."),
        ({"client_weights": (0.5, 0.5)}, "client_weights must be positive numbers, one for each of 4 clients."),
        ({"client_weights": (0.5, 0.5, 0.5, 0.5)}, "sum of client_weights must be 1, got 2."),
        ({"client_records": (1, 2, 3, 4)}, "sum of client_records must be records, 100, got 10."),
        ({"client_weights": (0.4, 0.3, 0.2, 0.1)}, "client_weights are for updates of clients"),
        ({"epsilon0": 1.0}, "epsilon0 is 1, but aggregation secure_sum adds Gaussian noise; set noise_multiplier."),
        ({"noise_multiplier": 2.0**15}, "noise_multiplier must be a number greater than 0 and at most.*, got 32768.0"),
        ({"local_steps": 2, "local_learning_rate": 1.0}, "use privacy client, aggregation local, or one step."),
        ({"aggregation": "local", "local_steps": 2}, "local_learning_rate must be given.*, got None"),
        ({"upload_fraction": 0.5}, "use aggregation local, or upload_fraction 1."),
        (
            {"aggregation": "local", "local_steps": 2, "local_learning_rate": 1.0, "clip_quantile": 0.5},
            "use local_steps 1",
        ),
        ({"records": 2**28}, "records must be below 2\\^28 with noise_multiplier 0"),
    ],
)
def test_what_has_no_guarantee_is_refused_in_one_sentence(changed, sentence):
    with pytest.raises(InvalidTerms, match=sentence):
        RoundTerms(**{**GIVEN, **changed})


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({"unit": "client", "records": 4, "batch_size": 2.0}, "Use aggregation secure_sum for privacy client"),
        ({"local_steps": 2}, "Use aggregation local"),
        ({"upload_fraction": 0.5}, "upload_fraction must be 1 in aggregation shuffle, got 0.5."),
        ({"clip_quantile": 0.5}, "or aggregation secure_sum"),
        ({"noise_multiplier": 1.0}, "Set epsilon0: .* never Gaussian noise"),
    ],
)
def test_what_has_no_guarantee_in_shuffle_is_refused(changed, sentence):
    with pytest.raises(InvalidTerms, match=sentence):
        RoundTerms(**{**SHUFFLED, **changed})


def test_sums_of_the_most_records_fit_and_one_more_bit_does_not():
    RoundTerms(**{**GIVEN, "records": 2**27, "noise_multiplier": 2.0**14})
    with pytest.raises(InvalidTerms, match="may exceed 2\\^63"):
        RoundTerms(**{**GIVEN, "records": 2**28 - 2**19, "noise_multiplier": 2.0**14})


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(1, 30), min_size=2, max_size=6), share=st.floats(0.05, 1.0))
def test_every_record_sends_once_per_epoch_and_rounds_are_even(sizes, share):
    records = sum(sizes)
    terms = RoundTerms(
        **{
            **SHUFFLED,
            "clients": len(sizes),
            "max_dropouts": 1,
            "records": records,
            "client_records": sizes,
            "batch_size": max(1.0, share * records),
        }
    )
    period = rounds_per_epoch(terms)
    for epoch in (0, 1):
        counts = Counter()
        for place in range(period):
            number = epoch * period + place
            sent = [(k, at) for k in range(len(sizes)) for at in senders(terms, k, number).tolist()]
            counts.update(sent)
            assert len(sent) == scheduled_messages(terms, number) and abs(len(sent) - records / period) < 1
        assert set(counts.values()) == {1} and len(counts) == records


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(4, 40), min_size=3, max_size=6), share=st.floats(0.3, 1.0), colluding=st.booleans())
def test_no_round_has_fewer_honest_messages_than_are_charged(sizes, share, colluding):
    """Whoever colludes or is missing, records divide evenly or not."""
    records, max_dropouts = sum(sizes), 1 + colluding
    terms = RoundTerms(
        **{
            **SHUFFLED,
            "clients": len(sizes),
            "max_dropouts": max_dropouts,
            "records": records,
            "client_records": sizes,
            "batch_size": max(1.0, share * records),
        }
    )
    least = min(
        scheduled_messages(terms, number) - sum(sorted(_sent(terms, sizes, number))[-max_dropouts:])
        for number in range(rounds_per_epoch(terms))
    )
    try:
        charged = honest_messages(terms)
    except InvalidTerms:
        charged = 0
    assert charged <= least and charged <= records // rounds_per_epoch(terms) - max_dropouts


def _sent(terms, sizes, number):
    return [len(senders(terms, client, number)) for client in range(len(sizes))]


def test_a_rest_of_the_division_hides_nobody():
    """101 records over 4 rounds are 25 messages in three of them; a client sends at most 7."""
    terms = RoundTerms(**{**SHUFFLED, "records": 101, "batch_size": 30.0})
    assert honest_messages(terms) == 11 and min_messages(terms) == 18


def test_epochs_and_honest_messages():
    terms = RoundTerms(**{**SHUFFLED, "batch_size": 30.0, "rounds": 9})
    assert rounds_per_epoch(terms) == 4 and client_sizes(terms) == (25, 25, 25, 25)
    assert [epochs_of(terms, rounds) for rounds in (0, 1, 4, 5, 9)] == [0, 1, 1, 2, 3]
    # 25 messages, of which a client sends at most 7: one is missing, one colludes.
    assert honest_messages(terms) == 11 and min_messages(terms) == 18
    with pytest.raises(InvalidTerms, match="none may be left that is honest"):
        honest_messages(RoundTerms(**{**SHUFFLED, "batch_size": 2.0}))


def test_a_batch_that_divides_the_records_takes_no_further_round():
    assert rounds_per_epoch(RoundTerms(**{**SHUFFLED, "batch_size": 100 / 3})) == 3
