"""How much each unit of a layer contributed to what the model predicts of a record, and noise in proportion.

Layer-wise relevance propagation of the logit of the class that the model itself predicts; the label is never read. A
record's relevances do not depend on its companions in any bit. Rules and proofs: docs/proofs-dp_homo_nn.md.

References: S. Bach et al., "On pixel-wise explanations for non-linear classifier decisions by layer-wise relevance
propagation", PLOS ONE 10 (2015), eq. 56 and 58; the thesis, section 3.3.1, whose equations are cited by number.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fate_dp.privacy.accounting.calibration import UnreachableTarget
from fate_dp.privacy.accounting.secure_sum import SecureSum, noise_share_sigma, secure_sum_event
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.adaptive_scales import MAX_RECORDS, STEPS_OF_RECORD, adaptive_scales, normalised_sums
from fate_dp.privacy.events import Event, Release, event_of
from fate_dp.privacy.noise.discrete import discrete_gaussian, discrete_gaussian_slack
from fate_dp.privacy.noise.stream import Stream, open_stream
from fate_dp.privacy.validation import InvalidArgument, check_target, is_whole

from .models.spec import dimension
from .record_arithmetic import UnsoundArithmetic, exact_sums
from .record_layers import InAnyOrder, layers_in_order, record_layer

STABILISER = 1e-6

LINEAR = (nn.Linear, nn.Conv2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)
ROUTED = (nn.MaxPool2d, nn.Flatten, nn.Unflatten, nn.ZeroPad2d, nn.Identity, nn.Dropout, nn.Dropout2d)
UNCHANGED = (nn.Tanh, nn.ReLU)
EXPLAINED = "linear, convolution, pooling, padding, flatten, dropout, tanh and ReLU layers in a Sequential"


def layers_of(module: nn.Module) -> list[nn.Module]:
    """The layers of a module in order, Sequentials within it unfolded; refuses the first one that no rule covers."""
    layers = layers_in_order(module)
    for layer in layers:
        if type(layer) not in LINEAR + ROUTED + UNCHANGED:
            raise InvalidArgument(
                f"The model holds a layer of type {type(layer).__name__}, but relevance is propagated through "
                f"{EXPLAINED} only: choose noise_spread uniform for this model."
            )
    return layers


def relevance(layers: Sequence[nn.Module], inputs: Tensor, at: int = 0, stabiliser: float = STABILISER) -> Tensor:
    """Relevances of the inputs of layer ``at`` for the predicted logit, record by record: float64 in their shape; private.

    ``layers`` are from `layers_of`; ``inputs`` (n, ...) are private finite numbers that the first one takes. ``at``
    goes from 0, the model's inputs, to the number of layers, the outputs; ``stabiliser`` is added to |z_j|, in the unit
    of a layer's outputs.
    """
    activations, ours = [inputs], []
    with torch.no_grad():
        for layer in layers:
            ours.append(counterpart(layer, activations[-1]))
            activations.append(ours[-1].forward(activations[-1]))
        found = predicted_logits(activations[-1])
        for position in range(len(layers) - 1, at - 1, -1):
            found = propagated(layers[position], ours[position], activations[position], found, stabiliser)
    return found


def predicted_logits(outputs: Tensor) -> Tensor:
    """The relevance of the outputs (n, k): each record's largest one where it stands, the first of equals, else zero."""
    largest = torch.from_numpy(np.argmax(outputs.numpy(), axis=1)).unsqueeze(1)
    return torch.zeros_like(outputs).scatter(1, largest, outputs.gather(1, largest))


def counterpart(layer: nn.Module, inputs: Tensor) -> Any:
    """What stands for a torch layer here, for records like ``inputs``; refuses a layer that has nothing."""
    exact = type(layer) in (nn.Linear, nn.Conv2d)
    ours = InAnyOrder(layer) if exact else record_layer(layer, inputs.shape[1:])
    if ours is None:
        raise InvalidArgument(
            f"The model holds a {type(layer).__name__} that gives records no relevance here: it has hooks, other outputs "
            "than one tensor, or windows of several sizes; choose noise_spread uniform for this model."
        )
    ours.load()
    return ours


def propagated(
    layer: nn.Module, ours: Any, inputs: Tensor, relevances: Tensor, stabiliser: float = STABILISER
) -> Tensor:
    """Relevances of a layer's inputs from those of its outputs, once ``ours``, its counterpart, took the inputs."""
    if isinstance(layer, UNCHANGED):
        return relevances
    if not isinstance(layer, LINEAR):
        return ours.backward(relevances.double())
    # R_j / (z_j +- stabiliser), and 0 where z_j is 0.
    sums = ours.sums(inputs)
    stabilised = sums + torch.copysign(torch.full_like(sums, stabiliser), sums)
    return inputs * ours.backward(torch.where(sums == 0, 0.0, relevances.double() / stabilised))


@dataclass(frozen=True)
class FirstLayer:
    """Where the first layer with weights stands, and how its weights are grouped; public.

    Contributions are counted for groups, along ``axis`` of the weights of this ``shape``. Of a dense layer group g is
    input g, with column g of the weights; of a convolution output channel g, with the weights of that filter. Biases
    and all later layers belong to no group. The relevance counted is that of the inputs of layer ``at``, for a
    convolution the one behind it. ``dimension`` is the number d of all parameters of the model, of which these weights
    come first.
    """

    at: int
    groups: int
    axis: int
    shape: tuple[int, ...]
    dimension: int

    def parts(self, relevances: Tensor) -> np.ndarray:
        """Absolute contributions (n, G), float64, of relevances (n, G, ...) of the inputs of layer ``at``, summed first."""
        return exact_sums(relevances).abs().numpy()

    def expanded(self, values: np.ndarray) -> np.ndarray:
        """One value per group, put on its coordinates, and 1 on all others: float64 array (d,)."""
        along = [1] * len(self.shape)
        along[self.axis] = self.groups
        weights = np.broadcast_to(np.reshape(values, along), self.shape)
        return np.concatenate([weights.ravel(), np.ones(self.dimension - weights.size)])


def first_layer(module: nn.Module) -> FirstLayer:
    """The ``FirstLayer`` of a module; refuses one that has none, or a layer that no rule of propagation covers."""
    for position, layer in enumerate(layers_of(module)):
        shape = tuple(getattr(layer, "weight", np.empty(0)).shape)
        if isinstance(layer, nn.Linear):
            return FirstLayer(position, layer.in_features, 1, shape, dimension(module))
        if isinstance(layer, nn.Conv2d):
            return FirstLayer(position + 1, layer.out_channels, 0, shape, dimension(module))
    raise InvalidArgument("The model has neither a linear nor a convolution layer, so that no weights could be scaled.")


def coordinate_scales(module: nn.Module, contributions: np.ndarray, power: float) -> np.ndarray:
    """Scales of all coordinates: max(beta_g, 1 / (4 G))^power over its geometric mean on group g, 1 elsewhere.

    Post-processing of the G released mean ``contributions`` beta, in the order of `first_layer`: float64 (d,),
    positive, in the order of the flat weights. Noise is less where the model looks; the power 1/2, for -1/2, is the
    opposite direction.
    """
    groups = first_layer(module)
    if np.shape(contributions) != (groups.groups,):
        shape = np.shape(contributions)
        raise InvalidArgument.of("shape of contributions", shape, f"({groups.groups},), one per group")
    return groups.expanded(adaptive_scales(contributions, power))


RECORDS_AT_ONCE = 64


def group_sums(module: nn.Module, features: np.ndarray) -> np.ndarray:
    """Sum over records (n, m) of their contributions per group of first-layer weights: int64 (G,), in steps of 2^-30; secret.

    A record with a NaN or an infinity, or without any relevance, contributes zero. No record is fine. A machine that gives
    a record other bits in company is refused (UnsoundArithmetic).
    """
    layers, groups = layers_of(module), first_layer(module)
    # A saturated unit would hide an infinity.
    features = np.asarray(features, dtype=np.float64)
    rows = features[np.isfinite(features).all(axis=tuple(range(1, features.ndim)))]
    total = np.zeros(groups.groups, dtype=np.int64)
    for start in range(0, len(rows), RECORDS_AT_ONCE):
        block = torch.from_numpy(rows[start : start + RECORDS_AT_ONCE])
        if start == 0:
            _check_bits(layers, groups, block.shape[1:])
        total += normalised_sums(groups.parts(relevance(layers, block, groups.at)))
    return total


def _check_bits(layers: Sequence[nn.Module], groups: FirstLayer, shape: torch.Size) -> None:
    """Refuse a machine on which the relevances of made-up records depend on their companions."""
    records = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    together = groups.parts(relevance(layers, records, groups.at))
    for order in ([2, 0, 1], [1]):
        if not np.array_equal(groups.parts(relevance(layers, records[order], groups.at)), together[order]):
            raise UnsoundArithmetic("relevances")


@dataclass(frozen=True)
class ContributionSum:
    """Public configuration of one secure sum of contributions, of length ``groups``, over all clients and all their records.

    The released mean is the sum divided by the expected number that takes part, of the public number of ``records``:
    all, or each with ``sampling_probability``, by a coin of its own that stays secret. ``noise_multiplier`` is over the
    largest contribution of a record, 1; the shares have it together.
    """

    groups: int
    records: int
    clients: int
    max_dropouts: int
    noise_multiplier: float
    sampling_probability: float | None = None

    def __post_init__(self) -> None:
        if not is_whole(self.records) or not 1 <= self.records <= MAX_RECORDS:
            raise InvalidArgument.of("records", self.records, "a whole number from 1 to 2^30")
        self.secure_sum()

    def secure_sum(self) -> SecureSum:
        """The ``SecureSum`` on whose event and number of arrivals the guarantee stands; refuses bad fields by name."""
        return SecureSum(
            self.noise_multiplier, self.clients, self.max_dropouts, self.groups, self.share_sigma_in_steps, 1
        )

    @property
    def share_sigma_in_steps(self) -> float:
        """Standard deviation of one client's noise, in steps of 2^-30."""
        return noise_share_sigma(self.noise_multiplier, STEPS_OF_RECORD, self.clients, self.max_dropouts)

    def event(self, relation: str, observers: Sequence[str] = ("client", "model", "server")) -> Event:
        """What the opened sum costs each record, the error of the sampler included; once per run."""
        event = secure_sum_event(self.secure_sum(), "record", relation, self.sampling_probability, observers)
        sampler = self.clients * self.groups * discrete_gaussian_slack(self.share_sigma_in_steps)
        return replace(event, slack=min(1.0, event.slack + sampler))

    def share(
        self,
        sums: np.ndarray,
        relation: str,
        observers: Sequence[str] = ("client", "model", "server"),
        rng: Stream | None = None,
    ) -> Release:
        """One client's ``group_sums`` with its noise, to be masked: ``Release`` of an int64 array (G,).

        It may leave the client only as a term of the secure sum, whose cost its event states.
        """
        sums = np.asarray(sums)
        if sums.shape != (self.groups,) or sums.dtype != np.int64:
            raise InvalidArgument.of("sums", sums, f"{self.groups} whole numbers, one per group")
        stream, event = open_stream(rng), self.event(relation, observers)
        noise = discrete_gaussian(self.share_sigma_in_steps, sums.shape, stream)
        charged = event_of(
            event.process, stream, unit="record", relation=relation, observers=observers, slack=event.slack
        )
        return Release(sums + noise, charged)

    def mean(self, total: np.ndarray) -> np.ndarray:
        """The released mean contributions, float64 (G,), from the opened sum of all shares (int64)."""
        expected = self.records * (1 if self.sampling_probability is None else self.sampling_probability)
        return np.asarray(total, dtype=np.int64) / (expected * STEPS_OF_RECORD)


# Relative to the noise: how far above the smallest that is enough the result may lie.
TOLERANCE = 1e-4
# Noise multipliers between which is searched; rounds draw no more noise than the largest.
START, LEAST, LARGEST = 1.0, 2.0**-20, 2.0**14


def noise_beside(
    released: Sequence[tuple[Event, int]], event_of: Callable[[float], Event], rounds: int, epsilon: float, delta: float
) -> float:
    """Smallest noise, within 1e-4, with which rounds and what was ``released`` beside them meet (epsilon, delta) together.

    ``released`` are (event, count) pairs, for instance the contributions' event once. ``event_of`` makes the event of one
    round from its noise multiplier; more noise must mean more privacy.
    """
    epsilon, delta = check_target(epsilon, delta)

    def excess(noise: float) -> float:
        """Above 0 where the noise is too small; nearly linear in the logarithm of the noise."""
        reached = total_epsilon([*released, (event_of(noise), rounds)], delta)
        return math.log(reached / epsilon) if reached > 0 else -math.inf

    if excess(LARGEST) > 0:
        raise UnreachableTarget(
            f"epsilon {epsilon:g} at delta {delta:g} is out of reach over {rounds} rounds: with what is released beside "
            f"them and the most noise there is, epsilon {math.exp(excess(LARGEST)) * epsilon:.3g} would be met."
        )
    low = high = START
    above = below = excess(START)
    while below > 0:
        low, above, high = high, below, min(2 * high, LARGEST)
        below = excess(high)
    while above <= 0 and low > LEAST:
        high, below, low = low, above, low / 2
        above = excess(low)
    while high / low > 1 + TOLERANCE:
        # Where a line through both ends crosses zero and a little beyond, if they are finite, else the middle.
        part, start = above / (above - below) if math.isfinite(above - below) else 0.5, math.log(low)
        width = math.log(high) - start
        noise = math.exp(start + width * min(0.98, max(0.02, part + TOLERANCE / (4 * width))))
        found = excess(noise)
        low, above, high, below = (noise, found, high, below) if found > 0 else (low, above, noise, found)
    return high
