"""The FATE parameters of share_lr; those that mean the same in dp_hetero_lr are taken from there."""
from fate.components.core import cpn
from fate_dp.components.common.parameters import checked
from fate_dp.components.dp_hetero_lr.parameters import (  # noqa: F401
    EPOCHS,
    FAMILY,
    HE_PARAM,
    LEARNING_RATE_SCHEDULER,
    THRESHOLD,
    TOL,
    TRUE_LABELS,
)

from . import settings

OPTIMIZER = cpn.parameter(
    type=checked(settings.optimizer, "Optimizer"),
    default=None,
    desc="steps of the descent: method sgd, penalty l2 or none, alpha, optimizer_params; None means values made from public "
    "numbers",
)
INIT_PARAM = cpn.parameter(
    type=checked(settings.init_param, "InitParam"), default=None, desc="start weights: method zeros, fit_intercept"
)
EARLY_STOP = cpn.parameter(
    type=checked(settings.early_stop, "EarlyStop"), default="diff",
    desc="what must fall below tol for training to end: diff or abs of the loss that the guest sees",
)
REVEAL = cpn.parameter(
    type=checked(settings.reveal, "Reveal"),
    default="both",
    desc="whom the trained weights are opened to: both, guest, host or nobody, who predict on shares",
)
TRAIN_SCORES = cpn.parameter(
    type=checked(settings.CHECKS["train_scores"], "TrainScores"),
    default=False,
    desc="whether the guest gets score and label of every training row in random order; the host's ledger counts it",
)
