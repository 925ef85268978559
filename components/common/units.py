"""Units that a training counts columns in, so that it fits them whatever they were measured in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .federation import Document
from .frames import DataFrame, check_features, feature_blocks
from .preflight import Refusal


@dataclass(frozen=True, eq=False)
class Units:
    """What columns are counted in: (x - centre) / scale, float64 (m,) each."""

    centre: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, frame: DataFrame) -> Units:
        """Of a party's own rows, for itself.

        A scale is a power of two near the standard deviation, a centre a multiple of half of it near the mean. So
        standardised columns stay what they are, and weights go back to the columns' own units without rounding.
        """
        means = _column_sums(frame, np.zeros(len(frame.schema.columns)), 1) / frame.shape[0]
        return cls.fitting(means, np.sqrt(_column_sums(frame, means, 2) / frame.shape[0]))

    @classmethod
    def fitting(cls, means: np.ndarray, deviations: np.ndarray) -> Units:
        """Of columns (m,) with these figures."""
        # A column's mean square exceeds 4/3, beyond which steps of 1 / L with momentum may overshoot, by a sixteenth at most.
        scale = 2.0 ** np.ceil(np.log2(np.where(deviations > 0, deviations, 1.0)) - 0.2)
        # A little aside from the mean: a tie is then no matter of the order of a sum.
        return cls(scale / 2 * np.rint(means / (scale / 2) - 0.001), scale)

    @classmethod
    def scaled(cls, scales: object, columns: int) -> Units:
        """In these scales of another party, which must be powers of two, without a centre."""
        found = np.array(scales, dtype=np.float64) if isinstance(scales, list) else np.zeros(0)
        if found.shape != (columns,) or not np.all(np.frexp(found)[0] == 0.5):
            raise Refusal("The scales of a host's columns are no powers of two; its model was changed.")
        return cls(np.zeros(columns), found)

    @classmethod
    def as_they_are(cls, columns: int) -> Units:
        return cls(np.zeros(columns), np.ones(columns))

    @classmethod
    def from_json(cls, document: Document | None, columns: int) -> Units:
        """Of a model; one of an earlier version, or of FATE's own, has none."""
        if document is None:
            return cls.as_they_are(columns)
        return cls(*(np.array(document[name], dtype=np.float64) for name in ("centre", "scale")))

    @classmethod
    def declared(cls, given: Mapping[str, Sequence[float]] | None, columns: Sequence[str]) -> Units:
        """Public ones, {column: (centre, scale)}; other columns stay as they are."""
        pairs = [(given or {}).get(name, (0.0, 1.0)) for name in columns]
        return cls(*np.array(pairs, dtype=np.float64).T)

    def tobytes(self) -> bytes:
        """For a digest; nothing where columns stay as they are."""
        changes = np.any(self.centre) or np.any(self.scale != 1)
        return np.stack([self.centre, self.scale]).astype("<f8").tobytes() if changes else b""

    def to_json(self) -> Document:
        return {"centre": self.centre.tolist(), "scale": self.scale.tolist()}

    def check(self, frame: DataFrame) -> None:
        """Refuse rows that have no sound features, or one too far away for fixed-point numbers."""
        check_features(frame, self.centre, self.scale)

    def applied(self, features: np.ndarray) -> np.ndarray:
        return (features - self.centre) / self.scale


def _column_sums(frame: DataFrame, centre: np.ndarray, power: int) -> np.ndarray:
    return feature_blocks(frame).mapValues(lambda block: ((block - centre) ** power).sum(axis=0)).reduce(np.add)
