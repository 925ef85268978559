"""The FATE parameters that the stages of dp_hetero_lr share, with their types, defaults and descriptions."""
from fate.components.core import cpn
from fate_dp.components.common.checks import classes, label_source
from fate_dp.components.common.parameters import checked

from . import settings

EPOCHS = cpn.parameter(
    type=checked(settings.epochs, "Epochs"),
    default=None,
    desc=f"most epochs; None means {settings.ALL_AT_ONCE.epochs}, or {settings.STEP_BY_STEP.epochs} with solver per_epoch or "
    "several batches",
)
BATCH_SIZE = cpn.parameter(
    type=checked(settings.batch_size, "BatchSize"),
    default=None,
    desc="rows per batch, the same batches in every epoch; None means all rows",
)
OPTIMIZER = cpn.parameter(
    type=checked(settings.optimizer, "Optimizer"),
    default=None,
    desc="steps of the descent: method, penalty, alpha, optimizer_params; None means values made from public numbers",
)
LEARNING_RATE_SCHEDULER = cpn.parameter(
    type=checked(settings.learning_rate_scheduler, "LearningRateScheduler"),
    default=None,
    desc="how the learning rate changes: method (constant, linear, step), scheduler_params",
)
INIT_PARAM = cpn.parameter(
    type=checked(settings.init_param, "InitParam"),
    default=None,
    desc="start weights: method (zeros by default, so that a repeated job gives the same model), fit_intercept, fill_val, "
    "random_state",
)
TOL = cpn.parameter(
    type=checked(settings.tolerance, "Tolerance"),
    default=None,
    desc=f"tolerance of early_stop, {settings.ALL_AT_ONCE.tol:g} for all epochs; None means {settings.ALL_AT_ONCE.tol:g}, or "
    f"{settings.STEP_BY_STEP.tol:g} with solver per_epoch or several batches",
)
EARLY_STOP = cpn.parameter(
    type=checked(settings.early_stop, "EarlyStop"), default="diff",
    desc="what must fall below tol for training to end: diff or abs of the loss, or weight_diff",
)
THRESHOLD = cpn.parameter(
    type=checked(settings.threshold, "Threshold"), default=0.5, desc="scores above it predict label 1"
)
HE_PARAM = cpn.parameter(
    type=checked(settings.he_param, "HEParam"), default=None,
    desc="encryption: kind paillier, key_length of at least 2048",
)
FLIPBACK = cpn.parameter(
    type=checked(settings.flipback, "Flipback"), default=None,
    desc="better labels between epochs: mode, every, fraction, max_rounds",
)
TRAIN_SCORES = cpn.parameter(
    type=checked(settings.train_scores, "TrainScores"),
    default=False,
    desc="whether the guest gets the joint scores of the training rows, which the component flipback needs; each host's "
    "ledger counts it",
)
SCORE_STEP = cpn.parameter(
    type=checked(settings.score_step, "ScoreStep"),
    default=2.0**-7,
    desc="hosts round their part of joint scores at random to multiples of it: a power of two from 2^-8 to 2^-4",
)
LABEL_SOURCE = cpn.parameter(
    type=checked(label_source, "LabelSource"),
    default=None,
    desc="namespace/name/column, needed for labels that are not flipped: they must be declared public at the guest",
)
CLASSES = cpn.parameter(
    type=checked(classes, "Classes"),
    default=None,
    desc="all label values that may occur; None means those that label_flip was given, and [0, 1] for labels declared public; "
    "with more than two, a model for each against the rest",
)
SOLVER = cpn.parameter(
    type=checked(settings.solver, "Solver"),
    default=None,
    desc="how training is encrypted: cross_product (all of it in the first epoch) or per_epoch; None means cross_product where "
    "it can",
)
FAMILY = cpn.parameter(
    type=checked(settings.family, "Family"), default="binomial",
    desc="what labels are: binomial (0 and 1) or gaussian (numbers)",
)
SIGMOID = cpn.parameter(
    type=checked(settings.sigmoid, "Sigmoid"),
    default="taylor",
    desc="sigmoid of the gradient: taylor, or exact, which shows the guest joint scores in every round; each host's ledger "
    "counts them",
)
SIGMOID_ROUNDS = cpn.parameter(
    type=checked(settings.sigmoid_rounds, "SigmoidRounds"), default=3, desc="most corrections of the sigmoid"
)
NOISE = cpn.parameter(
    type=checked(settings.noise, "Noise"),
    default="none",
    desc="noise on second moments for record-level privacy of each party's features: none, uniform or adaptive; all"
    " parties must set the same",
)
NOISE_EPSILON = cpn.parameter(
    type=checked(settings.noise_epsilon, "NoiseEpsilon"),
    default=None,
    desc="epsilon (nats) of this party's part of a record, against all others; None means no noise here and no promise",
)
NOISE_DELTA = cpn.parameter(
    type=checked(settings.noise_delta, "NoiseDelta"),
    default=1e-5,
    desc="delta that goes with this party's noise_epsilon",
)
NOISE_RADIUS = cpn.parameter(
    type=checked(settings.noise_radius, "NoiseRadius"),
    default=None,
    desc="rows of this party's features are clipped to this l2 norm, a public number; None means the square root of the"
    " number of features, at most 16",
)
SCORING = cpn.parameter(
    type=checked(settings.scoring, "Scoring"),
    default="joint",
    desc="whose rows are predicted: joint (every party has its columns of them) or encrypted (the guest alone has them, with "
    "all columns); each host's ledger counts what it shows",
)
TRUE_LABELS = cpn.parameter(
    type=checked(settings.true_labels, "TrueLabels"),
    default=False,
    desc="whether the guest's labels of the rows to predict are true ones of records held out of training; its summary then"
    " shows the figures on them",
)
CV_PARAM = cpn.parameter(
    type=checked(settings.cv_param, "CVParam"), default=None,
    desc="folds of cross-validation: n_splits, shuffle, random_state",
)
