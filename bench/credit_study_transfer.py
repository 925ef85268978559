"""Transfer to a small institution: its own few loans, the others' private model, and both together by fine-tuning."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from bench import credit_study_models as models

INSTITUTIONS = ("9999", "10000", "9998", "9997")
EPSILON = 4.0
STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0)
STRENGTH = 100.0


def transfer(parties, held_out, auc, seed, every_strength=False):
    """{name: AUC} of the last of ``parties``, the small one: alone, with the others' model, and fine-tuned from it."""
    *others, (features, labels) = parties
    weights = models.horizontal_weights(others, held_out.shape[1], models.SECURE_SUM, EPSILON, seed)
    none = np.zeros_like(weights)
    found = {
        "small_alone": auc(scores(fine_tuned(features, labels, none, 1.0), held_out)),
        "small_federated": auc(scores(weights, held_out)),
        "small_fine_tuned": auc(scores(fine_tuned(features, labels, weights, STRENGTH), held_out)),
    }
    for strength in STRENGTHS if every_strength else ():
        tuned = fine_tuned(features, labels, weights, strength)
        found[f"small_fine_tuned_strength_{strength:g}"] = auc(scores(tuned, held_out))
    return found


def fine_tuned(features, labels, start, strength):
    """Logistic regression on own rows with the penalty strength |w - start|^2 / 2; ``start`` has the intercept last."""
    rows = np.column_stack([features, np.ones(len(features))])

    def loss(weights):
        joint, moved = rows @ weights, weights - start
        value = np.logaddexp(0, joint).sum() - labels @ joint + strength * moved @ moved / 2
        return value, rows.T @ (expit(joint) - labels) + strength * moved

    return minimize(loss, start, jac=True, method="L-BFGS-B").x


def scores(weights, features):
    return features @ weights[:-1] + weights[-1]
