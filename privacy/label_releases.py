"""The set of label releases that went into labels or a model, and what they cost together.

An epsilon alone does not say whether two models rest on the same flips: the same number can stand for another draw (a new
key, other classes) or for a total of several. So labels and models name their releases, and epsilons are added over the
union. Unit *label*, relation *replace-one*, epsilons in nats, delta 0.
"""
import math
from dataclasses import asdict, dataclass
from typing import Iterable, List, Optional, Tuple

from fate_dp.privacy.number_kinds import is_finite, is_whole


@dataclass(frozen=True)
class LabelRelease:
    """One memoised draw: the flips, or the noisy numbers, of a source at one epsilon under one key.

    Attributes:
        source: declared ``namespace/name/column``.
        epsilon: nats; infinity for true labels.
        classes: number of classes, or of grid points for numbers; 0 where it is not known.
        key_id: identifier of the flip key; empty where nothing is known of the draw but its epsilon.
        entry_id: the line in the ledger of the party that flipped, 0 where there is none.
        bounds: of the numbers that were made noisy, None for classes.
    """

    source: str
    epsilon: float
    classes: int = 0
    key_id: str = ""
    entry_id: int = 0
    bounds: Optional[Tuple[float, float]] = None

    @property
    def is_known(self) -> bool:
        """Whether another release of the same attributes is the same draw."""
        return bool(self.key_id)


Releases = Tuple[LabelRelease, ...]


def united(first: Iterable[LabelRelease], second: Iterable[LabelRelease]) -> Releases:
    """What went into either; the same draw counts once, and one of which nothing is known counts whenever it occurs."""
    both = [*first, *second]
    known = dict.fromkeys(release for release in both if release.is_known)
    return (*known, *(release for release in both if not release.is_known))


def total_of(releases: Iterable[LabelRelease]) -> float:
    """Sequential composition over all releases, the worst record being in all of them; infinity for none."""
    epsilons = [release.epsilon for release in releases]
    return math.fsum(epsilons) if epsilons else math.inf


def releases_to_json(releases: Iterable[LabelRelease]) -> List[dict]:
    """As JSON can hold them; an infinite epsilon is the text 'infinity', and only releases of numbers have bounds."""
    return [_content(release) for release in releases]


def releases_of_privacy(document: dict) -> Releases:
    """Of what a model says about its labels; one that names no releases counts as a draw of its own.

    :param document: ``privacy`` of a model's metadata; of an earlier version it has ``source`` and ``epsilon`` only.
    """
    named = document.get("releases")
    if named is None:
        named = [{"source": document.get("source", ""), "epsilon": document.get("epsilon", "infinity")}]
    return releases_of_json(named)


def releases_of_json(content: List[dict]) -> Releases:
    """:raises ValueError: the content is damaged; one sentence."""
    try:
        return tuple(_release(**item) for item in content)
    except TypeError as error:
        raise ValueError("The releases of labels that a model names are damaged; train it anew.") from error


def _content(release: LabelRelease) -> dict:
    content = {**asdict(release), "epsilon": release.epsilon if math.isfinite(release.epsilon) else "infinity"}
    bounds = content.pop("bounds")
    return content if bounds is None else {**content, "bounds": list(bounds)}


def _release(source, epsilon, classes=0, key_id="", entry_id=0, bounds=None) -> LabelRelease:
    epsilon = math.inf if epsilon == "infinity" else epsilon
    sound = epsilon == math.inf or is_finite(epsilon) and epsilon > 0
    if not sound or not is_whole(classes) or not all(isinstance(text, str) for text in (source, key_id)):
        raise TypeError("no release")
    if bounds is not None and not (len(bounds) == 2 and all(map(is_finite, bounds))):
        raise TypeError("no bounds")
    bounds = None if bounds is None else (float(bounds[0]), float(bounds[1]))
    return LabelRelease(source, float(epsilon), int(classes), key_id, entry_id, bounds)
