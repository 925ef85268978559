"""What the server makes of released sums: values of leaves, weights of columns, and the splits of the next batch.

Nothing here sees a record: sums come with their noise, so that all of this is post-processing and costs nothing.

*Values of leaves.* The sums G and H of a leaf estimate the step of its records by G / H, with variance (H + s^2) / H^2, where s
is the noise of G. Splits are random, so that many leaves hold few records, and most say little. In each tree the step of a
leaf is modelled as a sum of normal effects, one for each node on its path, with a variance for each level that the released
sums themselves tell (the moments of the differences between siblings, less what noise adds to them). A leaf's value is the
mean of that model given the sums: up the tree a node's estimate is the mean of its children's, weighted by precision, and down
the tree every node moves from its parent's value towards its own estimate as far as its precision allows. What the whole tree
says (the sum of all G over that of all H, of all trees of the batch) is taken as it is.

*Weights of columns.* A split whose sides differ by more than noise explains gains (D^2 - v) H_l H_r / (H_l + H_r), of which the
expectation is 0 where there is no difference. Of the next batch's nodes one in ten asks for any column, all alike, the others
with probabilities in proportion to the root of the mean gain that the column had so far.

Batches after the first one begin where all before ended: each is a Newton step of the logistic loss.
"""

from dataclasses import dataclass, field

import numpy as np

from fate_dp.privacy.bins import ColumnBins, TableBins

from .trees import Batch, Floats

# Of the nodes of a batch that ask for any column, all alike.
EXPLORED = 0.1


@dataclass(frozen=True)
class Released:
    """Sums by leaf (trees, leaves) with the standard deviation of their noise, in units of gradients and curvatures."""

    gradients: Floats
    curvatures: Floats
    gradient_noise: float
    curvature_noise: float


@dataclass
class Growth:
    """The server's state: how much columns have gained so far, and the stream of splits.

    ``generator`` draws the public splits, from a seed that every party knows.
    """

    bins: TableBins
    generator: np.random.Generator
    gained: Floats = field(init=False)
    asked: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.gained, self.asked = np.zeros(len(self.bins.columns)), np.zeros(len(self.bins.columns))

    @property
    def mean_gains(self) -> Floats:
        """Of each column for a node that asks for it, at least 0."""
        return np.maximum(self.gained, 0) / np.maximum(self.asked, 1)

    def probabilities(self) -> Floats:
        """Of each column to be asked for by a node of the next batch."""
        weights, alike = np.sqrt(self.mean_gains), np.full(len(self.asked), 1 / len(self.asked))
        return alike if not weights.any() else EXPLORED * alike + (1 - EXPLORED) * weights / weights.sum()

    def draw(self, trees: int, depth: int) -> Batch:
        shape = (trees, 2**depth - 1)
        columns = self.generator.choice(len(self.asked), size=shape, p=self.probabilities())
        right = np.zeros((*shape, max(column.count for column in self.bins.columns)), dtype=bool)
        for place in np.ndindex(*shape):
            column = self.bins.columns[columns[place]]
            right[place][: column.count] = bins_to_the_right(column, self.generator)
        return Batch(columns, right)

    def values(self, batch: Batch, released: Released, rate: float) -> Floats:
        """Values of the leaves (trees, leaves); the columns' gains are noted."""
        common, effects, gains = smoothed(released)
        nodes, count = batch.columns.ravel(), len(self.asked)
        self.gained += np.bincount(nodes, gains.ravel(), minlength=count)
        self.asked += np.bincount(nodes, minlength=count)
        return (common + rate * effects) / batch.trees


def bins_to_the_right(column: ColumnBins, generator: np.random.Generator) -> np.ndarray:
    """Which bins of a column a random split sends right (bins,).

    Above a random cut point, or of categories any half of them; special and missing values go either way.
    """
    if column.categories is not None:
        return generator.random(column.count) < 0.5
    ordered = column.apart_from
    right = np.arange(column.count) >= (generator.integers(1, ordered) if ordered > 1 else 1)
    right[ordered:] = generator.random(column.count - ordered) < 0.5
    return right


def smoothed(released: Released) -> tuple[float, Floats, Floats]:
    """(step of all records, effects of leaves (trees, leaves), gains of nodes (trees, nodes)); see the module's text."""
    trees, leaves = released.gradients.shape
    depth = leaves.bit_length() - 1
    common = float(released.gradients.sum() / max(released.curvatures.sum(), 1.0))
    estimates: list[Floats] = [np.zeros(0)] * (depth + 1)
    variances, weights = list(estimates), list(estimates)
    gradients, curvatures = released.gradients - common * released.curvatures, released.curvatures
    for level in range(depth, 0, -1):
        below = 2 ** (depth - level)
        # A sum of curvatures that is not above its noise tells no more than that there are few records.
        safe = np.maximum(curvatures, max(released.curvature_noise * below**0.5, 1.0))
        estimates[level], weights[level] = gradients / safe, safe
        variances[level] = (safe + released.gradient_noise**2 * below) / safe**2
        gradients, curvatures = (each.reshape(trees, -1, 2).sum(axis=2) for each in (gradients, curvatures))
    spreads, gains = np.zeros(depth + 1), np.zeros((trees, leaves - 1))
    for level in range(1, depth + 1):
        pairs, both, sides = (part[level].reshape(trees, -1, 2) for part in (estimates, variances, weights))
        excess, noise = (pairs[..., 0] - pairs[..., 1]) ** 2, both.sum(axis=2)
        spreads[level] = max(float(((excess - noise) / noise**2).sum() / (2 / noise**2).sum()), 0.0)
        half = sides.prod(axis=2) / sides.sum(axis=2)
        gains[:, 2 ** (level - 1) - 1 : 2**level - 1] = (excess - noise) * half
    for level in range(depth - 1, 0, -1):
        precision = (1 / (variances[level + 1] + spreads[level + 1])).reshape(trees, -1, 2)
        total = precision.sum(axis=2)
        estimates[level] = (precision * estimates[level + 1].reshape(trees, -1, 2)).sum(axis=2) / total
        variances[level] = 1 / total
    effects = np.zeros((trees, 1))
    for level in range(1, depth + 1):
        above = np.repeat(effects, 2, axis=1)
        effects = above + spreads[level] / (spreads[level] + variances[level]) * (estimates[level] - above)
    return common, effects, gains
