"""The trained model as JSON: what it is, its weights, and what the training promised. No pickle anywhere."""
import base64
from typing import List

import numpy as np

from .models.spec import ModelSpec
from .settings import TrainSettings

WEIGHT_TYPE = "<f4"


def to_json(spec: ModelSpec, weights: np.ndarray, header: List[str], settings: TrainSettings, privacy: dict) -> dict:
    """The same at every data party.

    :param weights: float64 (d,), in the order of the module's parameters; kept as float32, which the module computes in.
    :param header: names of the features, in order.
    :param privacy: what the training promised, of builtins.
    """
    estimator = {
        "model": {"name": spec.name, "features": spec.features, "classes": spec.classes, "params": spec.params},
        "param": {"weights": base64.b64encode(weights.astype(WEIGHT_TYPE).tobytes()).decode("ascii"),
                  "dtype": "float32, little-endian, base64", "size": len(weights)},
        "header": list(header),
        "loss": settings.loss,
    }  # fmt: skip
    meta = {**settings.to_json(), "labels": list(range(spec.classes)), "privacy": privacy}
    return {"data": {"estimator": estimator}, "meta": meta}


def without_weights(role: str, privacy: dict) -> dict:
    """What arbiter and shuffler write: they keep no model."""
    return {"data": {"estimator": None}, "meta": {"role": role, "privacy": privacy}}


def spec_of(document: dict) -> ModelSpec:
    """The specification of a model.

    :raises ValueError: for the document of a party that keeps none.
    """
    estimator = document["data"]["estimator"]
    if estimator is None:
        raise ValueError(f"The {document['meta']['role']} of the training holds no model; predict at guest and hosts.")
    return ModelSpec(**estimator["model"])


def weights_of(document: dict) -> np.ndarray:
    """float64 (d,)."""
    param = document["data"]["estimator"]["param"]
    weights = np.frombuffer(base64.b64decode(param["weights"]), dtype=WEIGHT_TYPE).astype(np.float64)
    if len(weights) != param["size"]:
        raise ValueError(f"The model holds {len(weights)} weights and says {param['size']}; its file is damaged.")
    return weights
