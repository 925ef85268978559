"""The jobs that run both on the cluster and on a single server, and what is compared of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from examples import pipelines as example_pipelines
from examples.credit_risk.flow import losses_of, measures_of, named_weights, scores_of
from examples.credit_risk.homo_lr import HomoLRSettings, study_pipeline
from examples.pipelines import Federation, StudyTables
from fate_dp.data_prep.breast_cancer import ID, LABEL, load_patients, write_tables
from fate_dp.pipelines.demo.run import EPSILON, HELD_OUT, NAMESPACE, PRIVATE, TRAINING
from fate_dp.pipelines.jobs import ready
from fate_dp.pipelines.jobs.party_ledgers import declare
from fate_dp.pipelines.jobs.upload import TableMeta

from .places import ARBITER, GUEST, HOST_ID, SECOND, Place, auc_of

LABELLED = TableMeta(label_name=LABEL)


@dataclass(frozen=True)
class Demo:
    """What the demo's private half gave."""

    job: object
    flipped: pd.Series
    common: set
    weights: dict
    scores: pd.Series
    auc: float


def upload_demo(place: Place, folder: Path) -> None:
    """The demo's four tables, each at its own party, and the declaration of the labels."""
    write_tables(folder)
    owners = {"guest_train": GUEST, "host_train": HOST_ID, "guest_test": GUEST, "host_test": HOST_ID}
    place.upload(
        [
            (party_id, folder / f"{name}.csv", NAMESPACE, name, LABELLED if party_id == GUEST else None)
            for name, party_id in owners.items()
        ]
    )
    declare(place.parties(GUEST), GUEST, PRIVATE.label_source())


def run_demo(place: Place) -> Demo:
    """reader -> psi -> label_flip -> dp_hetero_lr -> evaluation, and the deployed model on the held-out records."""
    parties = ready.Parties()
    pipeline = ready.training_pipeline(ready.TrainingPlan(parties, PRIVATE, EPSILON, TRAINING))
    job = place.run(pipeline)
    prediction = place.run(ready.prediction_pipeline(pipeline, parties, HELD_OUT))
    scored = place.data(prediction, "dp_hetero_lr_0")["test_output_data"].set_index("id")["predict_score"]
    flipped = place.data(job, "label_flip_0")["output_data"].set_index("id")[LABEL].astype(int)
    return Demo(
        job=job,
        flipped=flipped.sort_index(),
        common=set(place.data(job, "psi_0", HOST_ID)["output_data"]["id"]),
        weights={party_id: coefficients(place, job, party_id) for party_id in (GUEST, HOST_ID)},
        scores=scored.astype(float).sort_index(),
        auc=auc_of(place.metrics(prediction, "evaluation_0"), "dp_hetero_lr_0"),
    )


def coefficients(place: Place, job, party_id: str) -> np.ndarray:
    return np.ravel(place.model(job, "dp_hetero_lr_0", party_id)["data"]["estimator"]["param"]["coef_"])


FEDERATION = Federation(GUEST, (HOST_ID, SECOND), ARBITER)
LOANS = StudyTables("loans")
SETTINGS = HomoLRSettings(epochs=3)


def prepare_loans(folder: Path) -> dict:
    """Generated loans, divided between three institutions; the prepared table's file by name."""
    import json

    from examples.synthetic_loans import write_synthetic
    from fate_dp.data_prep.lending_club.cleaning import clean
    from fate_dp.data_prep.lending_club.columns import ID, LABEL
    from fate_dp.data_prep.lending_club.options import PrepOptions
    from fate_dp.data_prep.lending_club.preparation import divide
    from fate_dp.data_prep.lending_club.written import write

    folder.mkdir()
    write_synthetic(folder / "raw.csv.gz", rows=1500)
    loans, options = clean(folder / "raw.csv.gz"), PrepOptions(units="public", over_sampling="none")
    write(loans, divide(loans, options), options, folder / "prepared")
    files = json.loads((folder / "prepared" / "manifest.json").read_text())["files"]
    tables = {
        entry["table"]: (folder / "prepared" / path, TableMeta(ID, LABEL if LABEL in entry["columns"] else None))
        for path, entry in files.items()
        if "table" in entry
    }
    for path, _ in tables.values():
        with_searchable_ids(path)
    return tables


def with_searchable_ids(path: Path) -> None:
    """Give the loans of a table ids that do not occur in logs by chance, as bare numbers do."""
    table = pd.read_csv(path, dtype=str)
    table[ID] = [f"loan-{int(number):09d}" for number in table[ID]]
    table.to_csv(path, index=False)


def upload_loans(place: Place, prepared: dict) -> None:
    """Every institution's table at its own server, the test table at the guest's."""
    owners = {LOANS.training(*party): party[1] for party in FEDERATION.data_parties()}
    place.upload(
        [(owners.get(name, GUEST), path, LOANS.namespace, name, meta) for name, (path, meta) in prepared.items()]
    )


def run_loans(place: Place, features) -> dict:
    """FATE's HomoLR over three institutions, as the guest and for the losses the arbiter saw it."""
    job = place.run(study_pipeline(FEDERATION, LOANS, SETTINGS))
    return {
        "job": job,
        "weights": named_weights(place.model(job, "homo_lr_0"), features),
        "losses": losses_of(place.metrics(job, "homo_lr_0", ARBITER)),
        "scores": scores_of(place.data(job, "homo_lr_1")["test_output_data"]),
        "evaluation": measures_of(place.metrics(job, "evaluation_0"), "homo_lr_1"),
    }


PATIENTS = StudyTables("patients")
HOSPITALS = Federation(GUEST, (HOST_ID,), ARBITER, shuffler=SECOND)
RECORDS, ROUNDS = 450, 4
COMMON = {"rounds": ROUNDS, "batch_size": 225, "records": RECORDS, "optimizer": {"optimizer_params": {"lr": 1.0}}}
TRAININGS = {
    "dp_homo_nn_0": {"aggregation": "secure_sum", "epsilon": 2.0, **COMMON},
    "dp_homo_nn_1": {"aggregation": "shuffle", "epsilon0": 2.0, **COMMON},
}


def upload_patients(place: Place, folder: Path) -> list:
    """Two hospitals with the same columns; returns the names of the features."""
    table = load_patients().sample(frac=1, random_state=3)
    features = [name for name in table if name not in (ID, LABEL)]
    table[features] = ((table[features] - table[features].mean()) / table[features].std()).clip(-3, 3) / 3
    folder.mkdir(exist_ok=True)
    uploads = []
    for party, part in zip(HOSPITALS.data_parties(), (table[:200], table[200:RECORDS])):
        file = folder / f"{PATIENTS.training(*party)}.csv"
        part.to_csv(file, index=False)
        uploads.append((party[1], file, PATIENTS.namespace, file.stem, LABELLED))
    place.upload(uploads)
    return features


def run_homo_nn(place: Place, trainings=TRAININGS):
    """Horizontal private training with both a secure sum and a shuffler."""
    return place.run(example_pipelines.private_training_pipeline(HOSPITALS, PATIENTS, trainings, evaluate=False))
