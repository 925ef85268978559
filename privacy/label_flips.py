"""Flips, noisy numbers and tags of the records of one partition: pure functions of (secret key, label source, match id).

Being pure, they give a record the same flip in every epoch, job, upload, subset and recomputed partition. The label
source is the declared ``namespace/name/column``; the match id is the id the parties join on, taken as text, never a
sample id or a content hash, which change with every upload.
"""
import hmac
import re
from decimal import Decimal, localcontext
from numbers import Integral, Real

import numpy as np

from fate_dp.privacy.mechanisms.randomized_response import check_classes, check_epsilon

TAG_BYTES = 16
# In place of a source in tags that are the same whatever the source; no declared source reads like it.
ANY_SOURCE = "any source"
DECIMAL_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class InvalidLabel(ValueError):
    """A label is missing or outside the declared classes."""


class InvalidMatchId(ValueError):
    """A match id is neither text nor a whole number."""


def flip_labels(match_ids, label_indices, epsilon, classes, key, source):
    """Randomised response on the labels of one partition; returns an int64 array of flipped label indices.

    Each record's draw is HMAC-SHA256(key, (domain, source, epsilon, classes, match id)), parts length-prefixed. The
    first 64 bits, as an integer, keep the label iff below floor(p 2^64), at most 2^64 - 1, where p is the keep
    probability to 50 digits; 128 further bits choose among the other classes. The output distribution of a record
    differs from exact randomised response by at most 2^-60 in total variation, and rounding p down never keeps more
    often than p. Epsilon is part of the input, because one uniform used for two epsilons reveals the label whenever
    the two answers differ.

    epsilon-differentially private (nats, delta 0), unit *label*, replace-one, against whoever lacks the key, under the
    assumption that HMAC-SHA256 is a pseudo-random function; the same call again releases nothing new. Indices refer to
    the declared classes, which callers must always list in one order.

    :param match_ids: text or whole numbers, one per record.
    :param label_indices: true labels as indices 0 .. classes - 1.
    :raises InvalidEpsilon, InvalidClasses, InvalidLabel, InvalidMatchId: one sentence on what is wrong.
    """
    classes = check_classes(classes)
    labels = _checked_indices(label_indices, classes)
    threshold = _keep_threshold(epsilon, classes)
    prefix = _encode("label flip", source, repr(check_epsilon(epsilon)), str(classes))
    flipped = np.empty(len(labels), dtype=np.int64)
    for position, (match_id, label) in enumerate(zip(match_ids, labels.tolist(), strict=True)):
        draw = hmac.digest(key, prefix + _encode(_match_text(match_id)), "sha256")
        if int.from_bytes(draw[:8], "big") < threshold:
            flipped[position] = label
        else:
            step = 1 + (int.from_bytes(draw[8:24], "big") * (classes - 1) >> 128)
            flipped[position] = (label + step) % classes
    return flipped


def noisy_numbers(match_ids, labels, law, key, source):
    """The piecewise mechanism on the bounded numeric labels of one partition; returns a float64 array of noisy labels.

    Each record's draw is HMAC-SHA256(key, (domain, source, epsilon, bounds, points, window, match id)): 64 bits round the
    label to the grid, 64 say whether the answer lies in the window (rounded down, so never more often than the law has it),
    and 128 choose among its answers, or the others, uniformly to within 2^-100.

    epsilon-differentially private, unit *label*, replace-one, under the assumption of ``flip_labels``; the same label of the
    same record gives the same noisy one.

    :param labels: numbers within the bounds of ``law``, a ``PiecewiseLaw``.
    :raises OutOfBounds, InvalidMatchId: one sentence on what is wrong.
    """
    below, above = law.rounding(labels)
    prefix = _encode(
        "label noise", source, repr(law.epsilon), repr(law.low), repr(law.high), str(law.points), str(law.window)
    )
    threshold, values = law.inside_coin(), law.values()
    noisy = np.empty(len(below))
    for position, (match_id, index, up) in enumerate(zip(match_ids, below.tolist(), above.tolist(), strict=True)):
        draw = hmac.digest(key, prefix + _encode(_match_text(match_id)), "sha256")
        index += int.from_bytes(draw[:8], "big") * 2.0**-64 < up
        inside = int.from_bytes(draw[8:16], "big") < threshold
        place = int.from_bytes(draw[16:], "big") * (law.window if inside else law.points - 1) >> 128
        noisy[position] = values[law.answered(index, inside, place)]
    return noisy


def record_tags(match_ids, key, source):
    """Secret names of records in a ledger: one 16-byte tag per match id, the same for every epsilon."""
    prefix = _encode("record tag", source)
    return [hmac.digest(key, prefix + _encode(_match_text(match_id)), "sha256")[:TAG_BYTES] for match_id in match_ids]


def label_tags(match_ids, label_texts, key, source):
    """16-byte commitments to the true label of each record, bound to its match id, so that a change is noticed."""
    prefix = _encode("label tag", source)
    return [
        hmac.digest(key, prefix + _encode(_match_text(match_id), canonical_label(label)), "sha256")[:TAG_BYTES]
        for match_id, label in zip(match_ids, label_texts, strict=True)
    ]


def canonical_label(value):
    """One text per label, however it is typed: 1, 1.0, '1', '1.0', True and numpy's kinds of 1 all give '1'.

    :raises InvalidLabel: when the label is missing or is neither text nor a number.
    """
    if isinstance(value, str):
        return _canonical_text(value.strip())
    if isinstance(value, (bool, np.bool_, Integral)):
        return str(int(value))
    if isinstance(value, Real) and np.isfinite(value):
        # numpy's own text is the shortest for the width of the number, so 0.1 is '0.1' as float32 too.
        return _canonical_number(float(str(value)) if isinstance(value, np.floating) else float(value))
    raise InvalidLabel(f"A label is missing or of type {type(value).__name__} but must be text or a finite number.")


def _canonical_text(text):
    if not text or text.lower() in ("nan", "none", "null"):
        raise InvalidLabel("A label is missing but every record must have one.")
    if not DECIMAL_NUMBER.fullmatch(text):
        return text
    return str(int(text)) if text.lstrip("+-").isdigit() else _canonical_number(float(text))


def _canonical_number(number):
    return str(int(number)) if number.is_integer() else repr(number)


def _checked_indices(label_indices, classes):
    labels = np.asarray(label_indices)
    if labels.size and not np.issubdtype(labels.dtype, np.integer):
        raise InvalidLabel(f"The label indices are of type {labels.dtype} but must be whole numbers.")
    if labels.size and not (0 <= labels.min() and labels.max() < classes):
        raise InvalidLabel(f"A label index is outside the range from 0 to {classes - 1}.")
    return labels.astype(np.int64)


def _keep_threshold(epsilon, classes):
    with localcontext() as context:
        context.prec = 50
        keep = 1 / (1 + (classes - 1) * (-Decimal(check_epsilon(epsilon))).exp())
        return min(int(keep * 2**64), 2**64 - 1)


def _match_text(match_id):
    if isinstance(match_id, (str, Integral)) and not isinstance(match_id, bool):
        return str(match_id)
    raise InvalidMatchId(f"A match id is of type {type(match_id).__name__} but must be text or a whole number.")


def _encode(*parts):
    encoded = [part.encode("utf-8") for part in parts]
    return b"".join(len(part).to_bytes(8, "big") + part for part in encoded)
