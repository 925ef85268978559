"""Features of images that need no training data: the scattering transform, normalised per record by a public rule.

S. Mallat, "Group invariant scattering", 2012; as features for private training: F. Tramer and D. Boneh, "Differentially
private learning needs better features (or much more data)", ICLR 2021. Kymatio makes the filters.

A record's features depend on that record only, to the last bit: every call of a library sees one image, all calls have
the same shapes, in memory that torch aligns to 64 bytes, by one thread. What is computed at once are the filters of one
scale, for one image.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.special
import torch
from torch import Tensor

from ..record_arithmetic import UnsoundArithmetic, one_thread
from .made_up_pictures import pictures_of_shape
from .whitening import Whitening, fit_whitening, row_by_row


@contextmanager
def with_old_scipy_names() -> Iterator[None]:
    """kymatio 0.3 imports ``scipy.special.sph_harm``, which scipy renamed; only its 3D part uses it."""
    if hasattr(scipy.special, "sph_harm"):
        yield
        return
    scipy.special.sph_harm = scipy.special.sph_harm_y
    try:
        yield
    finally:
        del scipy.special.sph_harm


DIRECTIONS, RIDGE = 300, 1e-3
# Keeps a group without any variation at zero; as in torch's group normalisation.
MIN_VARIANCE = 1e-5


@dataclass(frozen=True)
class Filters:
    """Filters of a transform, as real numbers in the frequency domain, and the border that images get for them."""

    pad: Callable
    unpad: Callable
    low: list[Tensor]
    """Low-pass, by resolution."""
    band: list[list[Tensor]]
    """By scale and resolution, (angles, n, n)."""


def scattering_channels(scales: int, angles: int) -> int:
    """Scattering coefficients per channel and place: 1 + L J + L^2 J (J - 1) / 2, which is 81 for J = 2, L = 8."""
    return 1 + angles * scales + angles**2 * scales * (scales - 1) // 2


def scattering_features(images: np.ndarray, scales: int = 2, angles: int = 8, groups: int = 27) -> np.ndarray:
    """Scattering coefficients of images (n, channels, height, width), normalised within groups of channels of each image.

    float32 (n, K), K = channels * 81 * (height / 4) * (width / 4) for ``scales`` J = 2 and ``angles`` L = 8: a coefficient
    stands for 2^J x 2^J pixels. Each of the ``groups`` of coefficient channels, which divide channels * 81, is brought to
    mean 0 and variance 1 within one image; 0 for no normalisation. A machine that gives an image other bits after another
    one is refused (UnsoundArithmetic).
    """
    channels, height, width = images.shape[1:]
    with torch.no_grad(), one_thread():
        filters = _filters(scales, angles, (channels, height, width))
    shape = (channels * scattering_channels(scales, angles), height // 2**scales, width // 2**scales)

    def normalised(image: Tensor) -> Tensor:
        coefficients = _coefficients(image, filters).reshape(1, *shape)
        if groups:
            coefficients = torch.nn.functional.group_norm(coefficients, groups, eps=MIN_VARIANCE)
        return coefficients.flatten()

    return row_by_row(images, int(np.prod(shape)), normalised)


@lru_cache(maxsize=2)
def scattering_whitening(
    shape: tuple[int, int, int], scales: int, angles: int, groups: int, pictures: int
) -> Whitening:
    """The whitening of coefficients of images of this shape (channels, height, width), from so many made-up ones."""
    return fit_whitening(
        scattering_features(pictures_of_shape(pictures, shape), scales, angles, groups), DIRECTIONS, RIDGE
    )


def _coefficients(image: Tensor, filters: Filters) -> Tensor:
    """Orders 0, 1 and 2 of one image: (channels, coefficients, height, width)."""
    scales = len(filters.band)
    spectrum = torch.fft.fft2(filters.pad(image).squeeze(-1))
    first, second = [], []
    for scale in range(scales):
        # (channels, angles, n, n)
        once = _modulus_spectrum(spectrum.unsqueeze(1) * filters.band[scale][0], scale)
        first.append(_averaged(once, scale, filters))
        twice = []
        for coarser in range(scale + 1, scales):
            found = _modulus_spectrum(once.unsqueeze(2) * filters.band[coarser][scale], coarser - scale)
            twice.append(_averaged(found, coarser, filters))
        if twice:
            second.append(torch.cat(twice, dim=2).flatten(1, 2))
    return torch.cat([_averaged(spectrum.unsqueeze(1), 0, filters), *first, *second], dim=1)


def _modulus_spectrum(product: Tensor, octaves: int) -> Tensor:
    """Spectrum of the modulus of what has the spectrum ``product``, at a resolution lower by ``octaves``."""
    return torch.fft.fft2(torch.fft.ifft2(_coarser(product, octaves)).abs())


def _averaged(spectrum: Tensor, resolution: int, filters: Filters) -> Tensor:
    """Low-passed at the lowest resolution, without the border."""
    octaves = len(filters.band) - resolution
    return filters.unpad(torch.fft.ifft2(_coarser(spectrum * filters.low[resolution], octaves)).real.unsqueeze(-1))


def _coarser(spectrum: Tensor, octaves: int) -> Tensor:
    """The spectrum of every 2^octaves-th sample in both directions: the mean of its aliases."""
    step = 2**octaves
    height, width = (side // step for side in spectrum.shape[-2:])
    return spectrum.unflatten(-1, (step, width)).unflatten(-3, (step, height)).mean((-4, -2))


@lru_cache(maxsize=4)
def _filters(scales: int, angles: int, shape: tuple[int, int, int]) -> Filters:
    with with_old_scipy_names():
        from kymatio.torch import Scattering2D
    transform = Scattering2D(scales, shape[1:], L=angles)
    low = [torch.from_numpy(level) for level in transform.phi["levels"]]
    bands = [[psi for psi in transform.psi if psi["j"] == scale] for scale in range(scales)]
    by_scale = [
        [torch.stack(list(map(torch.from_numpy, levels))) for levels in zip(*(psi["levels"] for psi in psis))]
        for psis in bands
    ]
    filters = Filters(transform.pad, transform.unpad, low, by_scale)
    _check_bits(filters, shape)
    return filters


def _check_bits(filters: Filters, shape: tuple[int, int, int]) -> None:
    """Refuse a machine on which an image's coefficients depend on what was computed before."""
    first, second = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    found = [_coefficients(image.clone(), filters) for image in (first, second, first)]
    if not torch.equal(found[0], found[2]):
        raise UnsoundArithmetic("scattering coefficients")
