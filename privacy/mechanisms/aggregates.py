"""Means and medians of values clamped to a public range, and any estimator by way of them: sample and aggregate.

All are epsilon-DP (nats, delta 0 plus slack) under *replace-one* with a public number n of records; unit *record*, or
whatever one value stands for. One record moves the mean of values in [a, b] by at most (b - a) / n (not 1 / n). A NaN
or an infinity counts as the middle of the range: a record cannot make a query fail. Values are rounded to a grid of the
range *before* they are added, so the stated sensitivity holds exactly, whatever the order of the sum.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import events
from ..events import REPLACE_ONE, InvalidEvent, Process, PureDP, Release, View, check_relation, event_of
from ..noise.stream import Floats, Integers, Rng, open_stream
from ..validation import InvalidArgument, check_epsilon, one_of, refusal, whole
from .exponential import SLACK_PER_SCORE, exponential_mechanism
from .laplace import laplace_charge, laplace_scale, release_steps
from .sampling import random_permutation

if TYPE_CHECKING:
    from typing_extensions import Unpack

Records: TypeAlias = NDArray[Any] | list[Any] | tuple[Any, ...]
# Rounding to so many steps moves a mean by at most 2^-31 (b - a).
STEPS_OF_RANGE = 2**30
# Their steps add up to at most 2^60, to which noise of scale 2^50 may still be added in an int64.
MAX_RECORDS = 2**30


@dataclass(frozen=True, eq=False)
class BoundedMean:
    """A mean of clamped values as integers; secret until noise is added. ``steps``, int64, are per coordinate the sum
    over records of the position in the range, in 2^-30 of it; ``count``, the number n of records, and both ends of
    the range are public."""

    steps: Integers = field(repr=False)
    count: int
    lower: Floats
    upper: Floats

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.steps.size

    @property
    def value(self) -> Floats:
        """The mean without noise: secret."""
        return self.in_units(self.steps)

    def sensitivity(self, relation: str) -> float:
        """l1 sensitivity of the mean, in the unit of the values: the sum over coordinates of (b - a) / n."""
        self.sensitivity_in_steps(relation)
        return float(np.sum(self.upper - self.lower) / self.count)

    def sensitivity_in_steps(self, relation: str) -> int:
        """l1 sensitivity of ``steps``: 2^30 per coordinate, exactly."""
        if check_relation(relation) != REPLACE_ONE:
            raise InvalidEvent(refusal("relation", relation, f"{REPLACE_ONE} for a mean over a public count"))
        return self.dimension * STEPS_OF_RANGE

    def in_units(self, steps: ArrayLike) -> Floats:
        """Sums of positions, for instance ``steps`` with noise, as means in the unit of the values."""
        share: Floats = np.asarray(steps) / (self.count * STEPS_OF_RANGE)
        return self.lower + share * (self.upper - self.lower)


def bounded_mean(values: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> BoundedMean:
    """Mean of the records' private ``values``, array (records,) or (records, ...), at least one record, each clamped to
    [lower, upper]: public numbers, or arrays in the shape of one record."""
    positions, lower, upper = positions_in_range(values, lower, upper, STEPS_OF_RANGE)
    return BoundedMean(np.asarray(positions.sum(axis=0)), len(positions), lower, upper)


def private_mean(
    values: ArrayLike, lower: ArrayLike, upper: ArrayLike, epsilon: float, *, rng: Rng = None, **view: Unpack[View]
) -> Release:
    """The bounded mean plus Laplace noise: epsilon-DP (nats, delta 0) under replace-one with a public count.

    Parameters as in ``bounded_mean``. The ``Release`` of a float64 number or array is not clamped: unbiased.
    """
    mean = bounded_mean(values, lower, upper)
    scale = laplace_scale(mean.sensitivity_in_steps(REPLACE_ONE), epsilon)
    process, slack = laplace_charge(mean.dimension, epsilon, scale)
    release = release_steps(mean.steps, scale, process, slack, rng, relation=REPLACE_ONE, **view)
    return Release(mean.in_units(release.value), release.event)


def positions_in_range(
    values: ArrayLike, lower: ArrayLike, upper: ArrayLike, steps: int
) -> tuple[Integers, Floats, Floats]:
    """Where each value lies in its range, as an int64 from 0 (lower) to ``steps`` (upper), and both ends as arrays.

    Values outside are clamped; a NaN or an infinity is put in the middle. Parameters as in ``bounded_mean``.
    """
    values = np.asarray(values)
    is_real = values.ndim >= 1 and values.dtype.kind in "biuf"
    if not is_real or not values.size or len(values) > MAX_RECORDS:
        raise InvalidArgument.of("values", values, f"real numbers, at least one for each of 1 to {MAX_RECORDS} records")
    lower, upper = check_range(lower, upper, values.shape[1:])
    with np.errstate(over="ignore"):
        values = values.astype(np.float64)
    values = np.where(np.isfinite(values), values, lower + (upper - lower) / 2)
    shares = (np.clip(values, lower, upper) - lower) / (upper - lower)
    return np.rint(np.clip(shares, 0, 1) * steps).astype(np.int64), lower, upper


def check_range(lower: ArrayLike, upper: ArrayLike, shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Both ends as float64 arrays of that shape; raise ``InvalidArgument`` unless lower < upper, finite, everywhere."""
    try:
        ends = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
        lower_end, upper_end = (np.broadcast_to(end, shape) for end in ends)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"lower and upper must be numbers or arrays of the shape {shape} of a record.") from error
    with np.errstate(over="ignore", invalid="ignore"):
        if not (np.isfinite(upper_end - lower_end) & (upper_end > lower_end)).all():
            raise InvalidArgument.of("lower and upper", (lower, upper), "finite, lower below upper")
    return lower_end, upper_end


MEDIAN_STEPS_OF_RANGE = 1024
CANDIDATES = MEDIAN_STEPS_OF_RANGE + 1
RANK_SENSITIVITY = 2
# So that equal shares of epsilon never add up to more than epsilon in floating point.
ROUND_UP = 1 + 2.0**-48


def private_median(
    values: ArrayLike, lower: ArrayLike, upper: ArrayLike, epsilon: float, *, rng: Rng = None, **view: Unpack[View]
) -> Release:
    """A candidate near the median of the values, per coordinate: an exponential mechanism over 1025 candidates.

    With probability at least 1 - b the values strictly on either side of it exceed half by at most 2 ln(1025 / b) /
    epsilon (F. McSherry and K. Talwar, FOCS 2007). Several coordinates share epsilon equally and are charged as
    ``PureDP``. Parameters as in ``bounded_mean``; the value is a float64 multiple of 1/1024 of the range.
    """
    positions, lower, upper = positions_in_range(values, lower, upper, MEDIAN_STEPS_OF_RANGE)
    columns = positions.reshape(len(positions), -1).T
    epsilon, stream = check_epsilon(epsilon), open_stream(rng)
    process: Process = events.ExponentialMechanism(epsilon) if len(columns) == 1 else PureDP(epsilon)
    slack = len(columns) * CANDIDATES * SLACK_PER_SCORE
    event = event_of(process, stream, relation=REPLACE_ONE, slack=slack, **view)
    share = epsilon / (len(columns) * ROUND_UP)
    chosen = [exponential_mechanism(rank_scores(column), share, RANK_SENSITIVITY, stream) for column in columns]
    shares = np.reshape(chosen, lower.shape) / MEDIAN_STEPS_OF_RANGE
    return Release(lower + shares * (upper - lower), event)


def rank_scores(positions: Integers) -> Integers:
    """Scores of all candidates: 0 for a median, else minus twice the excess over half on its heavier side."""
    counts = np.bincount(positions, minlength=CANDIDATES)
    at_most = np.cumsum(counts)
    below, above = at_most - counts, len(positions) - at_most
    return -np.maximum(0, 2 * np.maximum(below, above) - len(positions))


AGGREGATES: dict[str, Callable[..., Release]] = {"mean": private_mean, "median": private_median}


def sample_and_aggregate(
    data: Records,
    estimator: Callable[[Any], ArrayLike],
    *,
    parts: int,
    epsilon: float,
    lower: ArrayLike,
    upper: ArrayLike,
    aggregate: str = "mean",
    rng: Rng = None,
    **view: Unpack[View],
) -> Release:
    """A private version of ``estimator(data)``: it runs on disjoint parts, whose answers are averaged privately.

    K. Nissim, S. Raskhodnikova and A. Smith, "Smooth sensitivity and sampling in private data analysis", STOC 2007,
    section 4. Every record lies in one part, so replacing one record changes one answer, however the estimator behaves.
    The result is as good as the estimator is on n / parts records. A part on which the estimator raises, or answers
    with another number of values, a NaN or an infinity, counts as the middle of the range, and no text of an exception
    leaves. How long the estimator takes does: no protection against timing is claimed.

    Args:
        data: array whose first axis is the records, or a list or tuple of records; private, but for their number.
        estimator: function of some of the records, in the same form, that gives a number, or as many as ``lower`` and
            ``upper`` have. It must be a function of its argument alone; what it leaves in itself, in the records or in
            a random generator must not change what it answers later.
        parts: number of disjoint parts, public, from 1 to the number of records. The mean's noise is (upper - lower) /
            (parts epsilon).
        lower, upper: ends of the range of answers, to which they are clamped, as in ``bounded_mean``.
        aggregate: ``mean`` (Laplace noise) or ``median`` (exponential mechanism on 1025 candidates).
    """
    one_of("aggregate", aggregate, AGGREGATES)
    # A table that is indexed by columns, or by labels, would hand out something else than single records.
    if not isinstance(data, (np.ndarray, list, tuple)) or isinstance(data, np.ndarray) and data.ndim == 0:
        allowed = "an array, whose first axis is the records, or a list of records"
        raise InvalidArgument.of("type of data", type(data).__name__, allowed)
    whole("parts", parts, 1, len(data), f"a whole number from 1 to the {len(data)} records")
    try:
        shape = np.broadcast_shapes(np.shape(lower), np.shape(upper))
    except ValueError as error:
        raise InvalidArgument("lower and upper must have one shape, that of an answer.") from error
    lower, upper = check_range(lower, upper, shape)
    stream = open_stream(rng)
    pieces = np.array_split(random_permutation(len(data), stream), parts)
    records = (data[piece] if isinstance(data, np.ndarray) else [data[index] for index in piece] for piece in pieces)
    answers = np.stack([_answer(estimator, part, lower + (upper - lower) / 2) for part in records])
    return AGGREGATES[aggregate](answers, lower, upper, epsilon, rng=stream, **view)


def _answer(estimator: Callable[[Any], ArrayLike], records: Records, middle: Floats) -> Floats:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            # A copy: an estimator may hand out the same buffer each time, and every part would get the last answer.
            answer = np.array(estimator(records), dtype=np.float64)
    except KeyboardInterrupt:
        raise
    # What else went wrong, SystemExit included, did so because of private records: saying so would be a release.
    except BaseException:
        return middle
    return answer.reshape(middle.shape) if answer.size == middle.size else middle
