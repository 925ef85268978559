"""Run the study's job on FATE-Flow and fetch what a report needs: model, losses, test scores, FATE's measures."""
from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Real

from fate_dp.deploy.flow_address import FlowAddress

from .homo_lr import Federation, StudyTables, study_pipeline
from .homo_lr_settings import HomoLRSettings
from .homo_lr_tables import checked_features
from .job import JobResult, NoOutput, Progress, run_job, task_metrics, task_output_data, task_output_model

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
    test_table: object
    """A pandas frame with the columns id, label and score, one row per row of the test table."""
    evaluation: dict[str, float]
    """FATE's own measures of the test scores that are single numbers: auc and ks."""
    pipeline: object
    """The trained pipeline, for `prediction_pipeline`."""


def run_federated(
    address: FlowAddress,
    federation: Federation,
    tables: StudyTables,
    settings: HomoLRSettings = HomoLRSettings(),
    progress: Progress = lambda task, status, seconds: None,
    timeout: float = 3600.0,
    home: str | os.PathLike | None = None,
) -> FederatedRun:
    """Check the tables, train, test and evaluate in one job; raises UnfitTables or JobFailed."""
    features = checked_features(address, federation, tables, settings.batch_size)
    pipeline = study_pipeline(federation, tables, settings)
    result = run_job(pipeline, address, progress, timeout, home)
    return fetch_run(address, federation, features, result, pipeline)


def fetch_run(address: FlowAddress, federation: Federation, features, result: JobResult, pipeline=None) -> FederatedRun:
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


def named_weights(model: dict, features) -> dict[str, float]:
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


def scores_of(table):
    """FATE's prediction table with the columns that matter, sorted by id."""
    columns = {"id": "id", "label": "label", "predict_score": "score"}
    return table[list(columns)].rename(columns=columns).sort_values("id", ignore_index=True)


def measures_of(records: list[dict], task: str) -> dict[str, float]:
    """The measures of FATE's Evaluation of a task's scores that are numbers; curves and tables are left out."""
    entries = [entry for measured in records[-1]["data"][task].values() for entry in measured]
    metrics = [metric for entry in entries for metric in (entry if isinstance(entry, list) else [entry])]
    return {metric["metric"]: metric["val"] for metric in metrics if isinstance(metric["val"], Real)}
