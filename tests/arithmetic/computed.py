"""Prints what a process computes of made-up records, as JSON: digests of what must agree on all processors, and numbers of
what may differ in its last bits.

    python -m tests.arithmetic.computed
"""

import hashlib
import json

import numpy as np
import torch

from fate_dp.components.dp_hetero_lr.rows import Block
from fate_dp.components.dp_homo_nn.gradients import RecordGradients
from fate_dp.components.dp_homo_nn.models.features import scattering_features
from fate_dp.components.dp_homo_nn.models.made_up_pictures import synthetic_pictures
from fate_dp.components.dp_homo_nn.models.patches import Patches, fit_filters, matches_of, patch_features
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.components.dp_homo_nn.relevance import group_sums
from fate_dp.components.protocols.noisy_rounds.contribution import with_indicators
from fate_dp.crypto.cross_product import exact_product
from fate_dp.privacy.adaptive_scales import contribution_sums
from fate_dp.privacy.labels.flips import flip_labels
from fate_dp.privacy.mechanisms.clipping import clip_records
from fate_dp.privacy.mechanisms.second_moments import RowBounds, clip_rows


def records(rows, columns, seed):
    """Made of whole numbers, since a generator's normal numbers may themselves differ between processors."""
    whole = np.random.default_rng(seed).integers(-(2**30), 2**30, (rows, columns))
    return (whole / 2.0**28).astype(np.float32)


def gradients_of(name, features, classes):
    module = build_model(ModelSpec(name, features, classes))
    weights = flat_weights(module) + records(1, sum(p.numel() for p in module.parameters()), 1)[0] / 100
    labels = np.arange(40) % classes
    return RecordGradients(module), weights, records(40, features, 2), labels


def exact():
    """{name: array} of what must not differ in any bit."""
    rows, whole = records(50, 21, 3), np.random.default_rng(4).integers(-(2**38), 2**38, (500, 9))
    found = {
        "clipped": clip_records(rows, 1.5).steps,
        "indicators": with_indicators(rows, 4.0).steps,
        "rows": clip_rows(rows, np.linspace(0.5, 2, 21), RowBounds(21, 2.0)),
        "contributions": contribution_sums(rows, np.linspace(-1, 2, 21)),
        "products": np.array([str(number) for number in exact_product(whole, whole[:, :4]).ravel()]),
        "scores": Block(0, whole[:, :5] >> 10).quarter_scores(np.linspace(-1, 1, 5)),
        "flips": flip_labels(range(500), np.arange(500) % 3, 0.7, 3, bytes(32), "bank/loans/y"),
    }
    for name, features, classes in (("logistic_regression", 3969, 10), ("mlp", 30, 3), ("mlp", 30, 2)):
        gradients, weights, features_of_records, labels = gradients_of(name, features, classes)
        found[f"{name} {classes}"] = gradients.clipped_sum(weights, features_of_records, labels, 0.4).steps
    for name, features in (("mlp", 30), ("cnn", 784)):
        found[f"relevances of {name}"] = group_sums(build_model(ModelSpec(name, features, 10)), records(9, features, 5))
    return found


WHITENED = "whitened patches"


def close():
    """{name: array} of what agrees to float32, and `WHITENED`, which does to less: small directions are stretched."""
    pictures = np.abs(records(2, 784, 6)).reshape(2, 1, 28, 28)
    patches = Patches((1, 28, 28), filters=9, pictures=30)
    gradients, weights, features, labels = gradients_of("cnn", 784, 10)
    mlp, mlp_weights, mlp_features, _ = gradients_of("mlp", 30, 3)
    return {
        "cnn": gradients.clipped_sum(weights, features[:4], labels[:4], 1.0).value[::97],
        "scattering": scattering_features(pictures)[:, ::13].ravel(),
        "matches with patches": matches_of(pictures, fit_filters(patches, synthetic_pictures(30, 1, 28))).ravel(),
        WHITENED: patch_features(pictures, patches).ravel(),
        "scores of the mlp": mlp.scores(mlp_weights, mlp_features).ravel(),
    }


def main():
    torch.set_num_threads(2)
    digests = {
        name: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for name, array in exact().items()
    }
    print(json.dumps({"exact": digests, "close": {name: array.tolist() for name, array in close().items()}}))


if __name__ == "__main__":
    main()
