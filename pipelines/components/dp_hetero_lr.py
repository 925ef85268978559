"""Client class of the dp_hetero_lr component."""
import warnings
from dataclasses import fields

from fate_client.pipeline.components.component_base import Component
from fate_client.pipeline.conf.types import PlaceHolder
from fate_client.pipeline.interface import ArtifactType

from fate_dp.components.common import checks
from fate_dp.components.dp_hetero_lr import settings
from fate_dp.components.dp_hetero_lr.classes import check_classes
from fate_dp.components.dp_hetero_lr.noised.rules import check_settings
from fate_dp.components.dp_hetero_lr.solvers import PER_EPOCH, solver_of

from .definition import check_given, definition_path
from .fate_names import refuse_unknown

CHECKS = {
    "epochs": settings.epochs,
    "batch_size": settings.batch_size,
    "optimizer": settings.optimizer,
    "learning_rate_scheduler": settings.learning_rate_scheduler,
    "init_param": settings.init_param,
    "tol": settings.tolerance,
    "early_stop": settings.early_stop,
    "threshold": settings.threshold,
    "he_param": settings.he_param,
    "flipback": settings.flipback,
    "train_scores": settings.train_scores,
    "score_step": settings.score_step,
    "label_source": checks.label_source,
    "classes": checks.classes,
    "solver": settings.solver,
    "family": settings.family,
    "sigmoid": settings.sigmoid,
    "sigmoid_rounds": settings.sigmoid_rounds,
    "noise": settings.noise,
    "noise_epsilon": settings.noise_epsilon,
    "noise_delta": settings.noise_delta,
    "noise_radius": settings.noise_radius,
    "scoring": settings.scoring,
    "true_labels": settings.true_labels,
    "cv_param": settings.cv_param,
}


class DPHeteroLR(Component):
    """Vertical logistic regression under Paillier; parameters are named as in FATE's CoordinatedLR.

    Beyond those: ``solver`` (cross_product or per_epoch; the latter needs an arbiter), ``family`` (binomial or gaussian),
    ``sigmoid`` (taylor or exact) with ``sigmoid_rounds``, ``flipback`` (mode, every, fraction, max_rounds),
    ``train_scores`` (whether the guest gets the joint scores of the training rows, as the component flipback needs them),
    ``score_step`` (to whose multiples hosts round their part of scores) and ``label_source`` (for labels that
    the guest's operator declared public). ``classes`` are all label values that may occur, those that LabelFlip was given
    unless set; with more than two, a model is trained for each against the rest. ``scoring`` encrypted is for predictions of
    rows that the guest alone has, with all columns of the model; ``true_labels`` says that the guest's labels of rows held out
    of training are true, so that the summary of a prediction shows the figures on them. ``needs_arbiter`` says what the chosen solver needs.

    ``noise`` (none, uniform or adaptive) is for record-level privacy of features; ``noise_epsilon``, ``noise_delta``
    and ``noise_radius`` are each party's own, so give them by party:
    ``component.hosts[0].task_parameters(noise_epsilon=1.0)``.
    """

    yaml_define_path = definition_path("dp_hetero_lr")

    def __init__(
        self,
        _name: str,
        runtime_parties: dict = None,
        epochs: int = PlaceHolder(),
        batch_size: int = PlaceHolder(),
        optimizer: dict = PlaceHolder(),
        learning_rate_scheduler: dict = PlaceHolder(),
        init_param: dict = PlaceHolder(),
        tol: float = PlaceHolder(),
        early_stop: str = PlaceHolder(),
        threshold: float = PlaceHolder(),
        he_param: dict = PlaceHolder(),
        flipback: dict = PlaceHolder(),
        train_scores: bool = PlaceHolder(),
        score_step: float = PlaceHolder(),
        label_source: str = PlaceHolder(),
        classes: list = PlaceHolder(),
        solver: str = PlaceHolder(),
        family: str = PlaceHolder(),
        sigmoid: str = PlaceHolder(),
        sigmoid_rounds: int = PlaceHolder(),
        noise: str = PlaceHolder(),
        noise_epsilon: float = PlaceHolder(),
        noise_delta: float = PlaceHolder(),
        noise_radius: float = PlaceHolder(),
        scoring: str = PlaceHolder(),
        true_labels: bool = PlaceHolder(),
        cv_param: dict = PlaceHolder(),
        train_data: ArtifactType = PlaceHolder(),
        validate_data: ArtifactType = PlaceHolder(),
        cv_data: ArtifactType = PlaceHolder(),
        test_data: ArtifactType = PlaceHolder(),
        input_model: ArtifactType = PlaceHolder(),
        warm_start_model: ArtifactType = PlaceHolder(),
        **_unknown,
    ):
        inputs = locals()
        refuse_unknown("DPHeteroLR", _unknown, CHECKS)
        self._process_init_inputs(inputs)
        super().__init__()
        check_given(CHECKS, inputs)
        chosen = _chosen_settings(inputs)
        _warn_of_solver(chosen)
        self.needs_arbiter = solver_of(chosen) == PER_EPOCH
        self._name = _name
        self.runtime_parties = runtime_parties
        for name in CHECKS:
            setattr(self, name, inputs[name])
        # Asked for already here: the client fills in what was not given later.
        self._scores_rows = train_scores is True or _is_given(validate_data)
        self.train_data = train_data
        self.validate_data = validate_data
        self.cv_data = cv_data
        self.test_data = test_data
        self.input_model = input_model
        self.warm_start_model = warm_start_model

    @property
    def outputs(self) -> dict:
        """Artifacts for other tasks, by name; train_output_data only where scores are shown."""
        outputs = super().outputs
        return outputs if self._scores_rows else _Outputs(outputs, self._name)


class _Outputs(dict):
    """Outputs of a task that shows the guest no scores of training rows."""

    def __init__(self, outputs: dict, name: str):
        super().__init__(outputs)
        self._name = name

    def __getitem__(self, key):
        if key == "train_output_data":
            raise ValueError(
                f"{self._name} has no train_output_data, which flipback and evaluation read: the guest gets no scores of "
                "training rows unless train_scores is true; set train_scores=True."
            )
        return super().__getitem__(key)


def _chosen_settings(inputs: dict) -> settings.TrainSettings:
    """What these parameters make; refuses what does not go together."""
    names = [field.name for field in fields(settings.TrainSettings)]
    given = {name: CHECKS[name](inputs[name]) for name in names if _is_given(inputs[name])}
    chosen = settings.TrainSettings(**given)
    check_settings(chosen)
    check_classes(chosen)
    return chosen


def _warn_of_solver(chosen: settings.TrainSettings) -> None:
    """Say that a parameter took the solver that nobody asked for."""
    if chosen.solver is None and solver_of(chosen) == PER_EPOCH:
        warnings.warn(
            f"{settings.hindrance_to_cross_product(chosen)}, so that solver per_epoch trains: it encrypts in every epoch, which "
            f"took 42 times the processor time for 30 epochs, runs {settings.STEP_BY_STEP.epochs} by default, needs an arbiter, and "
            "guest and hosts see their own gradients; leave the parameter out for cross_product, or set solver to per_epoch "
            "to keep it.",
            stacklevel=3,
        )


def _is_given(value) -> bool:
    return value is not None and not isinstance(value, PlaceHolder)
