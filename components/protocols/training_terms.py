"""What the parties of a vertical training agree on before it starts, and what follows from that alone.

The guest sets the terms, which travel as a plain dictionary; a host takes none but those that the job's parameters give.
They are public and the same at every party: bounds of the loss, widths of masks and the pace of checks rest on nothing
else. dp_hetero_lr and share_lr train on the same terms.

With noise E of the moments, H = (X^T X + E) / (c n) may have negative eigenvalues. With probability at least 0.999 none
lies below -r, r = ``SecondMoments.required_ridge``, and by symmetry of the noise, with the same probability, E / (c n)
has none above r. The ridge is at least 5/4 r, and on every weight: then the loss curves by r / 4 at least. (It is still
convex unless the noise exceeds 5/4 of r, which is far less probable than 0.001.)

Noise on X^T t alone, kind ``label``, leaves H as it is, without negative eigenvalues. What the ridge is for then is the
error of the weights, see ``LabelMoments.ridge``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from math import log2, sqrt
from typing import Any

from fate_dp.crypto.cross_product import DROPPED_BITS, MEAN_SQUARE_BITS, product_layout
from fate_dp.crypto.descent_steps import QuadraticBounds, StepLayout, UpdateRule, share_bits
from fate_dp.crypto.paillier import PublicKey
from fate_dp.crypto.shared_descent import steps_allowed
from fate_dp.crypto.slots import SlotLayout
from fate_dp.privacy.mechanisms.label_moments import LabelMoments
from fate_dp.privacy.mechanisms.second_moments import RowBounds, SecondMoments

from ..common.federation import Document
from ..common.preflight import Refusal
from .optimizers import PartyOptimizer, correction_epochs

BINARY = (0.0, 1.0)
CURVATURE = {"binomial": 4, "gaussian": 1}
"""The c of a family: the loss of a record is z^2 / (2 c) - t z and a constant."""
NOISE_CURVATURE = 4
"""The c of the Taylor loss z^2 / (2 c) - t z / c with targets t = c (y - 1/2); noise is for family binomial alone."""
NOISE_TARGET = NOISE_CURVATURE / 2
ADAPTIVE, LABEL = "adaptive", "label"
FIRST_FIT, TRAINING = "first_fit", "training"
RIDGE_MARGIN = 1.25
MOMENTUM = 0.9
STEPS_UNTIL_CHECK = 2
"""Steps that run after others before the guest has looked at the losses of those, see `shared_descent`."""
_MAX_LOSSES_TOGETHER = 64

OTHER_SIZES = "The guest's numbers of rows and features are not those of this host; it does not train on others."
OTHER_BOUND = "The guest's bound on mean squares is not one of this host's columns; it does not train under it."
OTHER_NOISE = "The guest's terms of noise are not those of this host's parameters; it trains on no others."
MALFORMED = "The guest's terms are not of the form that this version knows; this party does not train on them."


def models_of(classes: Sequence[float]) -> int:
    return 1 if len(classes) == 2 else len(classes)


def class_names(classes: Sequence[float]) -> list[int | float]:
    """As FATE's models and predictions name them: whole numbers without a point."""
    return [int(value) if float(value).is_integer() else float(value) for value in classes]


@dataclass(frozen=True)
class Descent:
    """What a job's parameters say of a descent; every party reads it from its own copy of them.

    The sigmoid is taylor or exact, which is corrected ``sigmoid_rounds`` times. ``optimizer`` is None for the default one.
    With ``shared``, weights stay shared while they are trained, which needs an update rule that is linear in them.
    """

    epochs: int
    family: str
    sigmoid: str
    sigmoid_rounds: int
    fit_intercept: bool
    key_length: int
    scheduler: Document
    early_stop: str
    tol: float
    batch_size: int | None
    optimizer: Document | None
    shared: bool = True

    @classmethod
    def of(cls, settings: Any, shared: bool = True) -> Descent:
        """From the `TrainSettings` of a component, which no protocol imports."""
        named = ("epochs", "family", "sigmoid", "sigmoid_rounds", "early_stop", "tol", "batch_size", "optimizer")
        return cls(
            **{name: getattr(settings, name) for name in named},
            fit_intercept=settings.init_param["fit_intercept"],
            key_length=settings.he_param["key_length"],
            scheduler=settings.learning_rate_scheduler,
            shared=shared,
        )

    def corrections(self, warm_start: Document | None) -> list[int]:
        """Epochs (from 0) that begin with a correction of the Taylor sigmoid."""
        if self.sigmoid != "exact":
            return []
        return correction_epochs(self.epochs, self.sigmoid_rounds, warm_start is not None)

    @property
    def target_bits(self) -> int:
        """The target's mean square is at most 2 to this: those of the Taylor sigmoid are plus and minus one half."""
        return -2 if (self.family, self.sigmoid) == ("binomial", "taylor") else MEAN_SQUARE_BITS


@dataclass(frozen=True)
class PartyNoise:
    """What all parties must know of one party's noise, with its `RowBounds`.

    ``multipliers`` are {fit: standard deviation of its Gaussian noise in units of the sensitivity}, 0 without a promise.
    """

    kind: str
    features: int
    radius: float
    intercept: bool
    target: float
    multipliers: dict[str, float]

    @property
    def bounds(self) -> RowBounds:
        return RowBounds(self.features, self.radius, self.intercept, self.target)

    def to_wire(self) -> Document:
        return asdict(self)

    @classmethod
    def from_wire(cls, wire: Document) -> PartyNoise:
        if not isinstance(wire, dict) or wire.keys() != {field.name for field in fields(cls)}:
            raise Refusal("A party's part of the noise is not of the form that this version knows.")
        return cls(**wire)


def fits_of(kind: str) -> tuple[str, ...]:
    return (FIRST_FIT, TRAINING) if kind == ADAPTIVE else (TRAINING,)


@dataclass(frozen=True)
class NoiseTerms:
    """Noise on second moments, uniform or adaptive, or on the guest's X^T t alone (label), as all data parties know it.

    The terms are of one of the `fits`, and ``parties`` holds the noise of every data party, the guest's first.
    """

    kind: str
    fit: str
    parties: tuple[PartyNoise, ...]

    @property
    def fits(self) -> tuple[str, ...]:
        """The fits of a training, each on second moments with noise of its own."""
        return fits_of(self.kind)

    def of_fit(self, fit: str) -> NoiseTerms:
        return replace(self, fit=fit)

    @cached_property
    def moments(self) -> SecondMoments:
        """What every party builds from the terms, the same object at all of them; of kind label without any noise."""
        multipliers = tuple(0.0 if self.on_labels else party.multipliers[self.fit] for party in self.parties)
        return SecondMoments(tuple(party.bounds for party in self.parties), multipliers)

    @cached_property
    def on_labels(self) -> LabelMoments | None:
        """What every party builds from the terms of kind label; None of another kind."""
        if self.kind != LABEL:
            return None
        return LabelMoments.of_rows([party.bounds for party in self.parties], self.parties[0].multipliers[self.fit])

    @property
    def fraction_bits(self) -> int:
        """Rows and targets of all parties lie on the grid 2^-fraction_bits."""
        return self.on_labels.fraction_bits if self.on_labels else self.moments.fraction_bits

    @property
    def largest(self) -> list[float]:
        """Of every data party, the largest noise that a sum may get; ascending."""
        if self.on_labels:
            return [0.0] * (len(self.parties) - 1) + [self.on_labels.largest_noise]
        return sorted(map(self.moments.largest_noise, range(len(self.parties))))

    @property
    def size(self) -> int:
        """The sum of all columns' mean squares, at most: what the number of features is where each has mean square 1."""
        return round(sum(party.radius**2 + party.intercept for party in self.parties))

    def required_ridge(self, rows: int) -> float:
        """r of the module: no eigenvalue of the noisy H lies below -r; 0 where H has no noise."""
        return 0.0 if self.on_labels else self.moments.required_ridge(rows, NOISE_CURVATURE)

    def least_ridge(self, rows: int) -> float:
        """The ridge that a training on so many rows has at least, see the module."""
        if self.on_labels:
            columns = sum(party.features + party.intercept for party in self.parties)
            return self.on_labels.ridge(columns) / (NOISE_CURVATURE * rows)
        return RIDGE_MARGIN * self.required_ridge(rows)

    def check_size(self, rows: int) -> None:
        """Refuse noise that exceeds what masks are made for: sums of ``rows`` products of mean square 2^8 each."""
        if self.largest[-1] > rows * 2.0**MEAN_SQUARE_BITS:
            raise Refusal(
                f"The noise may reach {self.largest[-1]:.3g}, and sums over {rows} records are masked up to "
                f"{rows * 2**MEAN_SQUARE_BITS}; raise epsilon, lower clip, or take more records."
            )

    def optimizer(self, given: Document | None, default_alpha: float, rows: int) -> Document:
        """Optimiser settings in FATE's format: those that were given, or gradient descent with momentum 0.9.

        The default step is one over the largest curvature, noise and ridge included, so that it never overshoots.
        ``default_alpha`` is the ridge of a training of as many ``rows`` without noise.
        """
        wanted = given["alpha"] if given and given["penalty"] == "l2" else 0.0 if given else default_alpha
        required = self.required_ridge(rows)
        alpha = max(wanted, self.least_ridge(rows))
        if given:
            return {**given, "penalty": "l2", "alpha": alpha}
        rate = 1 / (self.moments.largest_curvature(NOISE_CURVATURE) + required + alpha)
        params = {"lr": rate, "momentum": MOMENTUM}
        return {"method": "sgd", "penalty": "l2", "alpha": alpha, "optimizer_params": params}

    def to_wire(self) -> Document:
        return {"kind": self.kind, "fit": self.fit, "parties": [party.to_wire() for party in self.parties]}

    @classmethod
    def from_wire(cls, wire: Document) -> NoiseTerms:
        if not isinstance(wire, dict) or wire.keys() != {"kind", "fit", "parties"}:
            raise Refusal(OTHER_NOISE)
        return cls(wire["kind"], wire["fit"], tuple(map(PartyNoise.from_wire, wire["parties"])))


@dataclass(frozen=True)
class Pace:
    """How many batches' losses the guest looks at as one, and whether `STEPS_UNTIL_CHECK` steps run before its word on them."""

    together: int
    lags: bool


@dataclass(frozen=True)
class TrainingTerms:
    """Public numbers that direct a training of n = ``rows`` records; batches are (first row, row after the last).

    Epochs from 0: ``flipback_epochs`` begin with a round of flipback, ``correction_epochs`` with a correction of the
    sigmoid, ``score_epochs`` with joint scores at the guest, for either of the two. ``features`` are numbers of columns of
    all data parties, the guest's first, its intercept among them; the mean square of every column over every batch is at
    most 2^``mean_square_bits``. ``run`` is a random name of the training; ``classes`` are the label values that may occur,
    ascending. The descent comes from the job's parameters and does not travel.
    """

    rows: int
    batches: tuple[tuple[int, int], ...]
    optimizer: Document
    flipback_epochs: tuple[int, ...]
    correction_epochs: tuple[int, ...]
    score_epochs: tuple[int, ...]
    features: tuple[int, ...]
    mean_square_bits: int
    run: str
    noise: NoiseTerms | None
    classes: tuple[float, ...]
    descent: Descent

    def to_wire(self) -> Document:
        wire = {name: getattr(self, name) for name in WIRE}
        lists = {name: list(value) for name, value in wire.items() if isinstance(value, tuple)}
        return {**wire, **lists, "noise": self.noise and self.noise.to_wire()}

    @classmethod
    def from_wire(cls, wire: Document, descent: Descent) -> TrainingTerms:
        """Raises ValueError, one sentence, for what is not of the form that `to_wire` gives."""
        if not isinstance(wire, dict) or wire.keys() != set(WIRE):
            raise Refusal(MALFORMED)
        if type(wire["rows"]) is not int or not _are_whole(wire["features"]):
            raise Refusal(OTHER_SIZES)
        if type(wire["mean_square_bits"]) is not int:
            raise Refusal(OTHER_BOUND)
        if not _are_classes(wire["classes"]):
            raise Refusal(
                "The guest's classes are not two or more numbers in ascending order, 0 and 1 if they are two; this host "
                "trains on no others."
            )
        epochs = [wire[name] for name in ("flipback_epochs", "correction_epochs", "score_epochs")]
        batches = isinstance(wire["batches"], list) and all(_are_whole(bounds, 2) for bounds in wire["batches"])
        if not batches or not all(map(_are_whole, epochs)) or not isinstance(wire["optimizer"], dict):
            raise Refusal(MALFORMED)
        sequences = {name: tuple(value) for name, value in wire.items() if isinstance(value, list)}
        sequences["batches"] = tuple(map(tuple, wire["batches"]))
        noise = None if wire["noise"] is None else NoiseTerms.from_wire(wire["noise"])
        return cls(**{**wire, **sequences, "noise": noise}, descent=descent)

    @property
    def models(self) -> int:
        return models_of(self.classes)

    @property
    def dropped_bits(self) -> int:
        """Bits of features that are rounded off before products; none with noise, whose grid may be finer than they."""
        return 0 if self.noise else DROPPED_BITS

    @property
    def curvature(self) -> int:
        return CURVATURE[self.descent.family]

    @cached_property
    def bounds(self) -> QuadraticBounds:
        if self.noise:
            return self._noisy_bounds(self.noise)
        return QuadraticBounds(
            dimension=sum(self.features),
            divisor=self.curvature,
            penalty=self._ridge,
            mean_square_bits=self.mean_square_bits,
            target_mean_square=2.0**self.descent.target_bits,
        )

    @property
    def penalties(self) -> list[float]:
        """The ridge penalty of every joint weight.

        Without noise the guest's intercept, its last weight, has none; with noise its column carries noise as well.
        """
        bare = self.features[0] - 1 if self.descent.fit_intercept and not self.noise else None
        return [0.0 if at == bare else self._ridge for at in range(sum(self.features))]

    def learning_rates(self) -> list[float]:
        """The step size of every epoch; lets torch judge names and ranges of its parameters before work starts."""
        try:
            rule = PartyOptimizer([0.0], self.optimizer, self.descent.scheduler)
            return rule.learning_rates(self.descent.epochs)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise Refusal(f"optimizer_params or scheduler_params do not fit their method: {error}.") from error

    def update_rule(self, learning_rates: Sequence[float]) -> UpdateRule:
        """The optimiser's rule, linear in weights and gradients; refuses parameters that are not."""
        return UpdateRule.from_sgd(self.optimizer["optimizer_params"], learning_rates)

    def pace(self, learning_rates: Sequence[float]) -> Pace:
        """How often the guest looks at losses; refuses a rule under which not even one step may run unseen."""
        steps = self.descent.epochs * len(self.batches)
        together = min(_MAX_LOSSES_TOGETHER, len(self.batches))
        allowed = steps_allowed(self.bounds, self.update_rule(learning_rates), steps, together)
        lags = allowed > STEPS_UNTIL_CHECK
        return Pace(min(together, allowed - STEPS_UNTIL_CHECK if lags else allowed), lags)

    def losses_opened(self, learning_rates: Sequence[float]) -> int:
        """How many losses the guest gets at most: in every epoch those of each model, one for each group of batches."""
        groups = -(-len(self.batches) // self.pace(learning_rates).together)
        return self.descent.epochs * groups * self.models

    def step_layout(self, key: PublicKey) -> StepLayout:
        """Widths of masks and messages; ``key`` stands for every party's, which have the same length."""
        sizes = [last - first for first, last in self.batches]
        # Shares come in units of 2^-48, whatever the unit that products were made in.
        value_bits = self.sums_layout(max(sizes), key).value_bits + 2 * self.dropped_bits
        matrix_bits = share_bits(value_bits, min(sizes), self.curvature)
        parties, epochs = len(self.features), self.descent.epochs
        return StepLayout(self.bounds, parties, key.key_length, matrix_bits, epochs, sum(sizes))

    def sums_layout(self, rows: int, key: PublicKey) -> SlotLayout:
        """Slots of the cross products of a batch: as narrow as what the parties know of their columns allows.

        By Cauchy and Schwarz the mean product of two columns is at most the root of the product of their mean squares.
        Noise may be as large as the largest sums that there are.
        """
        bits = MEAN_SQUARE_BITS
        if not self.noise:
            bits = max(self.mean_square_bits, -(-(self.mean_square_bits + self.descent.target_bits) // 2))
        return product_layout(rows, key, bits, self.dropped_bits)

    def first_fit(self) -> TrainingTerms:
        """The terms of the first fit of adaptive noise: more noise, hence a ridge and a step size of its own."""
        if self.noise is None:
            raise ValueError("A training without noise has one fit.")
        noise = self.noise.of_fit(FIRST_FIT)
        return replace(self, noise=noise, optimizer=noise.optimizer(None, 0.0, self.rows))

    def check_ridge(self) -> None:
        """At a host: refuse an optimiser under which the noisy loss may have no minimum."""
        if self.noise is None:
            return
        least = self.noise.least_ridge(self.rows)
        if self.optimizer["penalty"] != "l2" or not self._ridge >= least * (1 - 1e-9):
            raise Refusal(
                f"The guest plans a ridge of {self.optimizer['alpha']:g}, but noise needs at least {least:g}."
            )

    @property
    def _ridge(self) -> float:
        return self.optimizer["alpha"] if self.optimizer["penalty"] == "l2" else 0.0

    def _noisy_bounds(self, noise: NoiseTerms) -> QuadraticBounds:
        """Rows are bounded by their radii, so their mean squares are, whatever the data.

        The noise of H is bounded with probability at least 0.999, as above; that of b is bounded for certain: every
        entry holds the noise of at most two parties, none beyond ``largest_noise``. With curvature at least alpha - r
        the loss is nowhere below -|b|^2 / (2 (alpha - r)).
        """
        moments, dimension, alpha = noise.moments, sum(self.features), self.optimizer["alpha"]
        required = noise.required_ridge(self.rows)
        squares = moments.largest_curvature(NOISE_CURVATURE) * NOISE_CURVATURE
        bits: Any = log2(squares / dimension)  # no whole number here
        bounds = QuadraticBounds(
            dimension=dimension,
            divisor=NOISE_CURVATURE,
            mean_square_bits=bits,
            target_mean_square=(NOISE_TARGET / NOISE_CURVATURE) ** 2,
            penalty=alpha,
            noise=required,
            linear_noise=sqrt(dimension) * sum(noise.largest[-2:]) / (NOISE_CURVATURE * self.rows),
        )
        return replace(bounds, minimum=-(bounds.linear_norm**2) / (2 * (alpha - required)))


WIRE = tuple(field.name for field in fields(TrainingTerms) if field.name != "descent")
"""Names of what travels."""


def _are_whole(value: object, count: int | None = None) -> bool:
    """A sequence of integers; with ``count`` of so many."""
    if not isinstance(value, (list, tuple)) or count not in (None, len(value)):
        return False
    return all(type(number) is int for number in value)


def _are_classes(value: object) -> bool:
    if not isinstance(value, list) or len(value) < 2 or not all(type(number) is float for number in value):
        return False
    ascending = all(first < second for first, second in zip(value, value[1:]))
    return ascending and (len(value) > 2 or tuple(value) == BINARY)
