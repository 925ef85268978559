"""What a new version of FATE would touch: one version, and modules of FATE that promise nothing."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from fate_dp.deploy import FATE_VERSION

ROOT = Path(__file__).parents[2]
PARTS = ("components", "testing", "pipelines", "deploy", "attacks")
# Where a file must repeat the version, since it cannot ask Python.
REPEATED = {
    "setup.py": r"fate_client\[fate,fate_flow\]==([\d.]+)",
    "constraints.txt": r"^(?:fate-client|fate-flow|pyfate)==([\d.]+)$",
    "deploy/docker/Dockerfile": r"^FROM federatedai/standalone_fate:([\d.]+)$",
    **{f"conf/{path.name}": r"^schema_version: ([\d.]+)$" for path in sorted((ROOT / "conf").glob("*_*.yaml"))},
}


@pytest.mark.parametrize("name", REPEATED)
def test_every_file_names_the_same_fate(name):
    found = re.findall(REPEATED[name], (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    assert set(found) == {FATE_VERSION}


def private_modules() -> set[str]:
    """Modules of FATE with a leading underscore in their path that the product imports, or changes as they are imported."""
    found = set()
    for path in (each for part in PARTS for each in (ROOT / part).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                found |= {node.module or "", *(f"{node.module}.{each.name}" for each in node.names)}
            elif isinstance(node, ast.Import):
                found |= {each.name for each in node.names}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    whole = re.compile(r"fate(_flow|_client)?(\.\w+)*\._[a-z]\w*(\.\w+)*")
    return {name for name in found if whole.fullmatch(name) and is_module(name)}


def is_module(name: str) -> bool:
    """Whether FATE has a file of this name; importing it may take programs that only clusters have."""
    package, *parts = name.split(".")
    spec = find_spec(package)
    folders = (spec and spec.submodule_search_locations) or ()
    places = [Path(folder, *parts) for folder in folders]
    return any(place.with_suffix(".py").is_file() or (place / "__init__.py").is_file() for place in places)


def test_the_page_names_every_private_module_that_we_touch():
    page = (ROOT / "docs" / "new-fate.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(fate[\w.]*\._\w+)`", page)) == private_modules()


def test_fate_has_every_module_that_is_changed_as_it_is_imported():
    text = (ROOT / "deploy" / "fate_patches" / "sitecustomize.py").read_text(encoding="utf-8")
    names = re.findall(r'^ +"(fate[\w.]+)": \w+', text, re.MULTILINE)
    assert len(names) > 5 and all(map(is_module, names))
