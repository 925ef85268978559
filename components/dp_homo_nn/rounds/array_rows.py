"""A client's records in memory: what a ``Client`` asks of its rows, on arrays."""
import numpy as np

from fate_dp.privacy.mechanisms.permutation import random_permutation
from fate_dp.privacy.mechanisms.poisson_sampling import poisson_sample
from fate_dp.privacy.noise.stream import open_stream

from .private_clip import with_indicators

RECORDS_AT_ONCE = 256


class ArrayRows:
    """Features and labels of one client; everything it returns is private.

    :param features: float32 (n, m).
    :param labels: (n,).
    :param gradients: ``RecordGradients``.
    :param random: a stream; None for the operating system's entropy.
    """

    def __init__(self, features, labels, gradients, random=None):
        self.features, self.labels, self.gradients = features, labels, gradients
        self._stream = open_stream(random)

    def __len__(self):
        return len(self.features)

    @property
    def private(self):
        """Whether nobody else can repeat the samples."""
        return self._stream.private

    def gradient_sum(self, weights, clip, sampling_probability, scales=None):
        """``ClippedSum`` over a fresh Poisson sample."""
        batch = poisson_sample(len(self), sampling_probability, self._stream)
        return self.gradients.clipped_sum(weights, self.features[batch], self.labels[batch], clip, scales)

    def gradient_sum_with_indicators(self, weights, clip, sampling_probability, scales=None):
        """The same with one more coordinate (``private_clip``)."""
        batch = poisson_sample(len(self), sampling_probability, self._stream)
        return with_indicators(self._scaled_rows(weights, batch, scales), clip)

    def gradient_rows(self, weights, places, epoch, scales=None):
        """(b, d): gradients of the records at these places of the epoch's secret order."""
        return self._scaled_rows(weights, self._order_of(epoch)[places], scales)

    def update(self, weights, steps, learning_rate, batch_size=None):
        """(d,): old minus new weights after steps of plain gradient descent on this client's own records."""
        current = np.array(weights, dtype=np.float64)
        for step in range(steps):
            batch = self._next_batch(step, batch_size)
            if len(batch):
                current -= learning_rate * self._mean_gradient(current, batch)
        return weights - current

    def _next_batch(self, step, batch_size):
        size = len(self) if batch_size is None else min(batch_size, len(self))
        if size == len(self):
            return np.arange(size)
        per_pass = len(self) // size
        if step % per_pass == 0:
            self._pass_order = random_permutation(len(self), self._stream)
        start = step % per_pass * size
        return self._pass_order[start : start + size]

    def _mean_gradient(self, weights, batch):
        total = np.zeros(len(weights))
        for start in range(0, len(batch), RECORDS_AT_ONCE):
            part = batch[start : start + RECORDS_AT_ONCE]
            total += self.gradients.rows(weights, self.features[part], self.labels[part]).sum(axis=0, dtype=np.float64)
        return total / len(batch)

    def _scaled_rows(self, weights, batch, scales):
        rows = self.gradients.rows(weights, self.features[batch], self.labels[batch])
        return rows if scales is None else rows / scales

    def _order_of(self, epoch):
        if getattr(self, "_epoch", None) != epoch:
            self._epoch, self._order = epoch, random_permutation(len(self), self._stream)
        return self._order
