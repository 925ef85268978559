"""The FATE parameters of dp_homo_nn, with their types, defaults and descriptions."""
from fate.components.core import cpn
from fate_dp.components.common.parameters import checked

from . import settings


def _parameter(check, title: str, desc: str, default=None, optional=True):
    return cpn.parameter(type=checked(check, title), default=default, desc=desc, optional=optional)


MODEL = _parameter(
    settings.model, "Model", "name (logistic_regression, mlp, cnn, scattering_linear or module:NAME) and params"
)
LOSS = _parameter(settings.loss, "Loss", "cross_entropy", default="cross_entropy")
OPTIMIZER = _parameter(settings.optimizer, "Optimizer", "method, penalty, alpha, optimizer_params; None means by features")
LEARNING_RATE_SCHEDULER = _parameter(
    settings.learning_rate_scheduler, "LearningRateScheduler", "method, scheduler_params"
)
INIT_PARAM = _parameter(settings.init_param, "InitParam", "random_state, the public seed of the start weights")
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
    "prior (public probability of each class) and maximum of a weight, which is what noise may grow by",
)  # fmt: skip
EPSILON = _parameter(settings.epsilon, "Epsilon", "target in nats; this or noise_multiplier (epsilon0 for shuffle)")
NOISE_MULTIPLIER = _parameter(settings.noise_multiplier, "NoiseMultiplier", "sigma over the clip")
EPSILON0 = _parameter(settings.epsilon0, "Epsilon0", "epsilon of one message before it is shuffled, with trust shuffle")
DELTA = _parameter(settings.delta, "Delta", "delta of the guarantee", default=1e-5)
RELATION = _parameter(
    settings.relation, "Relation", "add_or_remove or replace_one; None means add_or_remove, for shuffle replace_one"
)
CLIP = _parameter(
    settings.clip, "Clip", "largest l2 norm of one contribution: a number, one for each round, or quantile and start; "
    "None means by features and noise",
)  # fmt: skip
TRUST = _parameter(settings.trust, "Trust", "secure_sum, local or shuffle", default="secure_sum")
UNIT = _parameter(settings.unit, "Unit", "record or client", default="record")
TOLERATED = _parameter(settings.tolerated, "Tolerated", "parties that may drop out or collude, at least 1", default=1)
LOCAL_STEPS = _parameter(settings.local_steps, "LocalSteps", "steps of a party in a round", default=1)
LOCAL_LEARNING_RATE = _parameter(settings.local_learning_rate, "LocalLearningRate", "of a party's own steps")
LOCAL_BATCH_SIZE = _parameter(
    settings.local_batch_size, "LocalBatchSize", "records in each own step with unit client; None means all of a party"
)
CLIENT_WEIGHTS = _parameter(settings.client_weights, "ClientWeights", "public weights by party id; None means equal ones")
UPLOAD_FRACTION = _parameter(
    settings.upload_fraction, "UploadFraction", "part of the coordinates that is sent, selected after noise", default=1.0
)
NOISE = _parameter(settings.noise, "Noise", "uniform, adaptive, or source_rule, which guarantees nothing", default="uniform")
ADAPTIVE = _parameter(settings.adaptive, "Adaptive", "contribution_share, power, after_rounds; f and p of source_rule")
SHUFFLER = _parameter(settings.shuffler, "Shuffler", "party id of the host that shuffles and holds no data")
SPLIT = _parameter(settings.split, "Split", "none, block or coordinate, with trust shuffle", default="none")
THRESHOLD = _parameter(
    settings.threshold, "Threshold", "with two classes, scores above it predict the second", default=0.5
)
