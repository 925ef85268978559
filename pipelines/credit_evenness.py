"""Two institutions that share the same number of rows between them, from unevenly to evenly."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fate_dp.data_prep.division import BadDivision
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import CannotDivide, divide

from .class_measures import class_measures
from .credit_models import numbers, party_rows
from .federated_averaging import train
from .homo_lr_settings import HomoLRSettings
from .intervals import interval

SHARES = ((0.05, 0.95), (0.1, 0.9), (0.2, 0.8), (0.3, 0.7), (0.4, 0.6), (0.5, 0.5))
INSTITUTIONS = ("9999", "10000")
SHOWN = ("specificity", "auc")


def study_evenness(
    clean, options: PrepOptions, settings: HomoLRSettings, seeds, progress: Callable[[str], None] = lambda text: None
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
        except (CannotDivide, BadDivision):
            left_out.append(f"The study of evenness leaves {spoken} out: the smaller institution has too few loans.")
            continue
        federated, *alone = ([seed[place] for seed in measured] for place in range(3))
        lines.append({
            "shares": list(shares),
            "federated": intervals_of(federated),
            "alone": [intervals_of(values) for values in alone],
        })
    return lines, left_out


def measure_two(clean, options: PrepOptions, settings: HomoLRSettings) -> list[dict[str, float]]:
    """Measures of one split: federated, the first institution alone, the second alone."""
    division = divide(clean, options)
    test, labels = numbers(division.test)
    rows = list(party_rows(division).values())
    models = (train(parties, settings) for parties in (rows, *([party] for party in rows)))
    return [class_measures(labels, model.scores(test), settings.threshold) for model in models]


def intervals_of(measured: list[dict[str, float]], names=SHOWN) -> dict[str, dict]:
    """The interval of each measure over repeats."""
    return {name: interval([values[name] for values in measured]) for name in names}
