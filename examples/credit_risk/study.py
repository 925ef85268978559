"""The credit-risk study: one federation against central training and against each institution alone, and what privacy costs.

Every seed is a repetition of the whole experiment: new held-out rows, a new division between the institutions, new
synthetic rows. FATE 2.2 cannot stop early, so that all models of HomoLR's arithmetic run the same number of epochs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import version
from pathlib import Path

from fate_dp.data_prep.lending_club.cleaning import CleanLoans, clean
from fate_dp.data_prep.lending_club.columns import FEATURES, LABEL
from fate_dp.data_prep.lending_club.options import PrepOptions
from fate_dp.data_prep.lending_club.preparation import Division, class_counts
from fate_dp.pipelines.jobs.flow import fate_version
from fate_dp.privacy.validation import InvalidArgument

from .balancing import (
    CLASS_WEIGHTS,
    MAX_SEEDS,
    TITLES,
    Balanced,
    Loans,
    largest_influence,
    study_balancing,
    study_shares,
)
from .flow import FlowPlace, flow_entry, job_page, run_split, scores_in_order
from .homo_lr import HomoLRSettings
from .models import (
    CENTRAL,
    CENTRAL_SCIKIT,
    CENTRAL_WEIGHTED,
    FEDERATED,
    SplitModels,
    alone_name,
    class_measures,
    fit_models,
    numbers,
    party_rows,
    spread_by_order,
)
from .private_runs import PrivateStudy, Workshop, run_private_study
from .result import SCHEMA, TOGETHER, model, verdicts

PREPARATION = PrepOptions(units="public")
CENTRAL_MODELS = {
    CENTRAL_SCIKIT: (
        "central, scikit-learn, {balancing}",
        "logistic regression of scikit-learn with its defaults on all training rows in one place{over_sampled}",
    ),
    CENTRAL_WEIGHTED: (
        "central, scikit-learn, class weights",
        "logistic regression of scikit-learn with its defaults on the rows as they are, each class weighted by the inverse of "
        "its number of rows",
    ),
    CENTRAL: (
        "central, same objective",
        "HomoLR's arithmetic with the federation's settings on all training rows in one place{over_sampled}",
    ),
}
OWN_ROWS = "the federation's settings and arithmetic on the institution's own rows alone"


@dataclass(frozen=True)
class Study:
    """What is studied: the raw file, how it is prepared (its seed is replaced by each of ``seeds``), HomoLR's settings.

    ``synthetic`` says that the rows are generated, so that the report can say so. ``flow_seeds``, some of ``seeds``, go
    through FATE-Flow; the others are simulated.
    """

    csv: Path
    synthetic: bool = False
    preparation: PrepOptions = PREPARATION
    settings: HomoLRSettings = HomoLRSettings()
    seeds: tuple[int, ...] = tuple(range(2024, 2034))
    flow_seeds: tuple[int, ...] = (2024,)
    private: PrivateStudy | None = None
    compared: bool = True
    """Whether ways to balance and shares of institutions are compared, which needs no FATE-Flow and takes most of its time."""

    def __post_init__(self) -> None:
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InvalidArgument.of("The seeds", self.seeds, "at least one, none of them twice")
        for seed in self.seeds:
            replace(self.preparation, seed=seed)
        for seed in (*self.flow_seeds, *(self.private.seeds if self.private else ())):
            if seed not in self.seeds:
                raise InvalidArgument(
                    f"The seed {seed} is to run on FATE-Flow but is not among the seeds of the study."
                )
        if self.preparation.units != "public" or self.preparation.split != "horizontal":
            raise InvalidArgument(
                f"The preparation has units {self.preparation.units} and split {self.preparation.split}; the study "
                "needs public units, since HomoLR steps alike in every column, and a horizontal split."
            )


@dataclass(frozen=True)
class Workplace:
    """Where a study works.

    ``connect`` returns FATE-Flow's address and the home of an embedded one; it is called once data is known to be fit.
    ``progress`` takes a job's name, a task, its status and seconds since the job began.
    """

    output: Path
    connect: Callable[[], tuple]
    progress: Callable[[str, str, str, float], None] = lambda job, task, status, seconds: None


@dataclass
class Findings:
    """What a study has measured so far; ``measures`` by model and ``influences`` are in the order of the seeds."""

    clean: CleanLoans = None  # type: ignore[assignment]  # the first steps fill these two
    first_division: Division = None  # type: ignore[assignment]
    split_models: dict[int, SplitModels] = field(default_factory=dict)
    measures: dict[str, list[dict]] = field(default_factory=dict)
    influences: list[int] = field(default_factory=list)
    models: list[dict] = field(default_factory=list)
    """Entries of what was compared and of private models; those of ``measures`` are made at the end."""
    jobs: list[dict] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    losses: dict[str, tuple] = field(default_factory=dict)
    seconds: list[dict] = field(default_factory=list)


def run_credit_study(study: Study, place: Workplace) -> dict:
    """Carry it out; returns the result as `result` describes it.

    It writes the uploaded files, and for each job of the study what the guest may know of it, and nothing else.

    What can be computed here comes first, so that data which is not fit is refused before FATE-Flow has any work.
    """
    begin, found = time.monotonic(), Findings()
    with timed_step(found, place, "clean the raw file") as progress:
        most_missing = study.preparation.most_missing
        found.clean = clean(study.csv, most_missing, lambda text, share: progress(text))
    loans = Loans(found.clean, study.preparation, study.settings, study.seeds)
    for seed in study.seeds:
        with timed_step(found, place, f"models, seed {seed}"):
            add_models(study, loans, found, seed)
    if study.compared:
        # The ways to balance that the study's own models have used.
        known = {
            str(study.preparation.over_sampling): Balanced(found.measures, max(found.influences[:MAX_SEEDS])),
            CLASS_WEIGHTS: Balanced({CENTRAL_SCIKIT: found.measures[CENTRAL_WEIGHTED]}, 0),
        }
        with timed_step(found, place, "ways to balance") as progress:
            found.models += study_balancing(loans, known, progress)
        with timed_step(found, place, "shares") as progress:
            models, left_out = study_shares(loans, progress)
            found.models, found.notices = found.models + models, left_out
    if study.flow_seeds or study.private:
        address, home = place.connect()
        flow = FlowPlace(address, home, place.output / "prepared", place.progress)
    for seed in study.flow_seeds:
        with timed_step(found, place, f"FATE-Flow, seed {seed}"):
            add_run(study, loans, flow, found, seed, place.output)
    if study.private:
        shop = Workshop(found.clean, flow, place.output)
        private = run_private_study(study.private, shop, partial(timed_step, found, place))
        found.models, found.jobs = found.models + private["models"], found.jobs + private["jobs"]
        if private["constant"]:
            named = ", ".join(private["constant"])
            found.notices.append(
                f"Left out by columns, since all training loans of the first seed have the same value there: {named}. That "
                "choice reads the loans and is in no epsilon."
            )
    return assemble(study, found, time.monotonic() - begin)


def add_models(study: Study, loans: Loans, found: Findings, seed: int) -> None:
    """Train and measure every model of one seed."""
    division, options = loans.division(seed)
    models = fit_models(division, options, study.settings)
    if found.first_division is None:
        found.first_division = division
        found.losses = {
            "central": models.trained[CENTRAL].losses,
            "federated, simulated": models.trained[FEDERATED].losses,
        }
    if seed in (study.seeds[0], *study.flow_seeds):
        found.split_models[seed] = models
    for name, scores in models.scores.items():
        measured = class_measures(models.labels, scores, study.settings.threshold)
        found.measures.setdefault(name, []).append(measured)
    found.influences.append(largest_influence(division))


def add_run(study: Study, loans: Loans, flow: FlowPlace, found: Findings, seed: int, output: Path) -> None:
    """Put one seed through FATE-Flow; its scores, in place of the simulation's, are the federation's from now on.

    The job's page of who learned what goes to ``output``.
    """
    division, options = loans.division(seed)
    run = run_split(flow, found.clean, division, options, study.settings)
    rows, (test, _) = list(party_rows(division).values()), numbers(division.test)
    spread = spread_by_order(rows, study.settings, test)
    scores, models = scores_in_order(run, division), found.split_models[seed]
    guest, *_ = options.parties or ()
    entry = flow_entry(run, scores, models, seed, spread)
    found.jobs.append({**entry, "page": job_page(flow, run.job_id, guest, output)})
    found.losses[f"federated, FATE-Flow, seed {seed}"] = run.losses
    place = study.seeds.index(seed)
    found.measures[FEDERATED][place] = class_measures(models.labels, scores, study.settings.threshold)


@contextmanager
def timed_step(found: Findings, place: Workplace, name: str) -> Iterator[Callable[[str], None]]:
    """Report and time a step; gives a function that says what the step does now."""
    begin = time.monotonic()
    place.progress("study", name, "running", 0.0)
    yield lambda text: place.progress("study", f"{name}: {text}", "running", time.monotonic() - begin)
    spent = time.monotonic() - begin
    found.seconds.append({"name": name, "seconds": spent})
    place.progress("study", name, "success", spent)


@contextmanager
def made_folder(folder: Path) -> Iterator[Path]:
    """The folder, made before long work where it is missing; what a failure leaves of it empty is removed again."""
    missing = [path for path in (folder, *folder.parents) if not os.path.exists(path)]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidArgument(f"The folder {folder} cannot be made: {error.strerror or error}.") from error
        yield folder
    except BaseException:
        for path in missing:
            with suppress(OSError):
                path.rmdir()
        raise


# From what was measured to the result.


def assemble(study: Study, found: Findings, seconds: float) -> dict:
    """The whole result of a study."""
    federated = found.split_models[study.seeds[0]].trained[FEDERATED]
    result = {
        "schema": SCHEMA,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "fate_dp_version": version("fate-dp"),
        "fate_version": fate_version(),
        "data": describe_data(study, found),
        "settings": {
            "homo_lr": asdict(study.settings),
            "preparation": asdict(study.preparation),
            "seeds": list(study.seeds),
            "flow_seeds": list(study.flow_seeds),
            "private": asdict(study.private) if study.private else None,
        },
        "models": [*models_together(study, found), *found.models],
        "jobs": found.jobs,
        "losses": {name: list(losses) for name, losses in found.losses.items()},
        "stop_epoch": study.settings.stop_epoch(federated.losses),
        "seconds": {"total": seconds, "steps": found.seconds},
    }
    return {**result, "verdicts": verdicts(result)}


def models_together(study: Study, found: Findings) -> list[dict]:
    """Central models, each institution alone, and the federation, of which it says which seeds ran on FATE-Flow."""
    method = str(study.preparation.over_sampling)
    words = {"balancing": TITLES[method], "over_sampled": "" if method == "none" else ", over-sampled there"}
    described = {name: tuple(text.format(**words) for text in texts) for name, texts in CENTRAL_MODELS.items()}
    for party in found.first_division.parties:
        described[alone_name(party)] = (f"{party.role} {party.party_id} alone", OWN_ROWS)
    how = "HomoLR's arithmetic over all parties in one process; it did not run on FATE-Flow"
    if study.flow_seeds:
        rest = len(study.seeds) - len(study.flow_seeds)
        simulated = f"; the other {rest} by the same arithmetic in one process" if rest else ""
        how = f"FATE's HomoLR, seeds {', '.join(map(str, study.flow_seeds))} through FATE-Flow{simulated}"
    described[FEDERATED] = ("federated", how)
    return [model(TOGETHER, name, title, found.measures[name], note) for name, (title, note) in described.items()]


def describe_data(study: Study, found: Findings) -> dict:
    """The raw file, what cleaning did, and how the rows of the first seed are shared out."""
    cleaned, division = found.clean, found.first_division
    return {
        **{name: getattr(cleaned, name) for name in ("source", "sha256", "missing", "dropped_columns")},
        "synthetic": study.synthetic,
        "steps": [asdict(step) for step in cleaned.steps],
        "notices": [*cleaned.notices, *found.notices],
        "rows": len(cleaned.frame),
        "features": len(FEATURES),
        "train_rows": len(division.training),
        "test_rows": len(division.test),
        "balance": {
            **{f"{party.role} {party.party_id}": (party.rows_before, party.rows_after) for party in division.parties},
            "all loans in one place": (
                class_counts(division.training.frame[LABEL]),
                found.split_models[study.seeds[0]].pooled_after,
            ),
        },
        "held_out": class_counts(division.test[LABEL]),
    }
