"""The DAG of a job as an inline SVG: tasks as boxes in layers, each below all whose outputs it reads.

A line that passes a layer is given a place of its own there, so that it runs between boxes and not behind them. Within a
layer everything stands below the middle of what it comes from, which keeps most lines from crossing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from .page import FOLDER, render

BOX_WIDTH, BOX_HEIGHT = 176, 62
LANE = 18
"""Width of a line that passes a layer."""
GAP, LAYER_GAP, MARGIN = 16, 40, 8
LONGEST = 24
"""Letters of a name that fit into a box."""
SWEEPS = 4


@dataclass(frozen=True)
class Box:
    """One task as it is drawn: ``kind`` is its class in the page's style (``leak``, ``failed``, ``elsewhere`` or
    empty), ``lines`` stand below the name, ``told`` is all of it, for whoever points at it or has it read aloud."""

    name: str
    kind: str
    lines: tuple[str, ...]
    told: str


@dataclass(frozen=True)
class Place:
    """A box or, without a name, a line's way through one layer."""

    layer: int
    name: str = ""
    line: tuple[str, str] = ("", "")

    @property
    def width(self) -> int:
        return BOX_WIDTH if self.name else LANE

    @property
    def top(self) -> int:
        return MARGIN + self.layer * (BOX_HEIGHT + LAYER_GAP)


@dataclass
class Layout:
    """Where everything stands: ``layers`` from top to bottom, each from left to right; ``reads`` names every task after
    those that it reads."""

    reads: Mapping[str, Sequence[str]]
    layers: list[list[Place]] = field(init=False)
    before: dict[Place, list[Place]] = field(init=False)

    def __post_init__(self) -> None:
        level: dict[str, int] = {}
        for name, sources in self.reads.items():
            level[name] = 1 + max((level[source] for source in sources), default=-1)
        self.layers = [[] for _ in range(max(level.values(), default=-1) + 1)]
        self.before = {}
        for name, sources in self.reads.items():
            box = Place(level[name], name)
            self.layers[box.layer].append(box)
            self.before[box] = [self._way(source, level[source], box) for source in sources]
        for _ in range(SWEEPS):
            for layer in self.layers:
                places = self.middles()
                layer.sort(key=lambda place: self._wanted(place, places))

    def _way(self, source: str, start: int, box: Place) -> Place:
        """The last place on the way from a source to the layer above a box; places on the way are added."""
        last = Place(start, source)
        for layer in range(start + 1, box.layer):
            passing = Place(layer, line=(source, box.name))
            self.layers[layer].append(passing)
            self.before[passing] = [last]
            last = passing
        return last

    def _wanted(self, place: Place, middles: Mapping[Place, float]) -> float:
        above = [middles[each] for each in self.before[place]]
        return sum(above) / len(above) if above else middles[place]

    @property
    def width(self) -> int:
        return max((_width_of(layer) for layer in self.layers), default=0) + 2 * MARGIN

    @property
    def height(self) -> int:
        return len(self.layers) * (BOX_HEIGHT + LAYER_GAP) - LAYER_GAP + 2 * MARGIN

    def middles(self) -> dict[Place, float]:
        """The horizontal middle of everything, each layer centred."""
        found: dict[Place, float] = {}
        for layer in self.layers:
            left = (self.width - _width_of(layer)) / 2
            for place in layer:
                found[place] = left + place.width / 2
                left += place.width + GAP
        return found


def _width_of(layer: Sequence[Place]) -> int:
    return sum(place.width for place in layer) + GAP * max(0, len(layer) - 1)


def dag_svg(boxes: Sequence[Box], reads: Mapping[str, Sequence[str]], description: str) -> Markup:
    """The picture; ``boxes`` and ``reads`` name the same tasks, each after those that it reads. All text in it is escaped."""
    by_name = {box.name: box for box in boxes}
    named = {"told": description, "boxes": by_name, "layout": Layout(reads), "longest": LONGEST}
    return Markup(render("dag_picture.html", box_width=BOX_WIDTH, box_height=BOX_HEIGHT, folder=FOLDER, **named))
