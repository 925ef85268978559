"""Labels out of what a trained model shows of records: the outputs of a party's own part, and the leaves of trees.

These attacks infer: they find what the features tell of the label and the training has learnt. Label privacy bounds what one
record's own label adds to that, not what is learnt of all records together; so the bound of epsilon is that of records whose
labels' law is known to whoever attacks (`LabelDefence.bound`), and the baseline is the same attack on raw columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from bench.attack_methods.label_views import BottomView, LeafView, require, require_known
from fate_dp.privacy.validation import InvalidArgument

Array = NDArray[np.float64]

SURE = 0.95
"""Probability from which self-training takes a guess for a label."""
ROUNDS = 20
DIRECTIONS = 2
"""Of the graph of shared leaves, in which records are clustered."""
SEED = 0
"""Of the clustering's starts, public."""


def labels_by_completion(view: BottomView) -> Array:
    """Labels (rows,) by a head on the outputs of the observer's trained part, learnt from few known labels and sure guesses.

    *Paper:* C. Fu et al., "Label inference attacks against vertical federated learning", USENIX Security 2022 [Fu2022], the
    passive attack, model completion. There MixMatch trains head and part further; here the part stands still, the head is a
    logistic regression, and its guesses of at least 0.95 count as labels in the next of at most 20 rounds (self-training).

    *Threat model:* a host of a split network or of ``dp_hetero_lr`` that has its part of the trained model, knows some labels,
    both kinds among them, and receives nothing else. *Cost:* some 20 fits of a regression. *What it cannot do:* find what the
    host's columns do not tell; records whose own label differs from what their columns suggest are named wrongly.
    """
    view = require(view, BottomView, "Model completion")
    require_known(view, "Model completion")
    targets = np.full(len(view.outputs), -1)
    targets[view.known] = view.known_labels
    head = make_pipeline(StandardScaler(), LogisticRegression())
    fitted = SelfTrainingClassifier(head, threshold=SURE, max_iter=ROUNDS).fit(view.outputs, targets)
    return np.asarray(fitted.predict(view.outputs), dtype=np.float64)


def labels_by_leaves(view: LeafView) -> Array:
    """Labels (rows,) by a logistic regression on leaf membership, learnt from few known labels.

    *Paper:* the leaves are what [Takahashi2023] attack, without labels; to learn from known ones is the obvious stronger attack.

    *Threat model:* a host of ``hetero_secureboost``, which is told each record's node in every tree, and knows some labels,
    both kinds among them. *Cost:* one fit on as many columns as there are leaves. *What it cannot do:* read a label that the
    trees have not learnt: a leaf gives one answer for all its records.
    """
    view = require(view, LeafView, "Reading leaves")
    require_known(view, "Reading leaves")
    member = _membership(view)
    fitted = LogisticRegression(max_iter=1000).fit(member[view.known], view.known_labels)
    return np.asarray(fitted.predict(member), dtype=np.float64)


def labels_by_shared_leaves(view: LeafView) -> Array:
    """Labels (rows,) by two clusters of records that share leaves; known labels only say which cluster is which.

    *Paper:* H. Takahashi, J. Liu, Y. Liu, "Eliminating label leakage in tree-based vertical federated learning", 2023
    [Takahashi2023], ID2Graph. As there, records that share leaves are joined in a graph; other than there its communities are not
    searched for by modularity, nor are the host's columns clustered besides: 2-means separates records in the graph's first
    two singular directions (spectral clustering).

    *Threat model:* that of `labels_by_leaves`, with one known label or more. *Cost:* singular vectors of a sparse matrix (rows,
    leaves). *What it cannot do:* tell labels where trees split on what all labels share; it is far weaker than
    `labels_by_leaves` where a hundred labels are known.

    Raises:
        InvalidArgument: the view has no known label.
    """
    view = require(view, LeafView, "Clustering by leaves")
    if not len(view.known):
        raise InvalidArgument("Clustering by leaves needs one known label or more but the view has none.")
    member = _membership(view)
    directions = TruncatedSVD(DIRECTIONS, random_state=SEED).fit_transform(member)
    found: Array = KMeans(2, n_init=10, random_state=SEED).fit_predict(directions).astype(np.float64)
    agreeing = np.mean(found[view.known] == view.known_labels)
    return found if agreeing >= 0.5 else 1.0 - found


def _membership(view: LeafView) -> csr_matrix:
    """(rows, leaves): 1 where a record lies in a leaf."""
    return csr_matrix(OneHotEncoder().fit_transform(view.leaves))
