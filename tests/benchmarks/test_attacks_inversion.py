"""Gradient inversion finds what it must find, finds nothing under noise, and refuses what it cannot read."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from bench.attack_methods.gradient_inversion import (
    SearchOptions,
    deep_leakage,
    explained,
    inverted_gradients,
    layer_input,
    matched,
)
from bench.attack_methods.gradient_labels import recovered_labels
from bench.attack_methods.prior_inversion import PublicRecords, expected_record, linear_estimate, posterior
from bench.attack_methods.results import psnr
from bench.attack_methods.round_views import clipped_view, noised_view, plain_view, summed_view, updated_view
from bench.attack_methods.view import GRADIENT, SERVER, UPDATE, LocalSteps, RoundView
from fate_dp.components.dp_homo_nn.models.registry import fill_uniform, linear
from fate_dp.components.dp_homo_nn.models.spec import dimension
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms
from fate_dp.privacy.validation import InvalidArgument

SIDE, CLASSES = 5, 4
SEARCH = SearchOptions(steps=150, restarts=4)


def smooth_net(seed=0):
    """A net with sigmoids on 5 x 5 pictures, of weights as large as those of the papers."""
    layers = [nn.Flatten(), linear(SIDE**2, 30), nn.Sigmoid(), linear(30, CLASSES)]
    net = fill_uniform(nn.Sequential(*layers), seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(3.0)
    return net


def pictures(count, seed=1):
    generator = np.random.default_rng(seed)
    records = generator.random((count, 1, SIDE, SIDE)).astype(np.float32)
    return records, (np.arange(count) % CLASSES).astype(np.int64)


def terms_of(net, multiplier):
    return RoundTerms(
        aggregation="secure_sum",
        unit="record",
        clients=3,
        max_dropouts=1,
        rounds=10,
        batch_size=100,
        records=1000,
        clips=(1.0,),
        dimension=dimension(net),
        delta=1e-5,
        noise_multiplier=multiplier,
    )


@pytest.mark.parametrize("make", [plain_view, lambda *batch: clipped_view(*batch, 0.1)])
def test_the_input_of_a_first_layer_is_exact(make):
    net = nn.Sequential(linear(3, 2), nn.Tanh(), linear(2, 2))
    fill_uniform(net, 3)
    records = np.array([[0.25, -1.5, 4.0]], dtype=np.float32)
    found = layer_input(make(net, records, np.array([1])))
    assert np.allclose(found.records, records, atol=1e-5)
    assert found.labels.tolist() == [1]


@pytest.mark.parametrize("label", range(CLASSES))
def test_the_label_of_one_record_is_read_from_the_last_layer(label):
    records, _ = pictures(1, seed=label)
    assert recovered_labels(plain_view(smooth_net(), records, np.array([label]))).tolist() == [label]


def test_the_labels_of_a_batch_are_counted():
    records, _ = pictures(4)
    labels = np.array([3, 0, 0, 2])
    net = fill_uniform(nn.Sequential(nn.Flatten(), linear(SIDE**2, 30), nn.Sigmoid(), linear(30, CLASSES)), 0)
    assert recovered_labels(plain_view(net, records, labels)).tolist() == [0, 0, 2, 3]


def test_the_labels_of_two_classes_are_counted():
    net = fill_uniform(nn.Sequential(nn.Flatten(), linear(SIDE**2, 8), nn.Tanh(), linear(8, 1)), 0)
    records, _ = pictures(3)
    assert recovered_labels(plain_view(net, records, np.array([1, 0, 1]))).tolist() == [0, 1, 1]


def test_deep_leakage_inverts_a_small_smooth_net():
    records, labels = pictures(1)
    view = plain_view(smooth_net(), records, labels)
    found = deep_leakage(view, recovered_labels(view), SEARCH)
    assert psnr(records[0], found.records[0]) > 30
    assert found.cost.gradients > 0


def test_clipping_alone_and_local_steps_hide_nothing():
    records, labels = pictures(1)
    for view in (
        clipped_view(smooth_net(), records, labels, 0.5),
        updated_view(smooth_net(), records, labels, LocalSteps(3, 0.1)),
    ):
        assert psnr(records[0], deep_leakage(view, labels, SEARCH).records[0]) > 30


def test_two_pictures_of_a_sum_are_told_apart():
    records, labels = pictures(2)
    view = summed_view(smooth_net(), records, labels)
    found = deep_leakage(view, recovered_labels(view), SearchOptions(steps=400, restarts=4))
    again = matched(records, found.records)
    assert min(psnr(one, other) for one, other in zip(records, again)) > 25


def test_the_cosine_comes_near():
    records, labels = pictures(1)
    found = inverted_gradients(plain_view(smooth_net(), records, labels), labels, SearchOptions(300))
    assert psnr(records[0], found.records[0]) > 15
    assert found.records.min() >= 0 and found.records.max() <= 1


def test_noise_is_not_inverted_and_priors_gain_nothing_from_it():
    net = smooth_net()
    records, labels = pictures(1)
    view = noised_view(net, records, labels, terms_of(net, 5.0), 1.0)
    assert psnr(records[0], deep_leakage(view, labels, SearchOptions(60)).records[0]) < 10
    known, classes = pictures(200, seed=7)
    public = PublicRecords.at(net, known, classes, 1.0)
    grey = psnr(records[0], known.mean(axis=0))
    for attack in (expected_record, linear_estimate):
        assert abs(psnr(records[0], attack(view, public).records[0]) - grey) < 0.5


def test_the_noise_of_a_view_is_what_it_says():
    net = smooth_net()
    records, labels = pictures(1)
    view = noised_view(net, records, labels, terms_of(net, 2.0), 1.0)
    without = clipped_view(net, records, labels, 1.0)
    measured = np.std(view.received - without.received)
    assert measured == pytest.approx(view.defence.deviation, rel=0.15)
    assert view.defence.deviation == pytest.approx(2.0 * np.sqrt(3 / 2))


def test_without_noise_the_expected_record_is_the_public_one_that_was_attacked():
    net = smooth_net()
    known, classes = pictures(50)
    public = PublicRecords.at(net, known, classes, 1.0)
    view = clipped_view(net, known[7:8], classes[7:8], 1.0)
    assert posterior(view, public).argmax() == 7
    assert np.allclose(expected_record(view, public).records[0], known[7], atol=1e-6)


def test_the_linear_estimate_is_ridge_regression_from_gradients_to_records():
    net = smooth_net()
    known, classes = pictures(60, seed=7)
    public = PublicRecords.at(net, known, classes, 1.0)
    view = noised_view(net, *pictures(1), terms_of(net, 0.05), 1.0)
    rows, flat = public.gradients - public.gradients.mean(axis=0), known.reshape(60, -1)
    penalty = 60 * view.defence.deviation**2 * np.eye(rows.shape[1])
    slopes = np.linalg.solve(rows.T @ rows + penalty, rows.T @ (flat - flat.mean(axis=0)))
    expected = flat.mean(axis=0) + (view.received - public.gradients.mean(axis=0)) @ slopes
    assert np.allclose(linear_estimate(view, public).records.ravel(), expected, atol=1e-8)


def test_what_is_explained_is_what_was_received():
    records, labels = pictures(2)
    for view in (
        plain_view(smooth_net(), records, labels),
        clipped_view(smooth_net(), records, labels, 0.2),
        updated_view(smooth_net(), records, labels, LocalSteps(4, 0.2)),
    ):
        found = explained(view, torch.from_numpy(records).double(), torch.from_numpy(labels)).detach().numpy()
        assert np.allclose(found, view.received, atol=1e-6)


def test_views_of_another_kind_are_refused_in_a_sentence():
    records, labels = pictures(2)
    net = smooth_net()
    view = plain_view(net, records, labels)
    with pytest.raises(InvalidArgument, match="reads a view of 1 record but was given one of a batch of 2"):
        layer_input(view)
    with pytest.raises(InvalidArgument, match="of kind gradient but was given one of kind update"):
        layer_input(updated_view(net, records[:1], labels[:1], LocalSteps(2, 0.1)))
    with pytest.raises(InvalidArgument, match="reads a RoundView of a horizontal training but was given a dict"):
        deep_leakage({}, labels, SEARCH)
    public = PublicRecords.at(net, records, labels, None)
    with pytest.raises(InvalidArgument, match="at clip None, but the view has .* at clip 1"):
        posterior(clipped_view(net, records[:1], labels[:1], 1.0), public)


def test_views_that_contradict_themselves_are_refused():
    net = smooth_net()
    zeros = np.zeros(dimension(net))
    with pytest.raises(InvalidArgument, match="an update has them, a gradient has none"):
        RoundView(SERVER, "Nothing.", UPDATE, net, zeros, 1, (1, SIDE, SIDE))
    with pytest.raises(InvalidArgument, match="one for each weight"):
        RoundView(SERVER, "Nothing.", GRADIENT, net, zeros[1:], 1, (1, SIDE, SIDE))
    records, labels = pictures(1)
    with pytest.raises(InvalidArgument, match="must be of secure_sum and record"):
        noised_view(net, records, labels, replace(terms_of(net, 1.0), aggregation="local"), 1.0)


def test_models_that_hide_their_ends_are_refused():
    records, labels = pictures(1)
    net = fill_uniform(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Sigmoid(), nn.Flatten(), linear(18, CLASSES)), 0)
    with pytest.raises(InvalidArgument, match="starts with Conv2d"):
        layer_input(plain_view(net, records, labels))
    with pytest.raises(InvalidArgument, match="ends in a fully connected layer"):
        recovered_labels(plain_view(nn.Sequential(net, nn.Tanh()), records, labels))
