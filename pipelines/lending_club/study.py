"""The credit-risk study: one federation against central training and against each institution alone, over many splits.

Every seed is a repetition of the whole experiment: new held-out rows, a new division between the institutions, new
synthetic rows. FATE 2.2 cannot stop early, so that all models of HomoLR's arithmetic run the same number of epochs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fate_dp.data_prep.lending_club.cleaning import clean
from fate_dp.data_prep.lending_club.preparation import divide

from .balancing import CLASS_WEIGHTS, MAX_SEEDS, Balanced, largest_influence, study_balancing, study_evenness
from .flow import FlowPlace, flow_entry, job_page, run_split, scores_in_order
from .models import (
    CENTRAL_SCIKIT,
    CENTRAL_WEIGHTED,
    FEDERATED,
    class_measures,
    fit_models,
    numbers,
    party_rows,
    spread_by_order,
)
from .private_result import describe, private_verdicts
from .private_study import Workshop, run_private_study
from .result import Findings, Study, assemble


@dataclass(frozen=True)
class Workplace:
    """Where a study works.

    ``connect`` returns FATE-Flow's address and the home of an embedded one; it is called once data is known to be fit.
    ``progress`` takes a job's name, a task, its status and seconds since the job began.
    """

    output: Path
    connect: Callable[[], tuple]
    progress: Callable[[str, str, str, float], None] = lambda job, task, status, seconds: None


def run_credit_study(study: Study, place: Workplace) -> dict:
    """Carry it out; returns the result (schema: credit_result_schema.json).

    It writes the uploaded files, and for each job of the study what the guest may know of it, and nothing else.

    What can be computed here comes first, so that data which is not fit is refused before FATE-Flow has any work.
    """
    begin, found = time.monotonic(), Findings()
    with timed_step(found, place, "clean the raw file") as progress:
        most_missing = study.preparation.most_missing
        found.clean = clean(study.csv, most_missing, lambda text, share: progress(text))
    for seed in study.seeds:
        with timed_step(found, place, f"models, seed {seed}"):
            add_models(study, found, seed)
    studied = found.clean, study.preparation, study.settings, study.seeds
    # The ways to balance that the study's own models have used.
    known = {
        str(study.preparation.over_sampling): Balanced(found.measures, max(found.influences[:MAX_SEEDS])),
        CLASS_WEIGHTS: Balanced({CENTRAL_SCIKIT: found.measures[CENTRAL_WEIGHTED]}, 0),
    }
    if study.compared:
        with timed_step(found, place, "ways to balance") as progress:
            found.balancing = study_balancing(*studied, known, progress)
        with timed_step(found, place, "evenness") as progress:
            found.evenness, found.left_out = study_evenness(*studied, progress)
    if study.flow_seeds or study.private:
        address, home = place.connect()
        flow = FlowPlace(address, home, place.output / "prepared", place.progress)
    for seed in study.flow_seeds:
        with timed_step(found, place, f"FATE-Flow, seed {seed}"):
            add_run(study, flow, found, seed, place.output)
    if study.private:
        shop = Workshop(found.clean, flow, place.output)
        records = run_private_study(study.private, shop, partial(timed_step, found, place))
        found.private = describe(study.private, records)
    result = assemble(study, found, time.monotonic() - begin)
    if found.private:
        result["verdicts"] += private_verdicts(found.private)
    return result


def add_models(study: Study, found: Findings, seed: int) -> None:
    """Train and measure every model of one seed."""
    options = replace(study.preparation, seed=seed)
    division = divide(found.clean, options)
    models = fit_models(division, options, study.settings)
    if found.first_division is None:
        found.first_division = division
    if seed in (study.seeds[0], *study.flow_seeds):
        found.models[seed] = models
    for name, scores in models.scores.items():
        measured = class_measures(models.labels, scores, study.settings.threshold)
        found.measures.setdefault(name, []).append(measured)
    found.influences.append(largest_influence(division))


def add_run(study: Study, flow: FlowPlace, found: Findings, seed: int, output: Path) -> None:
    """Put one seed through FATE-Flow; its scores, in place of the simulation's, are the federation's from now on.

    The job's page of who learned what goes to ``output``.
    """
    options = replace(study.preparation, seed=seed)
    division = divide(found.clean, options)
    run = run_split(flow, found.clean, division, options, study.settings)
    rows, (test, _) = list(party_rows(division).values()), numbers(division.test)
    spread = spread_by_order(rows, study.settings, test)
    entry = flow_entry(run, scores_in_order(run, division), found.models[seed], seed, study.settings, spread)
    guest, *_ = options.parties or ()
    found.runs.append({**entry, "page": job_page(flow, run.job_id, guest, output)})
    found.run_losses[seed] = run.losses
    found.measures[FEDERATED][study.seeds.index(seed)] = entry["measures"]


@contextmanager
def timed_step(found: Findings, place: Workplace, name: str) -> Iterator[Callable[[str], None]]:
    """Report and time a step; gives a function that says what the step does now."""
    begin = time.monotonic()
    place.progress("study", name, "running", 0.0)
    yield lambda text: place.progress("study", f"{name}: {text}", "running", time.monotonic() - begin)
    spent = time.monotonic() - begin
    found.seconds.append({"name": name, "seconds": spent})
    place.progress("study", name, "success", spent)
