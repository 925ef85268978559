"""Labels out of losses, and another party's columns out of joint scores: what exact numbers tell that look like summaries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.attack_methods.label_views import JointScoreView, LossView, ScoreReleasesView, require
from fate_dp.attacks.label_ciphertexts import UNREAD
from fate_dp.privacy.validation import InvalidArgument, whole

from .label_gradients import subset_of_sums

Array = NDArray[np.float64]

MAX_COLUMNS = 8
"""Binary columns that are searched for: every row is looked up among the sums of all subsets of their steps."""
NEAR, APART = 64, 4096
"""Differences that recur lie within 64 steps of the grid; two columns' steps differ by more than 4096."""
TRIED = 200
"""Of the most frequent differences."""


def labels_from_losses(view: LossView) -> Array:
    """Labels (rows,) from exact mean log losses of scores that are known; all `UNREAD` where none fit.

    *Paper:* A. Aggarwal et al., "Label inference attacks from log-loss scores", ICML 2021 [Aggarwal2021]. There scores are chosen so
    that one loss tells all labels by its digits; here scores are given ones, a loss is a sum of them over the records of
    label 1 and a known number, and lattice reduction finds the records (`label_gradients.subset_of_sums`).

    *Threat model:* whoever knows the scores of at most 64 records and receives their mean loss: a party that evaluates its
    own model on another's labels, or a host at a start that it knows. *Cost:* below a second for 30 records. *What it cannot
    do:* work with rounded losses: one to 2^-16 holds some 16 bits, so that 30 labels need several evaluations of different
    scores, and thousands of records hide each other.
    """
    view = require(view, LossView, "Reading losses")
    rows = view.scores.shape[1]
    sums = np.logaddexp(0.0, view.scores).sum(axis=1) - rows * view.losses
    return subset_of_sums(view.scores, sums, rows * view.error, "Reading losses")


def column_steps(view: JointScoreView, columns: int = MAX_COLUMNS) -> list[float]:
    """The steps that binary columns of the other party make in the scores: the differences that recur most, no sums of others.

    *Where it comes from:* docs/cryptography.md, joint scores; the same arithmetic as a search for the generators of a lattice.

    *Threat model:* a guest that sees a host's part of the scores, exact or on a known grid, of records whose columns at the host
    take two values each. *Cost:* the differences of all pairs of different scores. *What it cannot do:* work on scores that
    are rounded at random to a grid coarser than the columns' steps are apart, nor with a column of many values among them.

    Args:
        columns: how many are searched for, at most 8.
    """
    view = require(view, JointScoreView, "Searching steps")
    wanted = whole("columns", columns, 1, MAX_COLUMNS)
    distinct = np.unique(np.round(view.scores / view.step).astype(np.int64))
    differences = np.sort((distinct[None, :] - distinct[:, None])[np.triu_indices(len(distinct), 1)])
    starts = np.flatnonzero(np.diff(differences, prepend=-1000) > NEAR)
    sizes, found, sums = np.diff([*starts, len(differences)]), [], np.zeros(1, dtype=np.int64)
    for at in np.argsort(-sizes, kind="stable")[:TRIED]:
        step = int(differences[starts[at]])
        if np.abs(sums - step).min() > APART:
            found.append(step * view.step)
            sums = np.unique(np.concatenate([sums, sums + step, sums - step]))
        if len(found) == wanted:
            break
    return found


def column_values(view: JointScoreView, columns: int = MAX_COLUMNS) -> Array:
    """(rows, found columns) which value each column has, 1 for the one of larger score; `UNREAD` rows fit no values.

    A row's score above the lowest one is the sum of the steps of its columns, if some row has the value of smaller score in
    every column. Threat model, cost and limits are those of `column_steps`.
    """
    steps = np.array(column_steps(view, columns))
    if not len(steps):
        return np.full((len(view.scores), 0), UNREAD)
    patterns = (np.arange(2 ** len(steps))[:, None] >> np.arange(len(steps))) & 1
    sums = patterns @ steps
    order = np.argsort(sums)
    above = view.scores - view.scores.min()
    places = np.clip(np.searchsorted(sums[order], above), 1, len(sums) - 1)
    places -= above - sums[order][places - 1] < sums[order][places] - above
    found: Array = patterns[order][places].astype(np.float64)
    found[np.abs(sums[order][places] - above) > APART * view.step] = UNREAD
    return found


def columns_by_releases(view: ScoreReleasesView) -> Array:
    """The other party's columns (rows, columns) of all records, from several releases of its part of the scores.

    *Where it comes from:* docs/cryptography.md, joint scores: every release is one linear equation for each column and record, so
    as many releases with different weights as there are columns determine these up to a square matrix, which a few known
    records give. It is least squares of the known columns on the scores and a constant.

    *Threat model:* a guest that sees a host's part of the scores in several rounds or jobs, and knows the host's columns of more
    records than there are releases. *Cost:* one regression. *What it cannot do:* tell columns apart that fewer releases than
    columns leave together, which is why hosts cap releases; read behind rounding what is smaller than its step.

    Raises:
        InvalidArgument: fewer records are known than there are unknown numbers for a column.
    """
    view = require(view, ScoreReleasesView, "Solving for columns")
    equations = np.column_stack([np.ones(len(view.scores)), view.scores])
    if len(view.known) < equations.shape[1]:
        raise InvalidArgument(
            f"Solving for columns from {view.scores.shape[1]} releases needs {equations.shape[1]} known records but the view has "
            f"{len(view.known)}."
        )
    found: Array = equations @ np.linalg.lstsq(equations[view.known], view.known_columns, rcond=None)[0]
    return found
