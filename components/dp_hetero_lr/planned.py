"""Whether a training that a job plans can succeed on flips: what label_flip asks before it charges them.

The client asks the same, so that what reads tables is imported only where tables are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..common.charges import JobReference, PartyHome
from ..common.federation import Document
from ..common.frames import DataFrame
from ..common.job_files import JobPlan, PlannedTask
from ..common.parameters import parameters_of
from ..common.preflight import Refusal
from ..common.vocabulary import LABEL, refuse_old_names
from ..protocols.optimizers import batch_bounds
from ..protocols.training_terms import BINARY, models_of
from . import settings as declared
from .settings import PER_EPOCH, TrainSettings

CROSS_VALIDATION = "cross_validation"
VALIDATION_INPUT = "validate_data"
WARM_START = "warm_start_model"


def host_facts(home: PartyHome, job: JobReference, frame: DataFrame) -> Document:
    """What a training will ask of a host's table, beside what `pass_through` checks; builtins for the guest."""
    from . import agreement, rows, scores

    prepared = rows.prepare_rows(frame, rows.Units.of(frame))
    release = scores.ScoreRelease.of(home, job, frame)
    return {**agreement.host_facts(frame, release, prepared), **_size(prepared, frame)}


@dataclass(frozen=True)
class PlannedTraining:
    """One task of dp_hetero_lr that trains on flips; every check raises ValueError, the component's own sentence."""

    plan: JobPlan
    task: PlannedTask

    @property
    def settings(self) -> TrainSettings:
        """What dp_hetero_lr makes of the task's parameters, those of single parties aside."""
        known = parameters_of(TrainSettings)
        refuse_old_names(self.task.component, known, self.task.parameters)
        given = {name: value for name, value in self.task.parameters.items() if name in known and value is not None}
        checked: Any = {name: known[name].check(value) for name, value in given.items()}
        return TrainSettings(**checked)

    def check(self, flip: PlannedTask, classes: tuple[float, ...] | None) -> None:
        """Refuse what cannot succeed whatever the tables hold; ``classes`` are None where the flip makes numbers noisy."""
        settings, plan = self.settings, self.plan
        settings.check_noise()
        if settings.privacy == LABEL:
            raise Refusal(
                f"privacy is label, which protects true labels, but {flip.name} flips them; take one of the two."
            )
        if self.task.stage == CROSS_VALIDATION:
            settings.refuse_folds()
        if classes is None and settings.family == "binomial":
            raise Refusal(
                f"family binomial trains on labels 0 and 1, but {flip.name} has bounds: its labels are numbers."
            )
        if classes is not None:
            _check_classes(settings, classes)
        source = flip.parameters.get("label_source")
        if settings.label_source not in (None, source):
            raise Refusal(f"label_source is {settings.label_source}, but {flip.name} flips the labels of {source}.")
        arbiters, needs_one = plan.parties("arbiter", self.task.name), settings.resolved_solver() == PER_EPOCH
        if len(arbiters) > 1 or (needs_one and not arbiters):
            wanted = "exactly one" if needs_one else "at most one"
            raise Refusal(f"The job names {len(arbiters)} arbiters; this task needs {wanted}.")
        if not plan.parties("host", self.task.name):
            raise Refusal("The job names no host; at least one host with features is needed.")

    def check_tables(
        self, frame: DataFrame, epsilon: float, hosts: Mapping[str, Document], flipped: tuple[float, ...]
    ) -> None:
        """At the guest: as `label_flip.chain.check_tables`, of this task; ``flipped`` are the classes of the flips."""
        from .agreement import JointTable, check_few_valued, check_hosts, feature_counts, score_epochs, training_terms
        from .rows import Units, prepare_rows

        settings, task = self.settings, self.task
        descent = settings.descent()
        classes = flipped if settings.family == "binomial" else BINARY
        models, fit_intercept = models_of(classes), settings.init_param["fit_intercept"]
        # With auto, flipback is left out where a host shows no scores; numbers and more than two classes have none.
        revised = settings.flipback.mode not in ("auto", "none") and settings.family == "binomial" and models == 1
        flipback = settings.flipback.planned_epochs(settings.epochs) if revised else []
        shown = len(score_epochs(descent, flipback, None))
        if task.stage == CROSS_VALIDATION:
            folds = declared.cv_param(task.parameters.get("cv_param") or {})["n_splits"]
            check_hosts(frame, hosts, folds * (shown + models))
            return
        check_hosts(frame, hosts, shown, settings.train_scores or self.plan.has_input(task.name, VALIDATION_INPUT))
        if WARM_START in task.model_inputs:
            return
        own = _size(prepare_rows(frame, Units.of(frame), fit_intercept=fit_intercept), frame)
        sizes = [own, *hosts.values()]
        features = feature_counts(frame, fit_intercept, hosts)
        few_valued = any(facts["few_valued"] for facts in hosts.values())
        check_few_valued(few_valued, frame.shape[0], settings.batch_size, features, classes)
        bits = max(size["mean_square_bits"] for size in sizes)
        training_terms(descent, JointTable(frame.shape[0], features, bits, classes), epsilon, None, flipback)


def _check_classes(settings: TrainSettings, classes: tuple[float, ...]) -> None:
    """Any declared class may occur among the flips that the training will read."""
    if settings.family == "binomial" and len(classes) == 2 and not all(0 <= value <= 1 for value in classes):
        raise Refusal(f"family binomial trains on labels 0 and 1, but the flips have the classes {list(classes)}.")
    settings.check_classes(BINARY if len(classes) == 2 else classes)


def _size(prepared: object, frame: DataFrame) -> Document:
    """How large the columns are over all rows; those of single batches are no smaller."""
    from .cross_product.statistics import mean_square_bits

    bits = mean_square_bits(prepared, frame.schema.columns.to_list(), batch_bounds(frame.shape[0], None))
    return {"mean_square_bits": bits}
