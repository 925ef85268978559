"""Flips, noisy numbers and tags of one partition's records: pure functions of (secret key, label source, match id).

Being pure, they give a record the same flip in every epoch, job, upload, subset and recomputed partition. The key is
the party's secret, the label source the declared ``namespace/name/column``; the match id is the id the parties join on,
taken as text, never a sample id or a content hash, which change with every upload.
"""

from __future__ import annotations

import hmac
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal, localcontext
from numbers import Integral, Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..validation import InvalidArgument, check_classes, check_epsilon, is_finite, is_whole

if TYPE_CHECKING:
    from ..mechanisms.local_numbers import PiecewiseLaw

TAG_BYTES = 16
DECIMAL_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class PartyKey(bytes):
    """A party's secret key, which knows records that were released under ids with blanks at their ends.

    Uploads trim ids, and a record must keep the draws and the budget that it had before they did. ``blanks`` are {tag of the
    trimmed id: (blanks before it, blanks behind it)}.
    """

    blanks: Mapping[bytes, tuple[str, str]] = MappingProxyType({})


def _as_released(match_ids: Iterable[object], key: bytes, source: str) -> Iterable[object]:
    if not isinstance(key, PartyKey) or not key.blanks:
        return match_ids
    listed = [str(match_id) for match_id in match_ids]
    tags = record_tags(listed, bytes(key), source)
    return [match_id.join(key.blanks.get(tag, ("", ""))) for match_id, tag in zip(listed, tags)]


def flip_labels(
    match_ids: Iterable[object], label_indices: ArrayLike, epsilon: float, classes: int, key: bytes, source: str
) -> NDArray[np.int64]:
    """Randomised response on the labels of one partition; returns an int64 array of flipped label indices.

    Each record's draw is HMAC-SHA256(key, (domain, source, epsilon, classes, match id)), parts length-prefixed. The
    first 64 bits, as an integer, keep the label iff below floor(p 2^64), at most 2^64 - 1, where p is the keep
    probability to 50 digits; 128 further bits choose among the other classes. The output distribution of a record
    differs from exact randomised response by at most 2^-60 in total variation, and rounding p down never keeps more
    often than p. Epsilon is part of the input, since one uniform for two epsilons reveals the label where the answers
    differ.

    epsilon-differentially private (nats, delta 0), unit *label*, replace-one, against whoever lacks the key, under the
    assumption that HMAC-SHA256 is a pseudo-random function; the same call again releases nothing new. Indices refer to
    the declared classes, which callers must always list in one order.

    Args:
        match_ids: Text or whole numbers, one per record.
        label_indices: True labels as indices 0 .. classes - 1, of shape (n,).
    """
    classes = check_classes(classes)
    labels = _checked_indices(label_indices, classes)
    threshold = _keep_threshold(epsilon, classes)
    prefix = _encode("label flip", source, repr(check_epsilon(epsilon)), str(classes))
    flipped = np.empty(len(labels), dtype=np.int64)
    known = _as_released(match_ids, key, source)
    for position, (match_id, label) in enumerate(zip(known, labels.tolist(), strict=True)):
        draw = _keyed(key, prefix, match_id)
        if int.from_bytes(draw[:8], "big") < threshold:
            flipped[position] = label
        else:
            step = 1 + (int.from_bytes(draw[8:24], "big") * (classes - 1) >> 128)
            flipped[position] = (label + step) % classes
    return flipped


def noisy_numbers(
    match_ids: Iterable[object], labels: ArrayLike, law: PiecewiseLaw, key: bytes, source: str
) -> NDArray[np.float64]:
    """The piecewise mechanism on the bounded numeric ``labels``, of shape (n,), of one partition; float64.

    Each record's draw is HMAC-SHA256(key, (domain, source, epsilon, bounds, points, window, match id)): 64 bits round
    the label to the grid, 64 say whether the answer lies in the window (rounded down, so never more often than the law
    has it), and 128 choose among its answers, or the others, uniformly to within 2^-100.

    epsilon-differentially private, unit *label*, replace-one, under the assumption of ``flip_labels``; the same label
    of the same record gives the same noisy one.
    """
    below, above = law.rounding(np.asarray(labels))
    numbers = (law.epsilon, law.low, law.high, law.points, law.window)
    prefix = _encode("label noise", source, *map(repr, numbers))
    threshold, values = law.inside_coin(), law.values()
    noisy, known = np.empty(len(below)), _as_released(match_ids, key, source)
    for position, (match_id, index, up) in enumerate(zip(known, below.tolist(), above.tolist(), strict=True)):
        draw = _keyed(key, prefix, match_id)
        index += int.from_bytes(draw[:8], "big") * 2.0**-64 < up
        inside = int.from_bytes(draw[8:16], "big") < threshold
        place = int.from_bytes(draw[16:], "big") * (law.window if inside else law.points - 1) >> 128
        noisy[position] = values[law.answered(index, inside, place)]
    return noisy


def record_tags(match_ids: Iterable[object], key: bytes, source: str) -> list[bytes]:
    """Secret names of records in a ledger: one 16-byte tag per match id, the same for every epsilon."""
    prefix = _encode("record tag", source)
    return [_keyed(key, prefix, match_id)[:TAG_BYTES] for match_id in _as_released(match_ids, key, source)]


def label_tags(match_ids: Iterable[object], label_texts: Iterable[object], key: bytes, source: str) -> list[bytes]:
    """16-byte commitments to the true label of each record, bound to its match id, so that a change is noticed."""
    prefix = _encode("label tag", source)
    pairs = zip(_as_released(match_ids, key, source), label_texts, strict=True)
    return [_keyed(key, prefix, match_id, canonical_label(label))[:TAG_BYTES] for match_id, label in pairs]


def canonical_label(value: object) -> str:
    """One text per label, however it is typed; `InvalidArgument` where it is missing or neither text nor a number.

    >>> canonical_label(1.0), canonical_label(" 1 "), canonical_label("default")
    ('1', '1', 'default')
    """
    if isinstance(value, str):
        return _canonical_text(value.strip())
    if isinstance(value, (bool, np.bool_, Integral)):
        return str(int(value))
    if isinstance(value, Real) and np.isfinite(float(value)):
        # numpy's own text is the shortest for the width of the number, so 0.1 is '0.1' as float32 too.
        return _canonical_number(float(str(value)) if isinstance(value, np.floating) else float(value))
    raise InvalidArgument(f"A label must be text or a finite number, got a missing one or type {type(value).__name__}.")


def _canonical_text(text: str) -> str:
    if not text or text.lower() in ("nan", "none", "null"):
        raise InvalidArgument("A label is missing. Every record needs one.")
    if not DECIMAL_NUMBER.fullmatch(text):
        return text
    return str(int(text)) if text.lstrip("+-").isdigit() else _canonical_number(float(text))


def _canonical_number(number: float) -> str:
    return str(int(number)) if number.is_integer() else repr(number)


def _checked_indices(label_indices: ArrayLike, classes: int) -> NDArray[np.int64]:
    labels = np.asarray(label_indices)
    if labels.size and not np.issubdtype(labels.dtype, np.integer):
        raise InvalidArgument.of("label indices", labels, "whole numbers")
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise InvalidArgument(f"A label index is outside the range from 0 to {classes - 1}.")
    return labels.astype(np.int64)


def _keep_threshold(epsilon: float, classes: int) -> int:
    with localcontext() as context:
        context.prec = 50
        keep = 1 / (1 + (classes - 1) * (-Decimal(check_epsilon(epsilon))).exp())
        return min(int(keep * 2**64), 2**64 - 1)


def _keyed(key: bytes, prefix: bytes, match_id: object, *more: str) -> bytes:
    if not isinstance(match_id, (str, Integral)) or isinstance(match_id, bool):
        raise InvalidArgument.of("type of a match id", type(match_id).__name__, "text or a whole number")
    return hmac.digest(key, prefix + _encode(str(match_id), *more), "sha256")


def _encode(*parts: str) -> bytes:
    encoded = [part.encode("utf-8") for part in parts]
    return b"".join(len(part).to_bytes(8, "big") + part for part in encoded)


@dataclass(frozen=True)
class LabelRelease:
    """One draw: the flips, or the noisy numbers, of a source at one epsilon under one key, which are memoised, or the noise on
    sums of its labels.

    An epsilon alone does not say whether two models rest on the same flips: the same number can stand for another draw
    (a new key, other classes) or for a total of several. So labels and models name their releases, and epsilons are
    added over the union. Unit *label*, relation *replace-one*.

    Attributes:
        epsilon: nats; infinity for true labels.
        classes: number of classes, or of grid points for numbers; 0 where it is not known.
        key_id: identifier of the flip key; empty where nothing is known of the draw but its epsilon.
        entry_id: the line in the ledger of the party that flipped, 0 where there is none.
        bounds: of the numbers that were made noisy, None for classes.
        delta: 0 for flips and noisy numbers, that of the statement for noise on sums of labels.
    """

    source: str
    epsilon: float
    classes: int = 0
    key_id: str = ""
    entry_id: int = 0
    bounds: tuple[float, float] | None = None
    delta: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether another release of the same attributes is the same draw."""
        return bool(self.key_id)


Releases = tuple[LabelRelease, ...]


def united(first: Iterable[LabelRelease], second: Iterable[LabelRelease]) -> Releases:
    """What went into either; the same draw counts once, and one of which nothing is known counts whenever it occurs."""
    both = [*first, *second]
    known = dict.fromkeys(release for release in both if release.is_known)
    return (*known, *(release for release in both if not release.is_known))


def total_of(releases: Iterable[LabelRelease]) -> float:
    """Sequential composition over all releases, the worst record being in all of them; infinity for none."""
    epsilons = [release.epsilon for release in releases]
    return math.fsum(epsilons) if epsilons else math.inf


def delta_of(releases: Iterable[LabelRelease]) -> float:
    """The delta that goes with ``total_of``: deltas add up as epsilons do."""
    return math.fsum(release.delta for release in releases)


def releases_to_json(releases: Iterable[LabelRelease]) -> list[dict[str, Any]]:
    """As JSON can hold them; an infinite epsilon is the text 'infinity'; only releases of numbers have bounds, and
    only noise on sums has a delta."""
    contents = [asdict(release) for release in releases]
    for content in contents:
        if math.isinf(content["epsilon"]):
            content["epsilon"] = "infinity"
        bounds = content.pop("bounds")
        if bounds is not None:
            content["bounds"] = list(bounds)
        if not content["delta"]:
            del content["delta"]
    return contents


def releases_of_privacy(document: dict[str, Any]) -> Releases:
    """Of ``privacy`` in a model's metadata; one that names no releases counts as a draw of its own.

    That of an earlier version has ``source`` and ``epsilon`` only.
    """
    named = document.get("releases")
    if named is None:
        named = [{"source": document.get("source", ""), "epsilon": document.get("epsilon", "infinity")}]
    return releases_of_json(named)


def releases_of_json(content: list[dict[str, Any]]) -> Releases:
    """What ``releases_to_json`` made; raises ``ValueError`` with one sentence where it is damaged."""
    try:
        return tuple(_release(**item) for item in content)
    except TypeError as error:
        raise ValueError("The releases of labels that a model names are damaged; train it anew.") from error


def _release(
    source: Any,
    epsilon: Any,
    classes: Any = 0,
    key_id: Any = "",
    entry_id: Any = 0,
    bounds: Any = None,
    delta: Any = 0.0,
) -> LabelRelease:
    epsilon = math.inf if epsilon == "infinity" else epsilon
    sound = epsilon == math.inf or is_finite(epsilon) and epsilon > 0
    if not sound or not is_whole(classes) or not all(isinstance(text, str) for text in (source, key_id)):
        raise TypeError("no release")
    if not is_finite(delta) or not 0 <= delta < 1:
        raise TypeError("no delta")
    if bounds is not None:
        low, high = bounds if len(bounds) == 2 else (None, None)
        if not is_finite(low) or not is_finite(high):
            raise TypeError("no bounds")
        bounds = float(low), float(high)
    return LabelRelease(source, float(epsilon), int(classes), key_id, entry_id, bounds, float(delta))
