"""The main job: label-private vertical logistic regression on breast-cancer data, through FATE-Flow, with its yardsticks."""
from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from fate_dp.data_prep.breast_cancer import PUBLIC_FOLDER, Split, write_tables
from fate_dp.deploy.flow_address import FlowAddress
from fate_dp.privacy.events import REPLACE_ONE

from .hetero_lr import Parties, Tables, TrainingPlan, prediction_pipeline, training_pipeline
from .job import run_job, task_output_data, task_output_model
from .local_fit import fit_locally
from .measures import measure
from .party_ledgers import declare, declare_public, party_ledger, score_releases
from .upload import TableMeta, upload_table
from .whole_file import write_whole

NAMESPACE = "fate_dp_demo"
EPSILON = 2.0
# A fixed start makes a second run give the same weights, so that the host's ledger counts its scores once. Standardised,
# balanced data needs no intercept.
TRAINING = {
    "init_param": {"method": "kaiming", "fit_intercept": False, "random_state": 2024},
    "flipback": {"mode": "auto"},
}
PRIVATE = Tables(NAMESPACE, "guest_train", "host_train")
PUBLIC = Tables(NAMESPACE, "guest_train_public", "host_train")
PUBLIC_COPY = f"{PUBLIC_FOLDER}/guest_train"
HELD_OUT = Tables(NAMESPACE, "guest_test", "host_test")


@dataclass(frozen=True)
class Site:
    """Where a party's FATE-Flow answers, the folder of its key and ledger, and the server's home if it is ours."""

    address: FlowAddress
    parties_folder: Path
    home: Path | None = None


@dataclass
class Run:
    """One run of the demo: where it works, and what it has measured so far.

    Guest and host may share a server, as the embedded one plays all parties; the jobs are the guest's.
    """

    guest: Site
    host: Site
    output: Path
    progress: callable
    parties: Parties = Parties()
    split: Split = Split()
    jobs: list = field(default_factory=list)
    tasks: list = field(default_factory=list)

    @property
    def data(self) -> Path:
        """Where the files to upload are written."""
        return self.output / "data"

    def job(self, name: str, pipeline):
        """Run a pipeline as a job of that name; returns its result."""
        result = run_job(
            pipeline, self.guest.address, lambda *news: self.progress(name, *news), home=self.guest.home
        )
        self.note(name, result)
        return result

    def note(self, name: str, result) -> None:
        self.jobs.append({"name": name, "job_id": result.job_id})
        seconds = result.seconds_per_task().items()
        self.tasks.extend({"job": name, "task": task, "seconds": spent} for task, spent in seconds)

    def guest_tables(self, result, task: str) -> dict:
        return task_output_data(self.guest.address, result.job_id, "guest", self.parties.guest, task)

    def guest_model(self, result) -> dict:
        model = task_output_model(
            self.guest.address, result.job_id, "guest", self.parties.guest, "dp_hetero_lr_0")
        return model["output_model"]


def run_demo(run: Run) -> dict:
    """Prepare, upload, train, predict, compare; returns the result (schema: result_schema.json)."""
    begin = time.monotonic()
    manifest = upload_data(run)
    declare(run.guest.parties_folder, run.parties.guest, PRIVATE.label_source())
    copy = run.data / f"{PUBLIC_COPY}.csv"
    declare_public(run.guest.parties_folder, run.parties.guest, PUBLIC.label_source(), copy)
    trained = train_and_predict(run, "private", PRIVATE, EPSILON)
    yardstick = train_and_predict(run, "not private", PUBLIC, None)
    models = {
        "private": federated_model("federated, labels flipped", trained),
        "guest_only": guest_alone(run, trained),
        "not_private": federated_model("federated, no privacy", yardstick),
    }
    result = {
        "schema": "fate-dp/demo-result/1",
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "fate_dp_version": version("fate-dp"),
        "fate_version": version("pyfate"),
        "data": describe_data(run, manifest, trained),
        "models": models,
        "privacy": {
            "epsilon_per_observer": guarantees(),
            "score_releases": score_releases(run.host.parties_folder, run.parties.host, host_features(manifest)),
        },
        "ledgers": {
            f"guest {run.parties.guest}": party_ledger(run.guest.parties_folder, run.parties.guest),
            f"host {run.parties.host}": party_ledger(run.host.parties_folder, run.parties.host),
        },
        "seconds": {"total": time.monotonic() - begin, "tasks": run.tasks},
        "jobs": run.jobs,
    }
    write_result(result, run.output)
    return result


def upload_data(run: Run) -> dict:
    """Write both sides' files and upload them; the guest's training table twice, once under a name declared public."""
    manifest = write_tables(run.data, run.split)
    files = {PRIVATE.guest: "guest_train", PUBLIC.guest: PUBLIC_COPY, PRIVATE.host: "host_train"}
    files.update({HELD_OUT.guest: "guest_test", HELD_OUT.host: "host_test"})
    for table, file in files.items():
        guests = file.rpartition("/")[2].startswith("guest")
        site = run.guest if guests else run.host
        name = f"upload {table}"
        result = upload_table(
            site.address, run.data / f"{file}.csv", NAMESPACE, table, TableMeta(label_name="y" if guests else None),
            home=site.home,
            progress=lambda *news, name=name: run.progress(name, *news),
        )  # fmt: skip
        run.note(name, result)
    return manifest


@dataclass(frozen=True)
class Trained:
    """A trained model, the labels it saw, and its scores on the held-out records."""

    model: dict
    training_table: object
    held_out: object
    held_out_table: object


def train_and_predict(run: Run, name: str, tables: Tables, epsilon: float | None) -> Trained:
    """Train, deploy, predict the held-out part."""
    pipeline = training_pipeline(TrainingPlan(run.parties, tables, epsilon, TRAINING))
    training = run.job(f"train {name}", pipeline)
    prediction = run.job(f"predict {name}", prediction_pipeline(pipeline, run.parties, HELD_OUT))
    labelled_by = "psi_0" if epsilon is None else "label_flip_0"
    return Trained(
        run.guest_model(training),
        run.guest_tables(training, labelled_by)["output_data"],
        run.guest_tables(prediction, "dp_hetero_lr_0")["test_output_data"],
        run.guest_tables(prediction, "psi_0")["output_data"],
    )


def federated_model(title: str, trained: Trained) -> dict:
    """The result's entry for a federated model; loss per epoch, but measures of the final model only, since measures
    per epoch would show the guest the host's scores at every epoch."""
    meta, estimator = trained.model["meta"], trained.model["data"]["estimator"]
    return {
        "title": title,
        "epsilon": meta["privacy"]["epsilon"],
        "flipback": meta["privacy"]["flipback"],
        **measure(trained.held_out["label"], trained.held_out["predict_score"]),
        "loss_per_epoch": estimator["losses"],
        "epochs_run": estimator["end_epoch"],
    }


def guest_alone(run: Run, trained: Trained) -> dict:
    """What the guest reaches without a host, on the same flipped labels."""
    begin = time.monotonic()
    scores = fit_locally(trained.training_table, trained.held_out_table, "y", trained.model["data"]["estimator"]["header"])
    run.tasks.append({"job": "guest alone", "task": "local fit", "seconds": time.monotonic() - begin})
    return {
        "title": "guest alone, labels flipped",
        "epsilon": trained.model["meta"]["privacy"]["epsilon"],
        "flipback": "none",
        **measure(trained.held_out_table["y"], scores),
        "loss_per_epoch": [],
        "epochs_run": None,
    }


def guarantees() -> list:
    """Epsilon per observer of the private run."""
    label = {"unit": "label", "relation": REPLACE_ONE, "epsilon": EPSILON, "delta": 0}
    return [
        {"observer": "host", **label, "note": "It sees its own exact gradients, made from flipped labels"},
        {"observer": "arbiter", **label, "note": "It decrypts masked sums only; this bounds even what a leak would tell"},
        {"observer": "model", **label, "note": "The weights are computed from flipped labels"},
        {
            "observer": "guest", "unit": "record", "relation": REPLACE_ONE, "epsilon": "infinity", "delta": 0,
            "note": "The host's features have no differential privacy; its ledger counts the joint scores it gave",
        },
    ]  # fmt: skip


def describe_data(run: Run, manifest: dict, trained: Trained) -> dict:
    files = manifest["files"]
    rows = {side: {part: files[f"{side}_{part}.csv"]["rows"] for part in ("train", "test")} for side in ("guest", "host")}
    guest_features = len(files["guest_train.csv"]["columns"]) - 2
    return {
        "name": "breast cancer (scikit-learn)",
        "seed": run.split.seed,
        "parties": [
            {"party": f"guest {run.parties.guest}", "features": guest_features, "rows": rows["guest"]},
            {"party": f"host {run.parties.host}", "features": host_features(manifest), "rows": rows["host"]},
        ],
        "common_rows": {"train": len(trained.training_table), "test": len(trained.held_out)},
    }


def host_features(manifest: dict) -> int:
    return len(manifest["files"]["host_train.csv"]["columns"]) - 1


def write_result(result: dict, folder: Path) -> None:
    """Write result.json and report.html, each whole or not at all."""
    from .report import write_report

    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "result.json", json.dumps(result, indent=2, allow_nan=False) + "\n")
    write_report(result, folder / "report.html")
