"""Does it act? For every line that a job left in a ledger: the noise that was added, beside the signal it was added to.

An epsilon says what is guaranteed, and nothing of whether the noise can be seen. Flips at epsilon 20 flip nothing; a sum over
few records drowns. What neither the ledger nor a task's summary tells is called not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from fate_dp.components.disclosure.verdicts import capitalized
from fate_dp.privacy.events import REPLACE_ONE, Unit
from fate_dp.privacy.ledger.entries import (
    COUNTED_EVENTS,
    NOT_PRIVATE,
    OVER_SAMPLING,
    PIECEWISE,
    POST_PROCESSING,
    RANDOMIZED_RESPONSE,
    RECORDERS,
)
from fate_dp.privacy.mechanisms.local_numbers import piecewise_law
from fate_dp.privacy.validation import is_finite

from .page import BLUE, GREY, ORANGE, percent, svg_drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .job_ledger import LedgerLine

NOT_KNOWN = "not known"
COUNTING = ("dp_binning", "dp_scorecard")
"""Purposes of noise on counts."""
ACTS = YES, HARDLY, NONE, OPEN = ("yes", "hardly", "no noise", NOT_KNOWN)
DEVIATION, OVER_CLIP, CLIP = "standard deviation of the noise", "noise over the clip", "clip"
MOVED = "noise over what one record moves"
AGGREGATION, LOCAL, PARTIES = "aggregation", "local", "parties with data"
RECORDS = ("records of all parties", "records of this party", "rows of this party", "rows")
WIDTH_IN_SUMMARY = "; the task's summary says how wide the noise on a statistic is"
CLEAR = 100.0
"""A signal of so many standard deviations of the noise on a single number is read as if there were none."""
SAME = 1e-3
"""Relative difference below which a summary's noise over the clip is that of a ledger line, rounded to the noise's grid."""


@dataclass(frozen=True)
class Measured:
    """What one kind of mechanism gives: ``ratio`` is signal over noise, None where one of the two is not known, or
    there is no noise; ``acts`` is one of `ACTS`; the ``sentence`` says what the numbers mean."""

    noise: str
    signal: str
    ratio: float | None
    acts: str
    sentence: str


@dataclass(frozen=True)
class Noise(Measured):
    """The same of one ledger line, by its number, of so many ``records``; None where nobody tells. One record, or
    label, moves the result of one release by at most ``moved`` standard deviations of the noise; None for other
    noise than a sum's."""

    entry_id: int
    mechanism: str
    records: float | None
    moved: float | None


Summaries = Iterable[Mapping[str, Any]]
Measure = Callable[["LedgerLine", Summaries], Measured]


def noise_of(line: LedgerLine, summaries: Summaries) -> Noise:
    """Noise and signal of a line; ``summaries`` are those of the same party's tasks of the job."""
    told, multiplier = list(summaries), _multiplier(line)
    measure = MEASURES.get(line.mechanism, _not_known)
    width = 1.0 if measure is _gaussian else math.sqrt(2) if measure is _laplace else None
    return Noise(
        **asdict(measure(line, told)),
        entry_id=line.entry_id,
        mechanism=line.mechanism,
        records=_records(line, told),
        moved=1 / (width * multiplier) if width and multiplier else None,
    )


def _flips(line: LedgerLine, summaries: Summaries) -> Measured:
    keep, classes, rows = line.parameters["keep_probability"], line.parameters["classes"], line.records
    flips = rows * (1 - keep)
    return Measured(
        f"each label flipped with probability {1 - keep:.4g}; {flips:.1f} flips expected in {rows} labels",
        f"each label kept with probability {keep:.4g}, by chance {1 / classes:.4g}",
        keep / (1 - keep) if keep < 1 else None,
        YES if flips >= 1 else HARDLY,
        "Labels are kept more often than by chance, and enough are flipped that no single one can be trusted."
        if flips >= 1
        else "Less than one flip is expected in all: the labels are as good as true.",
    )


def _numbers(line: LedgerLine, summaries: Summaries) -> Measured:
    low, high = line.parameters["bounds"]
    law = piecewise_law(float(line.epsilon), (low, high), line.parameters["bins"])
    middle, bound = np.sqrt(law.variance(np.array([(low + high) / 2, low]))).tolist()
    ratio = (high - low) / 2 / middle
    return Measured(
        f"standard deviation {middle:.4g} in the middle and {bound:.4g} at the bounds, on each number",
        f"numbers from {low:g} to {high:g}",
        ratio,
        YES if ratio < CLEAR else HARDLY,
        f"Half the range is {ratio:.3g} standard deviations of the noise on one number; a mean over n numbers has less by the "
        "square root of n.",
    )


def _gaussian(line: LedgerLine, summaries: Summaries) -> Measured:
    """Noise on sums of clipped vectors, sampled or not, on sums of labels, or on counts by bin."""
    parameters, multiplier = line.parameters, _multiplier(line)
    if not multiplier:
        return _not_known(line, summaries)
    is_of_labels = line.unit == Unit.LABEL and "sampling_probability" not in parameters
    if is_of_labels or parameters.get("purpose") in COUNTING:
        return _of_sums(line, _records(line, summaries), multiplier)
    told = _summary_of(summaries, multiplier)
    unit = "what one record moves" if MOVED in told else "the clip"
    clip, records = told.get(CLIP), _records(line, summaries)
    sigma = f" ({multiplier * clip:.4g} at clip {clip:g})" if is_finite(clip) else ""
    expected = parameters.get("batch_size") or (records and records * parameters.get("sampling_probability", 1.0))
    signal = f"a sum over about {expected:.4g} records" if expected else "a sum over an unknown number of records"
    # With aggregation local every party adds the noise to its own part, and the sum over all parties has it several times.
    parties = told.get(PARTIES, 1) if str(told.get(AGGREGATION, "")).startswith(LOCAL) else 1
    on_sum, whose = multiplier * math.sqrt(parties), f" at each of {parties} parties" if parties > 1 else ""
    which = "those on the sum of all parties" if parties > 1 else "them"
    reached = f"; all {expected:.4g} together reach at most {expected / on_sum:.3g} of {which}" if expected else ""
    return Measured(
        f"standard deviation {multiplier:.4g} times {unit}, on each coordinate{sigma}, in each of {line.rounds} releases"
        f"{whose}",
        f"{signal}{' of all parties' if parties > 1 else ''}, each of at most {unit}",
        expected / on_sum if expected else None,
        YES if multiplier >= 1 else HARDLY,
        f"One record moves a coordinate by at most {1 / multiplier:.3g} standard deviations of the noise{reached}.",
    )


def _of_sums(line: LedgerLine, records: float | None, multiplier: float) -> Measured:
    """Noise that was added once to sums in which nothing is clipped by the noise's scale: one label, or one record, moves
    them by a length that is known beforehand."""
    on, one = ("sums of labels times features", "label") if line.unit == Unit.LABEL else ("counts by bin", "record")
    return Measured(
        f"standard deviation {multiplier:.4g} times what one {one} moves, on each of the {on}, once",
        f"{on} over {records:.0f} records" if records else f"{on} over an unknown number of records",
        records / multiplier if records else None,
        YES if multiplier >= 1 else HARDLY,
        f"One replaced {one} moves all {on} together by at most {1 / multiplier:.3g} standard deviations of the noise on one of "
        "them.",
    )


def _multiplier(line: LedgerLine) -> float | None:
    """The noise over what one record moves, also of noise with a scale for each group of coordinates."""
    parameters = line.parameters
    if parameters.get("noise_multiplier"):
        return float(parameters["noise_multiplier"])
    pairs = list(zip(parameters.get("sensitivities", ()), parameters.get("sigmas", ())))
    return 1 / math.sqrt(sum((sensitivity / sigma) ** 2 for sensitivity, sigma in pairs)) if pairs else None


def _summary_of(summaries: Summaries, multiplier: float | None) -> Mapping[str, Any]:
    """What the task says of itself that added noise of this size, empty where none does."""
    for summary in summaries if multiplier else ():
        told = summary.get(OVER_CLIP, summary.get(MOVED))
        if is_finite(told) and math.isclose(float(told), multiplier or 0.0, rel_tol=SAME):
            return summary
    return {}


def _records(line: LedgerLine, summaries: Summaries) -> float | None:
    """On how many records a step was, as its task's summary says, else the ledger; counts are of all rows that a task had."""
    of_step = [_summary_of(summaries, _multiplier(line))]
    counted = list(summaries) if line.parameters.get("purpose") in COUNTING else []
    told = [each[name] for each in (*of_step, *counted) for name in RECORDS if is_finite(each.get(name))]
    return next((float(each) for each in (*told, line.records) if each), None)


def _laplace(line: LedgerLine, summaries: Summaries) -> Measured:
    """Noise on counts and other numbers; label_count tells its standard deviation and the noisy counts."""
    told = next((each for each in summaries if is_finite(each.get(DEVIATION))), None)
    if told is not None and line.parameters.get("purpose") == "label_count":
        deviation = float(told[DEVIATION])
        counts = [float(value) for name, value in told.items() if ", label " in name and is_finite(value)]
        typical = abs(median(counts)) if counts else None
        return Measured(
            f"standard deviation {deviation:.4g} on each count",
            NOT_KNOWN if typical is None else f"noisy counts of {typical:g} in the middle",
            None if typical is None else typical / deviation,
            YES if deviation >= 1 else HARDLY,
            f"One replaced record moves two counts by 1 each, {1 / deviation:.3g} standard deviations of the noise.",
        )
    scale = _multiplier(line)
    if scale:
        return Measured(
            f"standard deviation {math.sqrt(2) * scale:.4g} times what one record moves",
            NOT_KNOWN,
            None,
            YES if scale >= 1 else HARDLY,
            f"One record moves the result by at most {1 / (math.sqrt(2) * scale):.3g} standard deviations of the noise.",
        )
    return _not_known(line, summaries)


def _shuffled(line: LedgerLine, summaries: Summaries) -> Measured:
    epsilon, messages = line.parameters["epsilon0"], line.parameters["messages"]
    if line.parameters.get("randomizer") != "randomized_response":
        of_statistics = any(str(name).endswith(", standard error") for each in summaries for name in each)
        return Measured(
            f"one record's message is randomised at epsilon {epsilon:.4g}",
            f"at least {messages} shuffled messages",
            None,
            YES,
            f"The shuffle hides which message is whose{WIDTH_IN_SUMMARY if of_statistics else ''}.",
        )
    flip = 1 / (1 + math.exp(epsilon))
    return Measured(
        f"each message is wrong with probability {flip:.4g}; {messages * flip:.1f} wrong ones expected",
        f"at least {messages} shuffled messages",
        (1 - flip) / flip,
        YES if messages * flip >= 1 else HARDLY,
        "The shuffle hides which message is whose.",
    )


def _always(noise: str, signal: str, acts: str, sentence: str) -> Measure:
    return lambda line, summaries: Measured(noise, signal, None, acts, sentence)


_not_known = _always(NOT_KNOWN, NOT_KNOWN, OPEN, "Neither the ledger nor a summary says how wide the noise is.")


MEASURES: dict[str, Measure] = {
    RANDOMIZED_RESPONSE: _flips,
    PIECEWISE: _numbers,
    POST_PROCESSING: _always(
        "that of the labels it was computed from", "the same labels", YES, "Nothing new is released."
    ),
    **dict.fromkeys(
        RECORDERS, _always("none", "nothing", NONE, "Nothing is released: the party keeps what it has in any case.")
    ),
    "Shuffled": _shuffled,
    **dict.fromkeys(("Gaussian", "GroupedGaussian", "PoissonSampledGaussian", "FixedSizeSampledGaussian"), _gaussian),
    **dict.fromkeys(("PureDP", "Laplace"), _laplace),
    **dict.fromkeys(
        (*COUNTED_EVENTS, NOT_PRIVATE, OVER_SAMPLING, "NotPrivate"),
        lambda line, _: Measured("none", "exact", None, NONE, f"{capitalized(line.note)}."),
    ),
}
"""By the mechanism of a ledger line."""


def noise_picture(line: LedgerLine, noise: Noise, name: str) -> Markup:
    """Of noise on a sum its law with and without one record, of any other guarantee how sure an observer may become; nothing
    where there is no guarantee, or nothing was spent."""
    moved, epsilon = noise.moved, float(line.epsilon)
    if moved is None and not 0 < epsilon < math.inf:
        return Markup("")
    # An answer is at most so likely under the one value, and at least so unlikely under the other.
    sure = (1 + (line.delta or 0.0) * math.exp(-epsilon)) / (1 + math.exp(-epsilon))
    told = f"Whoever took one {line.unit}'s value for a coin toss can be at most {percent(min(1.0, sure))} sure of it afterwards"
    if moved is not None:
        other = "another in its place" if line.relation == REPLACE_ONE else "without it"
        told = (
            f"One release with one {line.unit}, and {other}: at most {moved:.3g} standard deviations of the noise apart"
        )

    def draw(axis: Axes) -> None:
        axis.set_yticks([])
        if moved is None:
            axis.barh([0, 0], [0.5, min(1.0, sure) - 0.5], left=[0, 0.5], color=[GREY, ORANGE])
            axis.set_xticks([0, 0.5, 1], ["0 %", "50 %, a coin toss", "100 %"])
            return
        at = np.linspace(-4, 4 + moved, 161)
        for middle, color, style in ((0.0, GREY, "--"), (moved, BLUE, "-")):
            away = np.abs(at - middle)
            law = np.exp(-math.sqrt(2) * away) if noise.mechanism in ("PureDP", "Laplace") else np.exp(-(away**2) / 2)
            axis.plot(at, law, color=color, linestyle=style)
            axis.fill_between(at, law, color=color, alpha=0.15, linewidth=0)
        axis.set_xlabel("standard deviations of the noise")

    drawing = svg_drawing(f"noise-{name}", told, (4.6, 0.9 if moved is None else 1.5), draw)
    return Markup("<figure>{}<figcaption>{}.</figcaption></figure>").format(drawing, told)
