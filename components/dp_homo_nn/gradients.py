"""Per-record gradients of a torch module, and their clipped sums.

Modules of linear and convolution layers, each used once, take the way of `layer_gradients`; all others are
differentiated record by record under ``torch.func.vmap``. Either way a record's gradient is what ``torch.autograd``
gives for it alone, up to rounding.
"""
from copy import deepcopy

import numpy as np
import torch
from torch.func import functional_call, grad, vmap

from fate_dp.components.common import checks
from fate_dp.components.dp_homo_nn.clipped_parts import RECORDS_AT_ONCE, PartsSum
from fate_dp.components.dp_homo_nn.independence import check_independent
from fate_dp.components.dp_homo_nn.layer_gradients import LayerGradients, Rows, layers_of
from fate_dp.components.dp_homo_nn.losses import LOSSES, predictions
from fate_dp.components.dp_homo_nn.models.spec import InvalidModel
from fate_dp.components.dp_homo_nn.models.weights import dimension, load_flat
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


class RecordGradients:
    """Gradients of the loss of single records at given weights. Not for several threads at once.

    :param module: ``torch.nn.Module`` from float32 (n, m) to (n, outputs); a copy of it is used, in evaluation mode.
    :param loss: 'cross_entropy' or 'mse_loss', see `losses`.
    :raises ValueError: one sentence, for an unknown loss or a module whose records are not independent.
    """

    def __init__(self, module, loss="cross_entropy"):
        self.loss = checks.choice("loss", loss, tuple(LOSSES))
        check_independent(module)
        # Pooling is several times faster when the channels are the last axis in memory.
        self._module = deepcopy(module).eval().requires_grad_(False).to(memory_format=torch.channels_last)
        self._loss = LOSSES[loss]
        self._by_layer = None
        self._probed = None
        self.dimension = dimension(module)

    def clipped_sum(self, weights, features, labels, clip, scales=None):
        """Sum of the records' gradients, each divided by ``scales`` if given, then clipped to l2 norm ``clip``.

        :param weights: (d,), real numbers. :param features: (n, m). :param labels: (n,), class numbers or targets.
        :param clip: public, from 1e-150 to 1e150. :param scales: (d,), positive, public or already released.
        :returns: ``ClippedSum``, exact and in the unit of the clip; its ``sensitivity`` is proved in `clipped_parts`.
            A record with a NaN or an infinity contributes zero; no record gives zeros.
        :raises InvalidGradients, InvalidClip, InvalidWeights: one sentence; never because of a record's values.
        """
        total = PartsSum(self.dimension, clip)
        scales = None if scales is None else self._checked_scales(scales)
        for count, parts in self._blocks(weights, features, labels):
            if scales is not None:
                parts = [part.divided(scales[part.start : part.start + part.count]) for part in parts]
            total.add(parts, count)
        return total.total()

    def clipped_groups(self, weights, features, labels, groups, clips):
        """Sum of the records' gradients, each group of coordinates of each record clipped on its own.

        :param groups: per group an index array or a slice of coordinates; together they hold every one exactly once.
        :param clips: one public clip per group.
        :returns: ``ClippedGroups``; a record with a NaN or an infinity contributes zero to every group.
        """
        total = clip_records_by_group(np.zeros((0, self.dimension)), groups, clips)
        for count, parts in self._blocks(weights, features, labels):
            total = _added(total, clip_records_by_group(self._joined(parts)[:count], groups, clips))
        return total

    def rows(self, weights, features, labels):
        """Per-record gradients, float32 (n, d), in the order of the flat weights; neither clipped nor checked."""
        rows = [self._joined(parts)[:count] for count, parts in self._blocks(weights, features, labels)]
        return np.concatenate(rows) if rows else np.zeros((0, self.dimension), dtype=np.float32)

    def losses(self, weights, features, labels):
        """Loss per record, float64 (n,); private."""
        features, labels = _checked_records(features, labels)
        return self._loss(self._outputs(weights, features), labels).double().numpy()

    def scores(self, weights, features):
        """Probabilities of the classes, float64 (n, k); for 'mse_loss' the predictions (n, 1)."""
        features, _ = _checked_records(features, np.zeros(len(features)))
        return predictions(self.loss, self._outputs(weights, features).double()).numpy()

    def _outputs(self, weights, features):
        load_flat(self._module, weights)
        with torch.no_grad():
            return torch.cat([self._module(block) for block in features.split(OUTPUTS_AT_ONCE)])

    def _blocks(self, weights, features, labels):
        """Per block of records their number and the parts of the gradients of ``RECORDS_AT_ONCE`` records, padded."""
        features, labels = _checked_records(features, labels)
        self._probe(features.shape[1:])
        load_flat(self._module, weights)
        for start in range(0, len(features), RECORDS_AT_ONCE):
            block = slice(start, start + RECORDS_AT_ONCE)
            count = len(labels[block])
            missing = RECORDS_AT_ONCE - count
            yield count, self._parts(_padded(features[block], missing), _padded(labels[block], missing))

    def _parts(self, features, labels):
        if self._by_layer is not None:
            return self._by_layer.parts(features, labels)
        return [Rows(0, self._differentiated(features, labels))]

    def _differentiated(self, features, labels):
        parameters = {name: parameter.detach() for name, parameter in self._module.named_parameters()}

        def loss_of_one(parameters, record, label):
            outputs = functional_call(self._module, parameters, (record.unsqueeze(0),))
            return self._loss(outputs, label.unsqueeze(0)).sum()

        gradients = vmap(grad(loss_of_one), in_dims=(None, 0, 0))(parameters, features, labels)
        return torch.cat([gradients[name].flatten(1) for name in parameters], dim=1)

    def _joined(self, parts):
        rows = torch.empty(RECORDS_AT_ONCE, self.dimension)
        for part in parts:
            rows[:, part.start : part.start + part.count] = part.rows()
        return rows.numpy()

    def _probe(self, shape):
        """Choose how to differentiate, on made-up records and weights: both ways must agree for that by layers.

        They differ for modules that overwrite a layer's outputs; others mix records in ways that no list of layers
        shows. Done once for a shape of records.
        """
        if self._probed == shape:
            return
        generator = torch.Generator().manual_seed(0)
        features = torch.rand(RECORDS_AT_ONCE, *shape, generator=generator)
        load_flat(self._module, (torch.rand(self.dimension, generator=generator) / 5 - 0.1).numpy())
        labels = torch.zeros(RECORDS_AT_ONCE)
        together, alone = self._module(features), torch.cat([self._module(record) for record in features.split(1)])
        if not _agree(together, alone):
            raise InvalidModel(
                "The module gives a record other outputs in a batch than alone, so one record's gradient depends on "
                "the others."
            )
        self._by_layer = self._layer_gradients(features, labels)
        self._probed = shape

    def _layer_gradients(self, features, labels):
        layers = layers_of(self._module)
        if layers is None:
            return None
        by_layer = LayerGradients(self._module, layers, self._loss)
        parts = by_layer.parts(features, labels)
        if parts is None:
            return None
        rows = torch.from_numpy(self._joined(parts))
        return by_layer if _agree(rows[:2], self._differentiated(features[:2], labels[:2])) else None

    def _checked_scales(self, scales):
        with np.errstate(over="ignore"):
            scales = np.asarray(scales, dtype=np.float32)
        if scales.shape != (self.dimension,) or not (np.isfinite(scales) & (scales > 0)).all():
            raise InvalidGradients(f"scales must be {self.dimension} finite numbers greater than 0, one per weight.")
        return torch.from_numpy(scales)


def _agree(values, expected):
    largest = expected.abs().max()
    return values.shape == expected.shape and bool((values - expected).abs().max() <= TOLERANCE * largest)


def _padded(values, missing):
    return torch.cat([values, values.new_zeros(missing, *values.shape[1:])]) if missing else values


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
