"""What operators declare: a source of labels for flips, public labels, caps of scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fate_dp.components.common.charges import columns_name
from fate_dp.components.common.frames import feature_blocks, prediction_frame_of
from fate_dp.components.label_flip.component import label_flip
from fate_dp.privacy.ledger.ledger import declare_public_labels
from fate_dp.privacy.ledger.policy import declare_source
from fate_dp.privacy.private_files import party_folder
from fate_dp.testing import Artifact, ComponentStep, Played, frame_at

from .cases import GUEST, HOST, Law, Released, Tables, noise_of

SOURCE, EPSILON = "experiment/train/y", 1.0
RATE = 1 / (1 + math.exp(EPSILON))
"""Of flips of two classes."""
FLIPS = "flips"
"""What the output of label_flip is called where another component follows."""
DIGEST = dict.fromkeys(
    (b"\x00\x00\x00\x00\x00\x00\x00\x08person", b"\x00\x00\x00\x00\x00\x00\x00\tperson"), "digest of the rows"
)
"""Streams by which a party's ledger knows a table, or scores, again."""


def declare(home: Path) -> None:
    """What the operator of the guest does before labels are flipped."""
    path = party_folder(home, GUEST[1]) / "policy.yaml"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    declare_source(path, SOURCE)


def declare_public(tables: Tables) -> Any:
    """Labels as they are now need no protection."""

    def prepare(home: Path) -> None:
        folder = party_folder(home, GUEST[1])
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        declare_public_labels(folder, SOURCE, tables[GUEST]["id"], tables[GUEST]["y"])

    return prepare


def allow_scores(columns: Iterable[str], most: int, of: str = "") -> Callable[[Path], None]:
    """The host's operator lets scores of so many models be shown of a table with these columns, or ``of`` their weights."""

    def prepare(home: Path) -> None:
        path = party_folder(home, HOST[1]) / "policy.yaml"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(f"score_caps: {{'{of}{columns_name(columns)}': {most}}}\n")
        path.chmod(0o600)

    return prepare


def flipped(ctx: Any, tables: Tables, classes: tuple[float, ...] = (0.0, 1.0), **more: Any) -> Tables:
    """The tables after label_flip, played in the same task."""
    given = {"epsilon": EPSILON, "label_source": SOURCE, "classes": classes, **more}
    flip = ComponentStep(label_flip, given, {"input_data": tables}, output=lambda name: Artifact(name=FLIPS))
    made = flip(ctx.sub_ctx("flips before"))["output_data"]
    return {**tables, GUEST: made} if ctx.is_on_guest else tables


def release_of_flips(
    played: Played, tables: Tables, classes: tuple[float, ...] = (0.0, 1.0), epsilon: float = EPSILON
) -> Released:
    """The line of label_flip, and its draws, one for each record; nothing of them need leave the guest."""
    sizes = [draw.size for draw in noise_of(played, GUEST) if draw.law == "flip_labels"]
    assert sum(sizes) == len(tables[GUEST])
    laws = tuple(Law("flip_labels", {"epsilon": epsilon, "classes": len(classes)}, size) for size in sizes)
    charge = ("record_flips", {"epsilon": epsilon, "classes": len(classes), "source": SOURCE})
    return Released(GUEST, charge, laws)


def not_private() -> Released:
    """The line of labels that were declared public."""
    return Released(GUEST, ("record_not_private", {"source": SOURCE}), ())


def scored(ctx: Any, table: Any) -> Any:
    """The table's rows in FATE's prediction format, with `probabilities` of ``x0`` as their scores."""
    frame = frame_at(ctx, table)
    return prediction_frame_of(frame, feature_blocks(frame[["x0"]]).mapValues(_columns), "train_set")


def _columns(block: np.ndarray) -> tuple[list, list, list]:
    scores = probabilities(block[:, 0]).tolist()
    return scores, [int(score > 0.5) for score in scores], ["{}"] * len(scores)


def probabilities(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.asarray(values)))
