"""Whether what follows label_flip in a job can succeed: asked before the flips are charged, which nothing gives back.

*From the job alone* (`refusal_of_plan`): parameters, classes, solver and parties of each training on the flips. `run_job`
asks the same before it submits a job. *From the tables* (`host_facts`, `check_tables`): what the first message of
dp_hetero_lr would refuse, where it reads the flips as they are; after a step in between, the columns may be others.

The guest reads the job's DAG in FATE-Flow's files, so a job that was submitted at another party's server is only
checked there, by `run_job`. What a party keeps to itself until the training begins is not seen here: the policy
on noise, and what other jobs spend meanwhile.
"""

from collections.abc import Mapping

from fate_dp.privacy.validation import InvalidArgument

from ..common import parameters
from ..common.federation import Document
from ..common.frames import DataFrame
from ..common.job_files import JobPlan, PlannedTask
from ..common.preflight import Refusal
from ..common.vocabulary import NONE
from ..disclosure.declaration import BINNED, PASSED, disclosure_of
from ..dp_hetero_lr.planned import PlannedTraining
from ..protocols.training_terms import BINARY

HETERO_LR, SHARE_LR, FLIPBACK, BINNING = "dp_hetero_lr", "share_lr", "flipback", "dp_binning"
TRAINING_INPUTS = ("train_data", "cv_data")
USES = {FLIPBACK: "revise", BINNING: "count"}
"""What a task does with flips, where it does not train on them."""


def refusal_of_plan(plan: JobPlan) -> str | None:
    """One sentence on the first training on flips that cannot succeed whatever the tables hold, or None."""
    try:
        for flip in plan.tasks_of("label_flip"):
            check_plan(plan, flip.name)
    except InvalidArgument as refusal:
        return str(refusal)
    return None


def trainings_on(plan: JobPlan, flip: PlannedTask) -> list[PlannedTask]:
    """Tasks of dp_hetero_lr that train on the labels of a label_flip task, perhaps after other steps."""
    readers = dict.fromkeys(name for name, key in plan.receivers(flip.name) if key in TRAINING_INPUTS)
    return [task for task in map(plan.task, readers) if task.component == HETERO_LR]


def check_plan(plan: JobPlan, flip: str) -> None:
    """As `refusal_of_plan`, of one label_flip task; raises InvalidArgument."""
    source = plan.task(flip)
    for task in trainings_on(plan, source):
        try:
            PlannedTraining(plan, task).check(source, _classes_of(source))
        except ValueError as error:
            raise InvalidArgument(_told(task, error)) from error
    classes = _classes_of(source)
    if classes is None or len(classes) == 2:
        return
    for task in map(plan.task, dict.fromkeys(name for name, _ in plan.receivers(flip))):
        family, privacy = task.parameters.get("family"), task.parameters.get("privacy")
        # With privacy none dp_binning reverts the flips.
        two = {FLIPBACK: True, SHARE_LR: family != "gaussian", BINNING: privacy in (None, NONE)}
        if two.get(task.component, False):
            told = f"{task.component} works on two classes, but the flips have the classes {list(classes)}."
            raise InvalidArgument(_told(task, told))


def are_binned(plan: JobPlan, flip: str) -> bool:
    """Whether all that reads the flips takes missing values and constant columns, and nothing else gets to see any.

    So each component says of itself, in its guarantee.yaml.
    """
    readers = dict(plan.readers(flip))
    how = {name: declared.missing for name in readers if (declared := disclosure_of(plan.task(name).component))}
    return bool(readers) and all(
        how.get(name) == BINNED or (how.get(name) == PASSED and are_binned(plan, name)) for name in readers
    )


def asks_hosts(plan: JobPlan, flip: str) -> bool:
    """Whether the guest has a use for `host_facts`: some training reads the flips as they are, and none has noise.

    How large columns are and whether they take few values depends on every record: where noise is to protect records,
    nobody asks. A parameter that the training would refuse asks for nothing either.
    """
    tasks = trainings_on(plan, plan.task(flip))
    try:
        noised = any(PlannedTraining(plan, task).settings.privacy != NONE for task in tasks)
    except ValueError:
        return False
    return not noised and any(plan.reads_directly(task.name, flip, TRAINING_INPUTS) for task in tasks)


def check_tables(plan: JobPlan, flip: str, frame: DataFrame, epsilon: float, hosts: Mapping[str, Document]) -> None:
    """At the guest: what dp_hetero_lr would refuse in its first message, where it reads the flips as they are.

    The flips have this epsilon (nats); ``hosts`` is {name: `host_facts`}. Raises InvalidArgument, one sentence.
    """
    for task in trainings_on(plan, plan.task(flip)):
        if plan.reads_directly(task.name, flip, TRAINING_INPUTS):
            try:
                PlannedTraining(plan, task).check_tables(frame, epsilon, hosts, _classes_of(plan.task(flip)) or BINARY)
            except Refusal as error:
                raise Refusal(_told(task, error)) from error


def _classes_of(flip: PlannedTask) -> tuple[float, ...] | None:
    """The declared classes of a label_flip task, None where it makes numbers noisy."""
    if flip.parameters.get("bounds") is not None:
        return None
    return parameters.classes(flip.parameters.get("classes") or BINARY)


def _told(task: PlannedTask, problem: object) -> str:
    return f"{problem} So {task.name} could not {USES.get(task.component, 'train on')} these flips, and nothing was charged."
