"""Gradients of single records' losses, and what a model's outputs mean.

A penalty on the weights is no part of a loss here: it needs no data, so it is the optimiser's ``weight_decay``, and
neither clipped nor paid for.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from fate_dp.privacy.mechanisms.clipping import MAX_RECORDS, ClippedSum
from fate_dp.privacy.validation import InvalidArgument

from ..common import parameters as checks
from . import record_arithmetic
from .models.spec import dimension, load_flat, trained
from .pooled_convolution import PooledConvolution
from .record_arithmetic import MAX_AT_ONCE, GradientRows, Part, PartsSum, UnsoundArithmetic
from .record_layers import ACTIVATIONS, Layer, layers_in_order, record_layer

# Numbers of the widest layer that are in memory at once.
BLOCK_VALUES = 820_000
MIN_BLOCK = 4


class LayeredModule:
    """A Sequential's layers in the order in which they run, with parts of gradients for every parameter.

    ``block`` records are computed at once; the results do not depend on it.
    """

    def __init__(self, module: nn.Module, layers: Sequence[Layer], block: int) -> None:
        self._layers, self.block = layers, block
        lengths = [parameter.numel() for parameter in module.parameters()]
        self._starts = dict(zip(map(id, module.parameters()), accumulate(lengths, initial=0)))
        self._first = next(place for place, layer in enumerate(layers) if layer.parameters)
        self.load()

    @classmethod
    def of(cls, module: nn.Module, shape: Sequence[int], most_records: int) -> "LayeredModule | None":
        """The counterpart of a module for records of a shape; None where it has none, or holds parameters in another way."""
        found, layers, widest = torch.zeros(2, *shape), list[Layer](), 1
        ahead = _pooled_first(layers_in_order(module))
        while ahead:
            pair = PooledConvolution.of(ahead[0], ahead[1], found.shape[1:]) if len(ahead) > 1 else None
            ours, taken = (record_layer(ahead[0], found.shape[1:]), 1) if pair is None else (pair, 2)
            if ours is None:
                return None
            with torch.no_grad():
                found = nn.Sequential(*ahead[:taken])(found)
            del ahead[:taken]
            if len(found) != 2:
                return None
            layers.append(ours)
            widest = max(widest, ours.width, found[0].numel())
        parameters = [id(parameter) for ours in layers for parameter in ours.parameters]
        if sorted(parameters) != sorted(map(id, trained(module))):
            return None
        return cls(module, layers, min(most_records, max(MIN_BLOCK, BLOCK_VALUES // widest)))

    def load(self) -> None:
        for layer in self._layers:
            layer.load()

    def is_exact(self) -> bool:
        return all(layer.is_exact(self.block) for layer in self._layers)

    def outputs(self, features: Tensor) -> Tensor:
        """float64 (n, outputs) of records float64 (n, ...)."""
        for layer in self._layers:
            features = layer.forward(features)
        return features

    def parts(self, slopes: Tensor) -> list[Part]:
        """List of ``Outer`` and ``Rows`` that together hold every parameter, from the slopes (n, outputs) of the loss.

        They are good until the next block: large ones lie in memory that is used again.
        """
        found: list[Part] = []
        for place in range(len(self._layers) - 1, self._first - 1, -1):
            layer = self._layers[place]
            slopes = layer.take(slopes)
            found += layer.parts(slopes, self._starts)
            if place > self._first:
                slopes = layer.backward(slopes)
        return found


def _pooled_first(layers: Sequence[nn.Module]) -> list[nn.Module]:
    """The same function with less work: tanh and ReLU never fall, so the largest may be chosen before they are applied."""
    layers = list(layers)
    for place in range(len(layers) - 1):
        if type(layers[place]) in ACTIVATIONS and type(layers[place + 1]) is nn.MaxPool2d:
            layers[place : place + 2] = reversed(layers[place : place + 2])
    return layers


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """Loss per record, in nats; a model with one output gives the log-odds of class 1, and labels may be soft then.

    A label that is no class number has the loss NaN and the gradient zero: one record's label stops no training.
    """
    targets, is_class = _targets(outputs, labels)
    if outputs.shape[-1] == 1:
        losses = functional.binary_cross_entropy_with_logits(outputs.squeeze(-1), targets, reduction="none")
    else:
        losses = functional.cross_entropy(outputs, targets, reduction="none")
    return torch.where(is_class, losses, torch.nan)


LOSSES = {"cross_entropy": cross_entropy}


def slopes(outputs: Tensor, labels: Tensor) -> Tensor:
    """Gradient of each record's cross-entropy by its outputs, float64 (n, outputs), in exact arithmetic.

    Zero for a label that is no class, and where an output is not finite.
    """
    targets, is_class = _targets(outputs, labels)
    if outputs.shape[1] == 1:
        found = record_arithmetic.sigmoid(outputs) - targets.unsqueeze(1)
    else:
        found = record_arithmetic.softmax(outputs)
        found -= functional.one_hot(targets, outputs.shape[1])
    found = torch.where(is_class.unsqueeze(1), found, 0.0)
    is_usable = torch.isfinite(outputs).all(1, keepdim=True) & torch.isfinite(found).all(1, keepdim=True)
    return torch.where(is_usable, found, 0.0)


def _targets(outputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Class numbers, or soft labels for one output, with 0 for those that are none; and which are none."""
    if outputs.shape[-1] == 1:
        targets = labels.to(outputs.dtype)
        is_class = (targets >= 0) & (targets <= 1)
        return torch.where(is_class, targets, 0.0), is_class
    return _classes(labels, outputs.shape[-1])


def _classes(labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Class numbers, with 0 for labels that are none; and which are some."""
    is_class = (labels >= 0) & (labels < classes) & (labels == torch.floor(labels))
    return torch.where(is_class, labels, 0).long(), is_class


MIXING = (nn.modules.batchnorm._BatchNorm, nn.CrossMapLRN2d)
RANDOM = (_DropoutNd, nn.RReLU, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)


def check_independent(module: nn.Module) -> nn.Module:
    """Return ``module``; raise ``InvalidArgument`` if one of its layers is of a refused kind.

    Statistics of a batch mix its records: then no clip bounds what one record changes. Layers that draw random numbers
    read torch's global generator, which FATE seeds alike at every party. A module that mixes records in a way of its
    own is caught by ``RecordGradients``, which compares a record alone with the same record in company.
    """
    if not trained(module):
        raise InvalidArgument("The module has no parameters that require a gradient, so there is nothing to train.")
    for name, layer in module.named_modules():
        named = f"Layer {name} ({type(layer).__name__})" if name else f"The module ({type(layer).__name__})"
        if isinstance(layer, MIXING) or (isinstance(layer, _NormBase) and layer.track_running_stats):
            raise InvalidArgument(
                f"{named} computes over the batch, so one record's gradient depends on the others; use GroupNorm or "
                "LayerNorm."
            )
        if isinstance(layer, RANDOM) or getattr(layer, "dropout", False):
            raise InvalidArgument(
                f"{named} draws from torch's global generator, which is seeded alike at every party; leave it out."
            )
    return module


OUTPUTS_AT_ONCE = 256
# What two ways of computing one float32 gradient may differ by, relative to its largest entry.
TOLERANCE = 1e-3
PROBES = 5


class RecordGradients:
    """Gradients of the loss of single records at given weights. Not for several threads at once.

    What one record contributes is a function of that record alone, to the last bit. *Sequences of known layers*
    (`record_layers`) are computed in blocks of records, in an arithmetic that gives the same bits in whatever company.
    *All other modules* go through ``torch.autograd`` with one record at a time and one thread: no call of a library sees
    two records, and all calls have the same shapes, in memory that torch aligns to 64 bytes. That a library gives the
    same bits for the same bytes is assumed then. Both are checked on a training's own shapes before it reads a record.

    ``module`` goes from float32 (n, m) to (n, outputs); it is copied, and refused where records are not independent.
    ``class_factors``, public, multiply a record's gradient by its class before the clip, so that no bound on what a record
    changes depends on them; a label that is no class number contributes zero then.
    """

    def __init__(
        self, module: nn.Module, loss: str = "cross_entropy", class_factors: Sequence[float] | None = None
    ) -> None:
        self.loss = checks.choice("loss", loss, tuple(LOSSES))
        check_independent(module)
        self._module = deepcopy(module).eval()
        self._layered: LayeredModule | None = None
        self._probed: Sequence[int] | None = None
        self._class_factors = None if class_factors is None else torch.tensor(class_factors, dtype=torch.float64)
        self.dimension = dimension(module)

    def clipped_sum(
        self,
        weights: np.ndarray,
        features: np.ndarray,
        labels: np.ndarray,
        clip: float,
        scales: np.ndarray | None = None,
    ) -> ClippedSum:
        """Sum of the gradients of records (n, m) at weights (d,), divided by ``scales`` if given, each then clipped.

        Exact and in the unit of the clip; its ``sensitivity`` is proved in docs/proofs-dp_homo_nn.md. A record with a NaN
        or an infinity contributes zero; nothing is refused because of a record's values. The ``clip`` is a public l2 norm
        from 1e-150 to 1e150; ``scales`` are (d,), positive, public or already released.
        """
        total = PartsSum(self.dimension, clip)
        divisors = None if scales is None else self._checked_scales(scales)
        # Blocks fit the cache and are too small for several threads, which would only wait for each other.
        with record_arithmetic.one_thread():
            for parts in self._blocks(weights, features, labels):
                if divisors is not None:
                    parts = [part.divided(divisors[part.start : part.start + part.count]) for part in parts]
                total.add(parts)
        return total.total()

    def rows(self, weights: np.ndarray, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Per-record gradients, float32 (n, d), in the order of the flat weights; neither clipped nor checked."""
        rows = [self._joined(parts) for parts in self._blocks(weights, features, labels)]
        return np.concatenate(rows) if rows else np.zeros((0, self.dimension), dtype=np.float32)

    def losses(self, weights: np.ndarray, features: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Loss per record without class factors, float64 (n,); private."""
        records, targets = _checked_records(features, labels)
        return LOSSES[self.loss](self._outputs(weights, records), targets).double().numpy()

    def scores(self, weights: np.ndarray, features: np.ndarray) -> np.ndarray:
        """Probabilities of the classes, float64 (n, k)."""
        records, _ = _checked_records(features, np.zeros(len(features)))
        outputs = self._outputs(weights, records).double()
        if outputs.shape[1] == 1:
            return torch.cat([torch.sigmoid(-outputs), torch.sigmoid(outputs)], dim=1).numpy()
        return torch.softmax(outputs, dim=1).numpy()

    def _outputs(self, weights: np.ndarray, features: Tensor) -> Tensor:
        load_flat(self._module, weights)
        with torch.no_grad():
            return torch.cat([self._module(block) for block in features.split(OUTPUTS_AT_ONCE)])

    def _blocks(self, weights: np.ndarray, features: np.ndarray, labels: np.ndarray) -> Iterator[list[Part]]:
        records, targets = _checked_records(features, labels)
        self.probe(records.shape[1:])
        self._load(weights)
        block = MAX_AT_ONCE if self._layered is None else self._layered.block
        for start in range(0, len(records), block):
            yield self._parts(records[start : start + block], targets[start : start + block])

    def _load(self, weights: np.ndarray) -> None:
        load_flat(self._module, weights)
        if self._layered is not None:
            self._layered.load()

    def _parts(self, features: Tensor, labels: Tensor) -> list[Part]:
        usable, factors = torch.isfinite(features).flatten(1).all(1), self._factors(labels)
        if self._layered is None:
            return [GradientRows.of(0, self._one_by_one(features, labels, usable) * factors)]
        records = torch.where(usable.view(-1, *[1] * (features.dim() - 1)), features, 0.0).double()
        found = slopes(self._layered.outputs(records), labels)
        return self._layered.parts(torch.where(usable.unsqueeze(1), found * factors, 0.0))

    def _factors(self, labels: Tensor) -> Tensor:
        """float64 (n, 1): what each record's gradient is multiplied by, a function of its own label."""
        if self._class_factors is None:
            return torch.ones(len(labels), 1, dtype=torch.float64)
        classes, is_class = _classes(labels, len(self._class_factors))
        return torch.where(is_class, self._class_factors[classes], 0.0).unsqueeze(1)

    def _one_by_one(self, features: Tensor, labels: Tensor, usable: Tensor) -> Tensor:
        """float64 (n, d): gradients of records that never meet in a call."""
        rows = torch.zeros(len(features), self.dimension, dtype=torch.float64)
        parameters = trained(self._module)
        with record_arithmetic.one_thread():
            for place in torch.nonzero(usable).flatten().tolist():
                # A copy, so that every record stands in memory of the same alignment.
                record, label = features[place : place + 1].clone(), labels[place : place + 1].clone()
                loss = LOSSES[self.loss](self._module(record), label).sum()
                parts = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
                # Zeros that stand for a layer that no output depends on require a gradient themselves.
                rows[place] = torch.cat([part.detach().flatten() for part in parts])
        return rows

    def _joined(self, parts: Sequence[Part]) -> np.ndarray:
        rows = torch.empty(len(parts[0].factors[0]), self.dimension)
        for part in parts:
            rows[:, part.start : part.start + part.count] = part.rows()
        return rows.numpy()

    def probe(self, shape: Sequence[int]) -> None:
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
            raise InvalidArgument(
                "The module gives a record other outputs in a batch than alone, so one record's gradient depends on "
                "the others."
            )
        expected = self._one_by_one(features[:2], labels[:2], torch.ones(2, dtype=torch.bool))
        layered = LayeredModule.of(self._module, shape, MAX_AT_ONCE)
        if layered is not None:
            self._layered = layered
            if not _agree(torch.from_numpy(self._joined(self._parts(features[:2], labels[:2]))), expected):
                self._layered = None
        self._check_bits(features, labels)
        self._probed = shape

    def _check_bits(self, features: Tensor, labels: Tensor) -> None:
        """Refuse a machine on which records feel their companions, whatever the reason."""
        if self._layered is not None and not self._layered.is_exact():
            raise UnsoundArithmetic("sums")
        together = _rows_of(self._parts(features, labels))
        for order in ([4, 2, 0, 3, 1], [0], [1], [3, 1]):
            if not torch.equal(_rows_of(self._parts(features[order], labels[order])), together[order]):
                raise UnsoundArithmetic("gradients")

    def _checked_scales(self, scales: np.ndarray) -> Tensor:
        with np.errstate(over="ignore"):
            scales = np.asarray(scales, dtype=np.float32).astype(np.float64)
        if scales.shape != (self.dimension,) or not (np.isfinite(scales) & (scales > 0)).all():
            raise InvalidArgument(f"scales must be {self.dimension} finite numbers greater than 0, one per weight.")
        return torch.from_numpy(scales)


def _rows_of(parts: Sequence[Part]) -> Tensor:
    """Float64 (n, ...): what the parts hold, in some order, multiplied out."""
    return torch.cat([part.rows() for part in parts], dim=1)


def _agree(values: Tensor, expected: Tensor) -> bool:
    largest = expected.abs().max()
    return values.shape == expected.shape and bool((values - expected).abs().max() <= TOLERANCE * largest)


def _checked_records(features: np.ndarray, labels: np.ndarray) -> tuple[Tensor, Tensor]:
    features, labels = np.asarray(features), np.asarray(labels)
    if features.ndim < 2 or features.dtype.kind not in "fiub" or labels.dtype.kind not in "fiub":
        raise InvalidArgument(
            "features and labels must be real numbers with one row per record, "
            f"got {features.ndim} axes of type {features.dtype} and type {labels.dtype}."
        )
    if labels.shape != features.shape[:1]:
        raise InvalidArgument.of("labels", labels, f"one for each of {len(features)} records")
    if len(features) > MAX_RECORDS:
        raise InvalidArgument.of("number of records", len(features), f"at most {MAX_RECORDS}")
    with np.errstate(over="ignore"):
        features = np.ascontiguousarray(features, dtype=np.float32)
    return torch.from_numpy(features), torch.from_numpy(np.array(labels))
