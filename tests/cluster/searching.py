"""Search a folder for values: feature values as text and as numbers in binary, key bytes."""
from __future__ import annotations

import struct
from itertools import islice
from pathlib import Path

import pandas as pd

VALUES_PER_COLUMN = 4
# Shorter numbers, such as durations in seconds, occur in logs by chance.
LEAST_DIGITS = 10


def private_values(own: list[Path], foreign: list[Path], others: tuple) -> dict[str, tuple]:
    """What must not leave the owner of some CSV tables: values of its features, each in the forms of `forms_of`.

    Args:
        own: the owner's tables.
        foreign: all tables of other parties. A value that occurs there too, as an interest rate does, betrays nobody.
        others: columns that are no features.
    """
    elsewhere = "\n".join(file.read_text(encoding="utf-8") for file in foreign)
    values = {}
    for file in own:
        frame = pd.read_csv(file, dtype=str)
        for column in frame.columns.difference(list(others)):
            long_ones = frame[column][frame[column].str.count(r"\d") >= LEAST_DIGITS].unique()
            own_ones = islice((text for text in long_ones if text not in elsewhere), VALUES_PER_COLUMN)
            values.update({f"{file.stem}.{column}={text}": forms_of(text) for text in own_ones})
    return values


def forms_of(text: str) -> tuple:
    """A number as text, as a float64 of an array, as one of a pickle, and both as hexadecimal digits."""
    binary = [struct.pack(order + "d", float(text)) for order in "<>"]
    return (text.encode(), *binary, *(form.hex().encode() for form in binary))


def found_in(folder: Path, values: dict[str, tuple]) -> dict[str, Path]:
    """For each value of which some form occurs in a file below a folder, the first such file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            found.update({
                name: path for name, forms in values.items()
                if name not in found and any(form in content for form in forms)
            })  # fmt: skip
    return found
