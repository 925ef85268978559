"""The private study on FATE-Flow: its tables, its jobs one after another, and what each of them left, kept for a run that goes on.

Every finished job has a record of its own, with its measures and its lines in the parties' ledgers; a run that was interrupted
takes over the records of the same loans and settings and goes on with the jobs that are missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pandas

from examples.pipelines import Federation
from fate_dp.components.common.charges import PartyHome
from fate_dp.data_prep.division import Shares
from fate_dp.data_prep.lending_club.cleaning import CleanLoans
from fate_dp.data_prep.lending_club.columns import FEATURES, ID, LABEL
from fate_dp.data_prep.lending_club.options import HORIZONTAL_PARTIES, PrepOptions
from fate_dp.data_prep.lending_club.preparation import Division, divide
from fate_dp.data_prep.lending_club.written import write_csv
from fate_dp.deploy.flow.home import open_home
from fate_dp.pipelines.jobs.job import JobResult, NoOutput, run_job, task_output_data, task_output_model
from fate_dp.pipelines.jobs.party_ledgers import declare, home_at, label_budget, make_home, party_ledger
from fate_dp.pipelines.jobs.populations import declare_table
from fate_dp.pipelines.jobs.upload import TableMeta, upload_table
from fate_dp.privacy.ledger.policy import declare_caps
from fate_dp.privacy.private_files import POLICY_FILE, atomic_write

from .flow import FlowPlace, job_page, table_schema
from .models import class_measures, numbers, one_thread, party_rows, pooled_rows, scikit_scores, train
from .private_jobs import (
    BANK_LABEL,
    COLUMNS,
    DELTA,
    EPSILONS,
    HORIZONTAL,
    KINDS,
    MAX_WEIGHT,
    PUBLIC_PRIOR,
    ROWS,
    TRANSFER,
    TRANSFER_EPSILON,
    Built,
    Place,
    ScoredTask,
    StudyJob,
    study_jobs,
)
from .result import YARDSTICKS as YARDSTICK_PART
from .result import model

# In a transfer's split the last party, which is in no training, holds one in a hundred of the loans.
SMALL_PARTY, SMALL_SHARE = "9997", 1.0
# Strength of the pull towards the federation's model; chosen on other seeds, see bench/credit_study.py.
FINE_TUNING = 100.0
OWN_PENALTY = 1.0
NAMESPACE = "lending_club_study"
RECORD_SCHEMA = "fate-dp/credit-study-job/1"
LEDGER_FIELDS = ("mechanism", "unit", "relation", "epsilon", "delta", "counted", "source")
# A record's epsilon under replace-one is about twice that under add-or-remove; the rest is slack of the composition.
CAP_FACTOR = 3.0
SMALL = {
    "small_alone": "its own loans alone",
    "small_federated": "the others' private model as it is",
    "small_fine_tuned": "the others' model, fine-tuned on its own loans",
}
SMALL_NOTE = "the others' records, at epsilon 4: a small institution, whose own loans nothing protects at home, takes over their model"
YARDSTICKS = {
    "central": "central",
    "alone": "alone (mean of the institutions)",
    "federated": "federated, SMOTENC",
    "federated_under_sampled": "federated, under-sampled",
    "federated_unbalanced": "federated, loans as they are",
}


@dataclass(frozen=True)
class PrivateStudy:
    """What of the private study is run: its parts, epsilons and seeds, each of which is a split of its own."""

    seeds: tuple[int, ...] = (2024,)
    parts: tuple[str, ...] = (ROWS, COLUMNS, TRANSFER)
    epsilons: tuple[float, ...] = EPSILONS
    kinds: tuple[str, ...] | None = None
    """Kinds of models, None for all."""
    trees: int | None = None
    """How many SecureBoost grows, None for `private_jobs.TREES`."""
    test_share: float = 0.3
    parties: tuple[str, ...] = HORIZONTAL_PARTIES
    """Institutions, the guest first; the first two are bank and bureau."""
    shares: tuple[float, ...] | None = None
    """Of the institutions by rows, None for those of `PrepOptions`."""

    def jobs(self) -> list[StudyJob]:
        """All jobs of a seed."""
        wanted = study_jobs(self.parts, self.epsilons, self.trees)
        return [job for job in wanted if self.kinds is None or job.kind in self.kinds]

    def total_epsilon(self) -> float:
        """What all jobs of all seeds ask for, as if a loan were in every one of them."""
        return len(self.seeds) * sum(sum(job.epsilons) for job in self.jobs())


@dataclass(frozen=True)
class Workshop:
    """Where the study works: the loans, FATE-Flow, and the folder of records and pages."""

    loans: CleanLoans
    flow: FlowPlace
    output: Path

    def record_path(self, seed: int, job: StudyJob) -> Path:
        return self.output / "jobs" / f"seed-{seed}-{job.name}.json"


def run_private_study(study: PrivateStudy, shop: Workshop, step: Callable[[str], Any]) -> dict:
    """Run the jobs that have no record yet; returns ``models`` and ``jobs`` as `result` describes them, and columns left out.

    Args:
        step: gives a context in which one step of a name runs, such as `study.timed_step`.
    """
    jobs: list[dict] = []
    measured: dict[str, list[dict]] = {}
    for seed in study.seeds:
        for part in study.parts:
            # Too few loans for a split are refused before any job.
            divide(shop.loans, options_of(part, study, seed))
    for seed in study.seeds:
        splits = Splits(study, shop, seed)
        with step(f"yardsticks, seed {seed}"):
            for name, measures in yardsticks(shop.loans, study, seed).items():
                measured.setdefault(name, []).append(measures)
        for job in study.jobs():
            path, key = shop.record_path(seed, job), key_of(study, shop.loans, seed, job)
            record = read_record(path, key)
            if record is None:
                with step(f"{job.name}, seed {seed}"):
                    record = {"key": key, **run_study_job(job, splits)}
                    path.parent.mkdir(parents=True, exist_ok=True)
                    atomic_write(path, json.dumps(record, indent=2, allow_nan=False) + "\n")
            jobs.append(record)
    kept = ("name", "seed", "job_id", "seconds", "page", "ledger")
    found = {"models": models_of(jobs, measured), "jobs": [{name: job[name] for name in kept} for job in jobs]}
    columns = divide(shop.loans, options_of(COLUMNS, study, study.seeds[0]))
    return found | {"constant": constant_columns(columns) if COLUMNS in study.parts else []}


def models_of(jobs: Sequence[dict], yardsticks: dict[str, list[dict]]) -> list[dict]:
    """Entries of all models of the jobs' records, of the yardsticks and of the transfer, each over its splits."""
    private: dict[tuple[str, float | None], list[dict]] = {}
    for each in (each for job in jobs for each in job["models"]):
        private.setdefault((each["kind"], each["epsilon"]), []).append(each["measures"])
    found = [
        model(KINDS[kind].part, kind, KINDS[kind].title, measured, KINDS[kind].protects, epsilon)
        for (kind, epsilon), measured in private.items()
    ]
    for name, title in YARDSTICKS.items():
        if name in yardsticks:
            found.append(model(YARDSTICK_PART, f"yardstick_{name}", title, yardsticks[name], "nothing; in one process"))
    transfers = [job["transfer"] for job in jobs if "transfer" in job]
    for name, title in SMALL.items() if transfers else ():
        found.append(model(TRANSFER, name, title, [each[name] for each in transfers], SMALL_NOTE))
    return found


def key_of(study: PrivateStudy, loans: CleanLoans, seed: int, job: StudyJob) -> dict:
    """All that a job's figures depend on, in builtins as JSON has them."""
    key = {
        "schema": RECORD_SCHEMA,
        "sha256": loans.sha256,
        "rows": len(loans.frame),
        "seed": seed,
        "test_share": study.test_share,
        "parties": study.parties,
        "shares": study.shares,
        "job": job.name,
        "epsilons": list(job.epsilons),
        "delta": DELTA,
        "rounds": {name: asdict(rounds) for name, rounds in HORIZONTAL.items()},
        "classes": [*PUBLIC_PRIOR, MAX_WEIGHT],
        "trees": job.trees if job.kind == "label_flips_trees" else None,
    }
    return json.loads(json.dumps(key))


def read_record(path: Path, key: dict) -> dict | None:
    """A finished job's record; None where there is none of these loans and settings."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("key") == key else None


# One job.


def run_study_job(job: StudyJob, splits: Splits) -> dict:
    """Run a job; returns its id, the measures of its models, its ledger lines, and of a transfer what the small one gains."""
    place, division = splits.uploaded(job.part)
    flow, guest = splits.shop.flow, place.federation.guest
    built = job.build(job, place)
    ended = run_job(
        built.pipeline, flow.address, partial(flow.progress, f"{job.name}, seed {splits.seed}"), home=flow.home
    )
    labels = division.test[LABEL].to_numpy(int)
    models = []
    for scored in built.scored:
        scores = scores_of_task(scored, place, flow, ended.job_id, division.test)
        models.append({"kind": scored.kind, "epsilon": scored.epsilon, "measures": class_measures(labels, scores)})
    record: dict[str, Any] = {"seed": splits.seed, "name": job.name, "part": job.part, "job_id": ended.job_id}
    if job.part == TRANSFER:
        record["transfer"] = transferred(built, ended, flow, division, guest)
        models = []
    return record | {
        "seconds": ended.seconds,
        "models": models,
        "ledger": ledger_lines(flow, place, ended.job_id),
        "page": job_page(flow, ended.job_id, guest, splits.shop.output),
    }


def scores_of_task(
    scored: ScoredTask, place: Place, flow: FlowPlace, job_id: str, test: pandas.DataFrame
) -> numpy.ndarray:
    """Scores (n,) of the held-out loans, in their order."""
    guest = place.federation.guest
    if scored.output is not None:
        table = task_output_data(flow.address, job_id, "guest", guest, scored.task)[scored.output]
        return held_out_scores(table, test, job_id)
    models = [
        task_output_model(flow.address, job_id, role, party_id, scored.task)["output_model"]
        for role, party_id in place.federation.data_parties()
    ]
    return joint_scores(models, test)


def joint_scores(models: Sequence[dict], test: pandas.DataFrame) -> numpy.ndarray:
    """Probabilities (n,) of label 1 under the parts of a dp_hetero_lr that its parties hold."""
    from scipy.special import expit

    joint = numpy.zeros(len(test))
    for part in models:
        estimator = part["data"]["estimator"]
        weights = numpy.ravel(estimator["param"]["coef_"])
        joint += test[estimator["header"]].to_numpy(float) @ weights
        joint += float(numpy.ravel(estimator["param"].get("intercept_") or [0.0])[0])
    return expit(joint)


def held_out_scores(table: pandas.DataFrame, test: pandas.DataFrame, job_id: str) -> numpy.ndarray:
    """A task's scores (n,) in the order of the held-out loans; raises NoOutput where one has none."""
    scores = table.set_index(table["id"].astype(str))["predict_score"].astype(float)
    wanted = test[ID].astype(str)
    if len(scores) != len(wanted) or not wanted.isin(scores.index).all():
        raise NoOutput(f"Job {job_id} scored {len(scores)} loans, not the {len(wanted)} held-out ones.")
    return scores.loc[wanted].to_numpy()


def ledger_lines(flow: FlowPlace, place: Place, job_id: str) -> list[dict] | None:
    """What the job charged at each data party; None where the parties' homes are on other machines."""
    if flow.home is None:
        return None
    folder, lines = open_home(flow.home).parties, []
    for role, party_id in place.federation.data_parties():
        for entry in party_ledger(folder, party_id, DELTA):
            if job_id in entry["jobs"]:
                lines.append({"party": f"{role} {party_id}", **{name: entry[name] for name in LEDGER_FIELDS}})
    return lines


# The splits of a seed, their tables on FATE-Flow, and the caps that the study needs there.


class Splits:
    """The splits of one seed, made and uploaded when the first job needs them."""

    def __init__(self, study: PrivateStudy, shop: Workshop, seed: int) -> None:
        self.study, self.shop, self.seed = study, shop, seed
        self._ready: dict[str, tuple[Place, Division]] = {}

    def uploaded(self, part: str) -> tuple[Place, Division]:
        """Where the tables of a part are, and the division that they have."""
        if part not in self._ready:
            division = divide(self.shop.loans, options_of(part, self.study, self.seed))
            tables = dict(tables_of(division, part))
            namespace = self._upload(tables)
            trained = division.parties[:-1] if part == TRANSFER else division.parties
            guest, *hosts = (party.party_id for party in trained)
            records = len(division.training) if part == COLUMNS else sum(len(party.training) for party in trained)
            source = f"{NAMESPACE}/{self.shop.loans.sha256[:16]}/{BANK_LABEL}"
            self._ready[part] = Place(Federation(guest, tuple(hosts)), namespace, records, source), division
            self._declare(part, self._ready[part][0])
        return self._ready[part]

    def _upload(self, tables: dict[str, pandas.DataFrame]) -> str:
        """Write the tables, and upload those that FATE-Flow does not have; returns their namespace."""
        flow, paths = self.shop.flow, {}
        for name, frame in tables.items():
            paths[name] = flow.prepared / f"seed-{self.seed}-{name}.csv"
            paths[name].parent.mkdir(parents=True, exist_ok=True)
            write_csv(paths[name], frame)
        digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths.values()]
        namespace = f"{NAMESPACE}_{hashlib.sha256(repr(digests).encode()).hexdigest()[:16]}"
        self._paths = paths
        for name, path in paths.items():
            if table_schema(flow.address, namespace, name) is None:
                label = next((column for column in (LABEL, BANK_LABEL) if column in tables[name]), None)
                meta = TableMeta(ID, label, least_classes=1)
                told = partial(flow.progress, f"upload {name}")
                upload_table(flow.address, path, namespace, name, meta, progress=told, home=flow.home)
        return namespace

    def _declare(self, part: str, place: Place) -> None:
        """Let the study spend what it asks for beside what was spent, where the parties' homes are here."""
        if self.shop.flow.home is None:
            return
        folder, asked = open_home(self.shop.flow.home).parties, CAP_FACTOR * self.study.total_epsilon()
        for role, party_id in place.federation.data_parties():
            # Other splits train on the loans that this one holds out: those of bank and bureau are tables of their own.
            for rows in ("train", "test") if part == COLUMNS else ("train",):
                bank = BANK_LABEL if (role, rows) == ("guest", "train") else None
                label = LABEL if part != COLUMNS else bank
                home, table = make_home(folder, party_id), f"{role}_{party_id}_{rows}"
                name = declare_table(
                    home, self._paths[table], f"{place.namespace}/{table}", TableMeta(ID, label, least_classes=1)
                )
                raise_caps(home, home_at(folder, party_id), name, asked)
        if part == COLUMNS:
            guest = place.federation.guest
            declare(folder, guest, place.label_source)
            _, spent = label_budget(folder, guest, place.label_source)
            declare(folder, guest, place.label_source, cap=spent + asked)


def raise_caps(path: Path, home: PartyHome, dataset: str, asked: float) -> None:
    """Let a dataset, and what the study has read of the same loans, spend ``asked`` beside what was spent.

    Caps of tables that are not the study's stay as they are: they hold for the loans in common, and a job says so.
    """
    tables, cap = home.ledger.tables(), home.ledger.spent_by_steps(dataset, DELTA) + asked
    related = [other for other in home.ledger.related(dataset) if other != dataset]
    own = [other for other in related if all(table.startswith(NAMESPACE) for table in tables.get(other, [""]))]
    for each in (dataset, *own):
        declare_caps(path / POLICY_FILE, each, epsilon=cap, delta=DELTA)


def options_of(part: str, study: PrivateStudy, seed: int) -> PrepOptions:
    """How the loans are split for a part; none is over-sampled beforehand."""
    parties, shares = study.parties, study.shares
    given: dict[str, Any] = {"parties": parties, "shares": shares}
    if part == COLUMNS:
        given = {"split": "vertical", "parties": parties[:2]}
    if part == TRANSFER:
        others = Shares(PrepOptions(parties=parties, shares=shares).shares or ()).fractions
        rest = [100.0 * share for share in others]
        # The small institution's loans are taken from the largest one.
        rest[others.argmax()] -= SMALL_SHARE
        given = {"parties": (*parties, SMALL_PARTY), "shares": (*rest, SMALL_SHARE)}
    return PrepOptions(seed=seed, test_share=study.test_share, units="public", over_sampling="none", **given)


def tables_of(division: Division, part: str) -> Iterator[tuple[str, pandas.DataFrame]]:
    """Tables to upload by name. By columns a party leaves out those that are constant among its training loans."""
    if part != COLUMNS:
        for party in division.parties:
            yield f"{party.role}_{party.party_id}_train", party.training
        yield "test", division.test
        return
    for party in division.parties:
        kept = [name for name in party.training if name in (ID, LABEL) or party.training[name].nunique() > 1]
        yield f"{party.role}_{party.party_id}_train", party.training[kept].rename(columns={LABEL: BANK_LABEL})
        # Without labels: another split may have released flips of those.
        yield f"{party.role}_{party.party_id}_test", division.test[kept].drop(columns=LABEL, errors="ignore")


def constant_columns(division: Division) -> list[str]:
    """Features that no party by columns can train on."""
    held = {name for _, frame in tables_of(division, COLUMNS) for name in frame}
    return [name for name in FEATURES if name not in held]


# Yardsticks without privacy, in one process, on the same splits.


def yardsticks(loans: CleanLoans, study: PrivateStudy, seed: int) -> dict[str, dict]:
    """Measures of each of YARDSTICKS; HomoLR's arithmetic, but for central, which is scikit-learn's with class weights."""
    plain, balanced = options_of(ROWS, study, seed), replace(options_of(ROWS, study, seed), over_sampling="smotenc")
    division, synthetic = divide(loans, plain), divide(loans, balanced)
    held_out, labels = numbers(division.test)
    return {
        name: class_measures(labels, scores)
        if scores.ndim == 1
        else mean_measures([class_measures(labels, each) for each in scores])
        for name, scores in yardstick_scores(division, synthetic, plain, held_out, seed).items()
    }


def yardstick_scores(
    division: Division, synthetic: Division, plain: PrepOptions, held_out: numpy.ndarray, seed: int
) -> dict[str, numpy.ndarray]:
    """Scores (n,) of the held-out loans under each yardstick; (institutions, n) for each institution alone."""
    from imblearn.under_sampling import RandomUnderSampler

    def under(rows: tuple) -> tuple:
        return RandomUnderSampler(random_state=seed).fit_resample(*rows)

    parties, over = (list(party_rows(each).values()) for each in (division, synthetic))
    pooled = numbers(pooled_rows(division, plain))
    return {
        "central": scikit_scores(pooled, held_out, class_weight="balanced"),
        "alone": numpy.array([train([rows]).scores(held_out) for rows in over]),
        "federated": train(over).scores(held_out),
        "federated_under_sampled": train([under(rows) for rows in parties]).scores(held_out),
        "federated_unbalanced": train(parties).scores(held_out),
    }


def mean_measures(measured: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of each measure."""
    return {name: float(numpy.mean([each[name] for each in measured])) for name in measured[0]}


# Transfer: a small institution's own few loans, the others' private model, and both together by fine-tuning.


def transferred(
    built: Built, ended: JobResult, flow: FlowPlace, division: Division, guest: str
) -> dict[str, dict[str, float]]:
    """Measures at the small institution: alone, with the others' model as it is, and fine-tuned from it on its own loans."""
    from fate_dp.components.dp_homo_nn.model import weights_of

    model = task_output_model(flow.address, ended.job_id, "guest", guest, built.trained[TRANSFER_EPSILON])
    weights = weights_of(model["output_model"])
    features, labels = numbers(division.parties[-1].training)
    held_out, truth = numbers(division.test)
    with one_thread():
        models = small_models(features, labels, weights)
    return {name: class_measures(truth, probabilities(each, held_out)) for name, each in models.items()}


def small_models(features: numpy.ndarray, labels: numpy.ndarray, federated: numpy.ndarray) -> dict[str, numpy.ndarray]:
    """Weights (m + 1,) at the small institution, the intercept last, by the name of the way."""
    return {
        "small_alone": fine_tuned(features, labels, numpy.zeros_like(federated), OWN_PENALTY),
        "small_federated": federated,
        "small_fine_tuned": fine_tuned(features, labels, federated, FINE_TUNING),
    }


def fine_tuned(features: numpy.ndarray, labels: numpy.ndarray, start: numpy.ndarray, strength: float) -> numpy.ndarray:
    """Logistic regression on own rows with the penalty strength |w - start|^2 / 2; ``start`` has the intercept last."""
    from scipy.optimize import minimize
    from scipy.special import expit

    rows = numpy.column_stack([features, numpy.ones(len(features))])

    def loss(weights: numpy.ndarray) -> tuple[float, numpy.ndarray]:
        joint, moved = rows @ weights, weights - start
        value = numpy.logaddexp(0, joint).sum() - labels @ joint + strength * moved @ moved / 2
        return value, rows.T @ (expit(joint) - labels) + strength * moved

    return minimize(loss, start, jac=True, method="L-BFGS-B").x


def probabilities(weights: numpy.ndarray, features: numpy.ndarray) -> numpy.ndarray:
    """Probabilities (n,) of label 1 for features (n, m)."""
    from scipy.special import expit

    return expit(features @ weights[:-1] + weights[-1])
