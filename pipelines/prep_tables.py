"""What a preparation did, as tables in a terminal, from its manifest."""
from __future__ import annotations

from .tables import TextTable, print_table, print_text


def step_table(manifest: dict) -> TextTable:
    """Loans and columns before and after each step."""
    steps = manifest["steps"]
    rows = [(steps[0]["name"], *(f"{steps[0][count]:,}" for count in _COUNTS))]
    for before, after in zip(steps, steps[1:]):
        rows.append((after["name"], *(f"{before[count]:,} -> {after[count]:,}" for count in _COUNTS)))
    return TextTable(("step", "loans", "columns"), tuple(rows), frozenset(("loans", "columns")))


def reason_table(manifest: dict) -> TextTable:
    """Dropped columns by reason."""
    names: dict[str, list[str]] = {}
    for column, reason in manifest["dropped_columns"].items():
        names.setdefault(reason, []).append(column)
    rows = tuple((reason, str(len(columns)), ", ".join(columns)) for reason, columns in names.items())
    return TextTable(("reason", "number", "columns"), rows, frozenset(("number",)))


def party_table(manifest: dict) -> TextTable:
    """Training loans of each party by class, before and after over-sampling."""
    classes = list(manifest["label_values"])
    headings = ("party", "share", *(f"{name}{when}" for when in ("", ", after") for name in classes), "influence")
    rows = tuple(
        (f"{entry['role']} {entry['party_id']}", "all" if entry["share"] is None else f"{100 * entry['share']:.4g} %",
         *(f"{entry[when][name]:,}" for when in ("before", "after") for name in classes),
         f"{entry['largest_influence']:,}")
        for entry in manifest["files"].values() if "share" in entry)
    return TextTable(headings, rows, frozenset(headings[1:]))


def file_table(manifest: dict) -> TextTable:
    """The written tables."""
    rows = tuple(
        (path, f"{entry['rows']:,}", str(len(entry["columns"])), entry.get("table", "-"))
        for path, entry in manifest["files"].items() if "rows" in entry)
    return TextTable(("file", "rows", "columns", "uploaded as"), rows, frozenset(("rows", "columns")))


def print_preparation(manifest: dict, console) -> None:
    """Print steps, reasons, parties and files, and below them what the user should know."""
    print_table(console, f"{manifest['source']['file']}: what each step left", step_table(manifest))
    print_table(console, "Why columns were dropped", reason_table(manifest))
    print_table(console, "Training loans of each party", party_table(manifest))
    if manifest["options"]["skew"] != "none":
        print_text(console, "Share: what a party gets on average over seeds; under a skew it may be far more or less.")
    if manifest["options"]["over_sampling"] != "none":
        print_text(console, "Influence: the most synthetic loans that any one real loan went into.")
    print_table(console, "Files", file_table(manifest))
    for notice in (*manifest["notices"], manifest["record_privacy"]):
        print_text(console, notice)


_COUNTS = ("rows", "columns")
