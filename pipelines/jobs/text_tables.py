"""Tables of results: their cells as text, and drawn in a terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fate_dp.privacy.ledger.policy import NUMBERED_COLUMNS

MODELS = ("private", "guest_only", "not_private")
METRICS = {"accuracy": "accuracy", "auc": "AUC", "precision": "precision", "recall": "recall", "f1": "F1"}
UNBROKEN = ("job", "mechanism", "task", "party", "balanced by")
WIDEST = {"observer": 14}
LONGEST_HEADING = 10
DUST = 1e-12
"""Relative error of sums of floating-point numbers, which no reader wants to see."""
NORMAL_95 = 1.96


@dataclass(frozen=True)
class TextTable:
    """Headings and cells as text; `numeric` names the headings whose column is aligned to the right."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[str] = frozenset()


def rounded_up(value: float, digits: int = 4) -> str:
    """Text of ``digits`` significant digits that is never below the value."""
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 4) -> str:
    """Text of ``digits`` significant digits that is never above the value."""
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, direction: str) -> str:
    if not math.isfinite(value):
        return "infinity"
    rounded = Context(prec=digits, rounding=direction).create_decimal(Decimal(value)).normalize()
    # Where all digits stand before the point, the exponent would only hide them.
    return f"{rounded:f}" if -5 < rounded.adjusted() < 15 else f"{rounded:g}"


INFINITE = "infinity"
ESTIMATED = "on true labels, estimated (95 % interval)"


def json_able(value: Any) -> Any:
    """Nested values for JSON, with texts for what it has no number for; an infinite epsilon is 'infinity', as in the ledger."""
    if isinstance(value, Mapping):
        return {str(name): json_able(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_able(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return INFINITE if value > 0 else str(value)
    return value


def epsilon_text(epsilon: float | str) -> str:
    """An epsilon as results hold it, a number or 'infinity', in words; rounded up, since it is an upper bound."""
    return "infinity" if float(epsilon) == math.inf else _for_people(float(epsilon), ROUND_CEILING)


def floor_text(left: float) -> str:
    """What is left of a budget, rounded down."""
    return _for_people(left, ROUND_FLOOR)


def _for_people(value: float, direction: str) -> str:
    """A number of at most four digits, such as somebody asked for, as it is; any other with two decimals, or two digits."""
    asked = f"{value:.4g}"
    if math.isclose(value, float(asked), rel_tol=DUST):
        return f"{value:.0f}" if "e+" in asked and value < 1e15 else asked
    return _rounded(value, max(2, Decimal(value).adjusted() + 3), direction)


def estimate_text(estimate: float, standard_error: float, most_bias: float | None) -> str:
    """An estimate of a share, with a 95 % interval that is longer below by the bias, None where nobody knows it; none is told
    beyond 0 or 1."""
    error, unknown = NORMAL_95 * standard_error, ", or less" if most_bias is None else ""
    numbers = (estimate, estimate - error - (most_bias or 0.0), estimate + error)
    told, low, high = (f"{min(1.0, max(0.0, number)):.3f}" for number in numbers)
    return f"{told} ({low} to {high}{unknown})"


NUMBERS: dict[str, Callable[[Any], str]] = {
    "epsilon": epsilon_text,
    "spent": epsilon_text,
    "left": floor_text,
    "records": lambda records: str(records or "-"),
    "delta": lambda delta: "" if delta is None else f"{delta:g}",
    "cap": "{:g}".format,
    "seconds": "{:.1f}".format,
    **dict.fromkeys(METRICS, "{:.3f}".format),
    **dict.fromkeys(("entry_id", "rounds", "uses", "features", "train", "test"), str),
}
"""How the numbers of lines are written by their names; other values are text."""


def table_of(lines: Iterable[dict[str, Any]], columns: dict[str, str]) -> TextTable:
    """A row for each line; `columns` are the headings with the names of their values."""
    rows = tuple(tuple(NUMBERS.get(name, str)(line[name]) for name in columns.values()) for line in lines)
    return TextTable(tuple(columns), rows, frozenset(heading for heading, name in columns.items() if name in NUMBERS))


def _same(*names: str) -> dict[str, str]:
    return dict(zip(names, names))


def table_of_cells(rows: Iterable[dict[str, str]], texts: int = 1) -> TextTable:
    """A table of rows of cells by heading; all but the first ``texts`` columns are numbers."""
    cells = list(rows)
    headings = tuple(cells[0]) if cells else ()
    return TextTable(headings, tuple(tuple(row.values()) for row in cells), frozenset(headings[texts:]))


def named(lines: list[dict[str, Any]], key: str, tables: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Lines of a ledger with the names of tables in place of those of their datasets; some letters of the ledger's name
    tell apart datasets that were read from the same tables."""
    dataset = re.compile(NUMBERED_COLUMNS)
    return [{**line, key: dataset.sub(lambda match: _table_name(match[0], tables), line[key])} for line in lines]


def _table_name(dataset: str, tables: dict[str, list[str]]) -> str:
    if dataset not in tables:
        return dataset
    alike = [other for other, names in tables.items() if names == tables[dataset]]
    return ", ".join(tables[dataset]) + (f" ({dataset.partition(':')[2]})" if len(alike) > 1 else "")


def model_table(result: dict[str, Any]) -> TextTable:
    """The three models with their metrics on the held-out part."""
    models = [result["models"][name] for name in MODELS]
    columns = {"model": "title", **_same("epsilon", "flipback"), **{text: name for name, text in METRICS.items()}}
    return table_of([{**model, **model["metrics"]} for model in models], columns)


def training_table(result: dict[str, Any]) -> TextTable:
    """The private model's figures on the training rows: on flips, and corrected for their known rate."""
    rows = []
    for line in result["training_figures"]:
        estimate = estimate_text(line["estimate"], line["standard_error"], line["most_bias"])
        rows.append({"measure": line["measure"], "on flips": f"{line['on_flips']:.3f}", ESTIMATED: estimate})
    return table_of_cells(rows)


def ledger_table(entries: list[dict[str, Any]]) -> TextTable:
    """The entries of one party's ledger without their notes, which are too long for a column."""
    names = ("source", "mechanism", "epsilon", "delta", "unit", "observer", "records", "uses")
    return table_of(entries, {"no.": "entry_id", **_same(*names)})


CAP_COLUMNS = {**_same("table"), "cap of": "kind", **_same("spent", "cap", "left", "delta"), "set": "origin"}


def cap_table(lines: Iterable[dict[str, Any]]) -> TextTable:
    """What of the caps of tables is spent; `lines` are the fields of ``table_caps.CapLine``, with what is left."""
    return table_of(lines, {**_same("party"), **CAP_COLUMNS})


def totals_table(content: dict[str, Any]) -> TextTable:
    """What a party's ledger says of each dataset, unit, relation and observer; ``content`` as ``all_ledgers`` gives it."""
    columns = _same("dataset", "unit", "relation", "observer", "epsilon", "delta")
    return table_of(named(content["totals"], "dataset", content["tables"]), columns)


def budgets_table(content: dict[str, Any]) -> TextTable:
    """How much of caps is left for each observer."""
    columns = {**_same("dataset", "unit", "relation", "observer"), "spent": "epsilon", **_same("cap", "left", "delta")}
    return table_of(named(content["budgets"], "dataset", content["tables"]), columns)


def total_notes(totals: list[dict[str, Any]]) -> list[str]:
    """What the lines of totals leave open, once for all observers of a dataset."""
    observers: dict[tuple, list[str]] = {}
    for line in totals:
        if line["note"]:
            key = line["dataset"], line["unit"], line["relation"], line["note"]
            observers.setdefault(key, []).append(line["observer"])
    return [
        f"{dataset}, {unit}, {relation}, against {', '.join(names)}: {note}."
        for (dataset, unit, relation, note), names in observers.items()
    ]


def print_result(result: dict[str, Any], console: Console) -> None:
    """Print models, guarantees and times on a rich console."""
    rows = result["models"]["private"]["metrics"]["rows"]
    print_table(console, f"Three models on {rows} held-out records", model_table(result))
    print_table(console, "The private one on its training records", training_table(result))
    columns = {**_same("observer", "unit", "relation", "epsilon", "delta"), "sees": "note"}
    print_table(console, "Epsilon per observer", table_of(result["privacy"]["epsilon_per_observer"], columns))
    for release in result["privacy"]["score_releases"]:
        print_text(
            console,
            f"Joint scores of the training records of {release['table']} shown to the guest by {release['party']}, over all "
            f"jobs: those of {release['released']} of at most {release['cap']} models.",
        )
    seconds = result["seconds"]
    lines = table_of(seconds["tasks"], _same("job", "task", "seconds"))
    print_table(console, f"Seconds per task; {seconds['total']:.0f} in all", lines)


def print_ledger(entries_by_party: dict[str, list[dict[str, Any]]], console: Console) -> None:
    """Print one line per ledger entry, and below each party's lines what the entries mean."""
    for party, entries in entries_by_party.items():
        if not entries:
            print_text(console, f"\nLedger of {party}: nothing was released.")
            continue
        # The widest table: with the usual gaps it would not fit into 100 columns.
        print_table(console, f"Ledger of {party}", ledger_table(entries), padding=0)
        for entry in entries:
            print_text(console, f"No. {entry['entry_id']}: {entry['note']}.")


def print_totals(party: str, content: dict[str, Any], console: Console) -> None:
    """Print what a party's ledger says of each dataset, unit, relation and observer, and how much of caps is left."""
    if content["totals"]:
        print_table(console, f"Totals of {party}: epsilon is an upper bound at delta", totals_table(content))
        for sentence in total_notes(named(content["totals"], "dataset", content["tables"])):
            print_text(console, sentence)
    if content["budgets"]:
        print_table(console, f"Budgets of {party}: epsilon at the delta of the cap", budgets_table(content))


def print_table(console: Console, title: str, table: TextTable, padding: int = 1) -> None:
    """Draw a table below its title on a rich console."""
    drawn = Table(
        title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=(0, padding, 0, 0)
    )
    for heading in table.headings:
        is_numeric = heading in table.numeric
        # Numbers are not wrapped, so a long heading above them is broken at its last blank.
        breaks = is_numeric and len(heading) > LONGEST_HEADING
        drawn.add_column(
            "\n".join(heading.rsplit(" ", 1)) if breaks else heading,
            justify="right" if is_numeric else "left",
            overflow="fold",
            no_wrap=is_numeric or heading in UNBROKEN,
            max_width=WIDEST.get(heading),
        )
    for row in table.rows:
        # Names come from files: as plain text they cannot be read as markup.
        drawn.add_row(*(Text(cell) for cell in row))
    console.print()
    console.print(drawn)


def print_text(console: Console, text: str) -> None:
    """Print a text as it is: what looks like markup in it is text."""
    console.print(Text(text))
