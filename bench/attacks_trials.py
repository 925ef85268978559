"""What the parts of the attack benchmark share: how much is tried, and one line of its table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.attack_methods.results import AttackResult, Cost, Yardstick, bootstrap, defence_of
from bench.attack_methods.view import RoundView
from fate_dp.attacks.of_views import Interval
from fate_dp.components.protocols.noisy_rounds.account import calibrate_terms
from fate_dp.components.protocols.noisy_rounds.terms import RoundTerms

EPSILONS = (8.0, 4.0, 1.0)
DELTA, RELATION, CLIP = 1e-5, "add_or_remove", 1.0
CLIENTS = 10

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How many targets each attack gets, and how long it searches.

    Attributes:
        pictures: of the attacks that matter most, and of all that are quick.
        few: pictures, or batches of them, of the attacks that take longest.
        clipped: pictures whose clipped gradients are searched for, which shows no more than those without a clip.
        public: records that the observer has of the same kind.
        steps: of L-BFGS where nothing is noised.
        noised_steps: of L-BFGS under noise, whose nearest record is far from the truth however long one searches.
        sign_steps: of Adam on signs.
        batches: of rows of tables.
        rows: single rows of tables.
        photographs: whether photographs (CIFAR-10) are attacked as well, as in the source.
    """

    pictures: int
    few: int
    clipped: int
    public: int
    steps: int
    noised_steps: int
    sign_steps: int
    batches: int
    rows: int
    photographs: bool


QUICK = Plan(20, 3, 3, 1000, 450, 60, 300, 6, 60, False)
FULL = Plan(50, 10, 50, 4000, 600, 200, 2000, 12, 400, True)


@dataclass(frozen=True, eq=False)
class Line:
    """One line of the table, and what it rests on.

    ``values`` are those of the single targets, ``baselines`` what public knowledge gives for the same ones; ``originals`` and
    ``found`` are pictures to show, of the first targets. ``bound`` is the most that the defence's epsilon allows, where one is
    known for the figure.
    """

    model: str
    result: AttackResult
    words: str
    values: NDArray[np.float64] = field(repr=False)
    baselines: NDArray[np.float64] = field(repr=False)
    second: float | None = None
    originals: NDArray[np.float64] | None = field(default=None, repr=False)
    found: NDArray[np.float64] | None = field(default=None, repr=False)
    bound: float | None = None

    @property
    def paired(self) -> NDArray[np.float64]:
        """What the view added to public knowledge, target by target."""
        return self.values - self.baselines


def made_result(
    figure: str,
    attack: str,
    unit: str,
    views: Sequence[RoundView],
    values: NDArray[np.float64],
    baselines: NDArray[np.float64],
    costs: Sequence[Cost],
    statistic: Callable[[NDArray[np.float64]], float],
    yardstick: Yardstick | None,
) -> AttackResult:
    """The figure of one attack on views under one defence, with its interval."""
    return AttackResult(
        figure,
        attack,
        defence_of(views),
        statistic(values),
        unit,
        bootstrap(values, statistic),
        statistic(baselines),
        yardstick,
        len(values),
        Cost.mean(costs),
    )


def training_terms(dimension: int, epsilon: float, records: int, batch_size: float, rounds: int) -> RoundTerms:
    """Terms of a whole training by secure sum, with the noise that ``dp_homo_nn`` calibrates for it."""
    terms = RoundTerms(
        aggregation="secure_sum",
        unit="record",
        clients=CLIENTS,
        max_dropouts=1,
        rounds=rounds,
        batch_size=batch_size,
        records=records,
        clips=(CLIP,),
        dimension=dimension,
        delta=DELTA,
    )
    return calibrate_terms(terms, epsilon, DELTA, RELATION)


def best(lines: Sequence[Line], defences: Sequence[str]) -> Line | None:
    """The line of the attack that gains most over public knowledge against some defences, chosen by what is reported."""
    against = [line for line in lines if line.result.defence in defences]
    return max(against, key=lambda line: line.result.excess, default=None)


@dataclass(frozen=True)
class Figure:
    """A figure of the benchmark, with its interval and what it is, in words."""

    name: str
    value: float
    interval: Interval
    words: str


def summarised(digits: Sequence[Line], loans: Sequence[Line]) -> list[Figure]:
    """The figures that the project states; those whose data are missing are left out."""
    figures = []
    plain, eight = best(digits, ["plain averaging"]), best(digits, ["epsilon 8"])
    networks = [line for line in digits if line.result.yardstick is not None]
    if plain is not None and eight is not None and networks:
        figures.append(_value("psnr_no_defence", networks[0], "dB, median: MNIST, batch 1, smooth network, no defence"))
        figures.append(
            _gain("psnr_excess_eps_8", eight, "dB gained over black or mean picture, one round of epsilon 8")
        )
        several = max((line for line in digits if line.result.defence.startswith("epsilon 8, ")), key=_excess)
        figures.append(_gain("psnr_excess_eps_8_all_rounds", several, "dB gained, all rounds of a record together"))
    undefended = [line for line in loans if line.result.yardstick is not None]
    four = best(loans, ["epsilon 4"])
    if four is not None and undefended:
        figures.append(_value("tab_cells_no_defence", undefended[0], "share of cells: loans, batches of 8, no defence"))
        figures.append(_value("tab_cells_eps_4", four, "share of cells, best attack, one round of epsilon 4"))
        words = "share of cells that is guessed for these rows without any view"
        baseline = float(four.baselines.mean())
        figures.append(Figure("tab_cells_public", baseline, bootstrap(four.baselines, _mean), words))
    return figures


def _excess(line: Line) -> float:
    return line.result.excess


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean())


def _value(name: str, line: Line, words: str) -> Figure:
    return Figure(name, line.result.value, line.result.interval, f"{words}; {line.result.attack}")


def _gain(name: str, line: Line, words: str) -> Figure:
    """The median of the gains, target by target."""
    return Figure(name, float(np.median(line.paired)), bootstrap(line.paired), f"{words}; {line.result.attack}")


HEADINGS = (
    "model",
    "attack",
    "defence",
    "found",
    "95 % interval",
    "public alone",
    "bound",
    "SSIM",
    "targets",
    "seconds",
)


def row(line: Line) -> tuple[str, ...]:
    """The cells of a line, under `HEADINGS`."""
    result, digits = line.result, 1 if line.result.unit == "dB" else 3
    return (
        line.model,
        result.attack,
        result.defence,
        f"{result.value:.{digits}f} {result.unit}",
        f"{result.interval.low:.{digits}f} to {result.interval.high:.{digits}f}",
        f"{result.baseline:.{digits}f}",
        "" if line.bound is None else f"{line.bound:.{digits}f}",
        "" if line.second is None else f"{line.second:.2f}",
        f"{result.targets}",
        f"{result.cost.seconds:.2f}",
    )
