"""Labels that the guest's operator declared: a source for flips, or public ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fate_dp.components.label_flip.component import label_flip
from fate_dp.privacy.ledger.ledger import declare_public_labels
from fate_dp.privacy.policy import declare_source
from fate_dp.privacy.private_files import party_folder
from fate_dp.testing import ComponentStep

from .cases import GUEST, Law, Released, Tables

SOURCE, EPSILON = "experiment/train/y", 1.0


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


def flipped(ctx: Any, tables: Tables, classes: tuple[float, ...] = (0.0, 1.0), **more: Any) -> Tables:
    """The tables after label_flip, played in the same task."""
    given = {"epsilon": EPSILON, "label_source": SOURCE, "classes": classes, **more}
    made = ComponentStep(label_flip, given, {"input_data": tables})(ctx.sub_ctx("flips before"))["output_data"]
    return {**tables, GUEST: made} if ctx.is_on_guest else tables


def release_of_flips(tables: Tables, classes: tuple[float, ...] = (0.0, 1.0), epsilon: float = EPSILON) -> Released:
    """The line of label_flip, and its draws in two blocks."""
    rows = len(tables[GUEST])
    laws = tuple(
        Law("flip_labels", {"epsilon": epsilon, "classes": len(classes)}, size) for size in sizes_of_blocks(rows)
    )
    return Released(GUEST, ("record_flips", {"epsilon": epsilon, "classes": len(classes), "source": SOURCE}), laws)


def not_private() -> Released:
    """The line of labels that were declared public."""
    return Released(GUEST, ("record_not_private", {"source": SOURCE}), ())


def sizes_of_blocks(rows: int, blocks: int = 2) -> list[int]:
    """How FATE's reader spreads rows over blocks: by their order."""
    each = -(-rows // blocks)
    return [min(each, rows - start) for start in range(0, rows, each)]
