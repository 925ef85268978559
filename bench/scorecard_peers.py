"""What others reach on the scorecard benchmark's folds: scores of held-out rows by models that are not ours.

- ``woe``: FATE's HeteroFeatureBinning (quantile, 10 bins) with the transform WOE, then logistic regression, as a plaintext twin:
  encryption changes which party sees what, not the model. No noise: hosts learn exact counts of the guest's labels by bin.
- ``secureboost``: the plaintext twin of HeteroSecureBoost (bench/trees_twin.py) with the settings of bench/trees.py, which were
  chosen on Adult. Without noise, or on labels that were flipped at epsilon: pure, for labels alone, replace-one.
- ``dp_ebm``: the private explainable boosting machine of interpret [Nori2021] with its defaults. Its guarantee is for adding
  or removing a record, all columns and the label together, and it needs all columns in one place, whose holder sees everything.
  Two such steps replace a record, so that (E / 2, delta / (1 + e^(E / 2))) there is (E, delta) replace-one. It is told the
  true range of each column at no charge, which a real job would have to know or to pay for.
- ``logistic`` and ``gradient_boosting``: scikit-learn's on the joined columns, without noise.
"""

import math
import warnings

import numpy as np
from interpret.privacy import DPExplainableBoostingClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bench.trees import SETTINGS
from bench.trees_twin import BoostedTrees
from fate_dp.privacy.mechanisms.randomized_response import flip_probability

WOE_BINS, WOE_ADJUSTMENT = 10, 0.5
"""FATE's defaults: bins of a column, and what is added to a bin without events or without others."""
ITERATIONS = 1000


def woe_scores(train, labels, test):
    """Logistic regression on the WOE of quantile bins."""
    shares = np.arange(1, WOE_BINS) / WOE_BINS
    columns = [_woe_column(known, labels, new, shares) for known, new in zip(train.T, test.T)]
    known, new = (np.column_stack(each) for each in zip(*columns))
    return logistic_scores(known, labels, new)


def _woe_column(known, labels, new, shares):
    """The WOE of each row's bin, of training rows and of new ones."""
    cuts = np.unique(np.quantile(known, shares, method="inverted_cdf"))
    codes = [np.searchsorted(cuts, values, side="left") for values in (known, new)]
    ones, others = (np.bincount(codes[0], weights=each, minlength=len(cuts) + 1) for each in (labels, 1 - labels))
    empty = (ones == 0) | (others == 0)
    shares_of_both = (np.where(empty, each + WOE_ADJUSTMENT, each) / each.sum() for each in (ones, others))
    woe = np.log(np.divide(*shares_of_both))
    return [woe[each] for each in codes]


def logistic_scores(train, labels, test):
    """scikit-learn's logistic regression with its defaults on standardised columns."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=ITERATIONS))
    return model.fit(train, labels).decision_function(test)


def gradient_boosting_scores(train, labels, test):
    """scikit-learn's gradient boosting with its defaults."""
    return HistGradientBoostingClassifier(random_state=1).fit(train, labels).decision_function(test)


def secureboost_scores(train, labels, test):
    """The twin of FATE's vertical trees."""
    return BoostedTrees.train(train, labels, SETTINGS).probabilities(test)


def flipped_secureboost_scores(train, labels, test, seed, epsilon):
    """The same on flips, drawn from a public seed: a simulation, which protects nothing."""
    flipped = np.random.default_rng(seed).random(len(labels)) < flip_probability(epsilon)
    return secureboost_scores(train, np.where(flipped, 1 - labels, labels), test)


def dp_ebm_scores(train, labels, test, seed, epsilon, delta):
    """DP-EBM at (epsilon, delta) for one record added or removed."""
    both = np.vstack([train, test])
    model = DPExplainableBoostingClassifier(
        epsilon=epsilon,
        delta=delta,
        privacy_bounds=np.column_stack([both.min(axis=0), both.max(axis=0)]),
        feature_types=["continuous"] * train.shape[1],
        random_state=seed,
        n_jobs=1,
    )
    with warnings.catch_warnings():
        # It warns that a seed is not private, which no benchmark is.
        warnings.simplefilter("ignore")
        model.fit(train, labels.astype(int))
    return model.predict_proba(test)[:, 1]


def replaced(epsilon, delta):
    """(epsilon, delta) of add-or-remove that is (``epsilon``, ``delta``) replace-one, by two steps."""
    return epsilon / 2, delta / (1 + math.exp(epsilon / 2))
