"""Ways to balance the two classes, and shares of two institutions from unevenly to evenly: what each does to the models.

All ways are compared on the same splits, so that differences between them are those of the balancing alone; so are shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fate_dp.data_prep.lending_club.cleaning import CleanLoans
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import CannotDivide, Division, divide

from .homo_lr import HomoLRSettings
from .models import (
    CENTRAL,
    CENTRAL_SCIKIT,
    FEDERATED,
    class_measures,
    numbers,
    party_rows,
    pooled_rows,
    scikit_scores,
    train,
)
from .result import BALANCING, SHARES, model

INSTITUTION_SHARES = ((0.05, 0.95), (0.1, 0.9), (0.2, 0.8), (0.3, 0.7), (0.4, 0.6), (0.5, 0.5))
INSTITUTIONS = ("9999", "10000")
SHOWN = ("auc", "specificity", "charged_off_f1")
CLASS_WEIGHTS = "class_weights"
TITLES = {
    "none": "no balancing",
    CLASS_WEIGHTS: "class weights",
    "smotenc": "SMOTENC",
    "smotenc_parents": "SMOTENC-parents",
    "smote": "plain SMOTE",
}
TRAINED = {CENTRAL_SCIKIT: "scikit-learn", CENTRAL: "central", FEDERATED: "federated"}
MAX_SEEDS = 10
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Loans:
    """The cleaned loans, how they are prepared, HomoLR's settings, and the seeds of the splits."""

    clean: CleanLoans
    options: PrepOptions
    settings: HomoLRSettings
    seeds: Sequence[int]

    def division(self, seed: int, **changes: object) -> tuple[Division, PrepOptions]:
        options = replace(self.options, seed=seed, **changes)  # type: ignore[arg-type]
        return divide(self.clean, options), options


@dataclass(frozen=True)
class Balanced:
    """The ``measures`` of each model that a method can be used for, in the order of the seeds, and the largest number
    of synthetic rows that any real row of any party and seed had a part in."""

    measures: dict[str, list[dict]]
    largest_influence: int


def study_balancing(loans: Loans, known: dict[str, Balanced], progress: Progress = lambda text: None) -> list[dict]:
    """The models of each of TITLES over the first MAX_SEEDS; what is ``known`` is not measured again.

    A method that some party has too few rows for has no models.
    """
    found = []
    for method, title in TITLES.items():
        progress(title)
        balanced = known.get(method) or measure_method(loans, method)
        synthetic = f"the most synthetic loans that one real loan had a part in: {balanced.largest_influence}"
        note = synthetic if balanced.largest_influence else "no synthetic loans"
        for name, word in TRAINED.items():
            if name in balanced.measures:
                measured = balanced.measures[name][:MAX_SEEDS]
                found.append(model(BALANCING, f"{name} {method}", f"{title}, {word}", measured, note, names=SHOWN))
    return found


def measure_method(loans: Loans, method: str) -> Balanced:
    """Every model of one method over the first MAX_SEEDS."""
    try:
        measured = [measure_split(loans, seed, method) for seed in loans.seeds[:MAX_SEEDS]]
    except CannotDivide:
        return Balanced({}, 0)
    by_seed, influences = zip(*measured)
    return Balanced({name: [models[name] for models in by_seed] for name in TRAINED}, max(influences))


def measure_split(loans: Loans, seed: int, method: str) -> tuple[dict[str, dict], int]:
    """The measures of each of TRAINED on one split, and the largest influence there."""
    division, options = loans.division(seed, over_sampling=method)
    (test, labels), pooled = numbers(division.test), numbers(pooled_rows(division, options))
    scores = {
        CENTRAL_SCIKIT: scikit_scores(pooled, test),
        CENTRAL: train([pooled], loans.settings).scores(test),
        FEDERATED: train(list(party_rows(division).values()), loans.settings).scores(test),
    }
    measures = {name: class_measures(labels, values, loans.settings.threshold) for name, values in scores.items()}
    return measures, largest_influence(division)


def largest_influence(division: Division) -> int:
    """The largest over all parties."""
    return max(party.largest_influence for party in division.parties)


def study_shares(loans: Loans, progress: Progress = lambda text: None) -> tuple[list[dict], list[str]]:
    """For each of INSTITUTION_SHARES the federated model and both institutions alone, the most uneven first.

    A seed holds out the same test rows for all shares. Shares at which the smaller institution has too few rows have no
    models, but one of the sentences that come second.
    """
    found, left_out = [], []
    for shares in INSTITUTION_SHARES:
        spoken = " / ".join(f"{100 * share:g}" for share in shares)
        progress(spoken)
        try:
            measured = [measure_two(loans, seed, shares) for seed in loans.seeds]
        except CannotDivide:
            left_out.append(f"The study of shares leaves {spoken} out: the smaller institution has too few loans.")
            continue
        for name, by_seed in zip(("federated", "first alone", "second alone"), zip(*measured)):
            found.append(model(SHARES, f"{name} at {spoken}", f"{spoken}, {name}", by_seed, names=SHOWN))
    return found, left_out


def measure_two(loans: Loans, seed: int, shares: tuple[float, float]) -> list[dict[str, float]]:
    """Measures of one split: federated, the first institution alone, the second alone."""
    division, _ = loans.division(seed, parties=INSTITUTIONS, shares=shares)
    (test, labels), rows = numbers(division.test), list(party_rows(division).values())
    models = (train(parties, loans.settings) for parties in (rows, *([party] for party in rows)))
    return [class_measures(labels, each.scores(test), loans.settings.threshold) for each in models]
