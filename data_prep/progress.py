"""Long work tells how far it is through a callable `progress(text, share)`, the share from 0 to 1 or None."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float | None], None]


def silent(text: str, share: float | None) -> None:
    """Progress that nobody watches."""
