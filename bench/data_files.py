"""The public files that benchmarks read: whether they are there and as they have to be, and one sentence where they are missing.

    python -m bench.data_files

looks at every file of the folder that FATE_DP_DATA names, else of ../shared/data. bench/README.md says where each comes from.
"""

import csv
import gzip
import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

FOLDER = Path(os.environ.get("FATE_DP_DATA", "../shared/data"))
PICTURES = "60,000 and 10,000 pictures of 28 x 28 bytes"
# By file: what it has to hold, and the first digits of the digest of that; none where every edition is another one.
EXPECTED = {
    "lending_club.csv.gz": ("74 columns", None),
    "mnist.npz": (PICTURES, "06b0d1f124c4e5fa"),
    "fashion_mnist.npz": (PICTURES, "ca3ab2a37f845e1b"),
    "cifar10_jpeg.zip": ("50,000 and 10,000 pictures", None),
    "default_credit_hetero_guest.csv.gz": ("15 columns, 30,000 rows", "4fd6be40766423cd"),
    "default_credit_hetero_host.csv.gz": ("11 columns, 30,000 rows", "36880a1b1e6a5b85"),
    "adult.csv.gz": ("15 columns, 32,561 rows", "7974b56173c9e296"),
}


def with_files(main: Callable[[], None]) -> None:
    """Run a benchmark's ``main``.

    Raises:
        SystemExit: a file is missing; the sentence names it.
    """
    try:
        main()
    except FileNotFoundError as error:
        raise SystemExit(
            f"There is no file {error.filename}; name its folder in the variable FATE_DP_DATA. "
            "bench/README.md says where it comes from and what it has to be."
        ) from error


def main() -> None:
    found = {name: state_of(FOLDER / name, *wanted) for name, wanted in EXPECTED.items()}
    for name, state in found.items():
        print(f"{name}: {state}")
    ready = sum(state.startswith("as it has to be") for state in found.values())
    print(json.dumps({"bench": "data-files", "figures": {"files": len(found), "ready": ready}}))


def state_of(path: Path, wanted: str, digest: str | None) -> str:
    """What there is to say of a file, in one sentence without a full stop."""
    if not path.is_file():
        return f"not in {path.parent}; bench/README.md says where it comes from"
    try:
        holds, sum_of_content = content_of(path)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        return f"cannot be read ({error}); fetch it again"
    if not holds.startswith(wanted):
        return f"holds {holds}, and {wanted} are wanted"
    if digest is not None and not sum_of_content.startswith(digest):
        return f"holds {holds}, but others: the digest of its content begins with {sum_of_content[:16]}, not {digest}"
    return f"as it has to be: {holds}, content {sum_of_content[:16]}"


def content_of(path: Path) -> tuple[str, str]:
    """What a file holds in words, and the SHA-256 of its content, which does not depend on how it was packed."""
    digest = hashlib.sha256()
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            for name in ("x_train", "y_train", "x_test", "y_test"):
                digest.update(np.ascontiguousarray(arrays[name], dtype=np.uint8).tobytes())
            (train, *size), (test, *_) = arrays["x_train"].shape, arrays["x_test"].shape
        return f"{train:,} and {test:,} pictures of {' x '.join(map(str, size))} bytes", digest.hexdigest()
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as files:
            names = sorted(name for name in files.namelist() if name.endswith(".jpg"))
            for name in names:
                digest.update(name.encode() + files.read(name))
        train, test = (sum(name.startswith(f"{part}/") for name in names) for part in ("train", "test"))
        return f"{train:,} and {test:,} pictures", digest.hexdigest()
    with gzip.open(path, "rb") as file:
        text = file.read()
    digest.update(text)
    lines = text.decode("utf-8", errors="replace").splitlines()
    columns, rows = len(next(csv.reader(lines[:1]))), sum(bool(line.strip()) for line in lines[1:])
    return f"{columns} columns, {rows:,} rows", digest.hexdigest()


if __name__ == "__main__":
    main()
