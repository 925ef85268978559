"""Labels out of gradients in the clear: of single records by norm and direction, of sums of few records by lattice reduction.

The three attacks share their reason: the gradient of a log loss by a score is prediction minus label, so that its sign is the
label whatever the model. A party whose own network lies below that score sees it times numbers that it may not know
(direction), or as a sum with numbers that it does know (lattice).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sympy import ZZ
from sympy.polys.matrices import DomainMatrix

from bench.attack_methods.label_views import RecordGradientView, SumView, require
from fate_dp.attacks.label_ciphertexts import UNREAD
from fate_dp.privacy.validation import InvalidArgument, as_share

Array = NDArray[np.float64]

MAX_ROWS = 64
"""Of a lattice: with more, the reduction takes minutes and finds nothing."""


def labels_by_norm(view: RecordGradientView, ones: float) -> Array:
    """Labels (rows,): 1 for the share ``ones`` of records with the longest gradients.

    *Paper:* O. Li et al., "Label leakage and protection in two-party split learning", ICLR 2022 [Li2022], the norm attack. A
    model that has learnt no more than that label 1 is rare errs by nearly 1 where it is, and by little elsewhere.

    *Threat model:* a host of a split network that gets each record's gradient in the clear, and knows how rare label 1 is.
    *Cost:* a sort. *What it cannot do:* tell labels of equal shares apart, whose gradients are equally long at the start.

    Args:
        ones: share of records with label 1, public; the rarer label is the one with long gradients.
    """
    view = require(view, RecordGradientView, "The norm attack")
    share = as_share("ones", ones, "a share of records, greater than 0 and at most 1")
    lengths = np.linalg.norm(view.gradients, axis=1)
    rare = round(len(lengths) * min(share, 1 - share))
    found = np.zeros(len(lengths))
    found[np.argsort(-lengths, kind="stable")[:rare]] = 1.0
    return found if share <= 0.5 else 1.0 - found


def labels_by_direction(view: RecordGradientView) -> Array:
    """Labels (rows,) by the side on which each gradient lies of the direction that all share.

    *Paper:* [Li2022], the direction attack: two records of one label have gradients of cosine above 0, two of different labels
    below. There one known positive record is compared with the others; here all gradients, at length 1, are compared with their
    first principal direction, and known labels only say which side is which.

    *Threat model:* a host of a split network that gets each record's gradient in the clear, and knows one label or more.
    *Cost:* singular values of a matrix (rows, units). *What it cannot do:* read sums over several records; or gradients of a top
    network whose response to the host's part changes its sign from record to record.

    Raises:
        InvalidArgument: the view has no known label.
    """
    view = require(view, RecordGradientView, "The direction attack")
    if not len(view.known):
        raise InvalidArgument("The direction attack needs one known label or more but the view has none.")
    lengths = np.linalg.norm(view.gradients, axis=1, keepdims=True)
    unit = np.divide(view.gradients, lengths, out=np.zeros_like(view.gradients), where=lengths > 0)
    # The direction is an eigenvector of a small matrix; the sign of an eigenvector means nothing.
    direction = np.linalg.eigh(unit.T @ unit)[1][:, -1]
    found: Array = (unit @ direction > 0).astype(np.float64)
    agreeing = np.mean(found[view.known] == view.known_labels)
    return found if agreeing >= 0.5 else 1.0 - found


def labels_by_lattice(view: SumView) -> Array:
    """Labels (rows,) of few records from one gradient of the observer's own weights; all `UNREAD` where none fit.

    *Paper:* the search of short vectors is that of [Lenstra1982], and its use for sums of an unknown subset that of
    [Lagarias1985]; here for several sums at once, rounded ones.

    *Threat model:* a host that sees one step of its own weights and knows where they were before, on at most 64 records, with
    predictions that it knows: of the default start all are one half. The gradient of ``dp_hetero_lr`` shows as much in the
    cases that docs/cryptography.md names. *Cost:* the reduction of a matrix (rows + 1, rows + columns + 1), below a second
    for 30 records. *What it cannot do:* find labels where the gradient holds fewer bits than there are labels: columns
    times log2(range / error) has to be well above the number of records. Noise of a mechanism counts as error.
    """
    view = require(view, SumView, "Lattice reduction")
    rows = len(view.columns)
    return subset_of_sums(
        view.columns.T, view.columns.T @ view.predictions - rows * view.gradient, rows * view.error, "Lattice reduction"
    )


def subset_of_sums(coefficients: Array, sums: Array, error: float, attack: str) -> Array:
    """The y (rows,) of 0 and 1 with ``coefficients`` (k, rows) times y within ``error`` of ``sums`` (k,), or all `UNREAD`.

    In the lattice of the rows (2 e_i, 0, K a_i) and (-1, ..., -1, 1, -K s), a_i being a column of coefficients and 1 / K the
    error, the vector of the right y is (2 y - 1, 1, rounding): all its entries are about 1, and LLL finds it where no other
    vector is as short. What is found is checked against the sums, so nothing is returned that they exclude.
    """
    count, rows = coefficients.shape
    if rows > MAX_ROWS:
        raise InvalidArgument(f"{attack} reads a view of at most {MAX_ROWS} records but was given one of {rows}.")
    scaled = [[round(float(value) / error) for value in column] for column in coefficients.T]
    basis = [[2 * (place == row) for place in range(rows)] + [0] + scaled[row] for row in range(rows)]
    basis.append([-1] * rows + [1] + [-round(float(value) / error) for value in sums])
    matrix = DomainMatrix([[ZZ(value) for value in row] for row in basis], (rows + 1, rows + 1 + count), ZZ)
    for vector in matrix.lll().to_list():
        sign = int(vector[rows])
        if all(abs(int(value)) == 1 for value in vector[: rows + 1]):
            found = np.array([(sign * int(value) + 1) // 2 for value in vector[:rows]], dtype=np.float64)
            if (np.abs(coefficients @ found - sums) <= error).all():
                return found
    return np.full(rows, UNREAD)
