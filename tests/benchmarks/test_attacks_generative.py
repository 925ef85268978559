"""A generator and an inversion show what a model knows of a class, and nothing where it knows nothing."""

import numpy as np
import pytest
import torch

from bench.attack_methods.generative import (
    SIDE,
    GeneratingParty,
    GeneratorOptions,
    InversionOptions,
    class_representative,
    likeness,
)
from bench.attack_methods.released import ReleasedModel
from bench.attack_methods.view import PLAIN
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.privacy.validation import InvalidArgument

TARGET, CLAIMED = 1, 2
OPTIONS = GeneratorOptions(steps=4, batch=16, injected=3, kept=7)


def template():
    """A bar across the picture, float64 (784,)."""
    picture = np.zeros((SIDE, SIDE))
    picture[10:18, 4:24] = 1.0
    return picture.ravel()


def knowing(strength):
    """A softmax regression of three classes that takes bright bars for class 1, and its weights."""
    module = build_model(ModelSpec("logistic_regression", SIDE**2, 3))
    rows = np.zeros((3, SIDE**2))
    rows[TARGET] = strength * (template() - template().mean())
    return module, np.concatenate([rows.ravel(), np.zeros(3)])


def trained(strength, rounds=20):
    module, weights = knowing(strength)
    party = GeneratingParty(module, TARGET, CLAIMED, OPTIONS)
    for _ in range(rounds):
        party.see(weights)
    return party


def test_a_generator_learns_what_the_shared_model_knows_of_the_class():
    assert likeness(trained(0.2, rounds=40).pictures(20), template()) > 0.55


def test_a_generator_learns_nothing_from_a_model_that_knows_nothing():
    assert abs(likeness(trained(0.0).pictures(20), template())) < 0.35


def test_what_the_party_offers_are_its_last_pictures_under_the_claimed_class():
    party = trained(0.2, rounds=2)
    pictures, labels = party.records()
    assert pictures.shape == (6, SIDE**2) and labels.tolist() == [CLAIMED] * 6
    party.see(knowing(0.2)[1])
    later, labels = party.records()
    assert len(later) == len(labels) == OPTIONS.kept
    assert np.array_equal(later[:4], pictures[2:])
    assert later.min() >= 0 and later.max() <= 1


def test_a_party_does_not_move_the_model_that_it_is_shown_nor_anybody_elses_stream():
    module, weights = knowing(0.2)
    before = torch.random.get_rng_state()
    GeneratingParty(module, TARGET, CLAIMED, OPTIONS).see(weights)
    assert torch.equal(before, torch.random.get_rng_state())
    assert not flat_weights(module).any()


@pytest.mark.parametrize("strength, low, high", [(0.2, 0.7, 1.0), (0.0, -0.01, 0.01), (-0.2, -1.0, -0.3)])
def test_inversion_shows_the_class_as_far_as_the_model_knows_it(strength, low, high):
    module, weights = knowing(strength)
    found = class_representative(ReleasedModel.of(module, weights, PLAIN), TARGET, InversionOptions(100, variation=2.0))
    assert low <= likeness(found[None], template()) <= high
    assert found.min() >= 0 and found.max() <= 1


def test_likeness_is_a_correlation():
    bar = template()
    assert likeness(np.stack([0.5 * bar + 0.1, bar]), bar) == pytest.approx(1.0)
    assert likeness(1 - bar[None], bar) == pytest.approx(-1.0)
    assert likeness(np.full((1, SIDE**2), 0.3), bar) == 0.0


def test_bad_input_is_refused_in_a_sentence():
    module, weights = knowing(0.0)
    with pytest.raises(InvalidArgument, match="claimed must be another class than the target.*, got 1"):
        GeneratingParty(module, 1, 1)
    with pytest.raises(InvalidArgument, match="target is 1 and claimed 3, but the model has 3 outputs"):
        GeneratingParty(module, 1, 3)
    with pytest.raises(InvalidArgument, match="kept must be .*, got 0"):
        GeneratorOptions(kept=0)
    with pytest.raises(InvalidArgument, match="target must be below the number of the model's outputs, 3.*, got 3"):
        class_representative(ReleasedModel.of(module, weights, PLAIN), 3)
    with pytest.raises(InvalidArgument, match="needs a model of 784 pixels"):
        GeneratingParty(build_model(ModelSpec("logistic_regression", 10, 3)), 0, 1)
