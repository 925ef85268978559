"""Features of the linear models of the benchmark, in files: those that the component's own models make of pictures.

Of digits they are those of `scattering_linear` with `whitened`, of clothes and photographs those of `patch_linear`. Both come from
public seeds: no training data, no label, nothing to charge. A record's features depend on it alone.
"""

from dataclasses import dataclass

import numpy as np

from bench.homo_nn_pictures import CLASSES, TEST, TRAIN, load_pictures
from bench.homo_nn_training import path_of
from bench.homo_nn_workers import Job
from fate_dp.components.dp_homo_nn.models.features import scattering_features, scattering_whitening
from fate_dp.components.dp_homo_nn.models.patches import Patches, fixed, matches_of
from fate_dp.components.dp_homo_nn.models.registry import model_inputs
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec

MODELS = {
    "mnist": ModelSpec("scattering_linear", 28 * 28, CLASSES, {"whitened": True}),
    "fashion": ModelSpec("patch_linear", 28 * 28, CLASSES, {"filters": 200, "pools": 3, "ridge": 1e-4}),
    "cifar10": ModelSpec("patch_linear", 3 * 32 * 32, CLASSES),
}
GREY_VALUES = 255
PICTURES_AT_ONCE = 1000


@dataclass(frozen=True)
class InputsOf:
    """What a model takes of pictures (n, channels, height, width) with values from 0 to 1: float32 (n, K)."""

    spec: ModelSpec

    def __call__(self, pictures):
        return model_inputs(self.spec, pictures.reshape(len(pictures), -1))


@dataclass(frozen=True)
class FewCoordinates:
    """Only the first ``count`` coordinates along the principal directions of made-up grey pictures, whitened: few features.

    :param made_up: how many of these.
    """

    count: int
    made_up: int = 2000

    def __call__(self, pictures):
        """float32 (n, count), rows of one norm."""
        whitening = scattering_whitening((1, 28, 28), 2, 8, 27, self.made_up)
        return whitening.coordinates(scattering_features(pictures), self.count)


@dataclass(frozen=True)
class FewMatches:
    """The same of matches with patches of made-up pictures (``patch_linear``)."""

    patches: Patches
    count: int

    def __call__(self, pictures):
        """float32 (n, count), rows of one norm."""
        matched, whitening = fixed(self.patches)
        return whitening.coordinates(matches_of(pictures, matched), self.count)


def keep_features(workers, data, source, features_of, folder):
    """Features and labels of both parts of a data set, whose pictures are in ``source``, in ``folder``, unless it is there."""
    if not folder.is_dir():
        parts = {part: load_pictures(data, part, source) for part in (TRAIN, TEST)}
        write_parts(workers, f"features of {data}", parts, features_of, folder)


def write_parts(workers, name, parts, features_of, folder):
    """Write features and labels of parts, {part: (pictures uint8, labels)}, to ``folder``, which appears when complete.

    :param features_of: what makes float32 (n, K) of pictures with values from 0 to 1.
    """
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    for part, (pictures, labels) in parts.items():
        path = path_of(unfinished, part, "features")
        width = features_of(pictures[:1] / GREY_VALUES).shape[1]
        np.lib.format.open_memmap(path, "w+", np.float32, (len(labels), width)).flush()
        jobs = []
        for start in range(0, len(labels), PICTURES_AT_ONCE):
            block = pictures[start : start + PICTURES_AT_ONCE]
            jobs.append(Job(f"{name}, {part}", len(block), write_features, (path, start, block, features_of)))
        workers.run(jobs)
        np.save(path_of(unfinished, part, "labels"), labels)
    unfinished.rename(folder)


def write_features(path, start, pictures, features_of, tick):
    """Write the features of pictures (uint8) from row ``start`` on to the array in the file ``path``."""
    features = np.lib.format.open_memmap(path, mode="r+")
    features[start : start + len(pictures)] = features_of(pictures.astype(np.float32) / GREY_VALUES)
    features.flush()
    tick(len(pictures))
