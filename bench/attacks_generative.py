"""Pictures of a digit that the attacker never had, from trainings of ``dp_homo_nn`` with and without privacy.

The thesis' setting ([He2021], 5.3.2): 29 honest parties share 1,000 of MNIST's pictures, and the thirtieth is malicious. It has
no record of its own, and claims its generator's pictures to be of an eleventh class. One digit is attacked in each training.
A classifier that was trained on half of the test pictures decides what the generator's pictures show. Where no honest party
has the digit, and all else is as in the undefended training, the same attack shows what it owes to them.

At the end the released model is inverted, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from bench.attack_methods.generative import GeneratingParty, class_representative, likeness
from bench.attack_methods.released import ReleasedModel
from bench.attack_methods.results import AttackResult, Cost, Yardstick, bootstrap
from bench.attacks_membership import records_of
from bench.attacks_trainings import Setting, client_rows, defence_of_terms, train
from bench.attacks_trials import Figure, Line, Progress
from bench.homo_nn_pictures import CLASSES, TEST, TRAIN
from bench.homo_nn_workers import Job, Stage
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms

Array = NDArray[np.float64]
Pictures = NDArray[np.float32]
DATA, RECORDS, SIDE = "mnist", 1000, 28
CLAIMED = CLASSES
MODEL = ModelSpec("mlp", SIDE**2, CLASSES + 1, {"hidden": [64]})
SETTING = Setting(RECORDS, 30, 60, 1.0, 0.005)
MADE, SHOWN = 200, 8
# Of the test pictures, for the classifier; the others measure it.
JUDGED = 5000
GAN, INVERSION = "generator of a party", "inversion of the released model"
WITHOUT = "no defence, nobody has the digit"
CONTROL = Yardstick(
    0.5,
    "a control: half of the pictures are taken for the digit. Hitaj et al. 2017 and Fredrikson et al. 2015 show pictures, and "
    "no share of MNIST's.",
)


@dataclass(frozen=True)
class Plan:
    """Which digits are attacked, and at which epsilons."""

    digits: tuple[int, ...]
    epsilons: tuple[float, ...]


QUICK = Plan((0, 3), (8.0,))
FULL = Plan(tuple(range(CLASSES)), (8.0, 1.0))


@lru_cache(maxsize=1)
def judge(folder: Path) -> nn.Module:
    """A small network with convolutions, trained on the first half of the test pictures; always the same."""
    pictures, labels = (torch.from_numpy(each[:JUDGED]) for each in records_of(DATA, folder, TEST))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Unflatten(1, (1, SIDE, SIDE)),
            nn.Conv2d(1, 8, 5, 2, 2),
            nn.ReLU(),
            nn.Conv2d(8, 16, 5, 2, 2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * (SIDE // 4) ** 2, CLASSES),
        )
        optimizer = torch.optim.Adam(network.parameters(), 2e-3)
        for _ in range(6):
            for batch in torch.randperm(JUDGED).split(50):
                optimizer.zero_grad()
                functional.cross_entropy(network(pictures[batch]), labels[batch]).backward()
                optimizer.step()
    return network


def recognised(network: nn.Module, pictures: Pictures, digit: int) -> float:
    """The share of pictures that the classifier takes for the digit."""
    with torch.no_grad():
        return float((network(torch.from_numpy(pictures)).argmax(dim=1) == digit).float().mean())


@dataclass(frozen=True, eq=False)
class Attacked:
    """What one training gave the attacker: pictures (n, 784), the inverted one (784,), the model's accuracy, seconds."""

    pictures: Pictures = field(repr=False)
    inverted: Pictures = field(repr=False)
    accuracy: float
    seconds: float


def attack_one(folder: Path, digit: int, terms: RoundTerms | None, present: bool, tick: Callable[[], None]) -> Attacked:
    """Train with the malicious party on pictures of all digits, or of all but the attacked one."""
    features, labels = records_of(DATA, folder, TRAIN)
    features, labels = features[:RECORDS], labels[:RECORDS]
    if not present:
        features, labels = features[labels != digit], labels[labels != digit]
    module = build_model(MODEL)
    parts = np.array_split(np.arange(len(labels)), SETTING.clients - 1)
    held = [(features[part], labels[part]) for part in parts]
    rows = client_rows(module, [*held, (features[:0], labels[:0])])
    party, spent = GeneratingParty(module, digit, CLAIMED), 0.0

    def watch(number: int, weights: Array) -> None:
        nonlocal spent
        started = time.perf_counter()
        party.see(weights)
        spent += time.perf_counter() - started
        rows[-1].features, rows[-1].labels = party.records()
        tick()

    weights = train(module, rows, SETTING, terms, watch)
    model = ReleasedModel.of(module, weights, defence_of_terms(terms, 0.0))
    tested, truth = records_of(DATA, folder, TEST)
    return Attacked(
        party.pictures(MADE), class_representative(model, digit), model.accuracy(tested[JUDGED:], truth[JUDGED:]), spent
    )


def stages_of(folder: Path, plan: Plan, progress: Progress) -> list[Stage]:
    """The trainings of each defence, which give its lines: each digit is a target."""
    module, stages = build_model(MODEL), []
    cases: list[tuple[str, float | None, bool]] = [("no defence", None, True), (WITHOUT, None, False)]
    cases += [(f"epsilon {epsilon:g}", epsilon, True) for epsilon in plan.epsilons]
    for name, epsilon, present in cases:
        terms = None if epsilon is None else SETTING.terms(module, epsilon)
        words = defence_of_terms(terms, epsilon or 0.0).words
        if not present:
            words += " No honest party has a picture of the digit."
        jobs = [
            Job(f"generator, {name}", SETTING.rounds, attack_one, (folder, digit, terms, present))
            for digit in plan.digits
        ]
        stages.append(Stage(jobs, partial(told_lines, folder, plan, name, words, progress)))
    return stages


def told_lines(
    folder: Path, plan: Plan, name: str, words: str, progress: Progress, found: Sequence[Attacked]
) -> list[Line]:
    """`lines_of`, and what they say."""
    added = lines_of(folder, plan, name, words, found)
    progress(
        f"Generator, {name}: {added[0].result.value:.2f} of the pictures are taken for the digit, likeness "
        f"{added[1].result.value:.2f} (others' mean {added[1].result.baseline:.2f}); inversion "
        f"{added[2].result.value:.2f}; test accuracy {np.mean([each.accuracy for each in found]):.3f}."
    )
    return added


def lines_of(folder: Path, plan: Plan, name: str, words: str, found: Sequence[Attacked]) -> list[Line]:
    """The share that is recognised, the generator's likeness, and the share of inverted pictures that are recognised."""
    features, labels = (each[JUDGED:] for each in records_of(DATA, folder, TEST))
    network = judge(folder)
    means = [features[labels == digit].mean(axis=0, dtype=np.float64) for digit in plan.digits]
    others = [features[labels != digit].mean(axis=0, dtype=np.float64) for digit in plan.digits]
    wrong = np.array([recognised(network, features[labels != digit], digit) for digit in plan.digits])
    alike = np.array([likeness(other[None], mean) for other, mean in zip(others, means)])
    shares = np.array([recognised(network, each.pictures, digit) for each, digit in zip(found, plan.digits)])
    made = np.array([likeness(each.pictures, mean) for each, mean in zip(found, means)])
    inverted = np.array([recognised(network, each.inverted[None], digit) for each, digit in zip(found, plan.digits)])
    truth = np.array([features[labels == digit][0] for digit in plan.digits]).reshape(-1, 1, SIDE, SIDE)
    shown = np.array([each.pictures[0] for each in found]).reshape(-1, 1, SIDE, SIDE)
    seen = np.array([each.inverted for each in found]).reshape(-1, 1, SIDE, SIDE)
    cost = Cost(float(np.mean([each.seconds for each in found])), 0)
    accuracy = float(np.mean([each.accuracy for each in found]))
    model = f"mlp, accuracy {accuracy:.3f}"

    def line(attack: str, figure: str, values: Array, baselines: Array, pictures: Array | None) -> Line:
        control = CONTROL if (figure, name) == ("recognised", "no defence") else None
        result = AttackResult(
            figure,
            f"{attack}, {figure}",
            name,
            float(values.mean()),
            "share" if figure == "recognised" else "correlation",
            bootstrap(values, lambda drawn: float(np.mean(drawn))),
            float(baselines.mean()),
            control,
            len(values),
            cost,
        )
        originals = None if pictures is None else truth[:SHOWN]
        return Line(
            model, result, words, values, baselines, None, originals, None if pictures is None else pictures[:SHOWN]
        )

    return [
        line(GAN, "recognised", shares, wrong, shown),
        line(GAN, "likeness", made, alike, None),
        line(INVERSION, "recognised", inverted, wrong, seen),
    ]


def summarised(lines: Sequence[Line]) -> list[Figure]:
    """The share of pictures that are taken for the digit, with and without privacy."""
    figures = []
    for name, defence in (
        ("gan_no_privacy", "no defence"),
        ("gan_without_the_digit", WITHOUT),
        ("gan_eps_8", "epsilon 8"),
    ):
        for line in lines:
            if (line.result.attack, line.result.defence) == (f"{GAN}, recognised", defence):
                words = f"of the generator's pictures are taken for the digit: {defence}"
                figures.append(Figure(name, line.result.value, line.result.interval, words))
    return figures
