"""Rows of Lending Club's loans from gradients: every attack against every defence, on a perceptron of ``dp_homo_nn``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from bench.attack_methods.gradient_inversion import Labels, Reconstruction, SearchOptions, layer_input
from bench.attack_methods.gradient_labels import recovered_labels
from bench.attack_methods.prior_inversion import PublicRecords, linear_estimate, posterior
from bench.attack_methods.results import Cost, Yardstick
from bench.attack_methods.round_views import clipped_view, plain_view, summed_view
from bench.attack_methods.table_inversion import TableColumns, invert_rows, likely_cells, recovered_cells
from bench.attack_methods.view import RoundView
from bench.attacks_pictures import noised_by
from bench.attacks_trials import CLIP, EPSILONS, Line, Plan, Progress, made_result, training_terms
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, dimension
from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.data_prep.lending_club.columns import CATEGORIES, FEATURES, LABEL, NUMERIC, PUBLIC_LIMITS, PUBLIC_UNITS
from fate_dp.data_prep.lending_club.preparation import to_public_units

Array = NDArray[np.float64]
FILE = "lending_club.csv.gz"
BATCH, SUM, CLIPPED = 8, 16, 4
HIDDEN = [100, 100]
# All records in each of 50 rounds, which is what `dp_homo_nn` does where a job names neither.
RECORDS, ROUNDS = 32_000, 50
ALL_ROUNDS = 4.0
"""The epsilon at which all rounds of a training are put together."""
STARTS = 4
MODEL = "mlp of dp_homo_nn, 100 and 100 units"
FIGURE, UNIT = "tab_cells", "share"
ROWS, TOLD, LIKELY, LINEAR, ANALYTIC = (
    "rows (after TabLeak)",
    "rows, labels told (after TabLeak)",
    "likeliest cells (Bayes)",
    "linear estimate",
    "analytic (first layer)",
)
CONTROL = Yardstick(
    0.8,
    "a control: 80 % of the cells of batches of 8. Vero et al. 2023 attack other tables (Adult and three more) with ReLU; "
    "their abstract prints more than 90 % for the surest cells of batches of 128.",
)

Found = Callable[[RoundView, Labels], Reconstruction]
"""An attack that finds encoded rows; the true labels are for attacks that are told them, as the paper's is."""


@dataclass(frozen=True, eq=False)
class Loans:
    """Targets and public rows, encoded in public units: float32 (n, width)."""

    columns: TableColumns
    targets: NDArray[np.float32] = field(repr=False)
    labels: NDArray[np.int64] = field(repr=False)
    public: NDArray[np.float32] = field(repr=False)
    public_labels: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(cls, folder: Path, plan: Plan) -> Loans:
        """Rows in one random order of public seed; the columns' spread is that of the public ones."""
        frame = clean(folder / FILE).frame
        order = np.random.default_rng(0).permutation(len(frame))
        rows = to_public_units(frame)[list(FEATURES)].to_numpy(np.float32)[order]
        labels = frame[LABEL].to_numpy(np.int64)[order]
        public = rows[-plan.public :]
        units = np.array([PUBLIC_UNITS[name] for name in NUMERIC])
        limits = (np.array([PUBLIC_LIMITS[name] for name in NUMERIC]) - units[:, :1]) / units[:, 1:]
        columns = TableColumns(
            NUMERIC,
            tuple((name, len(values)) for name, values in CATEGORIES.items()),
            limits[:, 0],
            limits[:, 1],
            public[:, : len(NUMERIC)].std(axis=0, dtype=np.float64),
        )
        return cls(columns, rows[: -plan.public], labels[: -plan.public], public, labels[-plan.public :])


class TableBench:
    """Attacks on loans; ``lines`` grows with each."""

    def __init__(self, loans: Loans, module: nn.Module, progress: Progress) -> None:
        self.loans, self.module, self.progress = loans, module, progress
        self.lines: list[Line] = []
        # What one guesses of any row without a view.
        count = len(loans.public)
        self.guess = likely_cells(np.full(count, 1 / count), loans.public.astype(np.float64), loans.columns)

    def views(self, make: Callable[..., RoundView], count: int, size: int = 1) -> list[RoundView]:
        """Of the first batches; ``make`` takes module, rows and labels."""
        places = [slice(start * size, (start + 1) * size) for start in range(count)]
        return [make(self.module, self.loans.targets[at], self.loans.labels[at]) for at in places]

    def add(
        self, name: str, found: Sequence[Array], costs: Sequence[Cost], views: Sequence[RoundView], **more: Yardstick
    ) -> Line:
        """A line of cells (n, cells) that an attack found in each view."""
        size, columns = views[0].records, self.loans.columns
        originals = self.loans.targets[: len(views) * size].astype(np.float64).reshape(len(views), size, -1)
        values = np.array([recovered_cells(truth, cells, columns).mean() for truth, cells in zip(originals, found)])
        guess = np.repeat(self.guess, size, axis=0)
        baselines = np.array([recovered_cells(truth, guess, columns).mean() for truth in originals])
        result = made_result(FIGURE, name, UNIT, views, values, baselines, costs, mean, more.get("yardstick"))
        self.lines.append(Line(f"{MODEL}, batches of {size}", result, views[0].defence.words, values, baselines))
        self.progress(
            f"Loans, {name}, {result.defence}: {result.value:.3f} of cells (baseline {result.baseline:.3f}), "
            f"{result.cost.seconds:.1f} s each."
        )
        return self.lines[-1]

    def invert(self, name: str, attack: Found, views: Sequence[RoundView], **more: Yardstick) -> Line:
        """A line of an attack that finds encoded rows."""
        size = views[0].records
        labels = self.loans.labels[: len(views) * size].reshape(len(views), size)
        found = [attack(view, given) for view, given in zip(views, labels)]
        cells = [self.loans.columns.decided(one.records.reshape(len(one.records), -1)) for one in found]
        return self.add(name, cells, [one.cost for one in found], views, **more)


def mean(values: Array) -> float:
    return float(np.mean(values))


def attack_loans(folder: Path, plan: Plan, progress: Progress) -> list[Line]:
    """All lines of Lending Club's loans."""
    loans = Loans.of(folder, plan)
    module = build_model(ModelSpec("mlp", loans.columns.width, 2, {"hidden": HIDDEN}))
    bench = TableBench(loans, module, progress)
    search = SearchOptions(plan.steps, STARTS)

    def rows(view: RoundView, labels: Labels) -> Reconstruction:
        return invert_rows(view, recovered_labels(view), loans.columns, search)

    def told(view: RoundView, labels: Labels) -> Reconstruction:
        return invert_rows(view, labels, loans.columns, search)

    def told_noise(view: RoundView, labels: Labels) -> Reconstruction:
        return invert_rows(view, labels, loans.columns, SearchOptions(plan.noised_steps, STARTS))

    def clipped(module: nn.Module, records: Array, labels: NDArray[np.int64]) -> RoundView:
        return clipped_view(module, records, labels, CLIP)

    bench.invert(ANALYTIC, lambda view, labels: layer_input(view), bench.views(plain_view, plan.rows))
    bench.invert(ROWS, rows, bench.views(plain_view, plan.batches, BATCH), yardstick=CONTROL)
    bench.invert(TOLD, told, bench.views(clipped, plan.batches, CLIPPED))
    bench.invert(ROWS, rows, bench.views(summed_view, plan.batches // 2, SUM))
    public = PublicRecords.at(module, loans.public, loans.public_labels, CLIP)
    for epsilon in EPSILONS:
        terms = training_terms(dimension(module), epsilon, RECORDS, RECORDS, ROUNDS)
        bench.invert(TOLD, told_noise, bench.views(noised_by(terms, epsilon), plan.batches, CLIPPED))
        _with_public_rows(bench, public, bench.views(noised_by(terms, epsilon), plan.rows))
        if epsilon == ALL_ROUNDS:
            _with_public_rows(bench, public, bench.views(noised_by(terms, epsilon, ROUNDS), plan.batches))
    return bench.lines


def _with_public_rows(bench: TableBench, public: PublicRecords, views: Sequence[RoundView]) -> None:
    columns = bench.loans.columns
    cells = [likely_cells(posterior(view, public), public.records, columns) for view in views]
    bench.add(LIKELY, cells, [Cost(0.0, 0)] * len(views), views)
    bench.invert(LINEAR, lambda view, labels: linear_estimate(view, public), views)
