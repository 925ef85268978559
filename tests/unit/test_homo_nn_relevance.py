"""Relevance, contributions and scales: what is conserved, what a record can move, and what each release is charged."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec
from fate_dp.components.dp_homo_nn.relevance import (
    ContributionSum,
    coordinate_scales,
    counterpart,
    first_layer,
    group_sums,
    layers_of,
    noise_beside,
    predicted_logits,
    relevance,
)
from fate_dp.components.dp_homo_nn.relevance import propagated as of_counterpart
from fate_dp.privacy.accounting.calibration import UnreachableTarget
from fate_dp.privacy.accounting.gaussian import gaussian_sigma
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.adaptive_scales import STEPS_OF_RECORD, contribution_sums, release_contributions
from fate_dp.privacy.events import (
    ADD_OR_REMOVE,
    REPLACE_ONE,
    Event,
    Gaussian,
    NotPrivate,
    PoissonSampledGaussian,
    PureDP,
    clips_moved,
)
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

pytestmark = pytest.mark.arithmetic

DELTA = 1e-5


def network(seed, activation=nn.Tanh):
    """Every kind of layer that relevance passes, in float64."""
    generator = torch.Generator().manual_seed(seed)
    module = nn.Sequential(
        nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.ZeroPad2d(1)),
        nn.Conv2d(1, 3, 3),
        activation(),
        nn.MaxPool2d(2),
        nn.Conv2d(3, 4, 2, padding=1),
        activation(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(16, 5),
        activation(),
        nn.Linear(5, 3),
    ).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def images(seed, count=3):
    return torch.rand(count, 64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([nn.Tanh, nn.ReLU]))
def test_every_layer_passes_on_all_relevance_but_the_stabilisers_part(seed, activation):
    layers, found = layers_of(network(seed, activation)), images(seed + 1)
    activations = [found]
    with torch.no_grad():
        for layer in layers:
            activations.append(counterpart(layer, activations[-1]).forward(activations[-1]))
    back = predicted_logits(activations[-1])
    for layer, inputs in zip(reversed(layers), reversed(activations[:-1])):
        before, after = back, propagated(layer, inputs, back, stabiliser=1e-9)
        lost = (before.flatten(1).sum(1) - after.flatten(1).sum(1)).abs()
        bias_only = dead_units_relevance(layer, inputs, before)
        size = before.flatten(1).abs().sum(1)
        assert after.shape == inputs.shape
        assert (lost - bias_only <= 1e-5 * size + 1e-9).all()
        back = after
    assert torch.equal(back, relevance(layers, found, stabiliser=1e-9))


def propagated(layer, inputs, relevances, **stabiliser):
    """Relevances of one layer's inputs from those of its outputs."""
    with torch.no_grad():
        ours = counterpart(layer, inputs)
        ours.forward(inputs)
        return of_counterpart(layer, ours, inputs, relevances, **stabiliser)


def dead_units_relevance(layer, inputs, relevances):
    """Relevance of units with z_j = 0, which goes nowhere: units that only their bias moves."""
    if not isinstance(layer, (nn.Linear, nn.Conv2d)):
        return torch.zeros(len(inputs), dtype=inputs.dtype)
    zero = layer(inputs) - layer(torch.zeros_like(inputs)) == 0
    return (relevances.abs() * zero).flatten(1).sum(1)


def test_a_dense_layer_by_hand():
    layer = nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, -1.0]]))
        layer.bias.copy_(torch.tensor([5.0, 0.0]))
    # z without bias = (5, 1) for the input (1, 2); the first logit, 10, is the larger.
    found = relevance([layer], torch.tensor([[1.0, 2.0]]), stabiliser=0.0)
    assert torch.allclose(found, torch.tensor([[10 * 1 / 5, 10 * 4 / 5]], dtype=torch.float64))
    # Through a unit whose inputs cancel nothing passes.
    assert propagated(layer, torch.tensor([[1.0, 3.0]]), torch.tensor([[0.0, 7.0]])).tolist() == [[0.0, 0.0]]


def test_pooling_by_hand():
    square = torch.tensor([[[[1.0, 4.0], [2.0, 3.0]]]])
    full = torch.full((1, 1, 1, 1), 8.0)
    assert propagated(nn.MaxPool2d(2), square, full).flatten().tolist() == [0, 8, 0, 0]
    averaged = propagated(nn.AvgPool2d(2), square, full, stabiliser=0.0)
    assert torch.allclose(averaged.flatten(), torch.tensor([0.8, 3.2, 1.6, 2.4], dtype=torch.float64))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 4]))
def test_a_linear_model_gives_the_contributions_of_adaptive_scales(seed, outputs):
    generator = np.random.default_rng(seed)
    model, rows = nn.Linear(5, outputs).double(), generator.standard_normal((7, 5))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(generator.standard_normal(tuple(parameter.shape))))
    predicted = model(torch.from_numpy(rows)).argmax(dim=1)
    weights = model.weight.detach().numpy()
    expected = sum(contribution_sums(rows[[i]], weights[predicted[i]]) for i in range(7))
    # The rule's quotients are rounded otherwise than |w_j x_ij|: 7 records and a step each on both sides.
    assert np.abs(group_sums(model, rows) - expected).max() <= 7 * 2**8


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**16), st.sampled_from([math.nan, math.inf, 1e300, -1e300, 0.0]))
def test_one_record_contributes_at_most_one_whatever_it_holds(seed, odd):
    rows = images(seed, 2).numpy()
    rows[1] *= 1.0 if odd else 0.0
    rows[1, 5] = odd
    sums = group_sums(network(seed), rows[1:])
    assert sums.min() >= 0 and sums.sum() <= STEPS_OF_RECORD
    if not math.isfinite(odd):
        assert not sums.any()
    both = group_sums(network(seed), rows)
    # Blocks of other sizes may round the relevances otherwise; each record's part stays a part of its own.
    assert np.abs(both - group_sums(network(seed), rows[:1]) - sums).max() <= 2**12


def nearly_unseen(module, rows, seed):
    """Records that the first layer maps to almost nothing, where a rounding decides what relevance there is."""
    weights = next(layer for layer in module.modules() if isinstance(layer, nn.Linear)).weight.detach().double().numpy()
    features = np.random.default_rng(seed).normal(size=(rows, weights.shape[1]))
    seen, _ = np.linalg.qr(weights[: weights.shape[1] - 3].T)
    return (30 * (features - features @ seen @ seen.T)).astype(np.float32)


@pytest.mark.parametrize("features, classes", [(30, 2), (100, 2), (196, 10)])
@pytest.mark.parametrize("rows", [1, 64, 65, 130, 513])
def test_a_record_that_leaves_moves_the_sum_by_its_own_part_to_the_bit(features, classes, rows):
    module = build_model(ModelSpec("mlp", features, classes, {"seed": rows}))
    records = nearly_unseen(module, rows, rows)
    for leaving in {0, rows // 2, rows - 1}:
        rest, alone = np.delete(records, leaving, axis=0), records[[leaving]]
        moved = group_sums(module, records) - group_sums(module, rest)
        assert np.array_equal(moved, group_sums(module, alone))
        assert np.abs(moved).sum() <= STEPS_OF_RECORD


def test_no_records_are_a_sum_of_zeros():
    assert group_sums(network(0), np.empty((0, 64))).tolist() == [0, 0, 0]


def test_groups_are_columns_of_a_dense_layer_and_filters_of_a_convolution():
    dense = first_layer(nn.Sequential(nn.Flatten(), nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2)))
    assert (dense.at, dense.groups, dense.dimension) == (1, 3, 14)
    assert dense.expanded([2.0, 3.0, 4.0]).tolist() == [2, 3, 4, 2, 3, 4] + [1] * 8
    convolution = first_layer(network(0))
    assert (convolution.at, convolution.groups) == (3, 3)
    assert convolution.expanded([2.0, 3.0, 4.0])[:27].tolist() == [2] * 9 + [3] * 9 + [4] * 9


@pytest.mark.parametrize("name, features, groups", [("logistic_regression", 6, 6), ("mlp", 6, 6), ("cnn", 784, 32)])
def test_the_models_of_the_list_have_scales(name, features, groups):
    module = build_model(ModelSpec(name, features, 3))
    contributions = np.arange(1, groups + 1) / (groups * (groups + 1) / 2)
    scales, opposite = (coordinate_scales(module, contributions, power) for power in (-0.5, 0.5))
    weights = next(module.parameters()).numel()
    assert scales.shape == (sum(parameter.numel() for parameter in module.parameters()),)
    assert math.isclose(np.log(scales).sum(), 0, abs_tol=1e-8) and (scales[weights:] == 1).all()
    assert np.allclose(scales * opposite, 1)
    assert scales[0] == scales.max()


def test_a_channels_relevance_is_summed_over_its_units():
    module, rows = network(3), images(4, 1)
    found = relevance(layers_of(module), rows, at=3)
    parts = found.sum(dim=(2, 3)).abs().numpy()[0]
    assert np.abs(group_sums(module, rows.numpy()) / STEPS_OF_RECORD - parts / parts.sum()).max() < 1e-8


@pytest.mark.parametrize("relation, moved", [(ADD_OR_REMOVE, 1), (REPLACE_ONE, 2)])
def test_the_laplace_noise_follows_the_relation(monkeypatch, relation, moved):
    asked = []

    def zeros(scale, size, rng):
        asked.append(scale)
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr("fate_dp.privacy.mechanisms.laplace.discrete_laplace", zeros)
    release = release_contributions(np.array([STEPS_OF_RECORD]), 4, 0.25, observers="server", relation=relation)
    assert math.isclose(asked[0], moved * STEPS_OF_RECORD / 0.25, rel_tol=1e-9)
    assert release.event.relation == relation and release.event.process == PureDP(0.25)
    assert release.value.tolist() == [0.25]


def test_shares_of_a_secure_sum_carry_the_noise_once(monkeypatch):
    terms = ContributionSum(groups=2, records=50, clients=5, max_dropouts=1, noise_multiplier=3.0)
    assert math.isclose(terms.share_sigma_in_steps * math.sqrt(4), 3 * STEPS_OF_RECORD, rel_tol=1e-9)
    module = "fate_dp.components.dp_homo_nn.relevance.discrete_gaussian"
    monkeypatch.setattr(module, lambda sigma, size, rng: np.full(size, round(sigma)))
    shares = [terms.share(np.array([STEPS_OF_RECORD, 0]), ADD_OR_REMOVE) for _ in range(5)]
    mean = terms.mean(sum(share.value for share in shares))
    assert np.allclose(mean, [(5 + 5 * 1.5) / 50, 5 * 1.5 / 50])
    for relation, moved in ((ADD_OR_REMOVE, 1), (REPLACE_ONE, 2)):
        event = terms.event(relation)
        assert isinstance(event.process, Gaussian) and event.unit == "record" and 0 < event.slack < 1e-12
        assert math.isclose(event.process.noise_multiplier, 3 / moved, rel_tol=1e-6)
        assert event.process.noise_multiplier <= 3 / moved


def test_a_sampled_sum_is_charged_and_divided_as_sampled():
    terms = ContributionSum(1, records=80, clients=5, max_dropouts=1, noise_multiplier=3.0, sampling_probability=0.25)
    process = terms.event(ADD_OR_REMOVE).process
    assert isinstance(process, PoissonSampledGaussian) and process.sampling_probability == 0.25
    assert terms.mean([10 * STEPS_OF_RECORD]).tolist() == [0.5]


def test_repeatable_noise_of_a_share_is_not_private():
    terms = ContributionSum(groups=1, records=5, clients=2, max_dropouts=1, noise_multiplier=1.0)
    share = terms.share(np.array([0]), REPLACE_ONE, rng=ReproducibleStream(1))
    assert isinstance(share.event.process, NotPrivate)


@pytest.mark.parametrize("relation", [ADD_OR_REMOVE, REPLACE_ONE])
def test_the_budget_of_everything_together_is_met_and_used(relation):
    epsilon, rounds = 2.0, 20
    released = [
        (
            Event(
                Gaussian(gaussian_sigma(0.25, DELTA, clips_moved(relation)) / clips_moved(relation)),
                "record",
                relation,
                "server",
            ),
            1,
        )
    ]

    def event_of(noise):
        return Event(PoissonSampledGaussian(0.05, noise), "record", relation, "server")

    assert math.isclose(total_epsilon(released, DELTA), 0.25, rel_tol=1e-3)
    noise, alone = (noise_beside(some, event_of, rounds, epsilon, DELTA) for some in (released, []))
    reached = total_epsilon([*released, (event_of(noise), rounds)], DELTA)
    assert 0.999 * epsilon < reached <= epsilon
    assert noise > alone
    # The release that goes unpaid would be seen.
    assert total_epsilon([*released, (event_of(alone / (1 + 1e-3)), rounds)], DELTA) > epsilon


def test_refusals():
    with pytest.raises(InvalidArgument, match="^The model holds a layer of type BatchNorm2d"):
        layers_of(nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)))
    with pytest.raises(InvalidArgument, match="^The model has neither"):
        first_layer(nn.Sequential(nn.Tanh()))
    with pytest.raises(InvalidArgument, match="^shape of contributions must be .*, got \\(2,\\)"):
        coordinate_scales(nn.Linear(3, 1), [0.5, 0.5], -0.5)
    for records in (0, True, 1.5):
        with pytest.raises(InvalidArgument, match=r"records must be a whole number from 1 to 2\^30, got"):
            ContributionSum(1, records, 3, 1, 1.0)
    with pytest.raises(ValueError, match="^max_dropouts must be .*, got 3"):
        ContributionSum(1, 5, 3, 3, 1.0)
    terms = ContributionSum(2, 5, 3, 1, 1.0)
    for bad in (np.zeros(3, dtype=np.int64), np.zeros(2)):
        with pytest.raises(InvalidArgument, match="^sums must be 2 whole numbers"):
            terms.share(bad, ADD_OR_REMOVE)
    unpaid = [(Event(PureDP(5.0), "record", ADD_OR_REMOVE, "server"), 1)]
    with pytest.raises(
        UnreachableTarget, match="^epsilon 1 at delta 1e-05 is out of reach over 3 rounds.*epsilon 5 would be met"
    ):
        noise_beside(unpaid, lambda noise: Event(Gaussian(noise), "record", ADD_OR_REMOVE, "server"), 3, 1.0, DELTA)
