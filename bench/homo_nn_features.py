"""Features of the linear models of the benchmark: scattering coefficients under a fixed map that no data decided.

1. Scattering coefficients (J = 2, L = 8), normalised in 27 groups of channels of each picture
   (`components.dp_homo_nn.models.features`): 3,969 of a 28 x 28 picture, 15,552 of a 32 x 32 one in colour.
2. For photographs, which have no preferred side: every coefficient plus that of the mirrored place and angle. That
   leaves 7,776.
3. Whitening. A linear model on raw coefficients needs hundreds of steps, since half of all their energy is one common
   mean and a few directions hold most of the rest, and every private step costs noise. So the mean of *made-up*
   pictures (`homo_nn_synthetic`) is taken away, and the coordinates along their principal directions are divided by
   the root of (variance + ridge).
4. Every record is scaled to l2 norm 10, so that the bias, whose input is 1, adds little to a gradient's norm.

The map is a public constant: no training data, no label, nothing to charge. A record's features depend on it alone.
"""

from dataclasses import dataclass

import numpy as np

from bench.homo_nn_synthetic import synthetic_pictures
from bench.homo_nn_training import path_of
from bench.homo_nn_workers import Job
from fate_dp.components.dp_homo_nn.models.features import scattering_channels, scattering_features

SCALES, ANGLES = 2, 8
CHANNELS = scattering_channels(SCALES, ANGLES)
NORM = 10.0
MADE_UP = 2000
DIRECTIONS = 300
GREY_VALUES = 255
PICTURES_AT_ONCE = 1000


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """The fixed map from pictures to features.

    :param mean: (K,), of made-up pictures' coefficients.
    :param directions: (K, r), orthonormal columns.
    :param stretches: (r,), what the coordinate along a direction is multiplied by, relative to all other directions.
    :param mirrored: whether coefficients are added to those of the mirror image.
    """

    mean: np.ndarray
    directions: np.ndarray
    stretches: np.ndarray
    mirrored: bool

    def __call__(self, pictures):
        """float32 (n, K), rows of norm 10, of pictures (n, channels, height, width) with values from 0 to 1."""
        centred = coefficients(pictures, self.mirrored) - self.mean
        return _of_one_norm(centred + (centred @ self.directions * (self.stretches - 1)) @ self.directions.T)


@dataclass(frozen=True, eq=False)
class PrincipalMap:
    """Only the first ``count`` coordinates along the made-up pictures' principal directions, whitened: few features."""

    feature_map: FeatureMap
    count: int

    def __call__(self, pictures):
        """float32 (n, count), rows of norm 10."""
        whole = self.feature_map
        kept = slice(0, self.count)
        centred = coefficients(pictures, whole.mirrored) - whole.mean
        return _of_one_norm(centred @ whole.directions[:, kept] * whole.stretches[kept])


def fit_map(channels, side, mirrored, ridge, made_up=MADE_UP, tick=lambda number: None):
    """The map for pictures of a shape, from ``made_up`` synthetic pictures.

    :param ridge: added to every direction's variance, which is counted per coefficient.
    """
    found = []
    for start in range(0, made_up, PICTURES_AT_ONCE):
        count = min(PICTURES_AT_ONCE, made_up - start)
        found.append(coefficients(synthetic_pictures(count, channels, side, seed=1 + start), mirrored))
        tick(count)
    found = np.concatenate(found)
    mean = found.mean(axis=0)
    centred = found - mean
    variances, vectors = np.linalg.eigh((centred @ centred.T).astype(np.float64) / centred.size)
    kept = np.argsort(variances)[::-1][: min(DIRECTIONS, made_up - 1)]
    directions = centred.T @ vectors[:, kept].astype(np.float32)
    directions /= np.linalg.norm(directions, axis=0)
    stretches = np.sqrt(ridge / (np.maximum(variances[kept], 0) + ridge)).astype(np.float32)
    return FeatureMap(mean, directions, stretches, mirrored)


def coefficients(pictures, mirrored):
    """Normalised scattering coefficients, float32 (n, K); with ``mirrored`` those of half of the places, K halved."""
    found = scattering_features(pictures, SCALES, ANGLES)
    if not mirrored:
        return found
    count, channels, height, width = pictures.shape
    places = found.reshape(count, channels, CHANNELS, height // 2**SCALES, width // 2**SCALES)
    return with_mirror_image(places).reshape(count, -1)


def with_mirror_image(places):
    """Coefficients (n, channels, 81, rows, columns) plus those of the mirrored place and angle, for the left half."""
    half = places.shape[-1] // 2
    return places[..., :half] + places[:, :, mirrored_channels()][..., ::-1][..., :half]


def mirrored_channels():
    """For each of the 81 coefficients of a place the one at mirrored angles: array of indices.

    kymatio's k-th angle is (3 - k) pi / 8, whose mirror image is that of (6 - k) mod 8. The order is: no wavelet; 8
    angles at either scale; 64 pairs of angles.
    """
    angle = (6 - np.arange(ANGLES)) % ANGLES
    firsts = [1 + scale * ANGLES + angle for scale in range(SCALES)]
    pairs = 1 + SCALES * ANGLES + ANGLES * angle[:, None] + angle
    return np.concatenate([[0], *firsts, pairs.ravel()])


def _of_one_norm(rows):
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(NORM * rows, norms, out=np.zeros_like(rows), where=norms > 0)


def write_parts(workers, name, parts, feature_map, folder):
    """Write features and labels of parts, {part: (pictures uint8, labels)}, to ``folder``, which appears when complete.

    :param feature_map: what makes float32 (n, K) of pictures with values from 0 to 1.
    """
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    for part, (pictures, labels) in parts.items():
        path = path_of(unfinished, part, "features")
        width = feature_map(pictures[:1] / GREY_VALUES).shape[1]
        np.lib.format.open_memmap(path, "w+", np.float32, (len(labels), width)).flush()
        jobs = []
        for start in range(0, len(labels), PICTURES_AT_ONCE):
            block = pictures[start : start + PICTURES_AT_ONCE]
            jobs.append(Job(f"{name}, {part}", len(block), write_features, (path, start, block, feature_map)))
        workers.run(jobs)
        np.save(path_of(unfinished, part, "labels"), labels)
    unfinished.rename(folder)


def write_features(path, start, pictures, feature_map, tick):
    """Write the features of pictures (uint8) from row ``start`` on to the array in the file ``path``."""
    features = np.lib.format.open_memmap(path, mode="r+")
    features[start : start + len(pictures)] = feature_map(pictures.astype(np.float32) / GREY_VALUES)
    features.flush()
    tick(len(pictures))
