"""scikit-learn's breast-cancer data, split between a guest and a host the way two hospitals would hold it.

The guest has the label and features 0-9, the host features 10-29. Each side lacks some of the patients, in its own
selection and order, so that finding the common ones is real work; each side standardises with the statistics of its
own training rows, because no other statistics are its to know.
"""

import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy
import pandas
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

GUEST_FEATURES = slice(0, 10)
HOST_FEATURES = slice(10, 30)
ID, LABEL = "id", "y"
PUBLIC_FOLDER = "public"
MANIFEST = "manifest.json"
# Enough for standardised values, and few enough that a file does not depend on how a machine rounds its sums.
NUMBER_FORMAT = "%.9f"


@dataclass(frozen=True)
class Split:
    """How the data is divided; the same settings give the same files."""

    seed: int = 2024
    held_out: float = 0.25
    missing: float = 0.05


def party_tables(split: Split = Split()) -> dict[str, pandas.DataFrame]:
    """The four tables: guest_train, host_train, guest_test and host_test."""
    patients = load_patients()
    train, test = train_test_split(
        patients, test_size=split.held_out, stratify=patients[LABEL], random_state=split.seed
    )
    names = [column for column in patients.columns if column not in (ID, LABEL)]
    columns = {"guest": [ID, LABEL, *names[GUEST_FEATURES]], "host": [ID, *names[HOST_FEATURES]]}
    generators = iter(numpy.random.default_rng(split.seed).spawn(4))
    tables = {}
    for side in ("guest", "host"):
        held = {
            part: shuffled_subset(rows[columns[side]], split.missing, next(generators))
            for part, rows in (("train", train), ("test", test))
        }
        for part, rows in held.items():
            tables[f"{side}_{part}"] = standardised(rows, held["train"])
    return tables


def load_patients() -> pandas.DataFrame:
    """The whole data set with an id per patient and the label first."""
    data = load_breast_cancer(as_frame=True)
    patients = data.data.rename(columns=lambda name: name.replace(" ", "_"))
    patients.insert(0, LABEL, data.target)
    patients.insert(0, ID, [f"patient-{number:04d}" for number in range(1, len(patients) + 1)])
    return patients


def shuffled_subset(rows: pandas.DataFrame, missing: float, generator: numpy.random.Generator) -> pandas.DataFrame:
    """`rows` in random order without a share of `missing` of them."""
    kept = len(rows) - round(missing * len(rows))
    return rows.iloc[generator.permutation(len(rows))[:kept]].reset_index(drop=True)


def standardised(rows: pandas.DataFrame, training_rows: pandas.DataFrame) -> pandas.DataFrame:
    """The features of `rows` with mean and deviation of `training_rows` taken out."""
    features = [column for column in rows.columns if column not in (ID, LABEL)]
    mean, deviation = training_rows[features].mean(), training_rows[features].std(ddof=0)
    return rows.assign(**((rows[features] - mean) / deviation))


def write_tables(folder: str | os.PathLike, split: Split = Split()) -> dict:
    """Write the four CSV files, a second copy to be declared public, and a manifest; returns the manifest."""
    folder = Path(folder)
    public = folder / PUBLIC_FOLDER
    public.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, table in party_tables(split).items():
        path = folder / f"{name}.csv"
        table.to_csv(path, index=False, float_format=NUMBER_FORMAT, lineterminator="\n")
        shutil.copyfile(path, public / path.name)
        for written in (path, public / path.name):
            files[str(written.relative_to(folder))] = {
                "sha256": hashlib.sha256(written.read_bytes()).hexdigest(),
                "rows": len(table),
                "columns": list(table.columns),
            }
    manifest = {"source": "sklearn.datasets.load_breast_cancer", "split": asdict(split), "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return manifest
