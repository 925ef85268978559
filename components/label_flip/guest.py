"""The guest's part of label_flip.

Guarantee: the flipped label column is epsilon-differentially private in nats (delta 0), unit *label*, replace-one,
against host, arbiter and whoever gets the model; all jobs with the same label source, key and epsilon together
release each record's flip once (Warner 1965, k-ary as in Kairouz, Oh and Viswanath 2014). Not covered: the features,
and which records exist. The number of labels that really flipped is never released: with all other labels known it
gives the last one away.
"""
from functools import partial

import numpy as np

from fate_dp.components.common.frame_checks import check_guest_table, distinct_labels
from fate_dp.components.common.frames import label_blocks, match_id_blocks, replace_labels
from fate_dp.components.common.over_sampled import has_synthetic_rows
from fate_dp.components.common.parties import check_roles
from fate_dp.components.common.party_home import home_of, job_of
from fate_dp.components.common.preflight import agree
from fate_dp.components.common.record_stream import flip_stream, ids_fingerprint
from fate_dp.components.common.summary import show_summary
from fate_dp.privacy.label_flips import canonical_label, flip_labels
from fate_dp.privacy.mechanisms.randomized_response import keep_probability
from fate_dp.privacy.secret_key import key_id


def flip(ctx, input_data, output_data, *, epsilon, classes, label_source) -> None:
    """Check, record the release in the guest's ledger, write the flipped table, mark the release as done.

    Refused before anything is spent: what a later training would refuse in the table, labels outside the declared
    classes, a source that the operator has not declared, a spent budget, a corrected label.
    """
    check_roles(ctx, arbiter=False)
    frame, home = input_data.read(), home_of(ctx)
    known = {}

    def check():
        check_guest_table(frame)
        check_real(frame)
        check_labels(frame, classes)
        check_source(home, frame, label_source)
        return {}

    def commit(_):
        known["flipped"] = flipped_labels(frame, epsilon, classes, home.key, label_source)
        known["release"] = _record(ctx, home, frame, known["flipped"], epsilon, classes, label_source)
        return {}

    agree(ctx, check, commit)
    output_data.write(replace_labels(frame, known["flipped"]))
    home.ledger.mark_released(known["release"].release_id)
    show_summary(ctx, _summary(frame, epsilon, classes, label_source))


def check_real(frame) -> None:
    """Synthetic rows show by features and number which true class they were made in, whatever is flipped."""
    if has_synthetic_rows(frame):
        raise ValueError(
            "The guest's table was over-sampled; put label_flip before smote, on the table without synthetic rows."
        )


def check_labels(frame, classes) -> None:
    """Labels must be present and within the declared classes: facts of the domain, which every neighbour shares.

    Nothing else may be asked of true labels here, not even whether two classes occur: the other parties see whether the
    job goes on. The upload and the training, which reads flips, refuse a single class.
    """
    found = distinct_labels(frame, limit=len(classes))
    if len(found) > len(classes):
        raise ValueError(f"The labels take more values than the declared classes {list(classes)}; they look continuous.")
    if not found <= set(classes):
        raise ValueError(f"A label lies outside the declared classes {list(classes)}.")


def check_source(home, frame, label_source) -> None:
    """The budget belongs to a declared source: a name that the job makes up must not open a new one."""
    if not home.policy.is_declared(label_source):
        raise ValueError(
            f"label_source {label_source} is not declared at the guest; its operator declares it once with "
            f"`fate-dp declare {label_source}`."
        )
    if label_source.rsplit("/", 1)[1] != frame.schema.label_name:
        raise ValueError(f"label_source {label_source} must end with the label column {frame.schema.label_name!r}.")


def flipped_labels(frame, epsilon, classes, key, label_source):
    """Table of flipped label values, block by block; pure, so a recomputed block gets the same flips."""
    kernel = partial(_flip_block, epsilon=epsilon, classes=classes, key=key, label_source=label_source)
    return match_id_blocks(frame).join(label_blocks(frame), kernel)


def _flip_block(match_ids, labels, epsilon, classes, key, label_source):
    values = np.asarray(classes)
    indices = np.searchsorted(values, labels)
    return values[flip_labels(match_ids, indices, epsilon, len(classes), key, label_source)]


def _record(ctx, home, frame, flipped, epsilon, classes, label_source):
    job = job_of(ctx)
    return home.ledger.record_flips(
        source=label_source,
        epsilon=epsilon,
        classes=len(classes),
        key_id=key_id(home.key),
        rows=flip_stream(frame, flipped, home.key, label_source),
        cap=home.policy.label_cap(label_source),
        job_id=job.job_id,
        task_id=job.task_id,
        fingerprint=ids_fingerprint(frame),
        class_labels=[canonical_label(value) for value in classes],
    )


def _summary(frame, epsilon, classes, label_source) -> dict:
    return {
        "mechanism": "randomised response on the label, memoised per record",
        "label source": label_source,
        "epsilon (nats, unit label, replace-one)": epsilon,
        "delta": 0,
        "observers": "host, arbiter, whoever gets the model",
        "classes": len(classes),
        "keep probability": keep_probability(epsilon, len(classes)),
        "rows": frame.shape[0],
    }
