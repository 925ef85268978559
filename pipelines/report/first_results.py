"""What a first model leaves beside its card: figures on held-out rows, the job's report, and the rules of the bins that were made."""

from pathlib import Path
from typing import Any

import pandas
from scipy.special import logit

from fate_dp.components.protocols.prediction_frames import NO_FLIPS
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.deploy.flow.home import open_home
from fate_dp.privacy.labels.noisy_metrics import AUC, KS, corrected_figures

from ..jobs.job import task_output_data
from ..jobs.text_tables import estimate_text
from .job_facts import ReportRequest, gather
from .job_page import write_report


def measured(address: FlowAddress, job_id: str, guest: str, task: str) -> tuple[dict[str, str], int]:
    """AUC and KS with 95 % intervals, as text, of the task's scores of rows with true labels; and of how many rows."""
    (tables,) = task_output_data(address, job_id, "guest", guest, task).values()
    rows = pandas.concat(tables if isinstance(tables, list) else [tables])
    scores = logit(rows["predict_score"].to_numpy(float).clip(1e-12, 1 - 1e-12))
    found = corrected_figures(rows["label"].to_numpy(int), scores, NO_FLIPS)
    return {name: estimate_text(found[name].estimate, found[name].standard_error, 0.0) for name in (AUC, KS)}, len(rows)


def report_of_job(address: FlowAddress, job_id: str, home: Path, out: Path) -> Path:
    """Write the guest's report.html and report.json of a job at the embedded server of ``home``; returns the page."""
    return write_report(gather(ReportRequest(address, job_id, open_home(home).parties, None, home)), out, "report")[0]


def rules_of(model: dict[str, Any]) -> dict[str, Any]:
    """{column: rule} that makes the bins of a model of dp_binning again, at no epsilon: they are public now."""
    kept = ({name: each[name] for name in each.keys() - {"name", "missing"} if each[name]} for each in model["bins"])
    return {each["name"]: rule or {"cuts": [0.0]} for each, rule in zip(model["bins"], kept)}


def without_names(model: dict[str, Any]) -> dict[str, Any]:
    """A host's bins with its columns by number, as the guest knows them unless the host agrees to more."""
    return {"bins": [{**each, "name": f"x{at}"} for at, each in enumerate(model["bins"])]}
