"""The one training that every side of a benchmark runs: same rows, same start, same steps."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fate_dp.components.protocols.optimizers import constant_learning_rate
from fate_dp.data_prep.breast_cancer import ID, LABEL, Split, party_tables
from tests.support.plaintext import TrainingSettings, train_plaintext

PARTIES = (("guest", "9999"), ("host", "10000"), ("arbiter", "10001"))
KEY_LENGTH = 2048
HE_PARAM = {"kind": "paillier", "key_length": KEY_LENGTH}

PENALTY, RATE = 0.1, 0.1
OPTIMIZER = {"method": "sgd", "penalty": "l2", "alpha": PENALTY, "optimizer_params": {"lr": RATE}}
SCHEDULER = constant_learning_rate()
START_WEIGHT = 0.1
# Not zero: FATE's unblinded encryption of 0 is the number 1, with which everything is quick.
INIT_PARAM = {"method": "consts", "fill_val": START_WEIGHT, "fit_intercept": True, "random_state": None}
# All of it as dp_hetero_lr calls it, for its `TrainSettings`: nothing ends it early, and nothing is done beside it.
OURS = {
    "optimizer": OPTIMIZER,
    "learning_rate_scheduler": SCHEDULER,
    "init_param": INIT_PARAM,
    "he_param": HE_PARAM,
    "tol": 0,
    "train_scores": False,
}


@dataclass(frozen=True)
class Task:
    """The rows to train on. A task travels to the processes of all parties, each of which makes its own tables.

    ``tables()`` gives {"guest": pandas table with id, label and features, "host": ...}, both with the same rows in one
    order.
    """

    tables: Callable[[], dict]

    def features_and_labels(self, role):
        """Features (n, m) of ``role`` without intercept, and the labels (n,), None at the host."""
        table = self.tables()[role]
        labels = table[LABEL].to_numpy(dtype=np.float64) if role == "guest" else None
        return table.drop(columns=[ID, LABEL], errors="ignore").to_numpy(), labels

    def frame(self, ctx, role):
        """The rows of ``role`` as a FATE DataFrame."""
        from tests.support.local_parties import frame_of

        table = self.tables()[role]
        table.insert(0, "sample_id", table[ID])
        return frame_of(ctx, table, LABEL if role == "guest" else None)

    def plaintext_weights(self, epochs):
        """Weights that gradient descent in the clear reaches: the guest's, its intercept, the host's."""
        (guest, labels), (host, _) = self.features_and_labels("guest"), self.features_and_labels("host")
        start = [np.full(guest.shape[1] + 1, START_WEIGHT), np.full(host.shape[1], START_WEIGHT)]
        settings = TrainingSettings(OPTIMIZER, SCHEDULER, epochs=epochs, fit_intercept=True)
        return np.concatenate(train_plaintext([guest, host], labels, settings, start).weights)


def breast_cancer_tables():
    """The 426 training rows of scikit-learn's breast cancer: 10 features and the label at the guest, 20 at the host."""
    found = party_tables(Split(missing=0.0))
    return {role: found[f"{role}_train"].sort_values(ID, ignore_index=True) for role in ("guest", "host")}
