"""Noise on second moments: one party's part in it, and the solver that trains with it.

Rows are clipped, noise is added once to the statistics, before anything is computed from them, and weights are mapped
back. Noise of kind label is the guest's alone, and on X^T t alone; hosts clip their rows for it and add nothing.
Adaptive noise takes two fits. Each has noise of its own, and its own cross products; the first one serves to find the
scales of each party's features, which stay with that party.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from fate_dp.privacy.adaptive_scales import (
    AdaptiveBudget,
    adaptive_scales,
    contribution_sums,
    contributions_event,
    release_contributions,
)
from fate_dp.privacy.events import REPLACE_ONE, Event, Gaussian
from fate_dp.privacy.mechanisms import second_moments
from fate_dp.privacy.mechanisms.label_moments import LabelNoise
from fate_dp.privacy.mechanisms.second_moments import MomentNoise, RowBounds

from ..common.charges import Charges, observers_of
from ..common.federation import Context, Document, data_parties, own_party
from ..common.frames import DataFrame, Table
from ..common.preflight import Refusal
from ..common.vocabulary import ADAPTIVE, LABEL, NONE, RECORD
from ..protocols.training_terms import (
    FIRST_FIT,
    NOISE_TARGET,
    OTHER_NOISE,
    TRAINING,
    NoiseTerms,
    PartyNoise,
    TrainingTerms,
    fits_of,
)
from .cross_product.protocol import CrossProduct
from .labels import Relabelling
from .model import PartyModel
from .rows import UNIT, Block
from .scores import ScoreRelease
from .settings import TrainSettings

PURPOSE = "dp_hetero_lr"
REFUSAL = "The cap that this party's operator set for private steps does not allow this noise."
REFUSAL_OF_LABELS = "The cap that the guest's operator set for these labels does not allow this noise."
CONTRIBUTIONS = "contributions"


def noise_terms(own: PartyNoise | None, hosts: dict[str, PartyNoise | None], rows: int) -> NoiseTerms | None:
    """At the guest: the terms of noise from its own part and those of all hosts, in the order of their columns.

    ValueError where parties disagree, none adds noise, or sums with so much noise would not fit their masks.
    """
    kind, *of_hosts = (part.kind if part else NONE for part in (own, *hosts.values()))
    for name, of_host in zip(hosts, of_hosts):
        if of_host != kind:
            wanted, found = as_asked(kind), as_asked(of_host)
            raise Refusal(f"privacy at {name} must be {wanted}, as at the guest, got {found}.")
    if own is None:
        return None
    parties = (own, *(part for part in hosts.values() if part is not None))
    if own.kind == LABEL and not own.multipliers[TRAINING]:
        raise Refusal("privacy is label, but the guest sets no epsilon, which is that of its labels; set it there.")
    if not any(part.multipliers[TRAINING] for part in parties):
        raise Refusal(
            f"privacy is {RECORD}, but no party sets epsilon, so nobody would add noise; set it at the parties whose records are to "
            "be protected, or set privacy to none."
        )
    terms = NoiseTerms(kind, TRAINING, parties)
    for fit in terms.fits:
        terms.of_fit(fit).check_size(rows)
    return terms


def as_asked(kind: str) -> str:
    return kind if kind in (NONE, LABEL) else f"{RECORD} with noise_spread {kind}"


def check_own_part(noise: NoiseTerms | None, own: PartyNoise | None, position: int, features: tuple[int, ...]) -> None:
    """At a host: what the guest says of noise must hold what this party said of itself; its promise rests on it."""
    if own is None and noise is None:
        return
    if own is None or noise is None or noise.kind != own.kind or noise.fit != TRAINING:
        raise Refusal(OTHER_NOISE)
    if len(noise.parties) != len(features) or noise.parties[position] != own:
        raise Refusal(OTHER_NOISE)
    for at, (part, count) in enumerate(zip(noise.parties, features)):
        if part.kind != noise.kind or part.target != (0 if at else NOISE_TARGET):
            raise Refusal(OTHER_NOISE)
        if part.features + part.intercept != count:
            raise Refusal("The guest's terms of noise speak of other numbers of features than its other terms do.")


@dataclass
class OwnNoise:
    """Of a party that may add noise or none; without an epsilon its rows are clipped, and nothing is promised.

    ``epsilon`` (nats) and ``delta`` are the party's own, ``position`` is its place among the data parties, the guest
    first, and `charge` fills ``drawn`` with the secret noise of every fit.
    """

    kind: str
    epsilon: float | None
    delta: float
    bounds: RowBounds
    position: int
    observers: tuple[str, ...]
    records: int
    charges: Charges
    drawn: dict[str, MomentNoise] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, ctx: Context, settings: TrainSettings, frame: DataFrame, intercept: bool = False, has_target: bool = False
    ) -> "OwnNoise | None":
        """None with privacy none; ValueError, and nothing written, where the party's cap does not allow its noise."""
        if settings.privacy == NONE:
            return None
        features, on_labels = len(frame.schema.columns), settings.privacy == LABEL
        radius = settings.clip or second_moments.typical_radius(features)
        own = cls(
            settings.noise_kind,
            None if on_labels and not has_target else settings.epsilon,
            settings.delta,
            RowBounds(features, radius, intercept, NOISE_TARGET if has_target else 0.0),
            data_parties(ctx).index(own_party(ctx)),
            observers_of(ctx),
            frame.shape[0],
            Charges(ctx, frame, REFUSAL_OF_LABELS, label_source=settings.label_source)
            if on_labels and has_target
            else Charges(ctx, frame, REFUSAL),
        )
        if own.epsilon is not None:
            own.charges.check([(event, 1) for _, event in own.planned_events()])
        return own

    @property
    def part(self) -> PartyNoise:
        return PartyNoise(self.kind, **asdict(self.bounds), multipliers=self._multipliers())

    @property
    def unit(self) -> str:
        return LABEL if self.kind == LABEL else RECORD

    def planned_events(self) -> list[tuple[str, Event]]:
        """(purpose, event) of everything that will be charged; the slack of the Gaussian ones is known later."""
        gaussian = [
            (f"{PURPOSE}: {fit}", Event(Gaussian(multiplier), self.unit, REPLACE_ONE, self.observers))
            for fit, multiplier in self._multipliers().items()
        ]
        return gaussian + self._contribution_events()

    def charge(self, noise: NoiseTerms) -> None:
        """Draw the noise of every fit of the agreed terms, and charge all of it before any is used."""
        bounds = [party.bounds for party in noise.parties]
        for fit in noise.fits:
            of_fit = noise.of_fit(fit)
            if of_fit.on_labels and self.epsilon is not None:
                drawn_for_labels = of_fit.on_labels.draw(sum(own.weights for own in bounds), self.observers)
                self.drawn[fit] = noise_of_targets(drawn_for_labels, bounds)
            else:
                self.drawn[fit] = of_fit.moments.draw(self.position, self.observers)
        if self.epsilon is not None:
            drawn = [(f"{PURPOSE}: {fit}", of_fit.event) for fit, of_fit in self.drawn.items()]
            for purpose, event in drawn + self._contribution_events():
                assert event is not None, "The agreed terms draw no noise for this party, although its epsilon is set."
                self.charges.record([(event, 1)], purpose)

    def clipped(self, rows: Table, scales: np.ndarray, noise: NoiseTerms) -> Table:
        """The rows with their features divided by the scales, clipped, and rounded to the grid of a fit's noise."""
        bits = noise.fraction_bits
        return rows.mapValues(partial(_clipped, scales=scales, bounds=self.bounds, fraction_bits=bits))

    def scales(self, rows: Table, first_weights: np.ndarray) -> np.ndarray:
        """Scales of the party's features from its weights of the first fit; ones where nothing is promised.

        A record's contributions are divided by their sum, so it does not matter by how much its row would be shortened.
        """
        if self.epsilon is None:
            return second_moments.unit_scales(self.bounds)
        weights = first_weights[: self.bounds.features]
        sums = rows.mapValues(partial(_contributions, weights=weights)).reduce(np.add)
        return adaptive_scales(self._released(sums).value)

    def promise(self) -> Document:
        """For the model's metadata: what noise it was trained with and what that promises this party's records."""
        return {
            "kind": self.kind,
            "epsilon": "infinity" if self.epsilon is None else self.epsilon,
            "delta": 0.0 if self.epsilon is None else self.delta,
            "radius": self.bounds.radius,
            "unit": self.unit,
            "relation": str(REPLACE_ONE),
            "observers": list(self.observers),
        }

    def _multipliers(self) -> dict[str, float]:
        if self.epsilon is None:
            return dict.fromkeys(fits_of(self.kind), 0.0)
        if self.kind == ADAPTIVE:
            budget = AdaptiveBudget(self.epsilon, self.delta)
            return {FIRST_FIT: budget.first_fit_multiplier, TRAINING: budget.training_multiplier}
        return {TRAINING: second_moments.noise_multiplier_for(self.epsilon, self.delta)}

    def _released(self, sums: np.ndarray) -> Any:
        assert self.epsilon is not None, "A party without a budget releases no contributions."
        epsilon = AdaptiveBudget(self.epsilon, self.delta).contribution_epsilon
        return release_contributions(sums, self.records, epsilon, observers=self.observers)

    def _contribution_events(self) -> list[tuple[str, Event]]:
        if self.kind != ADAPTIVE or self.epsilon is None:
            return []
        epsilon = AdaptiveBudget(self.epsilon, self.delta).contribution_epsilon
        event = contributions_event(self.bounds.features, epsilon, observers=self.observers)
        return [(f"{PURPOSE}: {CONTRIBUTIONS}", event)]


@dataclass(frozen=True)
class Noised:
    """A `Solver` around the cross product; ``model`` gets weights for the features as they are. ``own`` is None at the arbiter."""

    solver: CrossProduct
    own: OwnNoise | None

    def train_guest(self, ctx: Context, rows: Table, model: PartyModel, relabelling: Relabelling) -> None:
        self._train(ctx, rows, model, lambda solver, *of_fit: solver.train_guest(*of_fit, relabelling))

    def train_host(self, ctx: Context, rows: Table, model: PartyModel, release: ScoreRelease) -> None:
        if self.own is not None and self.own.epsilon is not None:
            # Losses are functions of the noisy moments, and cost no more.
            release = replace(release, losses=None)
        self._train(ctx, rows, model, lambda solver, *of_fit: solver.train_host(*of_fit, release))

    def serve_arbiter(self, ctx: Context, terms: TrainingTerms) -> int:
        """Follow both fits of adaptive noise; returns the epochs of the last one."""
        if terms.noise is not None and FIRST_FIT in terms.noise.fits:
            self.solver.serve_arbiter(ctx.sub_ctx(FIRST_FIT), terms)
        return self.solver.serve_arbiter(ctx, terms)

    def _train(self, ctx: Context, rows: Table, model: PartyModel, fit: Callable) -> None:
        own, noise = self.own, model.terms.noise
        assert own is not None and noise is not None, "A party without noise of its own cannot train with noise."
        scales = second_moments.unit_scales(own.bounds)
        if FIRST_FIT in noise.fits:
            clipped = own.clipped(rows, scales, noise.of_fit(FIRST_FIT))
            first = PartyModel(
                model.settings, model.terms.first_fit(), model.header, model.columns, model.fit_intercept
            )
            fit(replace(self.solver, noise=own.drawn[FIRST_FIT]), ctx.sub_ctx(FIRST_FIT), clipped, first)
            scales = own.scales(rows, first.weights)
        fit(replace(self.solver, noise=own.drawn[TRAINING]), ctx, own.clipped(rows, scales, noise), model)
        model.weights = model.weights / np.append(scales, np.ones(int(own.bounds.intercept)))
        # Shares of the velocity are in the scaled space, of no use to a training that goes on without noise.
        model.shared_states, model.noise = [None], own.promise()
        own.charges.mark_released()


def noise_of_targets(noise: LabelNoise, bounds: list[RowBounds]) -> MomentNoise:
    """Noise on X^T t of all columns, the guest's first, as what the guest adds to its target's products."""
    guest, *_ = bounds
    ends = np.cumsum([own.weights for own in bounds])
    own, *of_hosts = np.split(noise.values, ends[:-1])
    gram = np.zeros((guest.columns, guest.columns), dtype=object)
    gram[: guest.weights, guest.weights] = gram[guest.weights, : guest.weights] = own
    cross = {}
    for position, of_host in enumerate(of_hosts, 1):
        cross[position] = np.zeros((guest.columns, len(of_host)), dtype=object)
        cross[position][guest.weights] = of_host
    return MomentNoise(gram, cross, noise.event)


def _clipped(block: Block, scales: np.ndarray, bounds: RowBounds, fraction_bits: int) -> Block:
    """An intercept stays 1."""
    features = second_moments.clip_rows(block.features[:, : bounds.features] * UNIT, scales, bounds, fraction_bits)
    return block._replace(features=np.hstack([features, block.features[:, bounds.features :]]))


def _contributions(block: Block, weights: np.ndarray) -> np.ndarray:
    return contribution_sums(block.features[:, : len(weights)] * UNIT, weights)
