"""The ways to balance the two classes: what each does to a central model, to its federation and to scikit-learn's.

All are compared on the same splits, so that differences between them are those of the balancing alone.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import CannotDivide, divide

from .class_measures import class_measures
from .credit_evenness import intervals_of
from .credit_models import CENTRAL, CENTRAL_SCIKIT, FEDERATED, numbers, party_rows, pooled_rows, scikit_scores
from .federated_averaging import train
from .homo_lr_settings import HomoLRSettings
from .intervals import paired_difference

CLASS_WEIGHTS = "class_weights"
TITLES = {
    "none": "no balancing",
    CLASS_WEIGHTS: "class weights",
    "smotenc": "SMOTENC",
    "smotenc_parents": "SMOTENC-parents",
    "smote": "plain SMOTE",
}
MODELS = (CENTRAL_SCIKIT, CENTRAL, FEDERATED)
SHOWN = ("auc", "specificity", "charged_off_f1")
MOST_SEEDS = 10


@dataclass(frozen=True)
class Balanced:
    """The ``measures`` of each model that a method can be used for, in the order of the seeds, and the largest number
    of synthetic rows that any real row of any party and seed had a part in."""

    measures: dict[str, list[dict]]
    largest_influence: int


def study_balancing(
    clean, options: PrepOptions, settings: HomoLRSettings, seeds, known: dict[str, Balanced],
    progress: Callable[[str], None] = lambda text: None,
) -> list[dict]:  # fmt: skip
    """One entry for each of TITLES over the first MOST_SEEDS of ``seeds``; what is ``known`` is not measured again.

    A method that some party has too few rows for has no measures.
    """
    lines = []
    for method, title in TITLES.items():
        progress(title)
        balanced = known.get(method) or measure_method(clean, replace(options, over_sampling=method), settings, seeds)
        lines.append({"method": method, "title": title, **described(balanced)})
    return lines


def measure_method(clean, options: PrepOptions, settings: HomoLRSettings, seeds) -> Balanced:
    """Every model of one method over the first MOST_SEEDS."""
    try:
        measured = [measure_split(clean, replace(options, seed=seed), settings) for seed in seeds[:MOST_SEEDS]]
    except CannotDivide:
        return Balanced({}, 0)
    by_seed, influences = zip(*measured)
    return Balanced({name: [models[name] for models in by_seed] for name in MODELS}, max(influences))


def measure_split(clean, options: PrepOptions, settings: HomoLRSettings) -> tuple[dict[str, dict], int]:
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


def largest_influence(division) -> int:
    """The largest over all parties."""
    return max(party.largest_influence for party in division.parties)


def described(balanced: Balanced) -> dict:
    """A method's part of the result: None for a model that has no measures, and for a difference that needs one."""
    measures = {name: balanced.measures.get(name) for name in MODELS}
    found = {name: values and intervals_of(values[:MOST_SEEDS], SHOWN) for name, values in measures.items()}
    compared = found[FEDERATED] and paired_difference(found[FEDERATED]["auc"], found[CENTRAL_SCIKIT]["auc"])
    return {"largest_influence": balanced.largest_influence, **found, "federated_minus_scikit": compared}
