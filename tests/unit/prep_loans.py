"""Invented loans for the tests of preparation, cleaned or as a raw file."""

from pathlib import Path

from examples.synthetic_loans import write_synthetic

ROWS = 1500


def raw_file(folder: Path) -> Path:
    path = folder / "raw.csv"
    write_synthetic(path, ROWS, seed=7)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones included."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
