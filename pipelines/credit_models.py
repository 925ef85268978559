"""The models of one split of the loans, all judged on the same held-out rows in their natural balance of classes."""
from __future__ import annotations

from dataclasses import dataclass

import numpy

from fate_dp.data_prep.lending_club.columns import FEATURES, GROUPS, LABEL
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import Division, class_counts
from fate_dp.data_prep.lending_club.public_units import to_public_units
from fate_dp.data_prep.over_sampling import OverSampling, over_sample

from .federated_averaging import Trained, train
from .homo_lr_settings import HomoLRSettings

CENTRAL_SCIKIT, CENTRAL_WEIGHTED, CENTRAL = "central_scikit", "central_weighted", "central"
FEDERATED, ALONE = "federated", "alone"


@dataclass(frozen=True, eq=False)
class SplitModels:
    """``scores`` (n,) of the test rows by model name and their ``labels`` (n,); what was ``trained`` by HomoLR's
    arithmetic; and the rows per class of the pooled training rows after over-sampling."""

    labels: numpy.ndarray
    scores: dict[str, numpy.ndarray]
    trained: dict[str, Trained]
    pooled_after: dict[str, int]


def fit_models(division: Division, options: PrepOptions, settings: HomoLRSettings) -> SplitModels:
    """Train centrally (by scikit-learn and by HomoLR's arithmetic), every party alone, and all together.

    One central model has class weights and no synthetic rows: it shows what over-sampling itself costs or gains.
    """
    test, labels = numbers(division.test)
    pooled, parties = pooled_rows(division, options), party_rows(division)
    plain = to_public_units(division.training.frame)
    trained = {
        CENTRAL: train([numbers(pooled)], settings),
        **{name: train([rows], settings) for name, rows in parties.items()},
        FEDERATED: train(list(parties.values()), settings),
    }
    scores = {
        CENTRAL_SCIKIT: scikit_scores(numbers(pooled), test),
        CENTRAL_WEIGHTED: scikit_scores(numbers(plain), test, class_weight="balanced"),
        **{name: model.scores(test) for name, model in trained.items()},
    }
    return SplitModels(labels, scores, trained, class_counts(pooled[LABEL]))


def party_rows(division: Division) -> dict[str, tuple]:
    """What each party trains on, by the name of the model that it would train alone."""
    return {alone_name(party): numbers(party.training) for party in division.parties}


def alone_name(party) -> str:
    """The name of the model of one party alone."""
    return f"{ALONE}_{party.role}_{party.party_id}"


def pooled_rows(division: Division, options: PrepOptions):
    """All training rows in one place, over-sampled there, in public units."""
    frame = division.training.frame
    if options.over_sampling != "none":
        method = OverSampling(options.over_sampling, options.neighbours)
        frame = over_sample(division.training, method, groups=GROUPS, seed=options.seed, tag="pooled").frame
    return to_public_units(frame)


def numbers(frame) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Features (n, 37) in the order of the study, and labels (n,)."""
    return frame[list(FEATURES)].to_numpy(dtype=float), frame[LABEL].to_numpy(dtype=int)


def scikit_scores(training, test, **options) -> numpy.ndarray:
    """Scores (k,) of ``test`` under scikit-learn's logistic regression, its own defaults besides ``options``."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    # With 37 columns several threads mostly wait for each other.
    with threadpool_limits(1):
        return LogisticRegression(max_iter=1000, **options).fit(*training).predict_proba(test)[:, 1]
