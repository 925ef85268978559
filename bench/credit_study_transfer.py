"""Transfer to a small institution: its own few loans, the others' private model, and both together by fine-tuning."""

import numpy as np

from bench import credit_study_models as models
from examples.credit_risk.private_jobs import SECURE_SUM, TRANSFER_EPSILON
from examples.credit_risk.private_runs import FINE_TUNING, OWN_PENALTY, fine_tuned

STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0)


def transfer(parties, held_out, auc, seed, every_strength=False):
    """{name: AUC} of the last of ``parties``, the small one: alone, with the others' model, and fine-tuned from it."""
    *others, (features, labels) = parties
    weights = models.horizontal_weights(others, held_out.shape[1], SECURE_SUM, TRANSFER_EPSILON, seed)
    none = np.zeros_like(weights)
    found = {
        "small_alone": auc(scores(fine_tuned(features, labels, none, OWN_PENALTY), held_out)),
        "small_federated": auc(scores(weights, held_out)),
        "small_fine_tuned": auc(scores(fine_tuned(features, labels, weights, FINE_TUNING), held_out)),
    }
    for strength in STRENGTHS if every_strength else ():
        tuned = fine_tuned(features, labels, weights, strength)
        found[f"small_fine_tuned_strength_{strength:g}"] = auc(scores(tuned, held_out))
    return found


def scores(weights, features):
    return features @ weights[:-1] + weights[-1]
