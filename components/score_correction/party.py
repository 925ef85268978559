"""score_correction at the guest, who alone takes part: post-processing of scores, of any trainer of two classes.

A model that was trained on flips says how likely a *flip* is 1. Of a record with probability p of a true label 1, the flip
is 1 with probability q + (1 - 2 q) p, so p is solved for. What lies outside 0 to 1 afterwards, which only an error of the
model can, is set to the nearer end. The order of scores stays, but for ties at the ends, and with it AUC and KS.
"""

from functools import partial

import numpy as np

from fate_dp.privacy.mechanisms.randomized_response import flip_probability, true_probability

from ..common.charges import PartyHome, home_of
from ..common.federation import Context, TableInput, TableOutput
from ..common.frames import DataFrame, collect_column, feature_blocks, prediction_frame_of, require_rows, scored_by_one
from ..common.preflight import show_summary
from ..common.provenance import refuse_true_labels_of_released_records
from .settings import Settings

SCORE, KIND = "predict_score", "type"
CLASSES = 2


def correct_scores(ctx: Context, settings: Settings, input_data: TableInput, output_data: TableOutput) -> None:
    scored = input_data.read()
    kind = checked_kind(scored)
    refuse_other_flips(home_of(ctx), scored, settings.epsilon)
    scores = feature_blocks(scored[[SCORE]]).mapValues(np.ravel)
    given = collect_column(scores)
    if not ((given >= 0) & (given <= 1)).all():
        raise ValueError(
            f"{SCORE} holds values outside 0 to 1; score_correction corrects probabilities of two classes, as FATE's "
            "classifiers and dp_hetero_lr write them."
        )
    corrected = scores.mapValues(partial(_corrected, epsilon=settings.epsilon, threshold=settings.threshold))
    output_data.write(prediction_frame_of(scored, corrected, kind))
    flip = flip_probability(settings.epsilon)
    facts = {
        "mechanism": "correction of scores for flipped labels, post-processing",
        "epsilon of the labels (nats, unit label, replace-one)": settings.epsilon,
        "further epsilon": 0,
        "rate of flips": flip,
        "rows": len(given),
        "share of scores that no flips give": float(np.mean((given < flip) | (given > 1 - flip))),
    }
    show_summary(ctx, facts)


def checked_kind(scored: DataFrame) -> str:
    """Of which rows FATE says that they are scored; tables of anything but scores are refused."""
    require_rows(scored)
    columns = list(scored.schema.columns)
    if SCORE not in columns or KIND not in columns:
        cure = "Use the output of a training or a prediction."
        raise ValueError(f"input_data must have the columns {SCORE} and {KIND}, got {', '.join(columns)}. {cure}")
    kinds = sorted(set(scored[[KIND]].as_pd_df()[KIND]))
    if len(kinds) > 1:
        raise ValueError(f"input_data must have rows of one kind, got {', '.join(kinds)}. Score them apart.")
    return str(kinds[0])


def refuse_other_flips(home: PartyHome, scored: DataFrame, epsilon: float) -> None:
    """Where the ledger knows the labels beside the scores as flips, they must be flips of two classes at ``epsilon``."""
    known = refuse_true_labels_of_released_records(home, scored)
    if known is None or not known.private:
        return
    flips = known.flips
    if flips is None or flips.bounds is not None or flips.classes != CLASSES:
        raise ValueError(
            "The labels beside the scores are not flips of two classes of one release, so no one rate undoes their errors."
        )
    if flips.epsilon != epsilon:
        raise ValueError(
            f"epsilon is {epsilon!r}, but the labels beside the scores were flipped at epsilon {flips.epsilon!r}; set epsilon to that."
        )


def _corrected(scores: np.ndarray, epsilon: float, threshold: float) -> tuple[list, list, list]:
    return scored_by_one(true_probability(scores, epsilon), threshold)
