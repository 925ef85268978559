"""The FATE parameters of dp_homo_nn, with their types, defaults and descriptions."""
from fate.components.core import cpn
from fate_dp.components.common.parameters import checked

from . import settings


def _parameter(check, title: str, desc: str, default=None, optional=True):
    return cpn.parameter(type=checked(check, title), default=default, desc=desc, optional=optional)


MODEL = _parameter(
    settings.model, "Model",
    "what is trained: name (logistic_regression, mlp, cnn, scattering_linear or module:NAME) and params",
)  # fmt: skip
LOSS = _parameter(settings.loss, "Loss", "loss of a record: cross_entropy", default="cross_entropy")
OPTIMIZER = _parameter(
    settings.optimizer, "Optimizer",
    "steps of the server: method, penalty, alpha, optimizer_params; None means by features",
)  # fmt: skip
LEARNING_RATE_SCHEDULER = _parameter(
    settings.learning_rate_scheduler, "LearningRateScheduler", "how the learning rate changes: method, scheduler_params"
)
INIT_PARAM = _parameter(settings.init_param, "InitParam", "start weights: random_state, their public seed")
ROUNDS = _parameter(settings.rounds, "Rounds", "noisy updates; None means 50")
BATCH_SIZE = _parameter(
    settings.batch_size, "BatchSize", "expected records (or clients) of a round over all parties; None means all"
)
RECORDS = _parameter(
    settings.records, "Records", "public number of the records (or clients) of all parties together", optional=False
)
CLASSES = _parameter(settings.classes, "Classes", "number of classes; labels are 0, 1, ... below it", default=2)
CLASS_WEIGHTS = _parameter(
    settings.class_weights, "ClassWeights",
    "weights of rare classes: prior (public probability of each class) and maximum of a weight, which is what noise may "
    "grow by",
)  # fmt: skip
EPSILON = _parameter(settings.epsilon, "Epsilon", "target in nats; this or noise_multiplier (epsilon0 for shuffle)")
NOISE_MULTIPLIER = _parameter(
    settings.noise_multiplier, "NoiseMultiplier", "standard deviation of the noise over the clip, in place of epsilon"
)
EPSILON0 = _parameter(settings.epsilon0, "Epsilon0", "epsilon of one message before it is shuffled, with trust shuffle")
DELTA = _parameter(settings.delta, "Delta", "delta of the guarantee", default=1e-5)
RELATION = _parameter(
    settings.relation, "Relation",
    "how neighbours differ: add_or_remove or replace_one; None means add_or_remove, for shuffle replace_one",
)  # fmt: skip
CLIP = _parameter(
    settings.clip, "Clip", "largest l2 norm of one contribution: a number, one for each round, or quantile and start; "
    "None means by features and noise",
)  # fmt: skip
TRUST = _parameter(settings.trust, "Trust", "who must be trusted: secure_sum, local or shuffle", default="secure_sum")
UNIT = _parameter(
    settings.unit, "Unit", "what is protected: a record or a client, that is all data of a party", default="record"
)
TOLERATED = _parameter(settings.tolerated, "Tolerated", "parties that may drop out or collude, at least 1", default=1)
LOCAL_STEPS = _parameter(settings.local_steps, "LocalSteps", "steps of a party in a round", default=1)
LOCAL_LEARNING_RATE = _parameter(
    settings.local_learning_rate, "LocalLearningRate", "learning rate of a party's own steps"
)
LOCAL_BATCH_SIZE = _parameter(
    settings.local_batch_size, "LocalBatchSize", "records in each own step with unit client; None means all of a party"
)
CLIENT_WEIGHTS = _parameter(settings.client_weights, "ClientWeights", "public weights by party id; None means equal ones")
UPLOAD_FRACTION = _parameter(
    settings.upload_fraction, "UploadFraction", "part of the coordinates that is sent, selected after noise", default=1.0
)
NOISE = _parameter(
    settings.noise, "Noise", "how noise is spread: uniform, adaptive, or source_rule, which guarantees nothing",
    default="uniform",
)  # fmt: skip
ADAPTIVE = _parameter(
    settings.adaptive, "Adaptive", "noise adaptive: contribution_share, power, after_rounds; f and p of source_rule"
)
SHUFFLER = _parameter(settings.shuffler, "Shuffler", "party id of the host that shuffles and holds no data")
SPLIT = _parameter(
    settings.split, "Split", "how updates are split into messages of trust shuffle: none, block or coordinate", default="none"
)
THRESHOLD = _parameter(
    settings.threshold, "Threshold", "with two classes, scores above it predict the second", default=0.5
)
