"""Two institutions that share the same number of rows between them, from unevenly to evenly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fate_dp.data_prep.lending_club.cleaning import CleanLoans
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import CannotDivide, Division, divide

from ..jobs.ready import HomoLRSettings
from .models import (
    CENTRAL,
    CENTRAL_SCIKIT,
    FEDERATED,
    class_measures,
    interval,
    numbers,
    paired_difference,
    party_rows,
    pooled_rows,
    scikit_scores,
    train,
)

SHARES = ((0.05, 0.95), (0.1, 0.9), (0.2, 0.8), (0.3, 0.7), (0.4, 0.6), (0.5, 0.5))
INSTITUTIONS = ("9999", "10000")
EVENNESS_SHOWN = ("specificity", "auc")


def study_evenness(
    clean: CleanLoans,
    options: PrepOptions,
    settings: HomoLRSettings,
    seeds: Sequence[int],
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[list[dict], list[str]]:
    """One entry for each of SHARES, with measures of the federated model and of both institutions alone.

    A seed holds out the same test rows for all shares, so that entries can be compared seed by seed. Shares at which
    the smaller institution has too few rows have no entry, but one of the sentences that come second.
    """
    lines, left_out = [], []
    for shares in SHARES:
        spoken = " / ".join(f"{100 * share:g}" for share in shares)
        progress(spoken)
        options = replace(options, parties=INSTITUTIONS, shares=shares)
        try:
            measured = [measure_two(clean, replace(options, seed=seed), settings) for seed in seeds]
        except CannotDivide:
            left_out.append(f"The study of evenness leaves {spoken} out: the smaller institution has too few loans.")
            continue
        federated, *alone = (intervals_of(list(by_seed)) for by_seed in zip(*measured))
        lines.append({"shares": list(shares), "federated": federated, "alone": alone})
    return lines, left_out


def measure_two(clean: CleanLoans, options: PrepOptions, settings: HomoLRSettings) -> list[dict[str, float]]:
    """Measures of one split: federated, the first institution alone, the second alone."""
    division = divide(clean, options)
    test, labels = numbers(division.test)
    rows = list(party_rows(division).values())
    models = (train(parties, settings) for parties in (rows, *([party] for party in rows)))
    return [class_measures(labels, model.scores(test), settings.threshold) for model in models]


def intervals_of(measured: list[dict[str, float]], names: Sequence[str] = EVENNESS_SHOWN) -> dict[str, dict]:
    """The interval of each measure over repeats."""
    return {name: interval([values[name] for values in measured]) for name in names}


# The ways to balance the two classes: what each does to a central model, to its federation and to scikit-learn's.
#
# All are compared on the same splits, so that differences between them are those of the balancing alone.

CLASS_WEIGHTS = "class_weights"
TITLES = {
    "none": "no balancing",
    CLASS_WEIGHTS: "class weights",
    "smotenc": "SMOTENC",
    "smotenc_parents": "SMOTENC-parents",
    "smote": "plain SMOTE",
}
MODELS = (CENTRAL_SCIKIT, CENTRAL, FEDERATED)
BALANCING_SHOWN = ("auc", "specificity", "charged_off_f1")
MAX_SEEDS = 10


@dataclass(frozen=True)
class Balanced:
    """The ``measures`` of each model that a method can be used for, in the order of the seeds, and the largest number
    of synthetic rows that any real row of any party and seed had a part in."""

    measures: dict[str, list[dict]]
    largest_influence: int


def study_balancing(
    clean: CleanLoans,
    options: PrepOptions,
    settings: HomoLRSettings,
    seeds: Sequence[int],
    known: dict[str, Balanced],
    progress: Callable[[str], None] = lambda text: None,
) -> list[dict]:
    """One entry for each of TITLES over the first MAX_SEEDS of ``seeds``; what is ``known`` is not measured again.

    A method that some party has too few rows for has no measures.
    """
    lines = []
    for method, title in TITLES.items():
        progress(title)
        balanced = known.get(method) or measure_method(clean, replace(options, over_sampling=method), settings, seeds)
        lines.append({"method": method, "title": title, **described(balanced)})
    return lines


def measure_method(clean: CleanLoans, options: PrepOptions, settings: HomoLRSettings, seeds: Sequence[int]) -> Balanced:
    """Every model of one method over the first MAX_SEEDS."""
    try:
        measured = [measure_split(clean, replace(options, seed=seed), settings) for seed in seeds[:MAX_SEEDS]]
    except CannotDivide:
        return Balanced({}, 0)
    by_seed, influences = zip(*measured)
    return Balanced({name: [models[name] for models in by_seed] for name in MODELS}, max(influences))


def measure_split(clean: CleanLoans, options: PrepOptions, settings: HomoLRSettings) -> tuple[dict[str, dict], int]:
    """The measures of each of MODELS on one split, and the largest influence there."""
    division = divide(clean, options)
    test, labels = numbers(division.test)
    pooled = numbers(pooled_rows(division, options))
    scores = {
        CENTRAL_SCIKIT: scikit_scores(pooled, test),
        CENTRAL: train([pooled], settings).scores(test),
        FEDERATED: train(list(party_rows(division).values()), settings).scores(test),
    }
    measures = {name: class_measures(labels, values, settings.threshold) for name, values in scores.items()}
    return measures, largest_influence(division)


def largest_influence(division: Division) -> int:
    """The largest over all parties."""
    return max(party.largest_influence for party in division.parties)


def described(balanced: Balanced) -> dict:
    """A method's part of the result: None for a model that has no measures, and for a difference that needs one."""
    measures = {name: balanced.measures.get(name) for name in MODELS}
    found: dict[str, Any] = {
        name: values and intervals_of(values[:MAX_SEEDS], BALANCING_SHOWN) for name, values in measures.items()
    }
    compared = found[FEDERATED] and paired_difference(found[FEDERATED]["auc"], found[CENTRAL_SCIKIT]["auc"])
    return {"largest_influence": balanced.largest_influence, **found, "federated_minus_scikit": compared}
