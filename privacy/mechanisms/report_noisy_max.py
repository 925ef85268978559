"""Report-noisy-max as permute-and-flip: the best score but for a little noise, never worse than exponential.

In random order every index is offered with probability exp(epsilon (score - best) / (2 sensitivity)), and the first
one that is accepted is returned; the best always accepts. epsilon-differentially private (nats, delta 0 plus slack)
under the relation of ``sensitivity``, with an expected score at least that of the exponential mechanism: R. McKenna
and D. Sheldon, "Permute-and-flip", NeurIPS 2020, Theorems 1 and 2. It is report-noisy-max with exponential noise: Z.
Ding et al., arXiv 2105.07260. *Slack*: every coin has a probability within 2^-190 of the ideal one
(``exponential_weights``), and at most one coin per score is thrown, so 2^-190 per score.
"""
from fate_dp.privacy.events import PureDP
from fate_dp.privacy.mechanisms.exponential import SLACK_PER_SCORE, WEIGHT_BITS, exponential_weights
from fate_dp.privacy.mechanisms.permutation import random_permutation
from fate_dp.privacy.mechanisms.randomized_response import check_epsilon
from fate_dp.privacy.mechanisms.release import Release, event_of
from fate_dp.privacy.noise.stream import open_stream


def report_noisy_max(scores, epsilon, sensitivity, *, relation, observers, unit="record", random=None):
    """Index (int) of a high score, as a ``Release``.

    :param scores: one-dimensional, finite; private. Higher is better.
    :param epsilon: privacy parameter in nats.
    :param sensitivity: largest change of any one score between neighbours under ``relation``.
    :param random: a stream; None for the operating system's entropy.
    :raises InvalidScores, InvalidEpsilon, InvalidSensitivity, InvalidEvent, InvalidRandomness: what is wrong.
    """
    stream = open_stream(random)
    weights = exponential_weights(scores, epsilon, sensitivity)
    event = event_of(
        PureDP(check_epsilon(epsilon)),
        stream,
        unit=unit,
        relation=relation,
        observers=observers,
        slack=len(weights) * SLACK_PER_SCORE,
    )
    order = random_permutation(len(weights), stream).tolist()
    return Release(next(index for index in order if stream.integer(WEIGHT_BITS) < weights[index]), event)
