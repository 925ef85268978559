"""Tables, pictures and names of figures of `shuffling`, with the thesis' printed values beside."""

import html
from dataclasses import dataclass

from bench import report_parts
from bench.report_parts import image, subplots, table
from fate_dp.components.protocols.noisy_rounds.terms import SECURE_SUM


@dataclass(frozen=True)
class Printed:
    """What the thesis has for a data set: (epsilon, clients) of its figures 5.5 and 5.7, accuracy of 5.7, and others' values."""

    title: str
    by_clients: tuple[float, int]
    compared: tuple[float, int]
    accuracy: float
    others: str


THESIS = {
    "mnist": Printed(
        "MNIST", (1.0, 100), (4.0, 100), 0.9624, "Geyer et al. .78, .92, .96 at epsilon 8 in 11, 54, 412 rounds"
    ),
    "fashion": Printed("Fashion-MNIST", (5.0, 200), (4.0, 200), 0.8626, "Truex et al. .8693 by alpha-CLDP"),
    "cifar10": Printed(
        "CIFAR-10", (10.0, 500), (10.0, 500), 0.614, "Bhowmick et al. at epsilon 5,000, no value printed"
    ),
}


@dataclass(frozen=True)
class Point:
    """One training; public settings.

    Attributes:
        method: an aggregation, or one of the names of `shuffling`.
        share: of the records in a round; nothing in ``shuffle``, where a record answers once.
        part: of all training records that the clients hold together.
    """

    data: str
    method: str
    epsilon: float
    clients: int
    rounds: int = 40
    share: float = 0.25
    part: float = 1.0


@dataclass(frozen=True)
class Part:
    """How a part is told: a figure of the thesis, the axis, and what makes a line of its own."""

    title: str
    note: str
    axis: str
    shares: bool = False


PARTS = {
    "clients": Part(
        "Figure 5.5: accuracy by the number of clients",
        "Every client brings a five-hundredth of the records.",
        "clients",
    ),
    "rounds": Part(
        "Figure 5.6: accuracy by rounds and share of the records in a round",
        "In shuffle a record answers once: its share is one over the rounds.",
        "rounds",
        shares=True,
    ),
    "methods": Part(
        "Figure 5.7: methods at one epsilon",
        "The thesis' account does not hold; other authors' values are theirs.",
        "method",
    ),
}


def line_of(name, point):
    """The line that a point belongs to: its method, with the share where that varies."""
    shared = PARTS[name].shares and point.method == SECURE_SUM
    return f"{point.method}, share {point.share:g}" if shared else point.method


def figure_name(name, point):
    """The key of a point among the figures."""
    place = "" if name == "methods" else f"_{getattr(point, PARTS[name].axis)}_{PARTS[name].axis}"
    line = line_of(name, point).replace(",", "").replace(" ", "_")
    return f"{name}_{point.data}_{line}{place}"


def table_of(name, found):
    """A rich table: a row for each line of each data set, or for each method."""
    from rich.table import Table

    part = PARTS[name]
    rich = Table(title=part.title, caption=f"{part.note} Replace-one, delta 1e-5.", caption_justify="left")
    headings, rows = _cells(name, found)
    for heading in headings:
        rich.add_column(heading, justify="right")
    for row in rows:
        rich.add_row(*row)
    return rich


def write_page(path, name, found):
    """One HTML file with a picture and a table."""
    part = PARTS[name]
    headings, rows = _cells(name, found)
    picture = image(_picture(name, found), part.title)
    report_parts.write_page(path, part.title, f"<p>{html.escape(part.note)}</p>{picture}{table(headings, rows)}")


def _cells(name, found):
    """Headings and rows of text."""
    if name == "methods":
        methods = list(dict.fromkeys(point.method for point in found))
        by_place = {(point.data, point.method): value for point, value in found.items()}
        rows = []
        for data, printed in THESIS.items():
            epsilon, clients = printed.compared
            values = (f"{by_place[data, method]:.4f}" for method in methods)
            rows.append(
                [f"{printed.title}, {epsilon:g}, {clients}", *values, f"{printed.accuracy:.4f}", printed.others]
            )
        return ["data, epsilon, clients", *methods, "the thesis", "others, as printed"], rows
    axis = PARTS[name].axis
    places = sorted({getattr(point, axis) for point in found})
    lines = {}
    for point, value in found.items():
        lines.setdefault((point.data, point.epsilon, line_of(name, point)), {})[getattr(point, axis)] = value
    rows = [
        [THESIS[data].title, f"{epsilon:g}", line, *(f"{values[place]:.4f}" for place in places)]
        for (data, epsilon, line), values in lines.items()
    ]
    return ["data", "epsilon", "method", *(f"{place} {axis}" for place in places)], rows


def _picture(name, found):
    figure, axes = subplots(1, len(THESIS), (15, 4.6))
    for axis, (data, printed) in zip(axes, THESIS.items()):
        points = {point: value for point, value in found.items() if point.data == data}
        axis.set_title(printed.title)
        if name == "methods":
            axis.barh([point.method for point in points], list(points.values()))
            axis.axvline(printed.accuracy, color="black", linestyle=":", label="the thesis")
            axis.invert_yaxis()
        else:
            lines = {}
            for point, value in points.items():
                lines.setdefault(line_of(name, point), []).append((getattr(point, PARTS[name].axis), value))
            for line, pairs in lines.items():
                axis.plot(*zip(*sorted(pairs)), marker="o", label=line)
            axis.set_xscale("log")
            axis.set_xlabel(PARTS[name].axis)
            axis.set_ylabel("test accuracy")
        axis.legend()
    return figure
