"""Every mechanism that is declared has an audit that refutes a mutant, and a test of its law; so has every noise but the audit.

Nobody keeps a list: what a test shows is read from its code, and from what that uses in the same file.
"""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from tests.pages.mechanisms import mechanism_guarantees
from tests.statistical import audits
from tests.statistical.mutants import MUTANTS

WRONG_SCALE = "2 / 3"
"""What a test of a law must reject."""


class Code:
    """A module of tests: what each definition in it uses."""

    def __init__(self, path: Path) -> None:
        self.module = importlib.import_module(f"tests.statistical.{path.stem}")
        self.defined = {}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = [node.name] if hasattr(node, "name") else map(ast.unparse, getattr(node, "targets", []))
            self.defined |= dict.fromkeys(targets, node)

    def used_by(self, name: str) -> set[str]:
        """Names that a definition uses, and divisions, with those that its parts in this file use."""
        seen, left = set(), [name]
        while left:
            for node in ast.walk(self.defined[left.pop()]):
                used = getattr(node, "id", getattr(node, "attr", None))
                used = ast.unparse(node) if isinstance(node, ast.BinOp) else used
                if used not in seen:
                    seen.add(used)
                    left += [used] if used in self.defined else []
        return seen

    @property
    def refuting(self) -> list[set[str]]:
        """What each audit uses that must refute a mutant."""
        if self.module is audits:
            return [self.used_by(check) for check in {check for _, _, check in MUTANTS} & set(audits.AUDITS)]
        if "MUTANTS" not in self.defined or "audits" not in vars(self.module):
            return []
        if "audit" in self.defined:
            return [self.used_by("audit")]
        kinds = {kind for kind, _ in self.module.MUTANTS} if "AUDITS" in self.defined else set()
        return [self.used_by(self.module.AUDITS[kind].__name__) for kind in kinds]

    @property
    def laws(self) -> list[set[str]]:
        """What each test uses that rejects a wrong scale."""
        found = [self.used_by(name) for name in self.defined if name.startswith("test_")]
        return [used for used in found if WRONG_SCALE in used or "WRONG" in used]


CODE = [Code(path) for path in Path(__file__).parent.glob("*.py") if path != Path(__file__)]
AUDITED = set().union(*(used for code in CODE for used in code.refuting))
WITH_LAWS = set().union(*(used for code in CODE for used in code.laws))


def draws(found) -> bool:
    """Whether a function, or a method of a class, takes a stream and gives more than an event."""
    several = vars(found).values() if inspect.isclass(found) else [found]
    signatures = [inspect.signature(each) for each in several if inspect.isfunction(each)]
    return any("rng" in each.parameters and each.return_annotation != "Event" for each in signatures)


def drawing(package: str) -> list[str]:
    """Declared names of a package that draw."""
    items = mechanism_guarantees(package)
    modules = {item: importlib.import_module(f"fate_dp.privacy.{package}.{item.module}") for item in items}
    return [name for item in items for name in item.names if draws(getattr(modules[item], name))]


def bounding() -> list[str]:
    """Declared names that no event is charged for: they bound what a mechanism adds its noise to."""
    return [name for item in mechanism_guarantees("mechanisms") if not item.events for name in item.names]


@pytest.mark.parametrize("name", [*drawing("mechanisms"), *bounding()])
def test_an_audit_of_the_mechanism_refutes_a_mutant(name):
    assert name in AUDITED, f"no audit in tests/statistical that has a mutant uses {name}"


@pytest.mark.parametrize("name", [*drawing("mechanisms"), *drawing("noise")])
def test_the_law_is_tested_beside_wrong_scales(name):
    assert name in WITH_LAWS, f"no test in tests/statistical that uses {name} rejects two thirds of its scale"


def test_mechanisms_that_draw_are_found():
    assert {"geometric_mechanism", "BinCountNoise", "draw_dummy_count"} <= set(drawing("mechanisms"))
    assert not {"keep_probability", "quantile_event", "no_such_mechanism"} & set(drawing("mechanisms"))
    assert "no_such_mechanism" not in AUDITED | WITH_LAWS
