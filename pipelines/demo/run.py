"""The demo: label-private vertical logistic regression on breast-cancer data, through FATE-Flow, with its baselines."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import version
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy
import pandas
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

from fate_dp.components.protocols import prediction_frames as figures
from fate_dp.data_prep.breast_cancer import PUBLIC_FOLDER, Split, write_tables
from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.privacy.labels.noisy_metrics import ACCURACY, AUC, KS
from fate_dp.privacy.private_files import atomic_write

from ..jobs.flow import fate_version
from ..jobs.job import JobResult, run_job, task_metrics, task_output_data, task_output_model
from ..jobs.party_ledgers import declare_public, home_at, party_ledger, score_releases
from ..jobs.ready import Parties, Tables, TrainingPlan, prediction_pipeline, training_pipeline
from ..jobs.text_tables import named
from ..jobs.upload import TableMeta, upload_table
from ..report.guarantees import Protocol, component_guarantee
from ..report.job_facts import ReportRequest, gather
from ..report.job_page import write_report

if TYPE_CHECKING:
    from fate_client.pipeline import FateFlowPipeline


def measure(labels: Any, scores: Any, threshold: float = 0.5) -> dict[str, Any]:
    """Measures of a binary classifier on held-out records, as the result schema has them; label 1 is the positive class."""
    labels, scores = numpy.asarray(labels, dtype=float), numpy.asarray(scores, dtype=float)
    predicted = scores > threshold
    of_class = metrics.precision_recall_fscore_support(labels, predicted, average="binary", zero_division=0)[:3]
    return {
        "metrics": {
            "accuracy": float(metrics.accuracy_score(labels, predicted)),
            "auc": float(metrics.roc_auc_score(labels, scores)),
            **dict(zip(("precision", "recall", "f1"), map(float, of_class))),
            "rows": len(labels),
        }
    }


COMPONENT, TASK = "dp_hetero_lr", "dp_hetero_lr_0"
NAMESPACE = "fate_dp_demo"
EPSILON = 2.0
# A fixed start makes a second run give the same weights, so that the host's ledger counts its scores once. Standardised,
# balanced data needs no intercept.
TRAINING = {
    "init_param": {"method": "kaiming", "fit_intercept": False, "random_state": 2024},
    "flipback": {"mode": "auto"},
    "true_labels": True,
}
# The private training shows the guest the scores of the training rows, one release of the host's cap, so that it can
# estimate how good the model is from the flips alone; predictions of the held-out rows are held against true labels.
SCORED = {**TRAINING, "train_scores": True}
PRIVATE = Tables(NAMESPACE, "guest_train", "host_train")
PUBLIC = Tables(NAMESPACE, "guest_train_public", "host_train")
PUBLIC_COPY = f"{PUBLIC_FOLDER}/guest_train"
HELD_OUT = Tables(NAMESPACE, "guest_test", "host_test")
# Which file is uploaded as which table.
FILES = {
    PRIVATE.guest: "guest_train",
    PUBLIC.guest: PUBLIC_COPY,
    PRIVATE.host: "host_train",
    HELD_OUT.guest: "guest_test",
    HELD_OUT.host: "host_test",
}
UPLOAD = "upload {}"
REPORTED = ("train private", "predict private")
"""Jobs that get a page, as the guest may know them."""
JOB_NAMES = (*map(UPLOAD.format, FILES), "train private", "predict private", "train not private", "predict not private")


@dataclass(frozen=True)
class Site:
    """Where a party's FATE-Flow answers, the folder of its key and ledger, and the server's home if it is ours."""

    address: FlowAddress
    parties_folder: Path
    home: Path | None = None


@dataclass
class Run:
    """One run of the demo: where it works, and what it has measured so far. Guest and host may share a server; the jobs
    are the guest's."""

    guest: Site
    host: Site
    output: Path
    progress: Callable[[str, str, str, float], None]
    parties: Parties = Parties()
    split: Split = Split()
    results: dict[str, JobResult] = field(default_factory=dict)
    """Each job's result by its name, in the order in which they ended."""
    stop: Event = field(default_factory=Event)
    """Set where a job failed while others ran."""

    @property
    def data(self) -> Path:
        return self.output / "data"

    def job(self, name: str, pipeline: FateFlowPipeline) -> JobResult:
        site, told = self.guest, partial(self.progress, name)
        self.results[name] = run_job(pipeline, site.address, told, home=site.home, stop=self.stop)
        return self.results[name]

    def together(self, *works: Callable[[], object]) -> list:
        """Do at once several things that need nothing of each other; where one fails, or the user interrupts, jobs are
        stopped."""
        with ThreadPoolExecutor(len(works)) as threads:
            futures = [threads.submit(work) for work in works]
            try:
                ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
                failures = [failure for each in ended if (failure := each.exception())]
                if failures:
                    raise failures[0]
            except BaseException:
                self.stop.set()
                raise
        return [each.result() for each in futures]

    def tasks(self) -> list[dict[str, Any]]:
        return [
            {"job": name, "task": task, "seconds": spent}
            for name in JOB_NAMES
            for task, spent in self.results[name].seconds_per_task().items()
        ]

    def summary(self, result: JobResult) -> dict[str, Any]:
        metrics = task_metrics(self.guest.address, result.job_id, "guest", self.parties.guest, TASK)
        return next(record["data"] for record in metrics if record["name"] == "summary")


def run_demo(run: Run) -> dict[str, Any]:
    """Prepare, upload, train, predict, compare; returns the result (schema: result_schema.json), which it also writes."""
    begin = time.monotonic()
    manifest = upload_data(run)
    copy = run.data / f"{PUBLIC_COPY}.csv"
    declare_public(run.guest.parties_folder, run.parties.guest, PUBLIC.label_source(), copy, TableMeta())
    trained, baseline = run.together(
        partial(train_and_predict, run, "private", TrainingPlan(run.parties, PRIVATE, EPSILON, SCORED)),
        partial(train_and_predict, run, "not private", TrainingPlan(run.parties, PUBLIC, None, TRAINING)),
    )
    alone, seconds_alone = guest_alone(trained)
    protocol = component_guarantee(COMPONENT).protocol(trained.summary["solver"])
    models = {
        "private": federated_model("federated, labels flipped", trained),
        "guest_only": alone,
        "not_private": federated_model("federated, no privacy", baseline),
    }
    run.output.mkdir(parents=True, exist_ok=True)
    pages = {name: job_page(run, name) for name in REPORTED}
    result = {
        "schema": "fate-dp/demo-result/5",
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "fate_dp_version": version("fate-dp"),
        "fate_version": fate_version(),
        "data": describe_data(run, manifest, trained),
        "models": models,
        "training_figures": training_figures(trained.summary),
        "privacy": {
            "protocol": {
                "component": COMPONENT,
                **asdict(protocol),
                "views": [asdict(view) for view in protocol.views],
            },
            "epsilon_per_observer": guarantees(protocol, EPSILON),
            "score_releases": score_releases(run.host.parties_folder, run.parties.host, host_features(manifest)),
        },
        "ledgers": {
            f"guest {run.parties.guest}": ledger_with_tables(run.guest.parties_folder, run.parties.guest),
            f"host {run.parties.host}": ledger_with_tables(run.host.parties_folder, run.parties.host),
        },
        "seconds": {
            "total": time.monotonic() - begin,
            "tasks": [*run.tasks(), {"job": "guest alone", "task": "local fit", "seconds": seconds_alone}],
        },
        "jobs": [
            {"name": name, "job_id": run.results[name].job_id, **({"page": pages[name]} if name in pages else {})}
            for name in JOB_NAMES
        ],
    }
    atomic_write(run.output / "result.json", json.dumps(result, indent=2, allow_nan=False) + "\n")
    return result


def ledger_with_tables(parties_folder: Path, party_id: str) -> list[dict[str, Any]]:
    """Entries of a party's ledger, with names of tables in place of those of datasets."""
    return named(party_ledger(parties_folder, party_id), "source", home_at(parties_folder, party_id).ledger.tables())


def job_page(run: Run, name: str) -> str:
    """Write what the guest may know of a job; returns the name of the page beside the result."""
    job_id = run.results[name].job_id
    asked = ReportRequest(run.guest.address, job_id, run.guest.parties_folder, run.parties.guest, run.guest.home)
    page, _ = write_report(gather(asked), run.output, f"job-{name.replace(' ', '-')}")
    return page.name


def upload_data(run: Run) -> dict[str, Any]:
    """Write both sides' files and upload them; the guest's training table twice, once under a name declared public."""
    manifest = write_tables(run.data, run.split)
    run.together(*(partial(upload, run, table, file) for table, file in FILES.items()))
    return manifest


def upload(run: Run, table: str, file: str) -> None:
    guests = file.rpartition("/")[2].startswith("guest")
    site = run.guest if guests else run.host
    name = UPLOAD.format(table)
    run.results[name] = upload_table(
        site.address,
        run.data / f"{file}.csv",
        NAMESPACE,
        table,
        TableMeta(label_name="y" if guests else None),
        home=site.home,
        progress=partial(run.progress, name),
        stop=run.stop,
    )


@dataclass(frozen=True)
class Trained:
    """A trained model, its training's summary, the labels it saw, and its scores on the held-out records."""

    model: dict[str, Any]
    summary: dict[str, Any]
    training_table: pandas.DataFrame
    held_out: pandas.DataFrame
    held_out_table: pandas.DataFrame


def train_and_predict(run: Run, name: str, plan: TrainingPlan) -> Trained:
    pipeline = training_pipeline(plan)
    training = run.job(f"train {name}", pipeline)
    prediction = run.job(f"predict {name}", prediction_pipeline(pipeline, run.parties, HELD_OUT))
    trained, predicted = ((run.guest.address, job.job_id, "guest", run.parties.guest) for job in (training, prediction))
    return Trained(
        task_output_model(*trained, TASK)["output_model"],
        run.summary(training),
        task_output_data(*trained, "psi_0" if plan.epsilon is None else "label_flip_0")["output_data"],
        task_output_data(*predicted, TASK)["test_output_data"],
        task_output_data(*predicted, "psi_0")["output_data"],
    )


def federated_model(title: str, trained: Trained) -> dict[str, Any]:
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


def guest_alone(trained: Trained) -> tuple[dict[str, Any], float]:
    """What scikit-learn's logistic regression reaches without a host on the same flips, and the seconds that it
    took."""
    begin = time.monotonic()
    features = trained.model["data"]["estimator"]["header"]
    rows, held_out = (table[features].astype(float) for table in (trained.training_table, trained.held_out_table))
    labels = trained.training_table["y"].astype(float).astype(int)
    scores = LogisticRegression(max_iter=1000).fit(rows, labels).predict_proba(held_out)[:, 1]
    seconds = time.monotonic() - begin
    model = {
        "title": "guest alone, labels flipped",
        "epsilon": trained.model["meta"]["privacy"]["epsilon"],
        "flipback": "none",
        **measure(trained.held_out_table["y"], scores),
        "loss_per_epoch": [],
        "epochs_run": None,
    }
    return model, seconds


def training_figures(summary: dict[str, Any]) -> list:
    """What the private model's guest sees of it without true labels; a summary has numbers too small for the board as
    text."""
    rows = figures.TRAINING_ROWS
    return [
        {
            "measure": name,
            "on_flips": float(summary[figures.on_labels(rows, name, "flips")]),
            "estimate": float(summary[figures.estimated(rows, name)]),
            "standard_error": float(summary[figures.standard_error(rows, name)]),
            "most_bias": None if most is None else float(most),
        }
        for name in (ACCURACY, AUC, KS)
        for most in [summary.get(figures.bias(rows, name))]
    ]


def guarantees(protocol: Protocol, epsilon: float) -> list:
    """Epsilon per observer of a training on labels flipped at ``epsilon``; notes are what observers see of the
    protocol."""
    promised = {(promise.event, promise.unit): promise for promise in component_guarantee(COMPONENT).promises}
    kept = ((promised["RandomizedResponse", "label"], epsilon), (promised["NotPrivate", "record"], "infinity"))
    return [
        {
            "observer": observer,
            "unit": promise.unit,
            "relation": promise.relation,
            "epsilon": spent,
            "delta": 0,
            "note": protocol.view_of(observer).sees,
        }
        for promise, spent in kept
        for observer in promise.observers
    ]


def describe_data(run: Run, manifest: dict[str, Any], trained: Trained) -> dict[str, Any]:
    files = manifest["files"]
    rows = {
        side: {part: files[f"{side}_{part}.csv"]["rows"] for part in ("train", "test")} for side in ("guest", "host")
    }
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


def host_features(manifest: dict[str, Any]) -> int:
    return len(manifest["files"]["host_train.csv"]["columns"]) - 1
