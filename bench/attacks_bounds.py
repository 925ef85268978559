"""Every share that an attack reached beside the largest one that epsilon allows: one table for labels and for members.

A share beats its bound where the lower end of its interval lies above it. Attacks that read a flip in full reach their bound,
and fall above it by chance as often as below; so the intervals of shares of labels are wide enough for all lines together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.attacks_membership import RATES
from bench.attacks_membership import Line as MemberLine
from bench.attacks_page import Section
from bench.attacks_trials import Figure, Line
from fate_dp.attacks.of_views import Interval
from fate_dp.pipelines.jobs.text_tables import TextTable
from fate_dp.privacy.auditing.bounds import clopper_pearson

TITLE = "Every share beside what epsilon allows"
HEADINGS = ("figure", "attack", "defence", "found", "at least", "allowed", "beyond")
ERROR = 1e-3
"""Of all shares of labels together: how probable it is that one is said to be beyond its bound and is not."""
NOTE = (
    "At least: the lower end of an interval; that of labels holds for all lines of the table together with 99.9 %, that of members is "
    "a bootstrap over targets, of 95 %. Allowed: in expectation, by the epsilon of the flips, or by all pairs of epsilon and delta of "
    "the training. Of pictures, of cells of rows and of a class's pictures no such bound is known here, so they are not in this table."
)


@dataclass(frozen=True)
class Bounded:
    """A share, the least that it is with confidence, and the most that is allowed."""

    figure: str
    attack: str
    defence: str
    found: float
    least: float
    allowed: float

    @property
    def beyond(self) -> bool:
        """Whether it beats the bound, with confidence."""
        return self.least > self.allowed


def bounded(labels: Sequence[Line], members: Mapping[str, Sequence[MemberLine]]) -> list[Bounded]:
    """Of all attacks on something that an epsilon protects."""
    protected = [line for line in labels if line.bound is not None and line.bound < 1.0]
    found = []
    for line in protected:
        right, count = round(line.values.sum()), len(line.values)
        least = float(clopper_pearson([right], count, ERROR / len(protected))[0][0])
        result = line.result
        found.append(
            Bounded(f"labels, {line.model}", result.attack, result.defence, result.value, least, line.bound or 1.0)
        )
    for title, lines in members.items():
        for each in lines:
            for rate, result, allowed in zip(RATES, each.results, each.tight):
                if allowed < 1.0:
                    name = f"{title} at {rate:.1%} false positives"
                    low = result.interval.low
                    found.append(Bounded(name, result.attack, result.defence, result.value, low, allowed))
    return found


def section_of_bounds(found: Sequence[Bounded]) -> Section:
    """The table, for the page."""
    rows = tuple(
        (
            *(each.figure, each.attack, each.defence),
            *(f"{share:.4f}" for share in (each.found, each.least, each.allowed)),
            "yes" if each.beyond else "no",
        )
        for each in found
    )
    return Section(TITLE, TextTable(HEADINGS, rows, frozenset(HEADINGS[3:6])), (), (), (), NOTE)


def beyond_bounds(found: Sequence[Bounded]) -> Figure:
    """How many shares beat their bound, with confidence: none may."""
    count = float(sum(each.beyond for each in found))
    words = f"of {len(found)} shares of labels and members beat what epsilon allows, with confidence"
    return Figure("beyond_bounds", count, Interval(count, count, "a count"), words)
