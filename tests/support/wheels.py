"""A wheel of the checkout, built without leaving anything there."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("privacy", "crypto", "components", "attacks", "pipelines", "conf", "data_prep", "deploy", "testing")


def copied_sources(folder: Path) -> Path:
    """What a package is built from, so that nothing is left in the checkout."""
    copy = folder / "source"
    for name in PARTS:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy / name)
    return copy


def built_wheel(folder: Path) -> Path:
    """The wheel, in `folder`."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", str(folder), "."],
        cwd=copied_sources(folder),
        check=True,
        timeout=1200,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built
