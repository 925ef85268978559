"""Per-record gradients of a torch module, and their clipped sums.

What one record contributes is a function of that record alone, to the last bit. There are two ways to that:

- *Sequences of known layers* (dense, convolution, pooling, tanh, ReLU and what only moves numbers; `record_layers`) are
  computed in blocks of records, in an arithmetic that gives the same bits in whatever company (`record_arithmetic`).
- *All other modules* go through ``torch.autograd`` with one record at a time and one thread: no call of a library sees
  two records, and all calls have the same shapes, in memory that torch aligns to 64 bytes. That a library gives the
  same bits for the same bytes is what is assumed then.

A training checks both on its own shapes before it reads a record, and refuses where they do not hold.
"""
from copy import deepcopy

import numpy as np
import torch

from fate_dp.components.common import checks
from fate_dp.components.dp_homo_nn.clipped_parts import MOST_AT_ONCE, PartsSum, Rows
from fate_dp.components.dp_homo_nn.independence import check_independent
from fate_dp.components.dp_homo_nn.losses import LOSSES, factors_of, predictions, slopes
from fate_dp.components.dp_homo_nn.models.spec import InvalidModel
from fate_dp.components.dp_homo_nn.models.weights import dimension, load_flat
from fate_dp.components.dp_homo_nn.record_arithmetic import UnsoundArithmetic, one_thread
from fate_dp.components.dp_homo_nn.record_layers import LayeredModule
from fate_dp.privacy.mechanisms.clipping import (
    MOST_RECORDS,
    ClippedGroups,
    ClippedSum,
    InvalidGradients,
    clip_records_by_group,
)

OUTPUTS_AT_ONCE = 256
# What two ways of computing one float32 gradient may differ by, relative to its largest entry.
TOLERANCE = 1e-3
PROBES = 5


class RecordGradients:
    """Gradients of the loss of single records at given weights. Not for several threads at once.

    :param module: ``torch.nn.Module`` from float32 (n, m) to (n, outputs); a copy of it is used, in evaluation mode.
    :param loss: 'cross_entropy' or 'mse_loss', see `losses`.
    :param class_factors: public factor of a record's gradient for each class, or None. They come before the clip, so no
        bound on what a record changes depends on them; a label that is no class number contributes zero then.
    :raises ValueError: one sentence, for an unknown loss or a module whose records are not independent.
    """

    def __init__(self, module, loss="cross_entropy", class_factors=None):
        self.loss = checks.choice("loss", loss, tuple(LOSSES))
        check_independent(module)
        self._module = deepcopy(module).eval().requires_grad_()
        self._layered = None
        self._probed = None
        self._class_factors = None if class_factors is None else torch.tensor(class_factors, dtype=torch.float64)
        self.dimension = dimension(module)

    def clipped_sum(self, weights, features, labels, clip, scales=None):
        """Sum of the records' gradients, each divided by ``scales`` if given, then clipped to l2 norm ``clip``.

        :param weights: (d,), real numbers. :param features: (n, m). :param labels: (n,), class numbers or targets.
        :param clip: public, from 1e-150 to 1e150. :param scales: (d,), positive, public or already released.
        :returns: ``ClippedSum``, exact and in the unit of the clip; its ``sensitivity`` is proved in `clipped_parts`.
            A record with a NaN or an infinity contributes zero; no record gives zeros.
        :raises InvalidGradients, InvalidClip, InvalidWeights: one sentence; never because of a record's values.
        :raises UnsoundArithmetic: one sentence.
        """
        total = PartsSum(self.dimension, clip)
        scales = None if scales is None else self._checked_scales(scales)
        for parts in self._blocks(weights, features, labels):
            if scales is not None:
                parts = [part.divided(scales[part.start : part.start + part.count]) for part in parts]
            total.add(parts)
        return total.total()

    def clipped_groups(self, weights, features, labels, groups, clips):
        """Sum of the records' gradients, each group of coordinates of each record clipped on its own.

        :param groups: per group an index array or a slice of coordinates; together they hold every one exactly once.
        :param clips: one public clip per group.
        :returns: ``ClippedGroups``; a record with a NaN or an infinity contributes zero to every group.
        """
        total = clip_records_by_group(np.zeros((0, self.dimension)), groups, clips)
        for parts in self._blocks(weights, features, labels):
            total = _added(total, clip_records_by_group(self._joined(parts), groups, clips))
        return total

    def rows(self, weights, features, labels):
        """Per-record gradients, float32 (n, d), in the order of the flat weights; neither clipped nor checked."""
        rows = [self._joined(parts) for parts in self._blocks(weights, features, labels)]
        return np.concatenate(rows) if rows else np.zeros((0, self.dimension), dtype=np.float32)

    def losses(self, weights, features, labels):
        """Loss per record without class factors, float64 (n,); private."""
        features, labels = _checked_records(features, labels)
        return LOSSES[self.loss](self._outputs(weights, features), labels).double().numpy()

    def scores(self, weights, features):
        """Probabilities of the classes, float64 (n, k); for 'mse_loss' the predictions (n, 1)."""
        features, _ = _checked_records(features, np.zeros(len(features)))
        return predictions(self.loss, self._outputs(weights, features).double()).numpy()

    def _outputs(self, weights, features):
        load_flat(self._module, weights)
        with torch.no_grad():
            return torch.cat([self._module(block) for block in features.split(OUTPUTS_AT_ONCE)])

    def _blocks(self, weights, features, labels):
        """The parts of the gradients, block by block."""
        features, labels = _checked_records(features, labels)
        self._probe(features.shape[1:])
        self._load(weights)
        block = MOST_AT_ONCE if self._layered is None else self._layered.block
        for start in range(0, len(features), block):
            yield self._parts(features[start : start + block], labels[start : start + block])

    def _load(self, weights):
        load_flat(self._module, weights)
        if self._layered is not None:
            self._layered.load()

    def _parts(self, features, labels):
        usable, factors = torch.isfinite(features).flatten(1).all(1), self._factors(labels)
        if self._layered is None:
            return [Rows.of(0, self._one_by_one(features, labels, usable) * factors)]
        records = torch.where(usable.view(-1, *[1] * (features.dim() - 1)), features, 0.0).double()
        found = slopes(self.loss, self._layered.outputs(records), labels)
        return self._layered.parts(torch.where(usable.unsqueeze(1), found * factors, 0.0))

    def _factors(self, labels):
        """float64 (n, 1): what each record's gradient is multiplied by, a function of its own label."""
        if self._class_factors is None:
            return torch.ones(len(labels), 1, dtype=torch.float64)
        return factors_of(self._class_factors, labels).unsqueeze(1)

    def _one_by_one(self, features, labels, usable):
        """float64 (n, d): gradients of records that never meet in a call."""
        rows, parameters = torch.zeros(len(features), self.dimension, dtype=torch.float64), list(self._module.parameters())
        with one_thread():
            for place in torch.nonzero(usable).flatten().tolist():
                # A copy, so that every record stands in memory of the same alignment.
                record, label = features[place : place + 1].clone(), labels[place : place + 1].clone()
                loss = LOSSES[self.loss](self._module(record), label).sum()
                parts = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
                rows[place] = torch.cat([part.flatten() for part in parts])
        return rows

    def _joined(self, parts):
        rows = torch.empty(len(parts[0].factors[0]), self.dimension)
        for part in parts:
            rows[:, part.start : part.start + part.count] = part.rows()
        return rows.numpy()

    def _probe(self, shape):
        """Choose how to differentiate, on made-up records and weights, and see that it is sound; once for a shape.

        Modules that mix records in ways that no list of layers shows are refused. The exact way must agree with
        ``torch.autograd``, from which it differs for modules that are not what their layers say.
        """
        if self._probed == shape:
            return
        generator = torch.Generator().manual_seed(0)
        features = torch.rand(PROBES, *shape, generator=generator)
        labels = torch.zeros(PROBES)
        self._layered = None
        self._load((torch.rand(self.dimension, generator=generator) / 5 - 0.1).numpy())
        with torch.no_grad():
            together, alone = self._module(features), torch.cat([self._module(record) for record in features.split(1)])
        if not _agree(together, alone):
            raise InvalidModel(
                "The module gives a record other outputs in a batch than alone, so one record's gradient depends on "
                "the others."
            )
        expected = self._one_by_one(features[:2], labels[:2], torch.ones(2, dtype=torch.bool))
        layered = LayeredModule.of(self._module, shape, MOST_AT_ONCE)
        if layered is not None:
            self._layered = layered
            if not _agree(torch.from_numpy(self._joined(self._parts(features[:2], labels[:2]))), expected):
                self._layered = None
        self._check_bits(features, labels)
        self._probed = shape

    def _check_bits(self, features, labels):
        """Refuse a machine on which records feel their companions, whatever the reason."""
        if self._layered is not None and not self._layered.is_exact():
            raise UnsoundArithmetic("sums")
        together = _rows_of(self._parts(features, labels))
        for order in ([4, 2, 0, 3, 1], [0], [1], [3, 1]):
            if not torch.equal(_rows_of(self._parts(features[order], labels[order])), together[order]):
                raise UnsoundArithmetic("gradients")

    def _checked_scales(self, scales):
        with np.errstate(over="ignore"):
            scales = np.asarray(scales, dtype=np.float32).astype(np.float64)
        if scales.shape != (self.dimension,) or not (np.isfinite(scales) & (scales > 0)).all():
            raise InvalidGradients(f"scales must be {self.dimension} finite numbers greater than 0, one per weight.")
        return torch.from_numpy(scales)


def _rows_of(parts):
    """Float64 (n, ...): what the parts hold, in some order, multiplied out."""
    return torch.cat([part.rows() for part in parts], dim=1)


def _agree(values, expected):
    largest = expected.abs().max()
    return values.shape == expected.shape and bool((values - expected).abs().max() <= TOLERANCE * largest)


def _checked_records(features, labels):
    features, labels = np.asarray(features), np.asarray(labels)
    if features.ndim < 2 or features.dtype.kind not in "fiub" or labels.dtype.kind not in "fiub":
        raise InvalidGradients(
            f"features have {features.ndim} axes of type {features.dtype} and labels are of type {labels.dtype} but "
            "must be real numbers with one row per record."
        )
    if labels.shape != features.shape[:1]:
        raise InvalidGradients(f"labels have shape {labels.shape} but must be one for each of {len(features)} records.")
    if len(features) > MOST_RECORDS:
        raise InvalidGradients(f"features have {len(features)} records but must have at most {MOST_RECORDS}.")
    with np.errstate(over="ignore"):
        features = np.ascontiguousarray(features, dtype=np.float32)
    return torch.from_numpy(features), torch.from_numpy(np.array(labels))


def _added(first, second):
    sums = (
        ClippedSum(left.steps + right.steps, left.grid, left.clip) for left, right in zip(first.sums, second.sums)
    )
    return ClippedGroups(tuple(sums), first.groups, first.shape)
