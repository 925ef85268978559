"""Features of images that need no training data: the scattering transform, normalised per record by a public rule.

S. Mallat, "Group invariant scattering", 2012; as features for private training: F. Tramer and D. Boneh, "Differentially
private learning needs better features (or much more data)", ICLR 2021. A record's features depend on that record only.
"""
from functools import lru_cache

import numpy as np
import torch

from fate_dp.components.dp_homo_nn.models.scipy_names import with_old_scipy_names

IMAGES_AT_ONCE = 256
# Keeps a group without any variation at zero; as in torch's group normalisation.
SMALLEST_VARIANCE = 1e-5


def scattering_channels(scales, angles):
    """Scattering coefficients per channel and place: 1 + L J + L^2 J (J - 1) / 2, which is 81 for J = 2, L = 8."""
    return 1 + angles * scales + angles**2 * scales * (scales - 1) // 2


def scattering_features(images, scales=2, angles=8, groups=27, progress=None):
    """Scattering coefficients of images, normalised within groups of channels of each image.

    :param images: array (n, channels, height, width), real numbers.
    :param scales: J; a coefficient stands for 2^J x 2^J pixels.
    :param angles: L.
    :param groups: groups of coefficient channels, each brought to mean 0 and variance 1 within one image; it divides
        channels * 81. 0 for no normalisation.
    :param progress: called with the number of images done after every block, if given.
    :returns: float32 array (n, K), K = channels * 81 * (height / 4) * (width / 4) for J = 2 and L = 8.
    """
    count, channels, height, width = images.shape
    transform = _transform(scales, angles, (height, width))
    kept = channels * scattering_channels(scales, angles)
    shape = (kept, height // 2**scales, width // 2**scales)
    features = np.empty((count, int(np.prod(shape))), dtype=np.float32)
    for start in range(0, count, IMAGES_AT_ONCE):
        block = torch.from_numpy(np.ascontiguousarray(images[start : start + IMAGES_AT_ONCE], dtype=np.float32))
        with torch.no_grad():
            coefficients = transform(block).reshape(-1, *shape)
            if groups:
                coefficients = torch.nn.functional.group_norm(coefficients, groups, eps=SMALLEST_VARIANCE)
        features[start : start + len(block)] = coefficients.reshape(len(block), -1).numpy()
        if progress is not None:
            progress(start + len(block))
    return features


@lru_cache(maxsize=4)
def _transform(scales, angles, shape):
    with with_old_scipy_names():
        from kymatio.torch import Scattering2D
    return Scattering2D(scales, shape, L=angles)
