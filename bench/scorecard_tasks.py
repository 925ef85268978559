"""The tables of the scorecard benchmark: columns of two parties, labels, and the rules by which columns become bins."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fate_dp.privacy.bins import ColumnBins, TableBins, quantile_bins


@dataclass(frozen=True, eq=False)
class Task:
    """Columns (rows, d) of guest and host, float64, and labels 0 and 1.

    ``division`` seeds the folds; figures that are reported have the first one.
    """

    name: str
    parts: tuple[np.ndarray, np.ndarray]
    labels: np.ndarray
    division: int = 1

    def folds(self, count=5):
        """Stratified (training rows, test rows), the same in every run."""
        from sklearn.model_selection import StratifiedKFold

        return list(StratifiedKFold(count, shuffle=True, random_state=self.division).split(self.parts[0], self.labels))


def normal_bins(values, count):
    """``count`` bins whose cut points read no record: the quantiles of a standard normal, for columns in units of standard deviations.

    The public rule for a table that comes standardised; its mean and spread are part of the published data set.
    """
    from scipy.stats import norm

    cuts = tuple(float(norm.ppf(part / count)) for part in range(1, count))
    return TableBins(tuple(ColumnBins(f"x{at}", cuts, missing=False) for at in range(values.shape[1])))


def own_quantile_bins(values, count):
    """``count`` bins at quantiles of the training rows: for label noise, where bins are not what is protected."""
    parts = np.arange(1, count) / count
    return TableBins(
        tuple(
            quantile_bins(f"x{at}", map(float, np.quantile(values[:, at], parts)), missing=False)
            for at in range(values.shape[1])
        )
    )


def default_credit(folder: Path):
    """FATE's own example of default of credit card clients, as divided and standardised there: 13 and 10 columns."""
    import pandas as pd

    guest, host = (pd.read_csv(folder / f"default_credit_hetero_{role}.csv.gz") for role in ("guest", "host"))
    joined = guest.set_index("id").join(host.set_index("id"), rsuffix="_host")
    own = [f"x{at}" for at in range(13)]
    others = [name for name in joined.columns if name not in (*own, "y")]
    return Task(
        "default_credit", (joined[own].to_numpy(float), joined[others].to_numpy(float)), joined["y"].to_numpy(float)
    )


def lending(path: Path):
    """The project's vertical split of Lending Club's loans in its public units: 29 and 8 columns, all loans together."""
    from fate_dp.data_prep.lending_club.cleaning import clean
    from fate_dp.data_prep.lending_club.columns import ID, LABEL
    from fate_dp.data_prep.lending_club.options import PrepOptions
    from fate_dp.data_prep.lending_club.preparation import divide

    division = divide(clean(path), PrepOptions(split="vertical", units="public"))
    guest, host = (party.training for party in division.parties)
    columns = [[name for name in frame.columns if name not in (ID, LABEL)] for frame in (guest, host)]
    own, others = (
        np.vstack([frame[held].to_numpy(float), division.test[held].to_numpy(float)])
        for frame, held in zip((guest, host), columns)
    )
    return Task("lending", (own, others), np.concatenate([guest[LABEL], division.test[LABEL]]).astype(float))


def adult(path: Path):
    """UCI Adult, texts numbered in the order of the alphabet and numbers standardised, on which settings are tried."""
    import pandas as pd

    table = pd.read_csv(path, skipinitialspace=True)
    label = table.columns[-1]
    labels = table[label].astype(str).str.contains(">50K").to_numpy(float)
    columns = table.drop(columns=label)
    numbers = columns.apply(lambda column: column if column.dtype.kind in "fi" else column.astype("category").cat.codes)
    values = numbers.to_numpy(float)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    return Task("adult", (values[:, :7], values[:, 7:]), labels)
