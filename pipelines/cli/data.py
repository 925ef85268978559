"""Data: ``fate-dp prep`` and ``upload-prepared``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..jobs.text_tables import TextTable, print_table, print_text, table_of_cells
from .console import TaskLines, given, running_server, wide_console

if TYPE_CHECKING:
    from rich.console import Console


COUNTS = {"loans": "rows", "columns": "columns"}


def prepare(options: argparse.Namespace) -> None:
    from fate_dp.data_prep.atomic_folder import check_target
    from fate_dp.data_prep.division import Shares
    from fate_dp.data_prep.lending_club.cleaning import clean
    from fate_dp.data_prep.lending_club.options import PrepOptions
    from fate_dp.data_prep.lending_club.preparation import divide
    from fate_dp.data_prep.lending_club.written import check_replaceable, write

    if options.shares is not None:
        options.shares = Shares.parse(options.shares).values
    chosen = PrepOptions(**given(options, PrepOptions))
    check_target(options.out, check_replaceable)
    console = wide_console()
    with ShareBar(console) as progress:
        loans = clean(options.csv, chosen.most_missing, progress.show)
        progress.show("dividing and over-sampling", None)
        division = divide(loans, chosen)
        manifest = write(loans, division, chosen, options.out, progress.show)
    print_preparation(manifest, console)
    console.print(f"Written: {options.out}", markup=False, highlight=False)


def upload(options: argparse.Namespace) -> None:
    from ..jobs.upload import upload_prepared

    address, home = running_server(options)
    console = wide_console()
    with TaskLines(console) as lines:
        names = upload_prepared(address, options.folder, options.namespace, lines.task, home, lines.sentence)
    for path, name in names.items():
        console.print(f"{path} is now {options.namespace}/{name}", markup=False, highlight=False)


class ShareBar:
    """How far a preparation is, as a context manager: one line with a bar, gone when it ends."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        text = TextColumn("{task.description}", markup=False)
        columns = (text, BarColumn(), TimeElapsedColumn())
        # In a pipe or a file nothing can be taken back, and even a bar that is disabled ends with an empty line there.
        self._is_shown = console.is_terminal
        self._progress = Progress(*columns, console=console, transient=True, disable=not self._is_shown)
        self._task = self._progress.add_task("starting", total=None)

    def __enter__(self) -> ShareBar:
        if self._is_shown:
            self._progress.start()
        return self

    def __exit__(self, *failure: object) -> None:
        if self._is_shown:
            self._progress.stop()

    def show(self, text: str, share: float | None) -> None:
        if share is None:
            self._progress.reset(self._task, total=None, description=text)
        else:
            self._progress.update(self._task, description=text, total=1.0, completed=share)


def print_preparation(manifest: dict[str, Any], console: Console) -> None:
    first, *others = steps = manifest["steps"]
    cells = [{"step": first["name"], **{name: f"{first[count]:,}" for name, count in COUNTS.items()}}]
    for before, after in zip(steps, others):
        changes = {name: f"{before[count]:,} -> {after[count]:,}" for name, count in COUNTS.items()}
        cells.append({"step": after["name"], **changes})
    print_table(console, f"{manifest['source']['file']}: what each step left", table_of_cells(cells))
    names: dict[str, list[str]] = {}
    for column, reason in manifest["dropped_columns"].items():
        names.setdefault(reason, []).append(column)
    reasons = tuple((reason, str(len(columns)), ", ".join(columns)) for reason, columns in names.items())
    table = TextTable(("reason", "number", "columns"), reasons, frozenset(("number",)))
    print_table(console, "Why columns were dropped", table)
    print_table(console, "Training loans of each party", table_of_cells(_party_cells(manifest)))
    if manifest["options"]["skew"] != "none":
        print_text(console, "Share: what a party gets on average over seeds; under a skew it may be far more or less.")
    if manifest["options"]["over_sampling"] != "none":
        print_text(console, "Influence: the most synthetic loans that any one real loan went into.")
    files = tuple(
        (path, f"{entry['rows']:,}", str(len(entry["columns"])), entry.get("table", "-"))
        for path, entry in manifest["files"].items()
        if "rows" in entry
    )
    table = TextTable(("file", "rows", "columns", "uploaded as"), files, frozenset(("rows", "columns")))
    print_table(console, "Files", table)
    for notice in (*manifest["notices"], manifest["record_privacy"]):
        print_text(console, notice)


def _party_cells(manifest: dict[str, Any]) -> Iterator[dict[str, str]]:
    times = {"before": "", "after": ", after"}
    for entry in manifest["files"].values():
        if "share" in entry:
            yield {
                "party": f"{entry['role']} {entry['party_id']}",
                "share": "all" if entry["share"] is None else f"{100 * entry['share']:.4g} %",
                **{
                    f"{name}{when}": f"{entry[at][name]:,}"
                    for at, when in times.items()
                    for name in manifest["label_values"]
                },
                "influence": f"{entry['largest_influence']:,}",
            }
