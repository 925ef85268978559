"""Loans that occur more than once, as they do in a file that was put together from overlapping ones.

Such a loan might be trained on and tested on, and the test would flatter every model. It is kept once: where two loans
have the same id, or both none, and agree in every column that is read, the later one goes. Loans without an id count as
the same, too, because amounts, rates and a credit file that agree to the cent are hardly those of two people.
"""
from __future__ import annotations

import numpy

from .columns import ID, STATE


def is_repetition(frame, ids, states) -> numpy.ndarray:
    """For each loan (n,) whether an earlier one is the same.

    `frame` is a pandas table of the features and the outcome, `ids` and `states` are texts of Arrow, null if missing.
    """
    names = ids.to_pandas()
    suspects = names.duplicated(keep=False).to_numpy()
    repetition = numpy.zeros(len(frame), dtype=bool)
    if suspects.any():
        columns = {ID: names[suspects].to_numpy(), STATE: states.to_pandas()[suspects].to_numpy()}
        repetition[suspects] = frame[suspects].assign(**columns).duplicated().to_numpy()
    return repetition
