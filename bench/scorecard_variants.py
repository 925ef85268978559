"""What dp_scorecard left out would gain without noise: the exact likelihood, and pairs of columns of one party.

    python -m bench.scorecard_variants [--data FOLDER]

Held-out AUC and log loss in the clear, means over five stratified folds, on Adult and on default of credit. All have the
bins of `bench.scorecard`: those for record noise (six, which read no record) and for label noise (twenty quantiles).

- ``ridge``: what dp_scorecard fits, with the ridge of 1 that it has without noise.
- ``likelihood R``: R rounds of majorised Newton from there [Boehning1988], w += (X^T X / 4 + ridge)^-1 (X^T (y - p) - ridge w): each
  would need the rows again, under encryption. 100 rounds stand for the maximum.
- ``pairs``: beside the bins of all columns, those of all pairs of columns of one party; ``pairs ridge R`` with a ridge of R on all
  weights. The ridge is to be chosen on Adult.

The rule was set before: what gains less than 0.002 of AUC on default of credit is left out. The last line printed is one
JSON object with the figures.
"""

import argparse
import json
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from bench.hetero_noise_tasks import LENDING_CLUB
from bench.scorecard import RECORD_BINS
from bench.scorecard_tasks import adult, default_credit, normal_bins, own_quantile_bins
from bench.scorecard_twin import RIDGE_WITHOUT_NOISE, rows_of, target
from fate_dp.components.dp_scorecard.additive import calibrate, slices, solve

ROUNDS = (1, 3, 10, 100)
PAIR_RIDGES = (10.0, 100.0, 1000.0)


def main():
    parser = argparse.ArgumentParser(description="What the exact likelihood and pairs of columns would gain.")
    parser.add_argument("--data", type=Path, default=LENDING_CLUB.parent, help="folder of the public tables")
    folder = parser.parse_args().data
    figures = {}
    for task in (adult(folder / "adult.csv.gz"), default_credit(folder)):
        for name, cut in (
            ("six", partial(normal_bins, count=RECORD_BINS)),
            ("twenty", partial(own_quantile_bins, count=20)),
        ):
            for variant, found in of_task(task, cut, with_pairs=name == "six").items():
                for measure, value in zip(("auc", "loss"), found):
                    key = f"{measure}_{task.name}_{name}_{variant}".replace(" ", "_")
                    figures[key] = round(float(value), 4)
                    print(f"{key:>48} {figures[key]}", flush=True)
    print(json.dumps({"bench": "scorecard_variants", "figures": figures}))


def of_task(task, cut, with_pairs):
    """{variant: means of (AUC, log loss)}."""
    found = {}
    for train, test in task.folds():
        bins = [cut(part[train]) for part in task.parts]
        known, new = (rows_of(bins, [part[rows] for part in task.parts]) for rows in (train, test))
        columns = slices([count for each in bins for count in each.counts])
        for variant, scores in additive_scores(known, new, task.labels[train], columns):
            found.setdefault(variant, []).append(measured(task.labels[test], scores))
        if with_pairs:
            pairs = [pair_rows(bins, [part[rows] for part in task.parts]) for rows in (train, test)]
            both = [np.hstack(each).astype(np.float32) for each in zip((known, new), pairs)]
            for variant, scores in pair_scores(*both, task.labels[train]):
                found.setdefault(variant, []).append(measured(task.labels[test], scores))
    return {variant: np.mean(values, axis=0) for variant, values in found.items()}


def measured(labels, log_odds):
    return roc_auc_score(labels, log_odds), log_loss(labels, 1 / (1 + np.exp(-log_odds)))


def additive_scores(known, new, labels, columns):
    """Log-odds of new rows by ridge, then by rounds of the exact likelihood that begin there."""
    matrix, linear = known.T @ known, known.T @ target(labels)
    weights = solve(matrix, linear, RIDGE_WITHOUT_NOISE)
    fitted = calibrate(weights, matrix @ weights, linear, np.diag(matrix), columns)
    yield "ridge", fitted.slope * (new @ weights) + fitted.intercept
    # The intercept is spread over the columns, whose ones add up to their number.
    weights = fitted.slope * weights + fitted.intercept / len(columns)
    step = np.linalg.inv(matrix / 4 + RIDGE_WITHOUT_NOISE * np.eye(len(matrix)))
    for done in range(1, max(ROUNDS) + 1):
        slope = known.T @ (labels - 1 / (1 + np.exp(-(known @ weights)))) - RIDGE_WITHOUT_NOISE * weights
        weights = weights + step @ slope
        if done in ROUNDS:
            yield f"likelihood {done}", new @ weights


def pair_rows(bins, parts):
    """Zeros and ones of all pairs of columns of one party."""
    found = []
    for own, part in zip(bins, parts):
        codes = own.codes(part)
        for first, second in combinations(range(len(own.counts)), 2):
            place = codes[:, first] * own.counts[second] + codes[:, second]
            found.append(np.eye(own.counts[first] * own.counts[second], dtype=np.float32)[place])
    return np.hstack(found)


def pair_scores(known, new, labels):
    """Log-odds of new rows by ridge on bins and pairs; calibrated by the training rows, which only the loss feels."""
    matrix, linear = (known.T @ known).astype(np.float64), known.T.astype(np.float64) @ target(labels)
    for ridge in PAIR_RIDGES:
        weights = np.linalg.solve(matrix + ridge * np.eye(len(matrix)), linear)
        of_known, of_new = known @ weights, new @ weights
        means = [of_known[labels == each].mean() for each in (0, 1)]
        within = np.mean([of_known[labels == each].var() for each in (0, 1)])
        share, slope = labels.mean(), (means[1] - means[0]) / within
        yield f"pairs ridge {ridge:g}", slope * (of_new - sum(means) / 2) + np.log(share / (1 - share))


if __name__ == "__main__":
    main()
