"""A party's rows as blocks of FATE's table: what a ``rounds.client.Client`` asks of them, computed where the blocks lie.

The kernels are pure functions of blocks, weights and a key. The coins of a sum are a function of that key, which the
party draws once per task, of a number that no two sums share and of the block: an engine that loses a partition
computes the same batch again. Noise is not drawn here, but at the driver, once, after the sums of all blocks were added.
"""

import operator
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fate_dp.privacy.mechanisms.clipping import ClippedSum, grid_for
from fate_dp.privacy.mechanisms.sampling import poisson_sample
from fate_dp.privacy.noise.stream import KEY_BYTES, KeyedStream

from ..common.frames import DataFrame, feature_blocks, label_blocks
from ..common.units import Units
from ..protocols.noisy_rounds.contribution import joint_clip, with_indicators
from .models.registry import ModelSource, model_inputs
from .models.spec import ModelSpec, load_flat
from .relevance import group_sums
from .rounds.client import Scales, SecretOrders

# On FATE's standalone engine a round costs some 10 ms a partition, whatever is in it.
ROWS_PER_PARTITION = 2048
# Per-record gradients of so many records are in memory at once.
RECORDS_AT_ONCE = 256

Block = tuple[np.ndarray, np.ndarray]
"""(features, labels)."""
Blocks = Iterable[tuple[Any, Block]]
"""(name, block) of one partition."""
Places = dict[Any, tuple[np.ndarray, np.ndarray]]
"""{block: (positions among the records asked for, rows of the block)}."""
StepsOf = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Of (features, labels) of a sample of one block: int64 steps."""


@dataclass(frozen=True)
class Coins:
    """Which records of a block take part in one sum of a task; a function of all three and of the block's name."""

    key: bytes = field(repr=False)
    label: str
    probability: float

    def batch(self, block: object, records: int) -> np.ndarray:
        """Positions of a Poisson sample, named by the block, since partitions may be cut anew."""
        return poisson_sample(records, self.probability, KeyedStream(self.key, f"{self.label} block {block}"))


@dataclass(frozen=True)
class ModelAt:
    """The model at some weights, as workers compute with it."""

    source: ModelSource
    weights: np.ndarray
    scales: Scales = None

    def rows(self, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """float32 (n, d): gradients, divided by the scales."""
        rows = self.source.gradients().rows(self.weights, features, labels)
        return rows if self.scales is None else rows / self.scales

    def clipped_steps(self, features: np.ndarray, labels: np.ndarray, clip: float) -> np.ndarray:
        return self.source.gradients().clipped_sum(self.weights, features, labels, clip, self.scales).steps

    def steps_with_indicators(self, features: np.ndarray, labels: np.ndarray, clip: float) -> np.ndarray:
        # Every record is rounded on its own here, so parts add up to the same steps however they are cut.
        spans = [slice(start, start + RECORDS_AT_ONCE) for start in range(0, max(1, len(labels)), RECORDS_AT_ONCE)]
        rows = (self.rows(features[span], labels[span]) for span in spans)
        return sum((with_indicators(part, clip).steps for part in rows), start=np.zeros((), dtype=np.int64))


class FrameRows:
    """The rows of one party, with labels 0 .. classes - 1; what its methods return is private."""

    #: Nobody else can repeat the samples: the key comes from the operating system's entropy and stays here.
    private = True

    def __init__(self, frame: DataFrame, source: ModelSource, units: Units) -> None:
        self._source, self._key, self._rows = source, os.urandom(KEY_BYTES), frame.shape[0]
        prepared = feature_blocks(frame).join(label_blocks(frame), partial(_prepared, spec=source.spec(), units=units))
        self._blocks = prepared.repartition(max(1, min(prepared.num_partitions, -(-self._rows // ROWS_PER_PARTITION))))
        self._sizes = sorted(self._blocks.mapValues(lambda block: len(block[1])).collect())
        self._uses, self._orders = 0, SecretOrders(self._rows)

    def __len__(self) -> int:
        return self._rows

    def gradient_sum(
        self, weights: np.ndarray, clip: float, probability: float, scales: Scales = None, indicators: bool = False
    ) -> ClippedSum:
        """Sum over a new Poisson batch of the records' gradients, divided by ``scales``, each clipped to ``clip``."""
        model = ModelAt(self._source, weights, scales)
        steps_of = partial(model.steps_with_indicators if indicators else model.clipped_steps, clip=clip)
        steps = self._sampled_sum(steps_of, len(weights) + indicators, probability)
        bound = joint_clip(clip) if indicators else clip
        return ClippedSum(steps, grid_for(bound), bound)

    def gradient_rows(self, weights: np.ndarray, places: np.ndarray, epoch: int, scales: Scales = None) -> np.ndarray:
        """float32 (b, d): gradients of the records at these places of the epoch's secret order."""
        chosen = self._by_block(self._orders.of_epoch(epoch)[places])
        kernel = partial(_rows_of_chosen, model=ModelAt(self._source, weights, scales), chosen=chosen)
        rows = np.zeros((len(places), len(weights)), dtype=np.float32)
        for _, parts in self._blocks.applyPartitions(kernel).collect():
            for at, part in parts:
                rows[at] = part
        return rows

    def update(self, weights: np.ndarray, steps: int, rate: float, batch_size: int | None = None) -> np.ndarray:
        """float64 (d,): old minus new weights after steps of plain gradient descent on this party's own rows."""
        current, size = np.array(weights, dtype=np.float64), min(batch_size or self._rows, self._rows)
        for step in range(steps):
            chosen = None if size == self._rows else self._by_block(self._orders.batch(step, size))
            kernel = partial(_plain_sum, model=ModelAt(self._source, current), chosen=chosen)
            current -= rate * self._blocks.applyPartitions(kernel).reduce(operator.add) / size
        return weights - current

    def contribution_sums(self, weights: np.ndarray) -> np.ndarray:
        """int64 (G,): contributions of the groups of the first layer to the model at these weights, over all rows."""
        kernel = partial(_contribution_sums, source=self._source, weights=weights)
        return self._blocks.applyPartitions(kernel).reduce(operator.add)

    def _sampled_sum(self, steps_of: StepsOf, size: int, probability: float) -> np.ndarray:
        self._uses += 1
        coins = Coins(self._key, f"sum {self._uses}", probability)
        kernel = partial(_sum_of_sample, steps_of=steps_of, size=size, coins=coins)
        return self._blocks.applyPartitions(kernel).reduce(operator.add)

    def _by_block(self, records: np.ndarray) -> Places:
        places, start = {}, 0
        for block, size in self._sizes:
            at = np.flatnonzero((records >= start) & (records < start + size))
            if len(at):
                places[block] = (at, records[at] - start)
            start += size
        return places


def _prepared(features: np.ndarray, labels: np.ndarray, spec: ModelSpec, units: Units) -> Block:
    return model_inputs(spec, units.applied(features)), labels.astype(np.int64)


def _sum_of_sample(blocks: Blocks, steps_of: StepsOf, size: int, coins: Coins) -> np.ndarray:
    """Steps (size,) of one partition."""
    total = np.zeros(size, dtype=np.int64)
    for name, (features, labels) in blocks:
        batch = coins.batch(name, len(labels))
        # Not cut any further: where it is cut depends on who is in the batch, and every part is rounded on its own.
        total += steps_of(features[batch], labels[batch])
    return total


def _rows_of_chosen(blocks: Blocks, model: ModelAt, chosen: Places) -> list[tuple[np.ndarray, np.ndarray]]:
    """[(positions, rows)] of one partition."""
    found = []
    for name, (features, labels) in blocks:
        if name in chosen:
            positions, at = chosen[name]
            found.append((positions, model.rows(features[at], labels[at])))
    return found


def _plain_sum(blocks: Blocks, model: ModelAt, chosen: Places | None) -> np.ndarray:
    """Sum (d,) of the gradients of the chosen rows of one partition; None means all."""
    total = np.zeros(len(model.weights))
    for name, (features, labels) in blocks:
        batch = np.arange(len(labels)) if chosen is None else chosen.get(name, (None, np.arange(0)))[1]
        for start in range(0, len(batch), RECORDS_AT_ONCE):
            part = batch[start : start + RECORDS_AT_ONCE]
            total += model.rows(features[part], labels[part]).sum(axis=0, dtype=np.float64)
    return total


def _contribution_sums(blocks: Blocks, source: ModelSource, weights: np.ndarray) -> np.ndarray:
    module = source.module()
    load_flat(module, weights)
    return sum((group_sums(module, features) for _, (features, _) in blocks), start=np.zeros((), dtype=np.int64))
