"""The guest's part of the flipback component: post-processing of flipped labels, so epsilon does not change.

What the joint scores reveal was counted by the hosts' ledgers when the first training released them. The revised
labels enter the guest's ledger as derived ones, so that the next training knows their epsilon.
"""
import math
import secrets
from functools import partial

import numpy as np

from fate_dp.components.common.frame_checks import check_guest_table
from fate_dp.components.common.frames import (
    block_starts,
    collect_column,
    feature_blocks,
    label_blocks,
    replace_labels,
)
from fate_dp.components.common.parties import check_roles
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.provenance import LabelPrivacy, find_label_privacy, scores_digest
from fate_dp.components.common.record_stream import ids_digest, labelled_stream
from fate_dp.components.common.summary import show_summary
from fate_dp.privacy.flipback import Flipback, FlipbackSettings
from fate_dp.privacy.label_releases import LabelRelease, Releases, total_of, united


def revise_labels(ctx, input_data, scores, output_data, *, mode, fraction) -> None:
    """Check, re-label, record the derived labels, write the table."""
    check_roles(ctx, arbiter=False)
    frame, scored, home = input_data.read(), scores.read(), home_of(ctx)
    known = {}

    def check():
        check_guest_table(frame)
        known["privacy"] = find_label_privacy(home, frame, None)
        check_privacy(known["privacy"])
        check_scores(frame, scored)
        known["model"] = releases_of_model(home, scored)
        settings = FlipbackSettings(mode=mode, fraction=fraction, max_rounds=1)
        flipped = collect_column(label_blocks(frame))
        known["flipback"] = Flipback(settings, flipped, known["privacy"].flips.epsilon, stream=secrets.SystemRandom())
        known["labels"] = known["flipback"].relabel(flipped, _probabilities(scored))
        return {}

    agree(ctx, check)
    flips, used = known["privacy"].flips, known["flipback"].mode
    result = with_labels(frame, known["labels"])
    _record(home, job_of(ctx), result, flips, known["model"], used)
    output_data.write(result)
    show_summary(ctx, _summary(united([flips], known["model"]), used, frame.shape[0]))


def check_privacy(privacy: LabelPrivacy) -> None:
    """Bayes' rule and swaps know two classes, as label_flip released them."""
    if privacy.derived:
        raise ValueError("The labels went through flipback before; it needs the labels as label_flip released them.")
    if privacy.flips.bounds is not None:
        raise ValueError("The labels are noisy numbers, which flipback cannot revise; it works on flips of 2 classes.")
    if privacy.flips.classes != 2:
        raise ValueError(f"The labels were flipped among {privacy.flips.classes} classes; flipback works on 2.")


def check_scores(frame, scored) -> None:
    """Scores must stand beside these very labels; which labels their model was trained on the ledger says."""
    if "predict_score" not in scored.schema.columns or ids_digest(scored) != ids_digest(frame):
        raise ValueError("scores are not of the rows of input_data; use the train_output_data of a training on it.")
    trained_on = collect_column(label_blocks(scored)) if scored.schema.label_name is not None else None
    if not np.array_equal(trained_on, collect_column(label_blocks(frame))):
        raise ValueError("scores come from a training on other labels; use the train_output_data of one on input_data.")


def releases_of_model(home, scored) -> Releases:
    """The label releases that the scores carry; a model of true labels would carry those into 'flipped' ones."""
    releases = home.ledger.releases_of_scores(scores_digest(home, scored))
    if releases is None:
        raise ValueError(
            "scores are not known to the guest's ledger, so nobody can say which labels their model was trained on; use "
            "the train_output_data of a dp_hetero_lr of this version, as it wrote it."
        )
    if not math.isfinite(total_of(releases)):
        raise ValueError("scores come from a model of labels without privacy; use those of one that was trained on flips.")
    return releases


def with_labels(frame, labels: np.ndarray):
    """The frame with new labels in row order; the column becomes float64 if any of them is soft."""
    starts = block_starts(frame)
    table = label_blocks(frame).mapPartitions(partial(_cut, starts=starts, labels=labels), preserves_partitioning=True)
    return replace_labels(frame, table, soft=not np.array_equal(labels, np.rint(labels)))


def _cut(blocks, starts, labels):
    for key, block in blocks:
        yield key, labels[starts[key] : starts[key] + len(block)]


def _probabilities(scored) -> np.ndarray:
    return collect_column(feature_blocks(scored[["predict_score"]]).mapValues(np.ravel))


def _record(home, job, frame, flips: LabelRelease, model: Releases, mode: str) -> None:
    home.ledger.record_derived(
        parent_entry_id=flips.entry_id,
        rows=labelled_stream(frame, home.key, flips.source),
        description=f"flipback ({mode}): post-processing, no further epsilon{_others(flips, model)}",
        releases=model,
        job_id=job.job_id,
        task_id=job.task_id,
    )


def _others(flips: LabelRelease, model: Releases) -> str:
    """Names releases besides the flips themselves, so that a line of the ledger says what its labels rest on."""
    others = united([flips], model)[1:]
    if not others:
        return ""
    names = ", ".join(f"{release.source} at {release.epsilon:g}" for release in others)
    return f"; the scoring model rests on other releases, too ({names}), so these labels have epsilon {total_of([flips, *others]):g}"


def _summary(releases: Releases, mode: str, rows: int) -> dict:
    return {
        "mechanism": "flipback, post-processing of flipped labels",
        "mode": mode,
        "epsilon of the labels (nats, unit label, replace-one)": total_of(releases),
        "further epsilon": 0,
        "rows": rows,
    }
