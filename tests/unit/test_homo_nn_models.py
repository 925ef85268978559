"""Models of dp_homo_nn: shapes, public start weights, features of images, and which modules are refused."""

import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.features import scattering_features
from fate_dp.components.dp_homo_nn.models.made_up_pictures import synthetic_pictures
from fate_dp.components.dp_homo_nn.models.patches import (
    PATCH_VARIANCE,
    Patches,
    fit_filters,
    matches_of,
    patch_features,
)
from fate_dp.components.dp_homo_nn.models.registry import build_model, input_count, model_inputs
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, dimension, flat_weights, load_flat
from fate_dp.components.dp_homo_nn.models.whitening import NORM, fit_whitening
from fate_dp.privacy.validation import InvalidArgument

pytestmark = pytest.mark.arithmetic

torch.set_num_threads(1)
SPECS = [
    (ModelSpec("logistic_regression", 30, 2), 31),
    (ModelSpec("logistic_regression", 4, 3), 15),
    (ModelSpec("logistic_regression", 4, 1), 5),
    (ModelSpec("mlp", 4, 3, {"hidden": [5, 6], "activation": "relu"}), 25 + 36 + 21),
    (ModelSpec("cnn", 1024, 10), 105_506),
    (ModelSpec("cnn", 784, 10), 105_506),
    (ModelSpec("cnn", 3072, 10), 105_506 + 2 * 32 * 25),
    (ModelSpec("scattering_linear", 784, 10), 10 * (81 * 7 * 7 + 1)),
    (ModelSpec("scattering_linear", 3072, 10), 10 * (3 * 81 * 8 * 8 + 1)),
    (ModelSpec("patch_linear", 3072, 10), 10 * (2 * 400 * 4 + 1)),
    (ModelSpec("patch_linear", 784, 2, {"filters": 50, "pools": 3}), 2 * 50 * 9 + 1),
]


@pytest.mark.parametrize("spec, parameters", SPECS, ids=str)
def test_a_model_has_the_stated_size_and_one_output_per_class_or_one_for_two(spec, parameters):
    module = build_model(spec)
    assert dimension(module) == parameters
    outputs = module(torch.zeros(2, input_count(spec)))
    assert outputs.shape == (2, 1 if spec.classes <= 2 else spec.classes) and outputs.dtype == torch.float32


def test_the_cnn_has_the_layers_of_the_source():
    layers = [type(layer).__name__ for layer in build_model(ModelSpec("cnn", 1024, 10))]
    assert layers[2:] == [
        "Conv2d",
        "Tanh",
        "MaxPool2d",
        "Conv2d",
        "Tanh",
        "MaxPool2d",
        "Flatten",
        "Linear",
        "Tanh",
        "Linear",
    ]


@pytest.mark.parametrize("name, features", [("cnn", 784), ("mlp", 7)])
def test_start_weights_come_from_the_public_seed_and_leave_the_global_generator_alone(name, features):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = flat_weights(build_model(ModelSpec(name, features, 3)))
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert np.array_equal(first, flat_weights(build_model(ModelSpec(name, features, 3, {"seed": 0}))))
    assert not np.array_equal(first, flat_weights(build_model(ModelSpec(name, features, 3, {"seed": 1}))))


def test_weights_go_out_and_in_unchanged():
    module = build_model(ModelSpec("mlp", 3, 2))
    weights = flat_weights(module) + 1
    load_flat(module, weights)
    assert flat_weights(module).dtype == np.float64
    assert np.array_equal(flat_weights(module), weights.astype(np.float32))


@pytest.mark.parametrize("weights", [np.zeros(3), np.full(4, np.nan), np.array(["a"] * 4)])
def test_weights_that_do_not_fit_are_refused(weights):
    with pytest.raises(InvalidArgument, match="weights"):
        load_flat(build_model(ModelSpec("logistic_regression", 3, 2)), weights)


@pytest.mark.parametrize(
    "name, features, classes, params, sentence",
    [
        ("os.system", 3, 2, {}, "model must be one of logistic_regression, "),
        ("module:mine", 3, 2, {}, "a module that this party's operator allows (none), got 'module:mine'"),
        ("mlp", 3, 2, {"hiden": [3]}, "a name in params of mlp must be one of activation, hidden, seed, got 'hiden'."),
        ("mlp", 3, 2, {"hidden": []}, "hidden must be a list"),
        ("mlp", 3, 2, {"hidden": [0]}, "hidden must be "),
        ("mlp", 3, 2, {"activation": "gelu"}, "activation must be "),
        ("mlp", 3, 2, {"seed": 1.5}, "seed must be "),
        ("mlp", 0, 2, {}, "features must be "),
        ("mlp", 3, 0, {}, "classes must be "),
        ("cnn", 30, 2, {}, "input_shape must be given"),
        ("cnn", 30, 2, {"input_shape": [1, 5, 5]}, "must be that of the 30 features"),
        ("cnn", 100, 2, {"input_shape": [1, 10, 10]}, "at least 22 rows and columns"),
        (
            "scattering_linear",
            784,
            2,
            {"groups": 5},
            "groups must be 0 or a divisor of the 81 channels of coefficients, got 5",
        ),
        ("scattering_linear", 12, 2, {"input_shape": [1, 3, 4]}, "at least 4 pixels"),
        ("scattering_linear", 32, 2, {"input_shape": [2, 4, 4], "whitened": True, "groups": 0}, "1 or 3 channels"),
        ("scattering_linear", 784, 2, {"whitened": 1}, "whitened must be "),
        ("patch_linear", 50, 2, {"input_shape": [2, 5, 5]}, "patch_linear takes images of 1 or 3 channels"),
        ("patch_linear", 784, 2, {"size": 29}, "size must be a whole number at least 2 and at most 28, got 29"),
        ("patch_linear", 784, 2, {"pools": 24}, "pools must be "),
        ("patch_linear", 784, 2, {"filters": 0}, "filters must be "),
        ("patch_linear", 784, 2, {"threshold": -1}, "threshold must be "),
        ("patch_linear", 784, 2, {"pictures": 1}, "pictures must be "),
        ("patch_linear", 784, 2, {"ridge": 0}, "ridge must be "),
    ],
)
def test_what_is_wrong_with_a_specification_is_said_in_one_sentence(name, features, classes, params, sentence):
    with pytest.raises(ValueError) as refused:
        build_model(ModelSpec(name, features, classes, params))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.fixture
def operators_package(monkeypatch):
    package = types.ModuleType("operators_own")
    package.small = lambda inputs, outputs, width: nn.Sequential(nn.Linear(inputs, width), nn.Linear(width, outputs))
    package.number = lambda features, outputs: 7
    monkeypatch.setitem(sys.modules, "operators_own", package)


def test_an_operators_module_is_found_by_its_name_only(operators_package):
    spec = ModelSpec("module:mine", 3, 4, {"width": 5, "seed": 3})
    state = torch.get_rng_state()
    module = build_model(spec, {"mine": "operators_own:small"})
    assert torch.equal(torch.get_rng_state(), state)
    assert dimension(module) == 20 + 24
    assert np.array_equal(flat_weights(module), flat_weights(build_model(spec, {"mine": "operators_own:small"})))
    with pytest.raises(ValueError, match="operator allows .yours."):
        build_model(spec, {"yours": "operators_own:small"})


@pytest.mark.parametrize("entry", ["operators_own", "operators_own:absent", "no.such.one:f", "operators_own:number"])
def test_an_operators_wrong_entry_is_named(operators_package, entry):
    with pytest.raises(ValueError, match="operator's module 'mine'"):
        build_model(ModelSpec("module:mine", 3, 2), {"mine": entry})


class MixingRecords(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, features):
        return self.layer(features - features.mean(0))


@pytest.mark.parametrize(
    "layer, sentence",
    [
        (nn.BatchNorm1d(4), r"Layer 1 \(BatchNorm1d\) computes over the batch"),
        (nn.BatchNorm1d(4, track_running_stats=False), "computes over the batch"),
        (nn.SyncBatchNorm(4), "computes over the batch"),
        (nn.Dropout(0.5), "torch's global generator"),
    ],
)
def test_a_layer_that_mixes_records_or_draws_from_the_global_generator_is_refused(layer, sentence):
    with pytest.raises(ValueError, match=sentence):
        RecordGradients(nn.Sequential(nn.Linear(4, 4), layer, nn.Linear(4, 2)))


def test_a_module_that_mixes_records_in_a_way_of_its_own_is_refused_before_any_record_is_used():
    gradients = RecordGradients(MixingRecords())
    with pytest.raises(ValueError, match="one record's gradient depends on the others"):
        gradients.clipped_sum(np.zeros(15) + 0.1, np.ones((3, 4)), np.zeros(3), 1.0)


def test_a_module_without_parameters_is_refused():
    with pytest.raises(ValueError, match="no parameters"):
        RecordGradients(nn.Tanh())


def images(count, channels=1, side=28):
    return np.random.default_rng(5).random((count, channels, side, side), dtype=np.float32)


@pytest.mark.parametrize("channels, side, groups", [(1, 28, 27), (3, 32, 27), (1, 28, 0)])
def test_scattering_features_of_a_record_depend_on_that_record_only(channels, side, groups):
    pictures = images(5, channels, side)
    features = scattering_features(pictures, groups=groups)
    assert features.shape == (5, channels * 81 * (side // 4) ** 2) and features.dtype == np.float32
    assert np.allclose(scattering_features(pictures[2:3], groups=groups), features[2:3], atol=1e-5)


def test_scattering_features_are_normalised_within_groups_of_channels():
    features = scattering_features(images(2)).reshape(2, 27, -1)
    assert np.allclose(features.mean(2), 0, atol=1e-4)
    assert np.all(features.var(2) < 1 + 1e-4)


def test_an_image_of_one_value_and_an_empty_batch_have_finite_features():
    assert np.isfinite(scattering_features(np.zeros((2, 1, 28, 28)))).all()
    assert scattering_features(images(0)).shape == (0, 3969)


def test_only_models_on_features_of_images_change_what_they_take():
    features = images(2).reshape(2, -1)
    assert np.array_equal(model_inputs(ModelSpec("cnn", 784, 10), features), features)
    inputs = model_inputs(ModelSpec("scattering_linear", 784, 10), features)
    assert np.array_equal(inputs, scattering_features(images(2)))
    inputs = model_inputs(ModelSpec("patch_linear", 784, 10, dict(FEW)), features)
    assert np.array_equal(inputs, patch_features(images(2), Patches((1, 28, 28), **FEW)))


FEW = {"filters": 6, "pictures": 40}


@pytest.mark.parametrize("channels, side", [(1, 28), (3, 32)])
def test_features_of_patches_depend_on_the_record_only_and_have_one_norm(channels, side):
    patches = Patches((channels, side, side), **FEW)
    pictures = images(5, channels, side)
    features = patch_features(pictures, patches)
    assert features.shape == (5, 2 * 6 * 4) and features.dtype == np.float32
    assert np.linalg.norm(features, axis=1) == pytest.approx(np.full(5, NORM), rel=1e-5)
    assert np.array_equal(patch_features(pictures[[3, 2]], patches), features[[3, 2]])


def test_a_match_is_the_product_of_a_whitened_patch_with_a_filter():
    """Against the definition, patch by patch."""
    patches = Patches((1, 9, 8), size=3, filters=4, threshold=0.25, pools=1)
    pictures = synthetic_pictures(30, 1, 28)[:, :, 8:17, 8:16]
    found = fit_filters(patches, pictures)
    image = images(1, 1, 9)[0, :, :, :8]
    total = np.zeros(8)
    for row in range(7):
        for column in range(6):
            patch = image[:, row : row + 3, column : column + 3].astype(float).ravel()
            standard = (patch - patch.mean()) / np.sqrt(patch.var() + PATCH_VARIANCE)
            kernels = found.kernels.numpy().reshape(4, -1)
            matches = kernels @ standard - found.offsets.numpy().ravel()
            total += np.maximum(np.concatenate([matches, -matches]) - 0.25, 0)
    assert found(torch.tensor(image)).numpy() == pytest.approx(total / 42, abs=1e-5)


def test_an_image_and_its_mirror_image_have_the_same_features_where_there_are_colours():
    photographs, digits = images(1, 3, 32), images(1, 1, 28)
    for pictures, same in ((photographs, True), (digits, False)):
        patches = Patches(pictures.shape[1:], **FEW)
        one, other = (patch_features(each, patches) for each in (pictures, pictures[..., ::-1]))
        assert np.allclose(one, other, atol=1e-4) == same


def test_whitening_takes_the_mean_away_and_evens_variances_out():
    patches = Patches((1, 28, 28), filters=20)
    pictures = synthetic_pictures(120, 1, 28)
    raw = matches_of(pictures, fit_filters(patches, pictures))

    def largest_share(features):
        squares = np.linalg.svd(features, compute_uv=False) ** 2
        return squares[0] / squares.sum()

    whitening = fit_whitening(raw, 100, 1e-5 * raw.var(axis=0).mean())
    assert largest_share(raw) > 2 * largest_share(raw - raw.mean(axis=0)) > 10 * largest_share(whitening(raw))
    stretches = whitening.stretches.numpy()
    assert np.all((stretches > 0) & (stretches <= 1)) and np.all(np.diff(stretches) >= 0)
    few = whitening.coordinates(raw, 7)
    assert few.shape == (120, 7) and np.linalg.norm(few, axis=1) == pytest.approx(np.full(120, NORM), rel=1e-5)


def test_whitened_scattering_features_are_those_of_the_whitening_of_made_up_pictures():
    spec = ModelSpec("scattering_linear", 784, 10, {"whitened": True, "pictures": 30})
    inputs = model_inputs(spec, images(3).reshape(3, -1))
    whitening = fit_whitening(scattering_features(synthetic_pictures(30, 1, 28, 1)), 300, 1e-3)
    assert np.allclose(inputs, whitening(scattering_features(images(3))), atol=1e-4)
    assert np.array_equal(model_inputs(spec, images(3)[2:].reshape(1, -1)), inputs[2:])


def test_an_image_without_any_variation_has_finite_features():
    assert np.isfinite(patch_features(np.zeros((1, 1, 28, 28)), Patches((1, 28, 28), **FEW))).all()
