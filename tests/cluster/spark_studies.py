"""The jobs of the Spark cluster: every component of ours, on tables of several partitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from examples import pipelines as example_pipelines
from examples.pipelines import Federation, StudyTables, statistics_pipeline, training_reader, training_task
from fate_dp.pipelines.clients import DPHeteroLR, Flipback, LabelFlip, Smote
from fate_dp.pipelines.demo.run import EPSILON, PRIVATE
from fate_dp.pipelines.jobs import ready
from fate_dp.pipelines.jobs.ready import new_pipeline

from .places import GUEST, HOST_ID, SECOND, Place
from .studies import HOSPITALS, PATIENTS, TRAININGS

TRAINING = {"epochs": 3, "tol": 0, "init_param": {"method": "kaiming", "fit_intercept": False, "random_state": 2024}}
JOINED = {"epochs": 3, "train_scores": False}


@dataclass(frozen=True)
class Joined:
    """What both ways of training on joined records gave: flips, and each party's weights."""

    job: object
    flipped: pd.Series
    weights: dict


def run_vertical(place: Place) -> Joined:
    """reader -> psi -> label_flip -> dp_hetero_lr -> flipback on its scores."""
    parties = ready.Parties()
    reader, psi = ready.joined_tables(parties, PRIVATE)
    flip = LabelFlip(
        "label_flip_0",
        runtime_parties=parties.data_parties(),
        epsilon=EPSILON,
        label_source=PRIVATE.label_source(),
        input_data=psi.outputs["output_data"],
    )
    model = DPHeteroLR("dp_hetero_lr_0", train_data=flip.outputs["output_data"], train_scores=True, **TRAINING)
    back = Flipback(
        "flipback_0",
        runtime_parties=parties.data_parties(),
        mode="posterior",
        input_data=flip.outputs["output_data"],
        scores=model.outputs["train_output_data"],
    )
    job = place.run(ready.new_pipeline(parties).add_tasks([reader, psi, flip, model, back]))
    weights = {party_id: weights_at(place, job, "dp_hetero_lr_0", party_id) for party_id in (GUEST, HOST_ID)}
    return Joined(job, flips_of(place, job), weights)


def run_shared(place: Place) -> Joined:
    """reader -> label_flip -> align -> share_lr."""
    job = place.run(
        example_pipelines.joined_training_pipeline(
            ready.TrainingPlan(ready.Parties(), PRIVATE, EPSILON, training=JOINED)
        )
    )
    weights = {party_id: weights_at(place, job, "share_lr_0", party_id) for party_id in (GUEST, HOST_ID)}
    return Joined(job, flips_of(place, job), weights)


def weights_at(place: Place, job, task: str, party_id: str) -> np.ndarray:
    return np.ravel(place.model(job, task, party_id)["data"]["estimator"]["param"]["coef_"])


def flips_of(place: Place, job) -> pd.Series:
    return place.data(job, "label_flip_0")["output_data"].set_index("id")["y"].astype(float).sort_index()


def run_horizontal(place: Place):
    """reader -> smote, and the same rows -> dp_homo_nn."""
    tables = StudyTables(PATIENTS.namespace)
    reader = training_reader(HOSPITALS, tables)
    smote = Smote(
        "smote_0",
        runtime_parties={"guest": HOSPITALS.guest, "host": list(HOSPITALS.hosts)},
        dataset="patients/host_10000_train",
        train_data=reader.outputs["output_data"],
    )
    smote.guest.task_parameters(dataset="patients/guest_9999_train")
    model = training_task("dp_homo_nn_0", HOSPITALS, reader, TRAININGS["dp_homo_nn_0"])
    return place.run(new_pipeline(HOSPITALS).add_tasks([reader, smote, model]))


def run_statistics(place: Place, column: str):
    """reader -> shuffler: the mean of a column over both hospitals."""
    parties = Federation(GUEST, (HOST_ID,), shuffler=SECOND)
    tables = {party_id: PATIENTS.training(role, party_id) for role, party_id in HOSPITALS.data_parties()}
    request = {"column": column, "kind": "mean", "low": -1, "high": 1}
    return place.run(
        statistics_pipeline(parties, PATIENTS.namespace, tables, [request], epsilon0=2.0, min_messages=150)
    )
