"""The rules that make synthetic rows from the smaller class: "smotenc", "smotenc_parents" and "smote".

All search neighbours in units of each column's standard deviation over all rows of the table, and give back the
synthetic rows in the table's own units with the influence of every real row of the smaller class.
"""
from __future__ import annotations

import numpy as np

from .influence import influence_of_parents, influence_of_voters


class NotForThisMethod(ValueError):
    """Columns that a method of over-sampling is not made for."""


def smote(features, minority, groups, neighbours, random) -> tuple[np.ndarray, np.ndarray]:
    """Interpolate every column alike, one-hot too, whatever `groups`; `minority` (n,) marks the smaller class."""
    from .smote_draws import draw

    drawn = draw(in_own_units(features), minority, neighbours, random)
    return drawn.interpolate(features[minority]), influence_of_parents(drawn.firsts, drawn.seconds, int(minority.sum()))


def smotenc(features, minority, groups, neighbours, random) -> tuple[np.ndarray, np.ndarray]:
    """Interpolate numbers; each one-hot group takes its most frequent category among the first parent's neighbours.

    Equal votes are decided by chance. Frequent categories become more frequent in the smaller class than they are.
    """
    drawn = draw_among_categories(features, minority, groups, neighbours, random)
    made = categorised(features[minority], drawn, groups, lambda real: voted(real, drawn, random))
    return made, influence_of_voters(drawn.firsts, drawn.neighbours)


def smotenc_parents(features, minority, groups, neighbours, random) -> tuple[np.ndarray, np.ndarray]:
    """As smotenc, but each one-hot group takes the category of one parent, the likelier the nearer the row lies to it.

    A category then becomes no more frequent than it is among the parents (Torgo 2010, chapter 4, draws a parent for
    each nominal attribute, too).
    """
    drawn = draw_among_categories(features, minority, groups, neighbours, random)
    made = categorised(features[minority], drawn, groups, lambda real: inherited(real, drawn, random))
    return made, influence_of_parents(drawn.firsts, drawn.seconds, int(minority.sum()))


def draw_among_categories(features, minority, groups, neighbours, random):
    """Draw pairs of rows that are near in numbers and categories.

    Two different categories lie as far apart as the median of the smaller class's standard deviations, as Chawla et al.
    have it: each one-hot column is worth that median over the square root of 2.
    """
    from .smote_draws import draw

    one_hot = [column for group in groups for column in group]
    numeric = number_columns(features.shape[1], groups)
    if not one_hot or not len(numeric):
        raise NotForThisMethod(
            f"{' and '.join(KEEP_CATEGORIES)} need number columns and one-hot groups, but here are {len(numeric)} and "
            f"{len(groups)}; smote does without."
        )
    positions = np.hstack([in_own_units(features[:, numeric]), features[:, one_hot]])
    positions[:, len(numeric):] *= np.median(positions[minority, : len(numeric)].std(axis=0)) / np.sqrt(2)
    return draw(positions, minority, neighbours, random)


def categorised(real: np.ndarray, drawn, groups, category) -> np.ndarray:
    """Synthetic rows between `real` ones (minority rows, m); `category` makes a group's one-hots from the real ones."""
    made = np.zeros((len(drawn.firsts), real.shape[1]))
    numeric = number_columns(real.shape[1], groups)
    made[:, numeric] = drawn.interpolate(real[:, numeric])
    for group in groups:
        made[:, group] = category(real[:, group])
    return made


def number_columns(count: int, groups) -> np.ndarray:
    """The positions among `count` columns that are in no group."""
    return np.setdiff1d(np.arange(count), [column for group in groups for column in group])


def voted(categories: np.ndarray, drawn, random: np.random.RandomState) -> np.ndarray:
    """One-hot rows (draws, categories) of the most frequent category among the first parent's neighbours."""
    votes = categories[drawn.neighbours].sum(axis=1)[drawn.firsts]
    # Votes are whole numbers: less than one half decides between equal ones and overturns nothing.
    winners = np.argmax(votes + random.uniform(0, 0.5, size=votes.shape), axis=1)
    return np.eye(categories.shape[1])[winners]


def inherited(categories: np.ndarray, drawn, random: np.random.RandomState) -> np.ndarray:
    """One-hot rows (draws, categories) of the second parent with probability `steps`, else of the first."""
    second = random.uniform(size=len(drawn.firsts)) < drawn.steps.ravel()
    return categories[np.where(second, drawn.seconds, drawn.firsts)]


def in_own_units(features: np.ndarray) -> np.ndarray:
    """Each column less its mean, over its standard deviation; a constant column stays constant."""
    deviation = features.std(axis=0)
    # Not in constant columns alone: the squares of tiny differences vanish too.
    deviation[deviation == 0] = 1.0
    return (features - features.mean(axis=0)) / deviation


KEEP_CATEGORIES = ("smotenc", "smotenc_parents")
METHODS = {"smotenc": smotenc, "smotenc_parents": smotenc_parents, "smote": smote}
