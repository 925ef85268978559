"""What an attack found and how sure that is: figures with intervals, baselines, yardsticks and costs.

A figure without a baseline says nothing: a picture of grey looks a little like every digit, and the commonest category of
a column is right for many rows. So every result stands beside what somebody reaches who knows only what is public, and
beside a yardstick that shows the attack to be none too weak: a published figure, or a control that it must break.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter

from bench.attack_methods.view import RoundView, require
from fate_dp.attacks.of_views import CONFIDENCE, Interval
from fate_dp.privacy.validation import InvalidArgument, is_finite

Array = NDArray[np.float64]
RESAMPLES = 2000
MAX_DECIBELS = 150.0
"""What a reconstruction counts as that is right to the last bit, whose ratio is infinite."""


@dataclass(frozen=True)
class Yardstick:
    """What the attack must reach where there is no defence.

    ``reference`` names where ``value`` was published, and in what setting; or the control that must be broken.
    """

    value: float
    reference: str


@dataclass(frozen=True)
class Cost:
    """Seconds on one core for one target, and how often the model's gradient was computed for it."""

    seconds: float
    gradients: int

    @classmethod
    def mean(cls, costs: Sequence[Cost]) -> Cost:
        """That of the average target."""
        return cls(float(np.mean([cost.seconds for cost in costs])), round(np.mean([cost.gradients for cost in costs])))


@dataclass(frozen=True)
class AttackResult:
    """One figure of one attack against one defence.

    Attributes:
        figure: its name.
        attack: in words.
        defence: in words, that of the views.
        value: of the figure, in ``unit``.
        interval: of ``value``.
        baseline: what is reached with public knowledge only, without any view.
        yardstick: what the attack must reach without a defence; None for a defended view.
        targets: how many independent batches the value rests on.
        cost: for one of them.
    """

    figure: str
    attack: str
    defence: str
    value: float
    unit: str
    interval: Interval
    baseline: float
    yardstick: Yardstick | None
    targets: int
    cost: Cost

    def __post_init__(self) -> None:
        if not is_finite(self.value) or not is_finite(self.baseline):
            raise InvalidArgument(
                f"The value {self.value!r} and the baseline {self.baseline!r} of {self.figure} must be finite numbers."
            )

    @property
    def excess(self) -> float:
        """What the view adds to public knowledge."""
        return self.value - self.baseline

    @property
    def reaches_yardstick(self) -> bool:
        """Whether the attack is as strong as it must be; true where it has no yardstick."""
        return self.yardstick is None or self.value >= self.yardstick.value


def defence_of(views: Sequence[RoundView]) -> str:
    """The name of the defence of all views, which a result states; views of several defences make no one figure."""
    names = {require(view, "A result").defence.name for view in views}
    if len(names) != 1:
        raise InvalidArgument(
            f"A result is of views under one defence but was given views under {', '.join(sorted(names)) or 'none'}."
        )
    return names.pop()


def bootstrap(
    values: Sequence[float] | Array, statistic: Callable[[Array], float] = lambda drawn: float(np.median(drawn))
) -> Interval:
    """Percentile interval of a statistic, the median if none is given, over targets drawn again with replacement.

    Public seed: the interval of given values is always the same.
    """
    given = np.asarray(values, dtype=np.float64)
    if len(given) < 2:
        raise InvalidArgument(f"An interval over targets needs at least 2 of them but was given {len(given)}.")
    drawn = np.random.default_rng(0).integers(len(given), size=(RESAMPLES, len(given)))
    found = np.array([statistic(given[places]) for places in drawn])
    low, high = np.quantile(found, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(high), f"percentile bootstrap over {len(given)} targets")


def psnr(original: Array, reconstruction: Array) -> float:
    """Peak signal-to-noise ratio in decibels, of pictures whose values reach from 0 to 1; at most `MAX_DECIBELS`."""
    error = float(np.mean((_inside(original) - _inside(reconstruction)) ** 2))
    return MAX_DECIBELS if error == 0 else min(MAX_DECIBELS, -10 * float(np.log10(error)))


WINDOW = 7
# The constants of the paper for values from 0 to 1.
FIRST, SECOND = 0.01**2, 0.03**2


def ssim(original: Array, reconstruction: Array) -> float:
    """Structural similarity of two pictures (channels, height, width), from -1 to 1, over windows of 7 x 7 pixels.

    Reference: Z. Wang et al., "Image quality assessment: from error visibility to structural similarity", IEEE
    Transactions on Image Processing 13 (2004); here with windows of equal weights and unbiased variances.
    """
    first, second = _inside(original), _inside(reconstruction)
    side = (1, WINDOW, WINDOW)
    unbiased = WINDOW**2 / (WINDOW**2 - 1)
    mean, other = uniform_filter(first, side), uniform_filter(second, side)
    variance = (uniform_filter(first**2, side) - mean**2) * unbiased
    other_variance = (uniform_filter(second**2, side) - other**2) * unbiased
    covariance = (uniform_filter(first * second, side) - mean * other) * unbiased
    similar = (2 * mean * other + FIRST) * (2 * covariance + SECOND)
    whole = (mean**2 + other**2 + FIRST) * (variance + other_variance + SECOND)
    margin = WINDOW // 2
    return float((similar / whole)[:, margin:-margin, margin:-margin].mean())


def _inside(picture: Array) -> Array:
    """Values as a screen shows them: an attack gains nothing by values that no picture has, and loses nothing."""
    return np.clip(np.asarray(picture, dtype=np.float64), 0.0, 1.0)
