"""The scorecard as FATE stores it: points and weights of every bin, and the public scale. No FATE in here.

The guest's document holds all columns, those of hosts by number; a host's holds its own, by name. Points are whole numbers,
so that a host's part of a record's points says no more than their sum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from fate_dp.privacy.evidence import Evidence, ones_and_others, weight_of_evidence

from ..common.federation import Document
from ..common.preflight import Refusal
from ..protocols.training_terms import BINARY, class_names
from .additive import Calibration, Scale, slices

POINTS_NOISE = "noise of points"
COUNTED = RECORDS, EVENTS, RECORDS_NOISE, EVENTS_NOISE = ("records", "events", "noise of records", "noise of events")
"""Numbers of every bin: records and, among them, those with the label 1, as the noise left them; standard deviations of it."""


@dataclass(frozen=True)
class Points:
    """One party's part of a scorecard: of every column, by name, the weight and the points of each bin.

    ``told`` is at the guest what else is known of every bin: ``POINTS_NOISE``, and where noise covers the counts `COUNTED`.
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    weights: np.ndarray
    points: np.ndarray
    told: Mapping[str, np.ndarray] = field(default_factory=dict)

    def to_json(self) -> list[Document]:
        told = {name: np.round(numbers, 2) for name, numbers in self.told.items()}
        listed = {"weights": self.weights, "points": self.points, **told}
        return [
            {"column": name, **{key: numbers[place].tolist() for key, numbers in listed.items()}}
            for name, place in zip(self.names, slices(self.counts))
        ]

    @classmethod
    def from_json(cls, columns: Sequence[Document]) -> "Points":
        return cls(
            tuple(column["column"] for column in columns),
            tuple(len(column["points"]) for column in columns),
            np.concatenate([np.array(column["weights"], dtype=float) for column in columns]),
            np.concatenate([np.array(column["points"], dtype=np.int64) for column in columns]),
            {
                key: np.concatenate([np.array(column[key], dtype=float) for column in columns])
                for key in (POINTS_NOISE, *COUNTED)
                if all(key in column for column in columns)
            },
        )

    def of_rows(self, places: np.ndarray) -> np.ndarray:
        """int64 (rows,): what these columns add to each record's points."""
        total: np.ndarray = self.points[places].sum(axis=1)
        return total


def evidence_of(column: Document) -> Evidence | None:
    """WOE and IV of a column as `Points.to_json` has it; None where its counts are not told.

    Every bin gets as many records of the column's share as two standard deviations of its noise are, so that a bin of noise
    alone has hardly any weight.
    """
    if EVENTS not in column:
        return None
    return weight_of_evidence(ones_and_others(column[EVENTS], column[RECORDS]), 2 * max(column[RECORDS_NOISE]))


@dataclass(frozen=True)
class Scorecard:
    """All that a party knows of the model; a record has ``base`` points before those of its bins.

    At the guest ``hosts`` are every host's columns, by the host's name, named by number, and ``path`` is (ridge,
    scorecard) of each ridge of ridge_path.
    """

    own: Points
    hosts: dict[str, Points]
    base: int
    scale: Scale
    calibration: Calibration
    path: "tuple[tuple[float, Scorecard], ...]" = ()

    def to_json(self, meta: Document) -> Document:
        data: Document = {"scorecard": self._columns()}
        if self.path:
            data["ridge_path"] = [{"ridge": ridge, "scorecard": card._columns()} for ridge, card in self.path]
        return {
            "data": data,
            "meta": {"family": "binomial", "labels": class_names(BINARY), "scale": asdict(self.scale), **meta},
        }

    def facts(self) -> Document:
        """Lines of a summary: points of every column's bins, and where counts are told their WOE, and the column's IV."""
        found: Document = {}
        for party, part in (("", self.own), *self.hosts.items()):
            for column in part.to_json():
                name = f"{party}: {column['column']}" if party else column["column"]
                found[f"points of {name}, by bin"] = ", ".join(map(str, column["points"]))
                evidence = evidence_of(column)
                if evidence is not None:
                    found[f"WOE of {name}, by bin"] = ", ".join(f"{each:.2f}" for each in evidence.woe)
                    found[f"IV of {name}"] = evidence.iv
        return found

    def _columns(self) -> Document:
        return {
            "base_points": self.base,
            "columns": self.own.to_json(),
            "hosts": {name: points.to_json() for name, points in self.hosts.items()},
            "calibration": asdict(self.calibration),
        }

    @classmethod
    def from_json(cls, document: object) -> "Scorecard":
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
