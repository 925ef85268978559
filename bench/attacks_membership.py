"""Membership inference on models that ``dp_homo_nn`` trains, with and without privacy.

1. *Fashion-MNIST, 4,000 candidates*: each is a member of each model by a fair coin, so a model has 2,000 members on average,
   held by ten clients. A population of models is trained; each is a target in turn, with all others as reference models. The
   figures are those of softmax regression at clip 24. In the full run the perceptron at clip 1 stands beside it, which leaks
   more, at the same epsilon: a clip that nearly every gradient reaches lets every record weigh as much as it may.
2. *The thesis' setting* ([He2021], 5.3.2): 30 parties of ten records each, of which one is the attacker. Each of the 580
   candidates of the 29 others takes part by a fair coin; the attacker gets the trained model, knows its own ten records, and
   trains reference models with these. The data are MNIST's; the thesis' network has convolutions, this one is `mlp`.

Coins of their own make add-or-remove the right relation: with a candidate or without it, the others have the same law.
The first scene's settings were looked for in a plain imitation of the rounds (float32, normal noise): with regression and
perceptron, clips 1, 4 and 16, and 17 to 25 models, LiRA found 1.4 to 2.4 % of the members at epsilon 8, and the regression at
clip 16 leaked least. Of that, other rounds, clips and rates were tried with 32 models on two other sets of candidates: 80
rounds at clip 16 had 1.5 and 1.6 % (test accuracy 0.777), 120 rounds at clip 24 had 1.2 and 1.3 % (0.753). What nearly no
gradient reaches lets no record weigh as much as it may, and costs accuracy. So the figure is one of that setting, not of
epsilon 8.

Public records, for RMIA and the quantile regression, are others of the same set; they are no members of any model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.attack_methods.membership import (
    Asked,
    PublicConfidences,
    References,
    above_quantile,
    allowed_by,
    allowed_by_profile,
    found_at,
    likelihood_ratio,
    likelihood_ratio_offline,
    relative,
    relative_offline,
)
from bench.attack_methods.released import ReleasedModel
from bench.attack_methods.results import AttackResult, Cost, Yardstick, bootstrap
from bench.attacks_trainings import Held, Setting, client_rows, defence_of_terms, delta_profile, train
from bench.attacks_trials import DELTA, Figure
from bench.homo_nn_pictures import CLASSES, TEST, TRAIN, load_pictures
from bench.homo_nn_workers import Job, Stage
from fate_dp.attacks.of_views import Interval
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms
from fate_dp.pipelines.jobs.text_tables import TextTable

Array = NDArray[np.float64]
Progress = Callable[[str], None]
REGRESSION = ModelSpec("logistic_regression", 28 * 28, CLASSES)
PERCEPTRON = ModelSpec("mlp", 28 * 28, CLASSES, {"hidden": [64]})
TESTED = 2000
# Rounds between two measurements of the test accuracy.
MEASURED = 5
RATES = (0.01, 0.001)
LOST = 0.03
"""What a target's test accuracy may be below that of its best round, so that nobody attacks a model that nobody releases."""
SEED = 0


@dataclass(frozen=True)
class Plan:
    """How many models are trained for each defence, and at which epsilons."""

    models: int
    epsilons: tuple[float, ...]
    perceptrons: int
    thesis: int


QUICK = Plan(10, (8.0,), 0, 0)
FULL = Plan(32, (8.0, 1.0), 12, 12)


@dataclass(frozen=True)
class Scene:
    """Who holds what: the first ``candidates`` training records, then those that ``known`` says, then public ones.

    Attributes:
        known: records of the attacker, members of every model.
        public: records that are members of none.
    """

    title: str
    data: str
    model: ModelSpec
    candidates: int
    known: int
    public: int
    setting: Setting


FASHION = Scene(
    "Membership (Fashion-MNIST, softmax regression)",
    "fashion",
    REGRESSION,
    4000,
    0,
    4000,
    Setting(2000, 10, 120, 24.0, 0.02),
)
LEAKIER = replace(
    FASHION, title="Membership (Fashion-MNIST, perceptron)", model=PERCEPTRON, setting=Setting(2000, 10, 60, 1.0, 0.01)
)
THESIS = Scene(
    "Membership (MNIST, 29 parties and one, perceptron)",
    "mnist",
    PERCEPTRON,
    580,
    10,
    2000,
    Setting(300, 30, 60, 1.0, 0.01),
)
CONTROL = Yardstick(
    0.05,
    "a control: 5 % of the members at a false-positive rate of 1 %. Carlini et al. 2022, table 1, attack larger networks "
    "on other pictures (CIFAR-10 and CIFAR-100) with hundreds of reference models.",
)


@lru_cache(maxsize=2)
def records_of(data: str, folder: Path, part: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Flat pictures, float32 (n, 784) from 0 to 1, and labels, in the archive's order."""
    pictures, labels = load_pictures(data, part, folder)
    return (pictures.reshape(len(pictures), -1) / 255).astype(np.float32), labels


@dataclass(frozen=True, eq=False)
class Trained:
    """What one model of a population says: confidences on candidates and public records, test accuracy while it learnt."""

    candidates: Array = field(repr=False)
    public: Array = field(repr=False)
    accuracies: tuple[float, ...]


def train_one(
    folder: Path, scene: Scene, members: NDArray[np.bool_], terms: RoundTerms | None, tick: Callable[[], None]
) -> Trained:
    """Train a model on the candidates that are members and on what the attacker knows; ask it about everything."""
    features, labels = records_of(scene.data, folder, TRAIN)
    tested, truth = records_of(scene.data, folder, TEST)
    module = build_model(scene.model)
    accuracies = []

    def watch(number: int, weights: Array) -> None:
        if (number + 1) % MEASURED == 0 or number + 1 == scene.setting.rounds:
            accuracies.append(released(weights).accuracy(tested[:TESTED], truth[:TESTED]))
        tick()

    def released(weights: Array) -> ReleasedModel:
        return ReleasedModel.of(module, weights, defence_of_terms(terms, 0.0))

    rows = client_rows(module, held_records(scene, features, labels, members))
    model = released(train(module, rows, scene.setting, terms, watch))
    first = scene.candidates + scene.known
    asked = slice(0, scene.candidates), slice(first, first + scene.public)
    candidates, public = (model.confidences(features[at], labels[at]) for at in asked)
    return Trained(candidates, public, tuple(accuracies))


def held_records(
    scene: Scene, features: NDArray[np.float32], labels: NDArray[np.int64], members: NDArray[np.bool_]
) -> Held:
    """What each client holds: equal shares of the candidates, of which the members count; the attacker is the last."""
    parts = np.array_split(np.arange(scene.candidates), scene.setting.clients - bool(scene.known))
    places = [part[members[part]] for part in parts]
    if scene.known:
        places.append(np.arange(scene.candidates, scene.candidates + scene.known))
    return [(features[part], labels[part]) for part in places]


@dataclass(frozen=True, eq=False)
class Population:
    """Models of one defence: who was a member of each, and what they say; float64 (models, n)."""

    members: NDArray[np.bool_] = field(repr=False)
    candidates: Array = field(repr=False)
    public: Array = field(repr=False)
    accuracies: Array = field(repr=False)

    def references(self, target: int, models: int | None = None) -> tuple[References, PublicConfidences]:
        """Of all models but the target, or of the first so many of them."""
        others = np.delete(np.arange(len(self.members)), target)[:models]
        return (
            References(self.candidates[others], self.members[others]),
            PublicConfidences(self.public[target], self.public[others]),
        )

    @property
    def loses(self) -> float:
        """The most that a model's accuracy is below that of its best round."""
        return float((self.accuracies.max(axis=1) - self.accuracies[:, -1]).max())


@dataclass(frozen=True, eq=False)
class Case:
    """One defence of one scene: ``terms`` and ``epsilon`` are None without privacy."""

    scene: Scene
    epsilon: float | None
    terms: RoundTerms | None
    models: int

    @property
    def name(self) -> str:
        defence = "no defence" if self.epsilon is None else f"epsilon {self.epsilon:g}"
        return f"{self.scene.model.name}, {self.scene.data}, {defence}"

    def trainings(self, folder: Path) -> Stage:
        """All models; who is a member of which is a public coin of the benchmark."""
        scene, members = self.scene, np.random.default_rng(SEED).random((self.models, self.scene.candidates)) < 0.5
        jobs = [
            Job(self.name, scene.setting.rounds, train_one, (folder, scene, flags, self.terms)) for flags in members
        ]
        return Stage(jobs, lambda found: population_of(members, found))

    def attacks(self, folder: Path, population: Population) -> Stage:
        """The lines of the scene under this defence."""
        job = Job(f"attacks, {self.name}", len(attacks_on(self.scene, folder)), attack_case, (folder, self, population))
        return Stage([job], lambda found: found[0])


def cases_of(plan: Plan) -> list[Case]:
    """All scenes, each without privacy and at every epsilon."""
    found = []
    for scene, models, epsilons in (
        (FASHION, plan.models, plan.epsilons),
        (LEAKIER, plan.perceptrons, plan.epsilons[:1]),
        (THESIS, plan.thesis, plan.epsilons[:1]),
    ):
        module = build_model(scene.model)
        if models:
            found.append(Case(scene, None, None, models))
            found += [Case(scene, each, scene.setting.terms(module, each), models) for each in epsilons]
    return found


def population_of(members: NDArray[np.bool_], found: Sequence[Trained]) -> Population:
    """Models that were trained, with who was a member of each."""
    return Population(
        members,
        np.array([each.candidates for each in found]),
        np.array([each.public for each in found]),
        np.array([each.accuracies for each in found]),
    )


def attack_case(folder: Path, case: Case, population: Population, tick: Callable[[], None]) -> list[Line]:
    """`lines_of` for a process of its own."""
    return lines_of(case.scene, folder, population, case.terms, case.epsilon or 0.0, lambda said: tick())


FEW = 2
LIRA, LIRA_OFFLINE = "LiRA, online", "LiRA, offline"
ALONE = "confidence alone"
Attack = Callable[[Population, int], Array]


def attacks_on(scene: Scene, folder: Path) -> dict[str, Attack]:
    """By name, the scores of all candidates for one target of a population."""
    features, labels = records_of(scene.data, folder, TRAIN)
    first = scene.candidates + scene.known

    def asked(confidences: Array, start: int) -> Asked:
        at = slice(start, start + len(confidences))
        return Asked(features[at], labels[at], confidences)

    def by(attack: Callable[..., Array], models: int | None = None) -> Attack:
        """One that reads reference models; RMIA reads public records, too."""

        def scores(population: Population, target: int) -> Array:
            references, public = population.references(target, models)
            needed = (public,) if attack in (relative, relative_offline) else ()
            return attack(population.candidates[target], references, *needed)

        return scores

    return {
        LIRA: by(likelihood_ratio),
        LIRA_OFFLINE: by(likelihood_ratio_offline),
        "RMIA, online": by(relative),
        f"RMIA, offline, {FEW} reference models": by(relative_offline, FEW),
        "quantile regression": lambda population, target: above_quantile(
            asked(population.candidates[target], 0), asked(population.public[target], first)
        ),
        ALONE: lambda population, target: population.candidates[target],
    }


@dataclass(frozen=True, eq=False)
class Line:
    """One attack on all targets of one defence.

    ``results`` are the mean rates of members found, at each of `RATES`; ``allowed`` what epsilon allows there by itself, and
    ``tight`` by the training's whole profile; ``accuracy`` is the mean test accuracy, ``loses`` as in `Population`.
    """

    results: tuple[AttackResult, ...]
    allowed: tuple[float, ...]
    tight: tuple[float, ...]
    accuracy: float
    loses: float
    words: str


def lines_of(
    scene: Scene, folder: Path, population: Population, terms: RoundTerms | None, epsilon: float, progress: Progress
) -> list[Line]:
    """Every attack on every target; the candidates who are no members set the threshold, target by target."""
    defence = defence_of_terms(terms, epsilon)
    delta_of = None if terms is None else delta_profile(terms)
    allowed = tuple(1.0 if terms is None else allowed_by(rate, epsilon, DELTA) for rate in RATES)
    tight = tuple(1.0 if delta_of is None else allowed_by_profile(rate, delta_of, epsilon) for rate in RATES)
    lines, targets = [], range(len(population.members))
    for name, attack in attacks_on(scene, folder).items():
        started = time.perf_counter()
        scores = [attack(population, target) for target in targets]
        cost = Cost((time.perf_counter() - started) / len(targets), 0)
        results = []
        for rate in RATES:
            if rate * scene.candidates / 2 < 2:
                continue
            values = np.array([found_at(scores[target], population.members[target], rate) for target in targets])
            control = CONTROL if (terms, name, rate, scene) == (None, LIRA, RATES[0], FASHION) else None
            interval = bootstrap(values, mean)
            results.append(
                AttackResult(
                    "tpr", name, defence.name, mean(values), "share", interval, rate, control, len(targets), cost
                )
            )
        accuracy = mean(population.accuracies[:, -1])
        lines.append(Line(tuple(results), allowed, tight, accuracy, population.loses, defence.words))
        progress(sentence(scene.title, lines[-1]))
    return lines


def sentence(title: str, line: Line) -> str:
    """What an attack found, in words."""
    result = line.results[0]
    return (
        f"{title}, {result.attack}, {result.defence}: {result.value:.4f} ({interval_of(result)}) of the members at "
        f"{RATES[0]:.0%} false positives (allowed {line.tight[0]:.3f}), test accuracy {line.accuracy:.3f}."
    )


def mean(values: Array) -> float:
    return float(np.mean(values))


def by_scene(cases: Sequence[Case], found: Sequence[list[Line]], progress: Progress) -> dict[str, list[Line]]:
    """All lines, by the title of their scene."""
    lines: dict[str, list[Line]] = {}
    for case, added in zip(cases, found, strict=True):
        lines.setdefault(case.scene.title, []).extend(added)
        for line in added:
            progress(sentence(case.scene.title, line))
    return lines


def summarised(lines: Sequence[Line]) -> list[Figure]:
    """The figures that the project states, of the first scene's lines."""
    return _figures(lines, LIRA, {"lira_tpr_no_privacy": "no defence", "lira_tpr_eps_8": "epsilon 8"})


def leakier(lines: Sequence[Line]) -> list[Figure]:
    """The same of the scene that leaks more at like accuracy, which the first one's figures need beside them."""
    return _figures(lines, LIRA, {"lira_tpr_no_privacy_leakier": "no defence", "lira_tpr_eps_8_leakier": "epsilon 8"})


def _figures(lines: Sequence[Line], attack: str, named: Mapping[str, str]) -> list[Figure]:
    """Of one attack, under the name of each defence."""
    figures = []
    for name, defence in named.items():
        for line in lines:
            result = line.results[0]
            if (result.attack, result.defence) == (attack, defence):
                words = (
                    f"of the members found at 1 % false positives, {defence}; test accuracy {line.accuracy:.3f}, at most "
                    f"{line.loses:.3f} below the best round's; {result.attack}"
                )
                figures.append(Figure(name, result.value, result.interval, words))
    return figures


def beyond_epsilon(lines: Sequence[Line]) -> Figure:
    """How many rates exceed, with confidence, what the training's epsilons and deltas allow: none may."""
    above = [result for line in lines for result, most in zip(line.results, line.tight) if result.interval.low > most]
    words = f"of {sum(len(line.results) for line in lines)} rates exceed what epsilon allows, with confidence"
    count = float(len(above))
    return Figure("members_beyond_epsilon", count, Interval(count, count, "a count"), words)


HEADINGS = (
    "attack",
    "defence",
    "found at 1 %",
    "95 % interval",
    "found at 0.1 %",
    "interval",
    "allowed at 1 %",
    "by the profile",
    "accuracy",
    "targets",
)
NOTE = (
    "Found: the mean share of members whose score is above that of all but 1 % (0.1 %) of the candidates who are no members; "
    "without any knowledge it is these 1 % (0.1 %). Allowed: what epsilon lets any attack find, by itself and by all pairs of "
    "epsilon and delta of the training at once. Intervals are bootstraps over targets."
)


def interval_of(result: AttackResult) -> str:
    return f"{result.interval.low:.4f} to {result.interval.high:.4f}"


def row(line: Line) -> tuple[str, ...]:
    """The cells of a line, under `HEADINGS`."""
    first, second = line.results[0], line.results[1] if len(line.results) > 1 else None
    return (
        first.attack,
        first.defence,
        f"{first.value:.4f}",
        interval_of(first),
        f"{second.value:.4f}" if second else "",
        interval_of(second) if second else "",
        f"{line.allowed[0]:.3f}",
        f"{line.tight[0]:.3f}",
        f"{line.accuracy:.3f}",
        f"{first.targets}",
    )


def table_of(lines: Sequence[Line]) -> TextTable:
    return TextTable(HEADINGS, tuple(map(row, lines)), frozenset(HEADINGS[2:]))
