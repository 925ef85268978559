"""Pictures from gradients: every attack against every defence, on the network of the papers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bench.attack_methods.gradient_inversion import (
    Reconstruction,
    SearchOptions,
    deep_leakage,
    inverted_gradients,
    layer_input,
    matched,
)
from bench.attack_methods.gradient_labels import recovered_labels
from bench.attack_methods.prior_inversion import PublicRecords, expected_record, linear_estimate
from bench.attack_methods.results import Yardstick, psnr, ssim
from bench.attack_methods.round_views import (
    averaged_view,
    clipped_view,
    noised_view,
    plain_view,
    summed_view,
    updated_view,
)
from bench.attack_methods.view import LocalSteps, RoundView
from bench.attacks_trials import CLIP, EPSILONS, Line, Plan, Progress, made_result, training_terms
from bench.homo_nn_pictures import ARCHIVES, CLASSES, TEST, TRAIN, load_pictures
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, dimension
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms

Array = NDArray[np.float64]
MNIST, PHOTOGRAPHS = ARCHIVES["mnist"], ARCHIVES["cifar10"]
# As `bench.homo_nn` trains on MNIST.
RECORDS, SAMPLING, ROUNDS = 60_000, 0.25, 80
DRAWN = int(ROUNDS * SAMPLING)
"""Rounds in which a record takes part, on average."""
IN_A_SUM = 4
LOCAL = LocalSteps(5, 0.01)
VARIATION = 1e-2
SHOWN = 8
RESTARTS = 4
NEAR_ENOUGH = 1e-5
CONTROL = Yardstick(
    30.0,
    "a control: 30 dB. Geiping et al. 2020, table 1, print 46.25 ± 12.66 dB (mean and standard deviation) for this attack "
    "on this network, untrained, with 100 CIFAR-10 pictures and 16 starts.",
)
FIGURE, UNIT = "psnr", "dB"
LENET, MLP = "LeNet of Zhu et al.", "mlp of dp_homo_nn"
DLG, SIGNS = "deep leakage (L-BFGS)", "cosine and total variation (Adam on signs)"
EXPECTED, LINEAR, ANALYTIC = "expected record (Bayes)", "linear estimate", "analytic (first layer)"


@dataclass(frozen=True, eq=False)
class Pictures:
    """Targets, of the test part, and what is public, of the training part: float32 (n, channels, height, width), 0 to 1."""

    targets: NDArray[np.float32] = field(repr=False)
    labels: NDArray[np.int64]
    public: NDArray[np.float32] = field(repr=False)
    public_labels: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(cls, data: str, folder: Path, plan: Plan) -> Pictures:
        """Targets are the first of the test part, but that photographs, which are ordered by class, are drawn."""
        chosen = []
        for part, count in ((TEST, max(plan.pictures, plan.few * IN_A_SUM)), (TRAIN, plan.public)):
            pictures, labels = load_pictures(data, part, folder)
            places = np.arange(count) if data == "mnist" else np.random.default_rng(0).permutation(len(labels))[:count]
            chosen += [pictures[places].astype(np.float32) / 255, labels[places]]
        return cls(*chosen)

    def batches(self, count: int, size: int = 1) -> list[slice]:
        return [slice(start * size, (start + 1) * size) for start in range(count)]


def lenet(channels: int, side: int, seed: int = 0) -> nn.Sequential:
    """The network of Zhu et al. 2019 that the source calls "LeNet (Zhu)": sigmoids, strides in place of pooling, and start
    weights uniform between -1/2 and 1/2.
    """
    network = nn.Sequential(
        nn.Conv2d(channels, 12, 5, 2, 2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, 2, 2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, 1, 2),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Linear(12 * (-(-side // 4)) ** 2, CLASSES),
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) - 0.5)
    return network


Attack = Callable[[RoundView], Reconstruction]


def leakage(options: SearchOptions) -> Attack:
    return lambda view: deep_leakage(view, recovered_labels(view), options)


def by_signs(options: SearchOptions) -> Attack:
    return lambda view: inverted_gradients(view, recovered_labels(view), options)


class PictureBench:
    """Attacks on one set of pictures and one network; ``lines`` grows with each."""

    def __init__(self, pictures: Pictures, model: str, module: nn.Module, plan: Plan, progress: Progress) -> None:
        self.pictures, self.model, self.module, self.plan, self.progress = pictures, model, module, plan, progress
        self.lines: list[Line] = []
        self.mean = pictures.public.mean(axis=0, dtype=np.float64)

    def views(self, make: Callable[..., RoundView], count: int, size: int = 1) -> list[RoundView]:
        """Of the first batches of so many targets; ``make`` takes module, pictures and labels."""
        pictures = self.pictures
        return [make(self.module, pictures.targets[at], pictures.labels[at]) for at in pictures.batches(count, size)]

    def add(self, name: str, attack: Attack, views: Sequence[RoundView], yardstick: Yardstick | None = None) -> Line:
        """Run one attack on all views; the line's values are the batches' mean PSNR."""
        size = views[0].records
        found = [attack(view) for view in views]
        originals = [self.pictures.targets[at].astype(np.float64) for at in self.pictures.batches(len(views), size)]
        ordered = [
            matched(truth, one.records.reshape(truth.shape)) if size > 1 else one.records.reshape(truth.shape)
            for truth, one in zip(originals, found)
        ]
        values = np.array([mean_of(psnr, truth, one) for truth, one in zip(originals, ordered)])
        line = Line(
            self.model,
            made_result(
                FIGURE,
                name,
                UNIT,
                views,
                values,
                (baselines := self.baselines(originals)),
                [one.cost for one in found],
                median,
                yardstick,
            ),
            views[0].defence.words,
            values,
            baselines,
            median(np.array([mean_of(ssim, truth, one) for truth, one in zip(originals, ordered)])),
            np.concatenate(originals)[:SHOWN],
            np.concatenate(ordered)[:SHOWN],
        )
        self.lines.append(line)
        self.progress(
            f"{self.model}, {name}, {line.result.defence}: {line.result.value:.1f} dB (baseline "
            f"{line.result.baseline:.1f} dB), {line.result.cost.seconds:.1f} s each."
        )
        return line

    def baselines(self, originals: Sequence[Array]) -> Array:
        """Of black or of the mean public picture: whichever is the better one for most."""
        candidates = [np.zeros_like(self.mean), self.mean]
        values = [
            np.array([mean_of(psnr, truth, np.broadcast_to(picture, truth.shape)) for truth in originals])
            for picture in candidates
        ]
        return max(values, key=median)


def median(values: Array) -> float:
    return float(np.median(values))


def mean_of(measure: Callable[[Array, Array], float], originals: Array, found: Array) -> float:
    return float(np.mean([measure(one, other) for one, other in zip(originals, found)]))


def attack_undefended(folder: Path, plan: Plan, progress: Progress) -> list[Line]:
    """MNIST on the network of the papers, without noise."""
    bench = PictureBench(Pictures.of("mnist", folder, plan), LENET, lenet(1, 28), plan, progress)
    search = SearchOptions(plan.steps, RESTARTS, enough=NEAR_ENOUGH)
    plain = bench.views(plain_view, plan.pictures)
    bench.add(DLG, leakage(search), plain, CONTROL)
    signs = SearchOptions(plan.sign_steps, variation=VARIATION)
    bench.add(SIGNS, by_signs(signs), plain[: plan.few])

    def clipped(module: nn.Module, records: Array, labels: NDArray[np.int64]) -> RoundView:
        return clipped_view(module, records, labels, CLIP)

    def updated(module: nn.Module, records: Array, labels: NDArray[np.int64]) -> RoundView:
        return updated_view(module, records, labels, LOCAL)

    bench.add(DLG, leakage(search), bench.views(clipped, plan.clipped))
    bench.add(DLG, leakage(search), bench.views(updated, plan.few))
    longer = replace(search, steps=2 * plan.steps, restarts=2)
    bench.add(DLG, leakage(longer), bench.views(summed_view, plan.few, IN_A_SUM))
    return bench.lines


def attack_noised(folder: Path, plan: Plan, progress: Progress) -> list[Line]:
    """The same with noise."""
    bench = PictureBench(Pictures.of("mnist", folder, plan), LENET, lenet(1, 28), plan, progress)
    public = PublicRecords.at(bench.module, bench.pictures.public, bench.pictures.public_labels, CLIP)
    for epsilon in EPSILONS:
        terms = training_terms(dimension(bench.module), epsilon, RECORDS, SAMPLING * RECORDS, ROUNDS)
        views = bench.views(noised_by(terms, epsilon), plan.pictures)
        bench.add(DLG, leakage(SearchOptions(plan.noised_steps)), views)
        if epsilon == EPSILONS[0]:
            bench.add(SIGNS, by_signs(SearchOptions(plan.sign_steps, variation=VARIATION)), views[: plan.few])
            rounds = bench.views(noised_by(terms, epsilon, DRAWN), plan.pictures)
            bench.add(EXPECTED, lambda view: expected_record(view, public), rounds)
            bench.add(LINEAR, lambda view: linear_estimate(view, public), rounds)
        bench.add(EXPECTED, lambda view: expected_record(view, public), views)
        bench.add(LINEAR, lambda view: linear_estimate(view, public), views)
    return bench.lines


def noised_by(terms: RoundTerms, epsilon: float, rounds: int = 1) -> Callable[..., RoundView]:
    """A maker of views of so many rounds of a private training."""

    def make(module: nn.Module, records: Array, labels: NDArray[np.int64]) -> RoundView:
        views = [noised_view(module, records, labels, terms, epsilon) for _ in range(rounds)]
        return views[0] if rounds == 1 else averaged_view(views)

    return make


def attack_first_layers(folder: Path, plan: Plan, progress: Progress) -> list[Line]:
    """MNIST on a perceptron of ``dp_homo_nn``, where no search is needed."""
    pictures = Pictures.of("mnist", folder, plan)
    module = nn.Sequential(nn.Flatten(), build_model(ModelSpec("mlp", 28 * 28, CLASSES)))
    bench = PictureBench(pictures, MLP, module, plan, progress)
    bench.add(ANALYTIC, layer_input, bench.views(plain_view, plan.pictures))
    bench.add(ANALYTIC, layer_input, bench.views(partial(clipped_view, clip=CLIP), plan.pictures))
    terms = training_terms(dimension(module), EPSILONS[0], RECORDS, SAMPLING * RECORDS, ROUNDS)
    bench.add(ANALYTIC, layer_input, bench.views(noised_by(terms, EPSILONS[0]), plan.few))
    return bench.lines


DIGITS = (attack_undefended, attack_noised, attack_first_layers)
"""All attacks on MNIST, in the order of the table."""


def attack_photographs(folder: Path, plan: Plan, progress: Progress) -> list[Line]:
    """The source's setting: CIFAR-10 on the same network, untrained, without a defence."""
    pictures = Pictures.of("cifar10", folder, plan)
    bench = PictureBench(pictures, f"{LENET}, CIFAR-10", lenet(3, 32), plan, progress)
    search = SearchOptions(2 * plan.steps, RESTARTS, enough=NEAR_ENOUGH)
    plain = bench.views(plain_view, plan.few)
    bench.add(DLG, leakage(search), plain)
    bench.add(SIGNS, by_signs(SearchOptions(plan.sign_steps, variation=VARIATION)), plain)
    return bench.lines
