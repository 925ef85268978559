"""The scorecard as FATE stores it: points and weights of every bin, and the public scale. No FATE in here.

The guest's document holds all columns, those of hosts by number; a host's holds its own, by name. Points are whole numbers,
so that a host's part of a record's points says no more than their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ..common.federation import Document
from ..common.preflight import Refusal
from ..protocols.training_terms import BINARY, class_names
from .additive import Calibration, Scale, slices


@dataclass(frozen=True)
class Points:
    """One party's part of a scorecard: of every column, by name, the weight and the points of each bin."""

    names: tuple[str, ...]
    counts: tuple[int, ...]
    weights: np.ndarray
    points: np.ndarray

    def to_json(self) -> list[Document]:
        """Builtins, a column each."""
        return [
            {"column": name, "weights": self.weights[place].tolist(), "points": self.points[place].tolist()}
            for name, place in zip(self.names, slices(self.counts))
        ]

    @classmethod
    def from_json(cls, columns: Sequence[Document]) -> Points:
        """The inverse of `to_json`."""
        return cls(
            tuple(column["column"] for column in columns),
            tuple(len(column["points"]) for column in columns),
            np.concatenate([np.array(column["weights"], dtype=float) for column in columns]),
            np.concatenate([np.array(column["points"], dtype=np.int64) for column in columns]),
        )

    def of_rows(self, places: np.ndarray) -> np.ndarray:
        """int64 (rows,): what these columns add to each record's points."""
        total: np.ndarray = self.points[places].sum(axis=1)
        return total


@dataclass(frozen=True)
class Scorecard:
    """All that a party knows of the model.

    Attributes:
        own: its own columns.
        hosts: at the guest, every host's columns, by the host's name; columns are named by number.
        base: points of a record before those of its bins.
        path: at the guest, (ridge, scorecard) of each ridge of ridge_path.
    """

    own: Points
    hosts: dict[str, Points]
    base: int
    scale: Scale
    calibration: Calibration
    path: tuple[tuple[float, Scorecard], ...] = ()

    def to_json(self, meta: Document) -> Document:
        """The document of FATE's JSON model."""
        data: Document = {"scorecard": self._columns()}
        if self.path:
            data["ridge_path"] = [{"ridge": ridge, "scorecard": card._columns()} for ridge, card in self.path]
        return {
            "data": data,
            "meta": {"family": "binomial", "labels": class_names(BINARY), "scale": asdict(self.scale), **meta},
        }

    def _columns(self) -> Document:
        return {
            "base_points": self.base,
            "columns": self.own.to_json(),
            "hosts": {name: points.to_json() for name, points in self.hosts.items()},
            "calibration": asdict(self.calibration),
        }

    @classmethod
    def from_json(cls, document: object) -> Scorecard:
        """Raises ValueError for what `to_json` did not write."""
        try:
            data, meta = document["data"]["scorecard"], document["meta"]  # type: ignore[index]
            return cls(
                Points.from_json(data["columns"]),
                {name: Points.from_json(columns) for name, columns in data["hosts"].items()},
                data["base_points"],
                Scale(**meta["scale"]),
                Calibration(**data["calibration"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Refusal("input_model must be a scorecard. Connect the output_model of dp_scorecard.") from error
