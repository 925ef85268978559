"""What FATE's HomoLR takes for granted about the tables of a job, asked before the job begins.

HomoLR averages weights by position: parties whose columns differ in order would train without an error on a mixture. A
party with more rows than `batch_size` would take several steps an epoch. Neither needs more than the tables' metadata.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy

from examples.credit_risk.homo_lr import HomoLRSettings, study_pipeline
from examples.pipelines import Federation, StudyTables
from fate_dp.data_prep.lending_club.cleaning import CleanLoans
from fate_dp.data_prep.lending_club.columns import FEATURES, ID
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import Division
from fate_dp.data_prep.lending_club.written import write
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.jobs.flow import FlowUnavailable, connect
from fate_dp.pipelines.jobs.job import (
    JobResult,
    NoOutput,
    Progress,
    reason_of,
    run_job,
    task_metrics,
    task_output_data,
    task_output_model,
)
from fate_dp.pipelines.jobs.upload import upload_prepared
from fate_dp.pipelines.report.job_facts import ReportRequest, gather
from fate_dp.pipelines.report.job_page import write_report as write_job_report
from fate_dp.privacy.private_files import parties_folder
from fate_dp.privacy.validation import InvalidArgument

from .models import FEDERATED, SplitModels

if TYPE_CHECKING:
    import pandas
    from fate_client.pipeline import FateFlowPipeline


# FATE-Flow's code for a table that it does not have.
NO_TABLE = 7001


@dataclass(frozen=True)
class TableSchema:
    """What FATE-Flow knows of a table."""

    name: str
    rows: int
    label: str | None
    features: tuple[str, ...]


def checked_features(
    address: FlowAddress, federation: Federation, tables: StudyTables, batch_size: int
) -> tuple[str, ...]:
    """The names of the features, in the order of the model's weights; raises InvalidArgument or FlowUnavailable.

    Training tables of other sites, which the guest's server does not know, are left to the job to find.
    """
    test = table_schema(address, tables.namespace, tables.test)
    if test is None:
        raise InvalidArgument(f"FATE-Flow at {address} has no table {tables.namespace}/{tables.test}; upload it first.")
    names = (tables.training(*party) for party in federation.data_parties())
    known = filter(None, (table_schema(address, tables.namespace, name) for name in names))
    check_schemas(test, list(known), batch_size)
    return test.features


def check_schemas(test: TableSchema, training: list[TableSchema], batch_size: int) -> None:
    """Refuse a table without label, columns unlike the test table's, and too many rows for one batch."""
    for schema in (test, *training):
        if schema.label is None:
            raise InvalidArgument(
                f"The table {schema.name} has no label; HomoLR needs every row's label at every party."
            )
        found, expected = schema.features, test.features
        if found != expected:
            difference = f"has {len(found)} features and there are {len(expected)}"
            if len(found) == len(expected):
                place = next(number for number, pair in enumerate(zip(found, expected)) if pair[0] != pair[1])
                difference = f"has {found[place]!r} as feature {place + 1} and it is {expected[place]!r}"
            raise InvalidArgument(
                f"The table {schema.name} {difference} in {test.name}; HomoLR adds "
                "weights by position, so that all tables need the same columns in the same order."
            )
    for schema in training:
        if schema.rows > batch_size:
            raise InvalidArgument(
                f"The table {schema.name} has {schema.rows} rows, more than the batch_size of {batch_size}; "
                "raise it, so that every epoch is one step on all rows."
            )


def table_schema(address: FlowAddress, namespace: str, name: str) -> TableSchema | None:
    """A table's metadata; None where this server has no such table. Raises FlowUnavailable where it does not say."""
    response = connect(address).table.query(namespace=namespace, name=name)
    if response.get("code") == NO_TABLE:
        return None
    if response.get("code") != 0:
        raise FlowUnavailable(
            f"FATE-Flow at {address} does not tell what the table {namespace}/{name} is: {reason_of(response)}."
        )
    fields = response["data"]["meta"]["schema_meta"]["fields"]
    named = {kind: [field["name"] for field in fields if field["property"] == kind] for kind in ("label", "column")}
    return TableSchema(
        f"{namespace}/{name}", response["data"]["count"], next(iter(named["label"]), None), tuple(named["column"])
    )


# Run the study's job on FATE-Flow and fetch what a report needs: model, losses, test scores, FATE's measures.

BIAS = "bias"


@dataclass(frozen=True)
class FederatedRun:
    """A study job that ended well, as the guest, and for the losses the arbiter, saw it."""

    job_id: str
    seconds: float
    seconds_per_task: dict[str, float]
    weights: dict[str, float]
    """The bias under the name `bias`, and the weight of every feature, in the order of the tables."""
    losses: tuple[float, ...]
    """The mean loss over all parties' rows before each epoch's step; FATE rounds every party's to four decimals."""
    test_table: pandas.DataFrame
    """A pandas frame with the columns id, label and score, one row per row of the test table."""
    evaluation: dict[str, float]
    """FATE's own measures of the test scores that are single numbers: auc and ks."""
    pipeline: FateFlowPipeline | None
    """The trained pipeline, for `prediction_pipeline`."""


def run_federated(
    address: FlowAddress,
    federation: Federation,
    tables: StudyTables,
    settings: HomoLRSettings = HomoLRSettings(),
    progress: Progress = lambda task, status, seconds: None,
    home: str | os.PathLike | None = None,
) -> FederatedRun:
    """Check the tables, train, test and evaluate in one job; raises InvalidArgument or JobFailed."""
    features = checked_features(address, federation, tables, settings.batch_size)
    pipeline = study_pipeline(federation, tables, settings)
    result = run_job(pipeline, address, progress, home=home)
    return fetch_run(address, federation, features, result, pipeline)


def fetch_run(
    address: FlowAddress,
    federation: Federation,
    features: Sequence[str],
    result: JobResult,
    pipeline: FateFlowPipeline | None = None,
) -> FederatedRun:
    """The outputs of an ended study job; `features` are the names of the model's weights in order."""
    guest = (address, result.job_id, "guest", federation.guest)
    try:
        losses = task_metrics(address, result.job_id, "arbiter", federation.arbiter, "homo_lr_0")
    except NoOutput:
        # An arbiter with a server of its own keeps them.
        losses = []
    return FederatedRun(
        job_id=result.job_id,
        seconds=result.seconds,
        seconds_per_task=result.seconds_per_task(),
        weights=named_weights(task_output_model(*guest, "homo_lr_0")["output_model"], features),
        losses=losses_of(losses),
        test_table=scores_of(task_output_data(*guest, "homo_lr_1")["test_output_data"]),
        evaluation=measures_of(task_metrics(*guest, "evaluation_0"), "homo_lr_1"),
        pipeline=pipeline,
    )


def named_weights(model: dict, features: Sequence[str]) -> dict[str, float]:
    """The bias and the weights of FATE's HomoLR model, which knows its features by position only."""
    state = model["param"]["model"]["state_dict"]
    (bias,), (weights,) = state["models.0.bias"], state["models.0.weight"]
    if len(weights) != len(features):
        raise NoOutput(f"The model has {len(weights)} weights and the tables have {len(features)} features.")
    return {BIAS: bias, **dict(zip(features, weights))}


def losses_of(records: list[dict]) -> tuple[float, ...]:
    """The logged losses in the order of their epochs."""
    points = [point for record in records if record["type"] == "loss" for point in record["data"]]
    return tuple(point["metric"] for point in sorted(points, key=lambda point: point["step"]))


def scores_of(table: pandas.DataFrame) -> pandas.DataFrame:
    """FATE's prediction table with the columns that matter, sorted by id."""
    columns = {"id": "id", "label": "label", "predict_score": "score"}
    return table[list(columns)].rename(columns=columns).sort_values("id", ignore_index=True)


def measures_of(records: list[dict], task: str) -> dict[str, float]:
    """The measures of FATE's Evaluation of a task's scores that are numbers; curves and tables are left out."""
    entries = [entry for measured in records[-1]["data"][task].values() for entry in measured]
    metrics = [metric for entry in entries for metric in (entry if isinstance(entry, list) else [entry])]
    return {metric["metric"]: metric["val"] for metric in metrics if isinstance(metric["val"], (int, float))}


# One split of the credit study through FATE-Flow: written, uploaded, trained, tested, compared with its simulation.


@dataclass(frozen=True)
class FlowPlace:
    """A FATE-Flow, the home of an embedded one, where files to upload are written, and who hears of progress.

    ``progress`` takes a job's name, a task, its status and seconds since the job began.
    """

    address: FlowAddress
    home: Path | None
    prepared: Path
    progress: Callable[[str, str, str, float], None]


def run_split(
    place: FlowPlace, clean: CleanLoans, division: Division, options: PrepOptions, settings: HomoLRSettings
) -> FederatedRun:
    """Write and upload a division, and run the study's job on it."""
    folder = place.prepared / f"seed-{options.seed}"
    namespace = namespace_of(write(clean, division, options, folder))
    upload_prepared(place.address, folder, namespace, progress=place.progress, home=place.home)
    guest, *hosts = options.parties or ()
    return run_federated(
        place.address,
        Federation(guest, tuple(hosts)),
        StudyTables(namespace),
        settings,
        home=place.home,
        progress=partial(place.progress, f"FATE-Flow, seed {options.seed}"),
    )


def job_page(place: FlowPlace, job_id: str, guest: str, folder: Path) -> str:
    """Write what the guest may know of a job, as page and JSON; returns the name of the page, which has the job's id.

    A page of an earlier run is thus never changed below the report that links it.
    """
    parties = parties_folder() if place.home is None else open_home(place.home).parties
    page, _ = write_job_report(
        gather(ReportRequest(place.address, job_id, parties, guest, place.home)), folder, f"job-{job_id}"
    )
    return page.name


def namespace_of(manifest: dict) -> str:
    """A namespace for tables with these very bytes: uploading replaces tables, and must not replace anybody else's.

    Not those of `fate-dp upload-prepared`, and not those of a study of other rows that runs on the same server.
    """
    tables = sorted((entry["table"], entry["sha256"]) for entry in manifest["files"].values() if "table" in entry)
    return f"lending_club_study_{hashlib.sha256(repr(tables).encode()).hexdigest()[:16]}"


def scores_in_order(run: FederatedRun, division: Division) -> numpy.ndarray:
    """FATE's scores (n,) in the order of the test rows; raises NoOutput where a row has none."""
    table = run.test_table
    scores = dict(zip(table["id"].astype(str), table["score"].astype(float)))
    wanted = division.test[ID].astype(str)
    if len(table) != len(wanted) or not wanted.isin(scores.keys()).all():
        raise NoOutput(f"Job {run.job_id} scored {len(table)} rows, not the {len(wanted)} test rows that it was given.")
    return wanted.map(scores).to_numpy()


def flow_entry(
    run: FederatedRun, scores: numpy.ndarray, models: SplitModels, seed: int, spread_by_order: float
) -> dict:
    """The result's entry for a run: FATE's own measures, how far it is from the split's simulation, and how far
    simulations are from each other that differ in nothing but the order of rows. HomoLR charges nothing."""
    simulated = models.trained[FEDERATED]
    expected = {BIAS: simulated.bias, **dict(zip(FEATURES, simulated.weights))}
    if set(expected) != set(run.weights):
        raise NoOutput(f"Job {run.job_id} has weights for other features than those that were uploaded.")
    return {
        "name": "homo_lr",
        "seed": seed,
        "job_id": run.job_id,
        "seconds": run.seconds,
        "ledger": [],
        "evaluation": run.evaluation,
        "agreement": {
            "largest_weight_difference": max(abs(run.weights[name] - expected[name]) for name in expected),
            "largest_score_difference": float(abs(scores - models.scores[FEDERATED]).max()),
            "spread_by_order": spread_by_order,
        },
    }
