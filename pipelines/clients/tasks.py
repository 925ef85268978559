"""The client classes that check more than their settings say; all others are made of these, see `definition.derived_tasks`."""

import warnings
from collections.abc import Mapping
from typing import Any

from fate_dp.components.dp_hetero_lr import settings as hetero_lr
from fate_dp.components.dp_hetero_lr.settings import PER_EPOCH
from fate_dp.components.dp_homo_gbdt import settings as homo_gbdt
from fate_dp.components.dp_homo_nn import settings as homo_nn
from fate_dp.components.share_lr import settings as share_lr

from .definition import DeclaredTask, is_given


class DPHeteroLR(DeclaredTask, component="dp_hetero_lr"):
    """Vertical logistic regression under Paillier; parameters are named as in FATE's CoordinatedLR.

    ``needs_arbiter`` says what the chosen solver needs: per_epoch needs one. ``epsilon``, ``delta`` and
    ``clip`` are each party's own, so give them by party: ``component.hosts[0].task_parameters(epsilon=1.0)``.
    """

    def check_together(self, asked: Mapping[str, Any]) -> dict[type, Any]:
        made = super().check_together(asked)
        chosen = made[hetero_lr.TrainSettings]
        chosen.check_noise()
        chosen.check_classes()
        _warn_of_solver(chosen)
        self.needs_arbiter = chosen.resolved_solver() == PER_EPOCH
        # Asked for already here: the client fills in what was not given later.
        self._scores_rows = asked.get("train_scores", False) or is_given(self.validate_data)
        return made

    @property
    def outputs(self) -> dict[str, Any]:
        """Artifacts for other tasks, by name; train_output_data only where scores are shown."""
        outputs = super().outputs
        return outputs if self._scores_rows else _Outputs(outputs, self._name)


class _Outputs(dict):
    """Outputs of a task that shows the guest no scores of training rows."""

    def __init__(self, outputs: dict[str, Any], name: str) -> None:
        super().__init__(outputs)
        self._name = name

    def __getitem__(self, key: str) -> Any:
        if key == "train_output_data":
            raise ValueError(
                f"{self._name} has no train_output_data, which flipback and evaluation read: the guest gets no scores of "
                "training rows unless train_scores is true; set train_scores=True."
            )
        return super().__getitem__(key)


def _warn_of_solver(chosen: hetero_lr.TrainSettings) -> None:
    """Say that a parameter took the solver that nobody asked for."""
    if chosen.solver is None and chosen.resolved_solver() == PER_EPOCH:
        warnings.warn(
            f"{chosen.cross_product_blocker()}, so solver per_epoch trains: it encrypts in every epoch, which took 42 times "
            f"the processor time for 30 epochs, runs {hetero_lr.STEP_BY_STEP.epochs} by default, needs an arbiter, and shows "
            "guest and hosts their own gradients; leave the parameter out for cross_product, or set solver to per_epoch to "
            "keep it.",
            stacklevel=4,
        )


class DPHomoNN(DeclaredTask, component="dp_homo_nn"):
    """Horizontal training with differential privacy: guest and hosts hold records, the arbiter is the server.

    ``records`` must be given for a training, and either ``epsilon`` or ``noise_multiplier`` (``epsilon0`` for aggregation
    shuffle, which needs ``rounds`` and ``batch_size``, too). With ``aggregation`` shuffle the host with the party id
    ``shuffler`` takes part without data: leave it out of the reader's ``runtime_parties``. ``fate-dp plan homo-nn`` tells
    beforehand what each trust model costs.
    """

    def check_together(self, asked: Mapping[str, Any]) -> dict[type, Any]:
        # A task that only predicts needs no settings.
        return {homo_nn.TrainSettings: homo_nn.given_settings(asked)} if asked else {}


class DPHomoGBDT(DeclaredTask, component="dp_homo_gbdt"):
    """Boosted trees over guest and hosts that hold records of the same columns; the arbiter is the server.

    ``records`` must be given for a training, and either ``epsilon`` or ``noise_multiplier``. A rule of a column is
    ``{"cuts": [30, 60]}``, ``{"categories": [1, 2]}`` or ``{"range": [0, 10], "bins": 5}``, of public facts: nothing is looked up
    in the data. Without any rule columns are taken to be in units of standard deviations.
    """

    def check_together(self, asked: Mapping[str, Any]) -> dict[type, Any]:
        # A task that only predicts needs no settings.
        return {homo_gbdt.TrainSettings: homo_gbdt.given_settings(asked)} if asked else {}


class ShareLR(DeclaredTask, component="share_lr", declares=(share_lr.ShareSettings, share_lr.Prediction)):
    """Logistic or linear regression of a guest and one host on what ``align`` left: shares of all columns.

    Parameters are named as in FATE's CoordinatedLR, the optimizer's method is sgd and weights start from zero.
    ``train_data`` and ``test_data`` are ``output_data`` of an ``align``, ``alignment`` that of the same one.
    """
