"""Class weights: from a public prior alone, capped, and without a word about anybody else's label."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.data_prep.class_weights import check_prior, weights_of_classes
from fate_dp.privacy.events import REPLACE_ONE
from fate_dp.privacy.mechanisms.clipping import clip_records
from fate_dp.privacy.validation import InvalidArgument

PRIOR = {0: 0.2, 1: 0.8}


def class_weights(labels, prior, maximum):
    """Each record's weight."""
    check_prior(prior, maximum)
    of_class = dict(zip(prior, weights_of_classes(prior.values(), maximum)))
    return np.array([of_class[label] for label in labels])


def test_weights_are_those_of_the_prior_up_to_the_maximum():
    labels = [1, 0, 1]
    assert class_weights(labels, PRIOR, 10).tolist() == [0.625, 2.5, 0.625]
    assert class_weights(labels, PRIOR, 2).tolist() == [0.625, 2.0, 0.625]
    assert class_weights(labels, PRIOR, 0.5).tolist() == [0.5, 0.5, 0.5]
    assert class_weights([0, 1, 2, 2], {0: 0.5, 1: 0.25, 2: 0.25}, 10).tolist() == pytest.approx([2 / 3, *[4 / 3] * 3])
    assert class_weights([], PRIOR, 2).shape == (0,)


@given(st.lists(st.integers(1, 100), min_size=2, max_size=5), st.floats(0.1, 50))
@settings(max_examples=60, deadline=None)
def test_under_the_prior_classes_weigh_the_same_and_no_weight_exceeds_the_maximum(parts, maximum):
    prior = {value: part / sum(parts) for value, part in enumerate(parts)}
    labels = np.repeat(list(prior), parts)
    totals = np.bincount(labels, weights=class_weights(labels, prior, 1e9))
    np.testing.assert_allclose(totals, len(labels) / len(prior), rtol=1e-9)
    assert class_weights(labels, prior, maximum).max() <= maximum


@given(st.lists(st.sampled_from([0, 1]), min_size=1, max_size=30), st.integers(0, 29))
@settings(max_examples=40, deadline=None)
def test_one_label_changes_one_weight(labels, place):
    place %= len(labels)
    changed = [*labels[:place], 1 - labels[place], *labels[place + 1 :]]
    differences = class_weights(labels, PRIOR, 3) != class_weights(changed, PRIOR, 3)
    assert np.flatnonzero(differences).tolist() == [place]


@given(st.integers(0, 2**32 - 1), st.floats(0.5, 50))
@settings(max_examples=40, deadline=None)
def test_weights_before_clipping_leave_the_sensitivity_as_it_is_also_when_the_label_is_replaced(seed, maximum):
    draws = np.random.default_rng(seed)
    gradients, labels = draws.normal(size=(6, 3)) * draws.choice([0.1, 100.0], (6, 1)), draws.integers(0, 2, 6)
    other_gradients, other_labels = gradients.copy(), labels.copy()
    other_gradients[2], other_labels[2] = -gradients[2], 1 - labels[2]
    before, after = (
        clip_records(rows * class_weights(of, PRIOR, maximum)[:, None], 1.0)
        for rows, of in ((gradients, labels), (other_gradients, other_labels))
    )
    assert np.linalg.norm(before.value - after.value) <= before.sensitivity(REPLACE_ONE)


@pytest.mark.parametrize(
    "labels, prior, maximum, sentence",
    [
        ([0], {0: 1.0}, 3, "number of classes of the prior must be at least 2, got 1."),
        ([0], {0: 0.2, 1: 0.7}, 3, "sum of the prior must be 1, got 0.9."),
        ([0], {0: 20, 1: 80}, 3, "sum of the prior must be 1, got 100."),
        ([0], {0: 0.0, 1: 1.0}, 3, "prior of class 0 must be a finite number greater than 0, got 0.0."),
        ([0], {0: 0.5, 1: True}, 3, "prior of class 1 must be a finite number greater than 0, got True."),
        ([0], PRIOR, 0, "maximum must be a finite number greater than 0, got 0."),
        ([0], PRIOR, float("inf"), "maximum must be a finite number greater than 0, got inf."),
        ([0], PRIOR, True, "maximum must be a finite number greater than 0, got True."),
    ],
)
def test_what_gives_no_weights_is_refused(labels, prior, maximum, sentence):
    with pytest.raises(InvalidArgument, match=f"^{re.escape(sentence)}$"):
        class_weights(labels, prior, maximum)
