"""Data sets made ready for training: cleaned, split between parties, written as CSV files."""

from collections.abc import Callable

SYNTHETIC_PREFIX = "synthetic-"  # ids of rows that over-sampling made; here, so that components read it without sklearn
Progress = Callable[[str, float | None], None]
"""Long work tells how far it is through a callable `progress(text, share)`, the share from 0 to 1 or None."""


def silent(text: str, share: float | None) -> None:
    """Progress that nobody watches."""
