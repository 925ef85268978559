"""The vertical tasks of the feature-noise benchmark: rows of guest and host in public units, labels, public radii."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SPLITS = range(20)
HELD_OUT = 0.25
GUEST_FEATURES, HOST_FEATURES = slice(0, 10), slice(10, 30)
LENDING_CLUB = Path(os.environ.get("FATE_DP_DATA", "../shared/data")) / "lending_club.csv.gz"


@dataclass(frozen=True, eq=False)
class Task:
    """One split: training and held-out rows per party, the guest's first, without intercept.

    :param typical_squares: per party, the squared norm of a typical row in public units: its number of numeric features
        plus its number of one-hot groups. A fact of the columns, not of the rows.
    """

    train_parts: tuple[np.ndarray, ...]
    train_labels: np.ndarray
    test_parts: tuple[np.ndarray, ...]
    test_labels: np.ndarray
    typical_squares: tuple[int, ...]

    @property
    def features(self):
        """Number of features of each party."""
        return tuple(part.shape[1] for part in self.train_parts)


def breast_cancer(number):
    """Split ``number`` of scikit-learn's data; features 0-9 at the guest, 10-29 at the host.

    Units are the means and deviations of the *held-out* quarter, which is taken to be public: statistics of training
    rows would be a release that nobody pays for.
    """
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    features, labels = load_breast_cancer(return_X_y=True)
    train, test, train_labels, test_labels = train_test_split(
        features, labels.astype(float), test_size=HELD_OUT, stratify=labels, random_state=number
    )
    centre, spread = test.mean(axis=0), test.std(axis=0)
    parts = [((rows - centre) / spread) for rows in (train, test)]
    train_parts, test_parts = ((rows[:, GUEST_FEATURES], rows[:, HOST_FEATURES]) for rows in parts)
    return Task(train_parts, train_labels, test_parts, test_labels, (10, 20))


def lending_club(path):
    """The project's vertical split of the loan file: application and terms at the guest, the credit file at the host.

    Units are the frozen public ones of ``data_prep.lending_club``; 30 % of the loans are held out.
    """
    from fate_dp.data_prep.lending_club.cleaning import clean
    from fate_dp.data_prep.lending_club.columns import GROUPS, ID, LABEL, NUMERIC
    from fate_dp.data_prep.lending_club.options import PrepOptions
    from fate_dp.data_prep.lending_club.preparation import divide

    division = divide(clean(path), PrepOptions(split="vertical", units="public"))
    guest, host = (party.training for party in division.parties)
    columns = [[name for name in frame.columns if name not in (ID, LABEL)] for frame in (guest, host)]
    units = [set(NUMERIC)] + [set(group) for group in GROUPS]
    squares = [len(units[0].intersection(held)) + sum(group <= set(held) for group in units[1:]) for held in columns]
    return Task(
        tuple(frame[held].to_numpy(float) for frame, held in zip((guest, host), columns)),
        guest[LABEL].to_numpy(float),
        tuple(division.test[held].to_numpy(float) for held in columns),
        division.test[LABEL].to_numpy(float),
        tuple(squares),
    )
