"""Exact logistic regression on the quadratic engine: a quadratic that bounds the logistic loss, moved a few times.

The loss of one record, log(1 + e^z) - y z, curves by sigmoid(z) (1 - sigmoid(z)) <= 1/4 everywhere. So the quadratic of
curvature 1/4 that touches it at a point z_0 lies above it everywhere:

    log(1 + e^z) - y z <= z^2 / 8 - t z + c
    t = z_0 / 4 + y - sigmoid(z_0),   c = log(1 + e^z_0) - z_0 sigmoid(z_0) + z_0^2 / 8

A training that lowers the right-hand side from z = z_0 on lowers the loss. Its Hessian X^T X / 4 is the same for every
z_0; moving z_0 to the present scores replaces the target t alone. At z_0 = 0 the quadratic is the Taylor loss and t is
y - 1/2: so a fresh training begins with a phase for which nobody needs a score, and every round after it is one
correction of the target at the joint scores of that moment, which the guest gets to see.

Reference: D. Boehning and B. G. Lindsay, "Monotonicity of quadratic-approximation algorithms", Annals of the Institute
of Statistical Mathematics 40 (1988).
"""
import math

import numpy as np
from scipy.special import expit


def correction_epochs(epochs, rounds, warm_start=False):
    """Epochs (from 0) that begin with a correction: the ends of phases of equal length, the last phase the shortest.

    100 epochs with 3 rounds give 25, 50 and 75, which is when flipback runs by default: one release of joint scores then
    serves both. There are fewer rounds where the epochs do not hold ``rounds`` phases and one epoch more.

    :param warm_start: whether the first weights are those of a trained model: then the first round is at epoch 0, since
        a phase on the Taylor loss would lead away from them.
    """
    phases, first = (rounds, 0) if warm_start else (rounds + 1, 1)
    length = math.ceil(epochs / phases)
    return list(range(first * length, epochs, length))


def corrected_target(labels, joint_scores):
    """The target t = z / 4 + y - sigmoid(z) whose quadratic touches the logistic loss at z.

    :param labels: y, from 0 to 1.
    :param joint_scores: z = sum over the parties of X_p w_p; zeros give the Taylor loss's y - 1/2.
    """
    return joint_scores / 4 + labels - expit(joint_scores)


def majoriser_constants(joint_scores):
    """The constant c of the quadratic, one per record: log 2 where z is 0, and the same for every label."""
    return np.logaddexp(0, joint_scores) - joint_scores * expit(joint_scores) + joint_scores**2 / 8
