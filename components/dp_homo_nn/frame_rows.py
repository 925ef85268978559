"""A party's rows as blocks of FATE's table: what a ``rounds.client.Client`` asks of them, computed where the blocks lie.

The kernels are pure functions of blocks, weights and a key. The coins of a sum are a function of that key, which the
party draws once per task, of a number that no two sums share and of the block: an engine that loses a partition
computes the same batch again. Noise is not drawn here, but at the driver, once, after the sums of all blocks were added.
"""
import operator
import os
from functools import partial
from typing import Optional

import numpy as np

from fate_dp.components.common.frames import feature_blocks, label_blocks
from fate_dp.privacy.mechanisms.clipping import ClippedSum, grid_for
from fate_dp.privacy.mechanisms.permutation import random_permutation
from fate_dp.privacy.mechanisms.poisson_sampling import poisson_sample
from fate_dp.privacy.noise.stream import KEY_BYTES, KeyedStream

from .job_model import ModelSource
from .rounds.private_clip import joint_clip, with_indicators

# On FATE's standalone engine a round costs some 10 ms a partition, whatever is in it.
ROWS_PER_PARTITION = 2048
# Per-record gradients of so many records are in memory at once.
RECORDS_AT_ONCE = 256


class FrameRows:
    """The rows of one party; what its methods return is private.

    :param frame: FATE DataFrame with labels 0 .. classes - 1.
    :param source: the model.
    :param key: 32 secret bytes; drawn here if not given.
    """

    #: Nobody else can repeat the samples: the key comes from the operating system's entropy and stays here.
    private = True

    def __init__(self, frame, source: ModelSource, key: Optional[bytes] = None):
        self._source, self._key, self._rows = source, os.urandom(KEY_BYTES) if key is None else key, frame.shape[0]
        prepared = feature_blocks(frame).join(label_blocks(frame), partial(_prepared, spec=source.spec()))
        self._blocks = prepared.repartition(max(1, min(prepared.num_partitions, -(-self._rows // ROWS_PER_PARTITION))))
        self._sizes = sorted(self._blocks.mapValues(_size).collect())
        self._uses, self._epoch, self._order = 0, None, None

    def __len__(self):
        return self._rows

    def gradient_sum(self, weights, clip, sampling_probability, scales=None) -> ClippedSum:
        """Sum over a new Poisson batch of the records' gradients, divided by ``scales``, each clipped to ``clip``."""
        steps = self._sampled_sum(_clipped_steps, len(weights), weights, clip, sampling_probability, scales)
        return ClippedSum(steps, grid_for(clip), clip)

    def gradient_sum_with_indicators(self, weights, clip, sampling_probability, scales=None) -> ClippedSum:
        """The same with one more coordinate (``rounds.private_clip``)."""
        steps = self._sampled_sum(_steps_with_indicators, len(weights) + 1, weights, clip, sampling_probability, scales)
        return ClippedSum(steps, grid_for(joint_clip(clip)), joint_clip(clip))

    def gradient_rows(self, weights, places, epoch, scales=None) -> np.ndarray:
        """float32 (b, d): gradients of the records at these places of the epoch's secret order."""
        if self._epoch != epoch:
            self._epoch, self._order = epoch, random_permutation(self._rows)
        chosen = self._by_block(self._order[places])
        kernel = partial(_rows_of_chosen, source=self._source, weights=weights, chosen=chosen, scales=scales)
        rows = np.zeros((len(places), len(weights)), dtype=np.float32)
        for _, parts in self._blocks.applyPartitions(kernel).collect():
            for at, part in parts:
                rows[at] = part
        return rows

    def update(self, weights, steps, learning_rate, batch_size=None) -> np.ndarray:
        """float64 (d,): old minus new weights after steps of plain gradient descent on this party's own rows."""
        current, size = np.array(weights, dtype=np.float64), min(batch_size or self._rows, self._rows)
        for step in range(steps):
            chosen = None if size == self._rows else self._by_block(self._next_batch(step, size))
            kernel = partial(_plain_sum, source=self._source, weights=current, chosen=chosen)
            current -= learning_rate * self._blocks.applyPartitions(kernel).reduce(operator.add) / size
        return weights - current

    def contribution_sums(self, weights) -> np.ndarray:
        """int64 (G,): contributions of the groups of the first layer to the model at these weights, over all rows."""
        kernel = partial(_contribution_sums, source=self._source, weights=weights)
        return self._blocks.applyPartitions(kernel).reduce(operator.add)

    def _sampled_sum(self, steps_of, size, weights, clip, probability, scales):
        self._uses += 1
        kernel = partial(
            _sum_of_sample, steps_of=steps_of, size=size, source=self._source, weights=weights, clip=clip, scales=scales,
            probability=probability, key=self._key, label=f"sum {self._uses}",
        )  # fmt: skip
        return self._blocks.applyPartitions(kernel).reduce(operator.add)

    def _next_batch(self, step, size):
        per_pass = self._rows // size
        if step % per_pass == 0:
            self._pass_order = random_permutation(self._rows)
        start = step % per_pass * size
        return self._pass_order[start : start + size]

    def _by_block(self, records) -> dict:
        """{block: (positions in ``records``, rows of the block)} of global row numbers."""
        places, start = {}, 0
        for block, size in self._sizes:
            at = np.flatnonzero((records >= start) & (records < start + size))
            if len(at):
                places[block] = (at, records[at] - start)
            start += size
        return places


def _prepared(features, labels, spec):
    from .models.scattering_linear import model_inputs

    return model_inputs(spec, features), labels.astype(np.int64)


def _size(block):
    return len(block[1])


def _sum_of_sample(blocks, steps_of, size, source, weights, clip, scales, probability, key, label):
    """Steps (size,) of one partition."""
    total = np.zeros(size, dtype=np.int64)
    for name, (features, labels) in blocks:
        # Named by the block, since partitions may be cut anew.
        batch = poisson_sample(len(labels), probability, KeyedStream(key, f"{label} block {name}"))
        # Not cut any further: where it is cut depends on who is in the batch, and every part is rounded on its own.
        total += steps_of(source.gradients(), weights, features[batch], labels[batch], clip, scales)
    return total


def _clipped_steps(gradients, weights, features, labels, clip, scales):
    return gradients.clipped_sum(weights, features, labels, clip, scales).steps


def _steps_with_indicators(gradients, weights, features, labels, clip, scales):
    # Every record is rounded on its own here, so parts add up to the same steps however they are cut.
    spans = [slice(start, start + RECORDS_AT_ONCE) for start in range(0, max(1, len(labels)), RECORDS_AT_ONCE)]
    rows = (_scaled_rows(gradients, weights, features[span], labels[span], scales) for span in spans)
    return sum(with_indicators(part, clip).steps for part in rows)


def _rows_of_chosen(blocks, source, weights, chosen, scales):
    """[(positions, rows)] of one partition."""
    return [
        (chosen[name][0], _scaled_rows(source.gradients(), weights, *(part[chosen[name][1]] for part in block), scales))
        for name, block in blocks
        if name in chosen
    ]


def _plain_sum(blocks, source, weights, chosen):
    """Sum (d,) of the gradients of the chosen rows of one partition; None means all."""
    total = np.zeros(len(weights))
    for name, (features, labels) in blocks:
        batch = np.arange(len(labels)) if chosen is None else chosen.get(name, (None, np.arange(0)))[1]
        for start in range(0, len(batch), RECORDS_AT_ONCE):
            part = batch[start : start + RECORDS_AT_ONCE]
            total += source.gradients().rows(weights, features[part], labels[part]).sum(axis=0, dtype=np.float64)
    return total


def _contribution_sums(blocks, source, weights):
    from .models.weights import load_flat
    from .relevance.contributions import group_sums

    module = source.module()
    load_flat(module, weights)
    return sum(group_sums(module, features) for _, (features, _) in blocks)


def _scaled_rows(gradients, weights, features, labels, scales):
    rows = gradients.rows(weights, features, labels)
    return rows if scales is None else rows / scales
