"""Whether what follows label_flip in a job can succeed: asked before the flips are charged, which nothing gives back.

*From the job alone* (`refusal_of_plan`): parameters, classes, solver and parties of each training on the flips. `run_job`
asks the same before it submits a job. *From the tables* (`host_facts`, `check_tables`): what the first message of
dp_hetero_lr would refuse, where it reads the flips as they are; after a step in between, the columns may be others.

The guest reads the job's DAG in FATE-Flow's files, so a job that was submitted at another party's server is only
checked there, by `run_job`. What a party keeps to itself until the training begins is not seen here: the policy
on noise, and what other jobs spend meanwhile.
"""
from __future__ import annotations

from dataclasses import fields

from fate_dp.components.common import checks
from fate_dp.components.common.job_plan import JobPlan, PlannedTask
from fate_dp.components.dp_hetero_lr import settings as hetero_lr
from fate_dp.components.dp_hetero_lr.classes import BINARY, check_classes, models_of
from fate_dp.components.dp_hetero_lr.noised.rules import check_settings, refuse_folds
from fate_dp.components.dp_hetero_lr.solvers import PER_EPOCH, solver_of

HETERO_LR, SHARE_LR, FLIPBACK = "dp_hetero_lr", "share_lr", "flipback"
TRAINING_INPUTS = ("train_data", "cv_data")
CROSS_VALIDATION = "cross_validation"
VALIDATION_INPUT = "validate_data"
WARM_START = "warm_start_model"
# Parameters whose check has another name.
CHECKS = {"tol": hetero_lr.tolerance, "label_source": checks.label_source, "classes": checks.classes}


class ImpossibleJob(ValueError):
    """A task that follows would be refused; one sentence that names it."""


def refusal_of_plan(plan: JobPlan) -> str | None:
    """One sentence on the first training on flips that cannot succeed whatever the tables hold, or None."""
    refusals = (_refusal_of_flip(plan, flip) for flip in plan.tasks_of("label_flip"))
    return next(filter(None, refusals), None)


def trainings_on(plan: JobPlan, flip: PlannedTask) -> list[PlannedTask]:
    """Tasks of dp_hetero_lr that train on the labels of a label_flip task, perhaps after other steps."""
    readers = dict.fromkeys(name for name, key in plan.receivers(flip.name) if key in TRAINING_INPUTS)
    return [task for task in map(plan.task, readers) if task.component == HETERO_LR]


def check_plan(plan: JobPlan, flip: str) -> None:
    """As `refusal_of_plan`, of one label_flip task.

    :raises ImpossibleJob:
    """
    sentence = _refusal_of_flip(plan, plan.task(flip))
    if sentence is not None:
        raise ImpossibleJob(sentence)


def asks_hosts(plan: JobPlan, flip: str) -> bool:
    """Whether the guest has a use for `host_facts`: some training reads the flips as they are, and none has noise.

    How large columns are and whether they take few values depends on every record: where noise is to protect records,
    nobody asks. A parameter that the training would refuse asks for nothing either.
    """
    tasks = trainings_on(plan, plan.task(flip))
    try:
        noised = any(settings_of(task).noise != "none" for task in tasks)
    except ValueError:
        return False
    return not noised and any(plan.reads_directly(task.name, flip, TRAINING_INPUTS) for task in tasks)


def host_facts(home, job, frame) -> dict:
    """What a training will ask of this host's table, beside what `pass_through` checks; builtins for the guest."""
    from fate_dp.components.dp_hetero_lr import rows, score_release, terms

    prepared = rows.prepare_rows(frame, fit_intercept=False, with_label=False)
    release = score_release.ScoreRelease.of(home, job, frame)
    return {**terms.host_facts(frame, release, prepared), **_size(prepared, frame)}


def classes_of(flip: PlannedTask) -> tuple:
    """The declared classes of a label_flip task.

    :raises ValueError: no classes.
    """
    return checks.classes(flip.parameters.get("classes") or BINARY)


def check_tables(plan: JobPlan, flip: str, frame, epsilon: float, hosts: dict) -> None:
    """At the guest: what dp_hetero_lr would refuse in its first message, where it reads the flips as they are.

    :param epsilon: of the flips, nats.
    :param hosts: {name: `host_facts`}.
    :raises ImpossibleJob:
    """
    for task in trainings_on(plan, plan.task(flip)):
        if plan.reads_directly(task.name, flip, TRAINING_INPUTS):
            try:
                classes = BINARY if settings_of(task).family != "binomial" else classes_of(plan.task(flip))
                _check_training(plan, task, frame, epsilon, hosts, classes)
            except ValueError as error:
                raise ImpossibleJob(_told(task, error)) from error


def settings_of(task: PlannedTask) -> hetero_lr.TrainSettings:
    """What dp_hetero_lr makes of a task's parameters, those of single parties aside.

    :raises ValueError: the sentence that the component itself would raise.
    """
    names = [field.name for field in fields(hetero_lr.TrainSettings)]
    given = {name: value for name, value in task.parameters.items() if name in names and value is not None}
    return hetero_lr.TrainSettings(**{name: (CHECKS.get(name) or getattr(hetero_lr, name))(value) for name, value in given.items()})


def _refusal_of_flip(plan: JobPlan, flip: PlannedTask) -> str | None:
    for task in trainings_on(plan, flip):
        try:
            _check_planned(plan, flip, task)
        except ValueError as error:
            return _told(task, error)
    return _refusal_of_more_classes(plan, flip)


def _refusal_of_more_classes(plan: JobPlan, flip: PlannedTask) -> str | None:
    """What follows and knows two classes only: flipback, and share_lr with family binomial."""
    if flip.parameters.get("bounds") is not None or len(classes_of(flip)) == 2:
        return None
    for name in dict.fromkeys(name for name, _ in plan.receivers(flip.name)):
        task = plan.task(name)
        if task.component == FLIPBACK or task.component == SHARE_LR and task.parameters.get("family") != "gaussian":
            classes = list(classes_of(flip))
            return _told(task, f"{task.component} works on two classes, but the flips have the classes {classes}.")
    return None


def _check_planned(plan: JobPlan, flip: PlannedTask, task: PlannedTask) -> None:
    settings = settings_of(task)
    check_settings(settings)
    if task.stage == CROSS_VALIDATION:
        refuse_folds(settings)
    _check_labels(settings, flip)
    source = flip.parameters.get("label_source")
    if settings.label_source not in (None, source):
        raise ValueError(f"label_source is {settings.label_source}, but {flip.name} flips the labels of {source}.")
    arbiters = plan.parties("arbiter", task.name)
    if len(arbiters) > 1 or (solver_of(settings) == PER_EPOCH and not arbiters):
        wanted = "exactly one" if solver_of(settings) == PER_EPOCH else "at most one"
        raise ValueError(f"The job names {len(arbiters)} arbiters; this task needs {wanted}.")
    if not plan.parties("host", task.name):
        raise ValueError("The job names no host; at least one host with features is needed.")


def _check_labels(settings, flip: PlannedTask) -> None:
    """What the training will read: any declared class may occur among the flips, and any number where there are bounds."""
    if flip.parameters.get("bounds") is not None:
        if settings.family == "binomial":
            raise ValueError(f"family binomial trains on labels 0 and 1, but {flip.name} has bounds: its labels are numbers.")
        return
    classes = classes_of(flip)
    if settings.family == "binomial" and len(classes) == 2 and not all(0 <= value <= 1 for value in classes):
        raise ValueError(f"family binomial trains on labels 0 and 1, but the flips have the classes {list(classes)}.")
    check_classes(settings, BINARY if len(classes) == 2 else classes)


def _check_training(plan: JobPlan, task: PlannedTask, frame, epsilon: float, hosts: dict, classes: tuple) -> None:
    from fate_dp.components.dp_hetero_lr.rows import prepare_rows
    from fate_dp.components.dp_hetero_lr.terms import check_hosts, feature_counts, score_epochs, training_terms

    settings, models = settings_of(task), models_of(classes)
    # With auto, flipback is left out where a host shows no scores; numbers and more than two classes have none.
    revised = settings.flipback.mode not in ("auto", "none") and settings.family == "binomial" and models == 1
    flipback = settings.flipback.planned_epochs(settings.epochs) if revised else []
    shown = len(score_epochs(settings, flipback, None))
    if task.stage == CROSS_VALIDATION:
        folds = hetero_lr.cv_param(task.parameters.get("cv_param") or {})["n_splits"]
        check_hosts(frame, hosts, folds * (shown + models))
        return
    shows_afterwards = settings.train_scores or plan.has_input(task.name, VALIDATION_INPUT)
    check_hosts(frame, hosts, shown, shows_afterwards=shows_afterwards)
    if WARM_START in task.model_inputs:
        return
    fit_intercept = settings.init_param["fit_intercept"]
    sizes = [_size(prepare_rows(frame, fit_intercept=fit_intercept, with_label=False), frame), *hosts.values()]
    if solver_of(settings) != PER_EPOCH:
        _refuse_too_large(sizes)
    bits = max(size["mean_square_bits"] for size in sizes)
    features = feature_counts(frame, fit_intercept, hosts)
    if any(facts["few_valued"] for facts in hosts.values()):
        hetero_lr.check_few_valued_batches(frame.shape[0], settings.batch_size, sum(features) + models - 1)
    training_terms(settings, frame.shape[0], features, epsilon, None, flipback, bits, classes=classes)


def _refuse_too_large(sizes: list) -> None:
    problem = next((size["too_large"] for size in sizes if size["too_large"]), None)
    if problem is not None:
        raise ValueError(problem)


def _size(prepared, frame) -> dict:
    """How large the columns are over all rows; those of single batches are no smaller."""
    from fate_dp.components.dp_hetero_lr.cross_product.mean_squares import mean_square_bits

    try:
        return {"mean_square_bits": mean_square_bits(hetero_lr.TrainSettings(), prepared, frame), "too_large": None}
    except ValueError as error:
        return {"mean_square_bits": 0, "too_large": getattr(error, "public", str(error))}


def _told(task: PlannedTask, problem: object) -> str:
    used = "revise" if task.component == FLIPBACK else "train on"
    return f"{problem} So {task.name} could not {used} these flips, and nothing was charged."
