"""How far a preparation is: one line with a bar, gone when it ends."""
from __future__ import annotations


class ShareBar:
    """Use as a context manager; `show(text, share)` is the progress callback, without a share where none is known."""

    def __init__(self, console):
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        text = TextColumn("{task.description}", markup=False)
        columns = (text, BarColumn(), TimeElapsedColumn())
        # In a pipe or a file nothing can be taken back, and even a bar that is disabled ends with an empty line there.
        self._is_shown = console.is_terminal
        self._progress = Progress(*columns, console=console, transient=True, disable=not self._is_shown)
        self._task = self._progress.add_task("starting", total=None)

    def __enter__(self):
        if self._is_shown:
            self._progress.start()
        return self

    def __exit__(self, *failure):
        if self._is_shown:
            self._progress.stop()

    def show(self, text: str, share: float | None) -> None:
        """What is done now, and the share of it that is done."""
        if share is None:
            self._progress.reset(self._task, total=None, description=text)
        else:
            self._progress.update(self._task, description=text, total=1.0, completed=share)
