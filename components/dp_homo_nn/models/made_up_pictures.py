"""Made-up pictures, drawn from a public seed: what features of pictures look like can be learnt without any data.

No real picture stands behind them, so what is computed from them costs no privacy:

- ``strokes``: a pen's way along one to three bent lines, bright on black;
- ``objects``: one to six overlapping shapes around the middle, grey on black, some of them striped;
- ``leaves``: coloured shapes of all sizes over one another, which have the statistics of edges and of contrast of
  photographs (the dead leaves model; A. Lee, D. Mumford and J. Huang, "Occlusion models for natural images", 2001).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.float32]
Array = NDArray[np.float64]
SEED = 1
# Of pictures that can be made up: grey values, and colours.
CHANNELS = (1, 3)

# Pictures are painted this many times larger and averaged down.
FINENESS = 2
POINTS_PER_LINE = 24


def pictures_of_shape(count: int, shape: tuple[int, int, int]) -> Picture:
    """``count`` pictures of a shape (channels, height, width), always the same: the upper left part of square ones."""
    channels, height, width = shape
    return synthetic_pictures(count, channels, max(height, width))[:, :, :height, :width]


def synthetic_pictures(count: int, channels: int, side: int, seed: int = SEED) -> Picture:
    """``count`` pictures, float32 (count, channels, side, side) from 0 to 1: half objects, half strokes on one channel.

    With three channels all of them are leaves.
    """
    generator = np.random.default_rng(seed)
    if channels == 3:
        return np.stack([leaves(side, generator) for _ in range(count)])
    painters: tuple[Callable[[int, np.random.Generator], Picture], ...] = (objects, strokes)
    return np.stack([painters[number % 2](side, generator)[None] for number in range(count)])


def strokes(side: int, generator: np.random.Generator) -> Picture:
    """Bent lines of one width; float32 (side, side)."""
    rows, columns = np.mgrid[0:side, 0:side] + 0.5
    width = generator.uniform(0.75, 2)
    distance = np.full((side, side), np.inf)
    point = generator.uniform(0.2, 0.8, 2)
    for _ in range(generator.integers(1, 4)):
        if generator.random() < 0.4:
            point = generator.uniform(0.2, 0.8, 2)
        bend, end = generator.uniform(0.15, 0.85, (2, 2))
        for time in np.linspace(0, 1, POINTS_PER_LINE):
            row, column = side * ((1 - time) ** 2 * point + 2 * time * (1 - time) * bend + time**2 * end)
            distance = np.minimum(distance, np.hypot(rows - row, columns - column))
        point = end
    return np.clip(width + 0.5 - distance, 0, 1).astype(np.float32)


def objects(side: int, generator: np.random.Generator) -> Picture:
    """Shapes around the middle; float32 (side, side)."""
    picture = np.zeros((side * FINENESS,) * 2)
    for _ in range(generator.integers(1, 7)):
        radius, stretch = generator.uniform(0.08, 0.42), math.exp(generator.normal(0, 0.4))
        angle = generator.choice([0, 0, generator.uniform(-0.6, 0.6)])
        along, across = _coordinates(len(picture), generator.normal(0, 0.12, 2), radius, stretch, angle)
        inside = _shape(along, across, generator, ("ellipse", "box", "box", "wedge"))
        level = generator.uniform(0, 1) if generator.random() < 0.8 else 0
        if generator.random() < 0.5:
            axis = along if generator.random() < 0.5 else across
            waves = np.sin(generator.uniform(5, 60) * axis + generator.uniform(0, 6))
            level = level * (1 + generator.uniform(0, 0.5) * waves)
        picture = np.where(inside, np.clip(level, 0, 1), picture)
    return _averaged(picture[None])[0]


def leaves(side: int, generator: np.random.Generator) -> Picture:
    """Coloured shapes over one another; float32 (3, side, side)."""
    size = side * FINENESS
    along, _ = _coordinates(size, (0, 0), 1, 1, generator.uniform(0, 2 * math.pi))
    picture = _blend(_colour(generator), _colour(generator), np.clip(0.5 + along, 0, 1))
    for _ in range(generator.integers(2, 25)):
        radius = 0.02 + 0.5 * generator.uniform(0.04, 1) ** 1.5
        stretch, angle = math.exp(generator.normal(0, 0.5)), generator.uniform(0, math.pi)
        along, across = _coordinates(size, generator.normal(0, 0.25, 2), radius, stretch, angle)
        inside = _shape(along, across, generator, ("ellipse", "ellipse", "box"))
        shade = np.clip(0.5 + 0.5 * along, 0, 1)
        picture = np.where(inside, _blend(_colour(generator), _colour(generator), shade / 2), picture)
    return _averaged(picture)


def _coordinates(
    size: int, centre: Sequence[float] | Array, radius: float, stretch: float, angle: float
) -> tuple[Array, Array]:
    """Coordinates along and across a turned shape, in which it reaches from -1 to 1."""
    rows, columns = np.mgrid[0:size, 0:size] / size - 0.5
    rows, columns = rows - centre[0], columns - centre[1]
    along = math.cos(angle) * columns + math.sin(angle) * rows
    across = math.cos(angle) * rows - math.sin(angle) * columns
    return along / (radius * stretch), across / (radius / stretch)


def _shape(along: Array, across: Array, generator: np.random.Generator, kinds: Sequence[str]) -> NDArray[np.bool_]:
    kind = kinds[generator.integers(len(kinds))]
    if kind == "ellipse":
        return along**2 + across**2 < 1
    half_width = (1 + across) / 2 if kind == "wedge" else 1
    return (np.abs(along) < half_width) & (np.abs(across) < 1)


def _colour(generator: np.random.Generator) -> Array:
    """Red, green and blue, mostly of about the same brightness."""
    return np.clip(0.5 + generator.normal(0, 0.25) + generator.normal(0, 0.1, 3), 0, 1)


def _blend(first: Array, second: Array, share: Array) -> Array:
    return first[:, None, None] * (1 - share) + second[:, None, None] * share


def _averaged(picture: Array) -> Picture:
    channels, size, _ = picture.shape
    side = size // FINENESS
    return picture.reshape(channels, side, FINENESS, side, FINENESS).mean(axis=(2, 4)).astype(np.float32)
