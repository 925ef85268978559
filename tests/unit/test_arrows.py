"""The arrows of the house run downwards, imports inside functions counted: part by part, and component by component."""

import pytest

from tests.house import PARTS, modules

BELOW = {
    "privacy": set(),
    "crypto": set(),
    "data_prep": {"privacy"},
    "components": {"privacy", "crypto", "data_prep"},
    "attacks": {"privacy", "components"},
    "testing": {"privacy", "crypto", "components"},
    # The recorder writes views in the form that attacks read.
    "deploy": {"privacy", "components", "attacks"},
    "pipelines": {"privacy", "data_prep", "components", "attacks", "deploy"},
}
"""What a part may import besides itself."""
SHARED = {"common", "disclosure", "protocols"}
"""What every component may import besides itself."""
FACES = {"components.dp_hetero_lr.settings", "components.dp_hetero_lr.planned"}
"""What a component shows to others: parameters that another one takes over, and whether a training could succeed."""


@pytest.fixture(scope="module")
def arrows():
    found = modules()
    known = {module.name for module in found}
    return {module.name: module.imported(known) for module in found}


def folder(name):
    """The component that a module belongs to, or the shared folder; None outside of the components."""
    parts = name.split(".")
    return parts[1] if parts[0] == "components" and len(parts) > 1 else None


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_only_what_lies_below_it(arrows, part):
    upward = {
        f"{name} -> {other}"
        for name, imported in arrows.items()
        if name.split(".")[0] == part
        for other in imported
        if other.split(".")[0] not in BELOW[part] | {part}
    }
    assert upward == set()


def test_no_component_imports_the_inside_of_another(arrows):
    across = {
        f"{name} -> {other}"
        for name, imported in arrows.items()
        if folder(name)
        for other in imported
        if folder(other) not in SHARED | {folder(name), None} and other not in FACES
    }
    assert across == set()


def test_what_components_share_imports_no_component(arrows):
    upward = {
        f"{name} -> {other}"
        for name, imported in arrows.items()
        if folder(name) in SHARED
        for other in imported
        if folder(other) not in SHARED | {None}
    }
    assert upward == set()
