"""One split of the credit study through FATE-Flow: written, uploaded, trained, tested, compared with its simulation."""
from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy

from fate_dp.data_prep.lending_club.columns import FEATURES, ID
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import Division
from fate_dp.data_prep.lending_club.written import write
from fate_dp.deploy.flow_address import FlowAddress

from .class_measures import class_measures
from .credit_models import FEDERATED, SplitModels
from .homo_lr import Federation, StudyTables
from .homo_lr_job import BIAS, FederatedRun, run_federated
from .homo_lr_settings import HomoLRSettings
from .job import NoOutput
from .upload_prepared import upload_prepared


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
    place: FlowPlace, clean, division: Division, options: PrepOptions, settings: HomoLRSettings
) -> FederatedRun:
    """Write and upload a division, and run the study's job on it."""
    folder = place.prepared / f"seed-{options.seed}"
    namespace = namespace_of(write(clean, division, options, folder))
    upload_prepared(place.address, folder, namespace, progress=place.progress, home=place.home)
    guest, *hosts = options.parties
    return run_federated(
        place.address, Federation(guest, tuple(hosts)), StudyTables(namespace), settings, home=place.home,
        progress=lambda *news: place.progress(f"FATE-Flow, seed {options.seed}", *news),
    )  # fmt: skip


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


def flow_entry(run: FederatedRun, scores, models: SplitModels, seed: int, settings: HomoLRSettings) -> dict:
    """The result's entry for a run: its measures, FATE's own, and how far it is from the split's simulation."""
    simulated = models.trained[FEDERATED]
    expected = {BIAS: simulated.bias, **dict(zip(FEATURES, simulated.weights))}
    if set(expected) != set(run.weights):
        raise NoOutput(f"Job {run.job_id} has weights for other features than those that were uploaded.")
    return {
        "seed": seed,
        "job_id": run.job_id,
        "seconds": run.seconds,
        "measures": class_measures(models.labels, scores, settings.threshold),
        "evaluation": run.evaluation,
        "agreement": {
            "largest_weight_difference": max(abs(run.weights[name] - expected[name]) for name in expected),
            "largest_score_difference": float(abs(scores - models.scores[FEDERATED]).max()),
        },
    }
