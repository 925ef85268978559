"""Labelled pictures of the benchmarks of horizontal training: MNIST, Fashion-MNIST and CIFAR-10 (as JPEG)."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np

FOLDER = Path(os.environ.get("FATE_DP_DATA", "../shared/data"))
ARCHIVES = {"mnist": "mnist.npz", "fashion": "fashion_mnist.npz", "cifar10": "cifar10_jpeg.zip"}
CLASSES = 10
TRAIN, TEST = "train", "test"


def load_pictures(name, part, folder=FOLDER):
    """(pictures uint8 (n, channels, height, width), labels int64 (n,)) of one part, ``train`` or ``test``.

    CIFAR-10's archive is ordered by class; class numbers are those of the sorted names.

    :raises FileNotFoundError: the archive is not in ``folder``.
    """
    archive = Path(folder) / ARCHIVES[name]
    if archive.suffix == ".zip":
        return _from_jpegs(archive, part)
    with np.load(archive) as arrays:
        return arrays[f"x_{part}"][:, None], arrays[f"y_{part}"].astype(np.int64)


def _from_jpegs(archive, part):
    from PIL import Image

    with zipfile.ZipFile(archive) as files:
        names = sorted(name for name in files.namelist() if name.startswith(f"{part}/") and name.endswith(".jpg"))
        pictures = np.stack([np.asarray(Image.open(io.BytesIO(files.read(name))).convert("RGB")) for name in names])
    classes = [name.split("/")[1] for name in names]
    _, labels = np.unique(classes, return_inverse=True)
    return np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)), labels.astype(np.int64)
