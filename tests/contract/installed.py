"""Components that are no part of the product: that of the guide, and those that a test writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import invalidate_caches
from pathlib import Path
from tempfile import TemporaryDirectory

import fate_dp.components

from . import of_components

EXAMPLE = Path(__file__).parents[2] / "examples" / "component"
HOMES = {"components": fate_dp.components.__path__, "tests/contract/of_components": of_components.__path__}
"""Folders of the repository whose modules may come from elsewhere."""
_folder = TemporaryDirectory(prefix="fate-dp-guide-")


@contextmanager
def installed(files: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Let these files be imported as those of the repository's folders are."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
    before = set(sys.modules)
    for home, path in HOMES.items():
        path.append(str(folder / home))
    invalidate_caches()
    try:
        yield
    finally:
        for home, path in HOMES.items():
            path.remove(str(folder / home))
        places = tuple(str(folder / home) for home in HOMES)
        for name in set(sys.modules) - before:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(places):
                del sys.modules[name]


FILES = {
    path.relative_to(EXAMPLE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(EXAMPLE.rglob("*"))
    if path.suffix in (".py", ".yaml")
}
(TEMPLATE,) = (path.split("/")[1] for path in FILES if path.endswith("/component.py"))
"""The component of docs/adding-a-component.md."""


def install_template() -> None:
    """For all of this process: the guide's component and its case stand beside ours."""
    _template.__enter__()


_template = installed(FILES, Path(_folder.name))
