"""Learning rate and clip where a job names neither: from public numbers, after the noise is calibrated. No FATE in here."""
import math
from dataclasses import replace
from typing import Tuple

from fate_dp.privacy.mechanisms.duchi import duchi_norm

from .rounds.terms import LOCAL, RECORD, SECURE_SUM, SHUFFLE, RoundTerms
from .settings import OPTIMIZER_KEYS, TrainSettings

MOMENTUM = 0.9
# Beyond a clip of the largest norm there is nothing to clip; far below it all gradients have the same length.
LARGEST_SHARE, LEAST_SHARE = 1.0, 0.1
# Noise of the mean of all rounds, over the clip, times the number of directions; with more, the clip is lower.
BEARABLE_NOISE = 1 / 40
PLAIN_CLIP = 1.0


def noise_of_mean(terms: RoundTerms) -> float:
    """Standard deviation of one coordinate of a round's noisy mean, over the clip, with all clients present."""
    if terms.trust == SHUFFLE:
        # An answer has this norm in a random direction.
        return duchi_norm(terms.dimension, 1.0, terms.epsilon0) / math.sqrt(terms.dimension * terms.normaliser)
    missing = terms.tolerated if terms.trust == SECURE_SUM else terms.clients - 1
    return terms.noise_multiplier * math.sqrt(terms.clients / (terms.clients - missing)) / terms.normaliser


def settled(settings: TrainSettings, terms: RoundTerms) -> Tuple[TrainSettings, RoundTerms]:
    """Settings and terms with optimiser and clip, the job's own where it names them; the same at every party.

    For logistic regression on standardised features, without a schedule or scales of its own, trained by records:

    - clip = c sqrt(m + 1) for m features: gradients of the loss of a record are at most as long as the record, whose
      squared norm is m + 1 on average, so that with c = 1 little is clipped and the weights go where they go without.
      Noise is in units of the clip. That of the mean over all T rounds, s / sqrt(T) for rounds of noise s, must stay small in
      all m + 1 directions together: c = sqrt(T) / (40 (m + 1) s), between 0.1 and 1. The less c, the more say have records
      that the model gets nearly right, and the more the weights are drawn away from where they go without a clip.
    - learning rate = 1 / L with L = (m + 1) / 4, for more than two classes (m + 1) / 2: the loss of m standardised features
      curves by L at most, so that gradient descent at this rate does not overshoot, with Nesterov's momentum of 0.9.
    - 50 rounds with all records (`settings.ROUNDS`).

    Chosen on Adult, Lending Club's loans and breast cancer, of 450 to 24,000 records, at epsilon 0.5 to 8; not on the
    figures that README reports. What a clip does to the weights has no guarantee, and costs none: the noise is in units
    of the clip. A job that names a clip gets this learning rate; one that names an optimiser, and all other models, a
    clip of 1, and plain gradient descent at 0.1 where they name none.
    """
    if settings.clip is not None and settings.optimizer is not None:
        return settings, terms
    linear = settings.model["name"] == "logistic_regression" and terms.unit == RECORD and terms.trust in (SECURE_SUM, LOCAL)
    if not linear or settings.noise != "uniform" or terms.local_steps > 1:
        return _plain(settings), terms
    if settings.optimizer is not None:
        return replace(settings, clip=PLAIN_CLIP), terms
    outputs = settings.classes if settings.classes > 2 else 1
    inputs = terms.dimension // outputs
    curvature = inputs / (4 if outputs == 1 else 2)
    chosen = {"lr": 1 / curvature, "momentum": MOMENTUM, "nesterov": True}
    settings = replace(settings, optimizer={**OPTIMIZER_KEYS, "optimizer_params": chosen})
    if settings.clip is not None:
        return settings, terms
    clip = _clip(terms, inputs, settings.step_factor)
    return replace(settings, clip=clip), replace(terms, clips=(clip,))


def _clip(terms, inputs, step_factor) -> float:
    noise = noise_of_mean(terms) * step_factor / math.sqrt(terms.rounds)
    share = min(LARGEST_SHARE, max(LEAST_SHARE, BEARABLE_NOISE / (noise * inputs)))
    # Of few digits: parties compute it on different machines, and people read it.
    return float(f"{share * math.sqrt(inputs):.3g}")


def _plain(settings) -> TrainSettings:
    return replace(
        settings, optimizer=settings.optimizer or dict(OPTIMIZER_KEYS),
        clip=PLAIN_CLIP if settings.clip is None else settings.clip,
    )  # fmt: skip
