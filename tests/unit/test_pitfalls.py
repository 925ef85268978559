"""Pitfalls that other tools fell into, by their number in the project's list. Numbers 1 (fresh flips), 10 (exponents in
clear) and 15 (a rare class erased) are tests of the flips, the protocol, the ciphertexts and of flipback; here are the
two that belong to no single file."""

import multiprocessing
import random
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_dp.components.dp_hetero_lr import component, settings
from fate_dp.components.label_flip.component import label_flip
from fate_dp.crypto.paillier import FixedBaseBlinding, column_from_bytes, encrypt_column, keypair_of_any_length
from fate_dp.crypto.slots import mask_and_pack
from fate_dp.privacy.labels.flips import _keep_threshold
from fate_dp.privacy.mechanisms.randomized_response import keep_probability


@given(epsilon=st.floats(1e-3, 40), classes=st.integers(2, 20))
def test_3_replacing_one_label_changes_no_answer_by_more_than_the_stated_epsilon(epsilon, classes):
    # Of the answers that the implementation really gives, in exact arithmetic, not of the formula.
    kept = _keep_threshold(epsilon, classes)
    with localcontext() as context:
        context.prec = 60
        assert Decimal(kept * (classes - 1)) / (2**64 - kept) <= Decimal(epsilon).exp()
    assert kept / 2**64 == pytest.approx(keep_probability(epsilon, classes), abs=2.0**-52)


def test_3_no_parameter_lets_a_job_state_a_sensitivity_or_a_probability_of_its_own():
    stated = {
        *label_flip.parameters.mapping,
        *component.dp_hetero_lr.parameters.mapping,
        *settings.TrainSettings.__annotations__,
    }
    words = ("sensitivity", "probability", "noise", "multiplier", "sigma", "seed")
    assert not {name for name in stated - {"noise_spread"} if any(word in name for word in words)}


def seeded_draws(queue):
    import torch

    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    key, _ = keypair_of_any_length(512)
    sums = column_from_bytes(encrypt_column(np.array([7, 7]), key), key)
    queue.put((key.n, int(FixedBaseBlinding(key).factors(1)[0].spend()), mask_and_pack(sums, key)[1]))


def test_9_two_processes_with_equal_global_seeds_never_repeat_a_key_a_blinding_or_a_mask():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    for _ in range(2):
        context.Process(target=seeded_draws, args=(queue,)).start()
    first, second = queue.get(timeout=60), queue.get(timeout=60)
    assert all(a != b for a, b in zip(first, second))
    assert not set(first[2]) & set(second[2])
