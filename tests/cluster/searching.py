"""Search a folder for what belongs to one party: all its long numbers in text and in binary, its ids, its key."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

# Shorter numbers, such as durations in seconds, occur in logs by chance.
MIN_DIGITS = 10
NUMBER = re.compile(rb"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
HEXADECIMAL = re.compile(rb"[0-9a-fA-F]{16,}")
BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{16,}")
TO_STANDARD, TO_URL = bytes.maketrans(b"-_", b"+/"), bytes.maketrans(b"+/", b"-_")
MAGNITUDE = np.uint64(2**63 - 1)


@dataclass(frozen=True)
class Private:
    """What must not leave its owner: names of numbers by magnitude, and names of ids and keys by their bytes."""

    numbers: dict[float, str]
    texts: dict[bytes, str]

    def __len__(self) -> int:
        return len(self.numbers) + len(self.texts)


def private_values(own: list[Path], foreign: list[Path], id_name: str, label_name: str) -> Private:
    """Every value of some CSV tables that stands in none of the other parties' tables; labels are too short to search.

    :param own: the owner's tables.
    :param foreign: all tables of other parties; a value that occurs there too, as interest rates do, betrays nobody.
    """
    numbers, texts = {}, {}
    for file in own:
        frame = pd.read_csv(file, dtype=str)
        texts.update({text.encode(): f"{file.stem}.{id_name}={text}" for text in frame[id_name]})
        for column in frame.columns.difference([id_name, label_name]):
            named = {abs(float(text)): f"{file.stem}.{column}={text}" for text in frame[column].unique()}
            numbers.update({number: name for number, name in named.items() if _is_telling(number)})
    for file in foreign:
        frame = pd.read_csv(file, dtype=str)
        _without(texts, (text.encode() for text in frame[id_name]))
        _without(numbers, np.abs(frame.drop(columns=id_name).astype(float).to_numpy()).ravel())
    return Private(numbers, texts)


def _is_telling(number: float) -> bool:
    """Whether nobody comes upon a number otherwise: it is long, and no rate of a thousand records, as measures are."""
    as_rate = Fraction(number).limit_denominator(1000)
    return sum(map(str.isdigit, repr(number))) >= MIN_DIGITS and abs(number - float(as_rate)) > 1e-12


def _without(values: dict, others: Iterable) -> None:
    for other in others:
        values.pop(other, None)


def found_in(folder: Path, private: Private) -> dict[str, Path]:
    """For each value that occurs in a file below a folder, the first such file."""
    magnitudes = np.sort(np.array(list(private.numbers), dtype=np.float64))
    written = {} if private.numbers else {text: _written(text) for text in private.texts}
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if written:
                # A few texts alone are quicker sought as they are written than in all that might be decoded.
                names = [
                    private.texts[text] for text, forms in written.items() if any(form in content for form in forms)
                ]
            else:
                forms = [content, *_decoded(content)]
                names = [private.numbers[number] for form in forms for number in _numbers_in(form, magnitudes)]
                names += [name for text, name in private.texts.items() if any(text in form for form in forms)]
            found.update({name: path for name in names if name not in found})
    return found


def _written(text: bytes) -> set[bytes]:
    """A text as it is, in hexadecimal, and in base64 wherever in a longer text it begins, without what neighbours decide."""
    forms = {text, text.hex().encode(), text.hex().upper().encode()}
    for before in range(3):
        whole = b64encode(bytes(before) + text)[(0, 2, 3)[before] : (before + len(text)) * 8 // 6]
        forms |= {whole, whole.translate(TO_URL)}
    return forms


def _decoded(content: bytes) -> list[bytes]:
    """All that stands in a content in hexadecimal or in base64, read from each digit at which it may begin."""
    digits, letters = HEXADECIMAL.findall(content), BASE64.findall(content)
    hexadecimal = [
        [bytes.fromhex(run[start : start + (len(run) - start) // 2 * 2].decode()) for run in digits]
        for start in range(2)
    ]
    base64 = [[b64decode(_whole(run[start:])) for run in letters] for start in range(4)]
    return [b"\n".join(pieces) for pieces in (*hexadecimal, *base64)]


def _whole(run: bytes) -> bytes:
    """Letters of base64 in the standard alphabet, filled up to whole groups."""
    return run.translate(TO_STANDARD) + b"A" * (-len(run) % 4)


def _numbers_in(content: bytes, magnitudes: np.ndarray) -> set[float]:
    """Those of the magnitudes that a content has, as text or as float64 of either byte order."""
    long_ones = {text for text in NUMBER.findall(content) if len(text) >= MIN_DIGITS}
    return _doubles_in(content, magnitudes) | ({float(text) for text in long_ones} & set(magnitudes.tolist()))


def _doubles_in(content: bytes, magnitudes: np.ndarray) -> set[float]:
    """Those of the sorted magnitudes whose eight bytes stand at any place of a content, in either order."""
    wanted = magnitudes.view(np.uint64)
    # Positive float64 are ordered as their bits are. Their first two bytes already rule out nearly all places.
    beginnings = np.zeros(2**16, dtype=bool)
    beginnings[wanted >> np.uint64(48)] = True
    found: set[float] = set()
    for start in range(min(8, len(content))):
        for order in ("<u8", ">u8"):
            words = np.frombuffer(content, order, (len(content) - start) // 8, start).astype(np.uint64) & MAGNITUDE
            words = words[beginnings[words >> np.uint64(48)]]
            found |= set(words[np.isin(words, wanted)].view(np.float64).tolist())
    return found
