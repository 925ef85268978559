"""Features of images from patches of made-up pictures: no data decides any of it.

A. Coates, H. Lee and A. Y. Ng, "An analysis of single-layer networks in unsupervised feature learning", AISTATS 2011: how well
each place of an image matches each of many whitened patches, both ways above a threshold, averaged over the quarters of the
image. There the patches are the training data's, which would be to charge. Here they are cut from made-up pictures
(`made_up_pictures`): a patch has its mean taken away and is divided by its standard deviation; mean and whitening (ZCA) are
those of many patches, and filters are some of these at random, whitened and of norm 1. Photographs have no preferred side: an
image's features are added to those of its mirror image where it has colours. All of them are whitened at last (`whitening`).

A record's features depend on that record only, as in `features`.
"""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, conv2d

from ..record_arithmetic import UnsoundArithmetic
from .made_up_pictures import SEED, pictures_of_shape
from .whitening import Rows, Whitening, fit_whitening, row_by_row, tensor

# Patches whose mean and covariance are taken, and of them the share of the flattest, which make no filter.
LOOKED_AT, FLAT = 100_000, 0.3
# Added to variances: of a patch's values, from 0 to 1, and of whitened coordinates.
PATCH_VARIANCE, WHITENING_VARIANCE = 1e-3, 0.1
DIRECTIONS = 1500


@dataclass(frozen=True)
class Patches:
    """What a job says of the features of images of a shape (channels, height, width); public.

    ``size`` is the side of a patch in pixels, ``pools`` into how many parts an image falls in either direction. An
    image is compared with ``filters`` patches, with a ``threshold`` of a match in units of a whitened coordinate. The
    ``ridge`` of the whitening is in units of the mean variance of a feature; the noisier a training, the larger the
    best one. Filters and whitening are taken from so many made-up ``pictures``.
    """

    shape: tuple[int, int, int]
    size: int = 6
    filters: int = 400
    threshold: float = 0.25
    pools: int = 2
    ridge: float = 1e-5
    pictures: int = 1000

    @property
    def count(self) -> int:
        """Features of an image: both ways of every filter in every part."""
        return 2 * self.filters * self.pools**2


def patch_features(images: np.ndarray, patches: Patches) -> Rows:
    """float32 (n, ``patches.count``), rows of norm 10, of images (n, channels, height, width) with values from 0 to 1."""
    matched, whitening = fixed(patches)
    return whitening(matches_of(images, matched))


@dataclass(frozen=True, eq=False)
class Matched:
    """Filters for patches in their own units, (filters, channels, size, size), and what each match is less; public."""

    patches: Patches
    kernels: Tensor = field(repr=False)
    offsets: Tensor = field(repr=False)

    def __call__(self, image: Tensor) -> Tensor:
        """(count,) of an image (channels, height, width)."""
        total = self._one_way(image)
        return total if len(image) == 1 else total + self._one_way(image.flip(2).contiguous())

    def _one_way(self, image: Tensor) -> Tensor:
        values, size = image.unsqueeze(0), self.patches.size
        box = torch.full((1, len(image), size, size), 1 / (len(image) * size * size))
        mean = conv2d(values, box)
        variance = (conv2d(values * values, box) - mean * mean).clamp_(min=0)
        matches = conv2d(values, self.kernels) / (variance + PATCH_VARIANCE).sqrt_() - self.offsets
        both = torch.cat([matches, -matches]) - self.patches.threshold
        return adaptive_avg_pool2d(both.clamp_(min=0), self.patches.pools).flatten()


def fit_filters(patches: Patches, pictures: Rows) -> Matched:
    """Filters from made-up pictures (n, channels, height, width)."""
    generator, size, channels = np.random.default_rng(SEED), patches.size, pictures.shape[1]
    windows = np.lib.stride_tricks.sliding_window_view(pictures, (1, channels, size, size))
    picture, row, column = (generator.integers(0, windows.shape[axis], LOOKED_AT) for axis in (0, 2, 3))
    cut = windows[picture, 0, row, column, 0].reshape(LOOKED_AT, -1).astype(np.float64)
    cut -= cut.mean(axis=1, keepdims=True)
    cut /= np.sqrt(cut.var(axis=1, keepdims=True) + PATCH_VARIANCE)
    mean = cut.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov(cut.T))
    zca = axes / np.sqrt(variances + WHITENING_VARIANCE) @ axes.T
    white = (cut - mean) @ zca
    norms = np.linalg.norm(white, axis=1)
    kept = np.flatnonzero(norms > np.quantile(norms, FLAT))[: patches.filters]
    filters = white[kept] / norms[kept, None] @ zca
    # A patch's own mean is no part of a match: it is taken out of the filter instead of out of every patch.
    kernels = (filters - filters.mean(axis=1, keepdims=True)).reshape(-1, channels, size, size)
    return Matched(patches, tensor(kernels), tensor(filters @ mean).reshape(1, -1, 1, 1))


def matches_of(images: np.ndarray, matched: Matched) -> Rows:
    """Features before the whitening, float32 (n, count), of images (n, channels, height, width)."""
    return row_by_row(images, matched.patches.count, matched)


@lru_cache(maxsize=2)
def fixed(patches: Patches) -> tuple[Matched, Whitening]:
    """Filters and whitening, from the public seed alone."""
    pictures = pictures_of_shape(patches.pictures, patches.shape)
    matched = fit_filters(patches, pictures)
    found = matches_of(pictures, matched)
    again = matches_of(pictures[[1, 0]], matched)
    if not np.array_equal(again[::-1], found[:2]):
        raise UnsoundArithmetic("features of patches")
    return matched, fit_whitening(found, DIRECTIONS, patches.ridge * float(found.var(axis=0).mean()))
