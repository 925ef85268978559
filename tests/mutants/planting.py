"""Plants a mutant where its module is imported, in this process and in those that it starts. The standard library alone."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

ROOT = Path(__file__).parents[2]
PACKAGE = "fate_dp"
VARIABLE = "FATE_DP_TESTS_MUTANT"
"""Names the mutant for processes that a test starts."""
SITE = Path(__file__).with_name("site")
MARK = "FATE_DP_TESTS_MUTANT_MARK"
"""Names the file that appears when any of these processes imports the fault."""
KINDS = {
    "A": "drawn is not charged",
    "B": "one of everything",
    "C": "randomness not separated",
    "D": "what checks and errors say",
    "E": "order of charge and message",
    "F": "a check at one party",
}


class NotPlanted(Exception):
    """The source is no longer what the mutant says."""


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        name: what goes wrong, in words.
        kind: one of `KINDS`.
        symbol: the module's path below the package and the name in it: ``components.label_count.party:publish``; a class, a
            method (``Class.method``), a function or an assigned name.
        edits: pairs of a piece of the symbol's source, which occurs once there, and what takes its place.
        tests: names of tests for pytest, the closest first; one of them must fail.
        equivalent: why nobody could notice it; empty where a test must.
        patch: the name of the finding that first planted it.
    """

    name: str
    kind: str
    symbol: str
    edits: tuple[tuple[str, str], ...]
    tests: tuple[str, ...] = ()
    equivalent: str = ""
    patch: str = ""

    @property
    def module(self) -> str:
        return self.symbol.partition(":")[0]

    @property
    def path(self) -> Path:
        return ROOT.joinpath(*self.module.split(".")).with_suffix(".py")

    def source(self) -> str:
        """The module's text with the fault; raises NotPlanted."""
        text = self.path.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        first, last = self._lines(ast.parse(text).body, self.symbol.partition(":")[2].split("."))
        found = "".join(lines[first:last])
        for fragment, replacement in self.edits:
            if (count := found.count(fragment)) != 1:
                raise NotPlanted(
                    f"{self.name}: {fragment!r} must occur once in {self.symbol}, got {count} times; the code has "
                    "changed, so write the mutant anew."
                )
            found = found.replace(fragment, replacement)
        return "".join([*lines[:first], found, *lines[last:]])

    def _lines(self, body: Sequence[ast.stmt], names: Sequence[str]) -> tuple[int, int]:
        for node in body:
            if names[0] in _names(node):
                if len(names) > 1 and isinstance(node, ast.ClassDef):
                    return self._lines(node.body, names[1:])
                decorated = [each.lineno for each in getattr(node, "decorator_list", ())]
                return min([node.lineno, *decorated]) - 1, node.end_lineno or node.lineno
        raise NotPlanted(f"{self.name}: there is no {self.symbol}; the code has changed, so write the mutant anew.")


def _names(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return (node.name,)
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return tuple(each.id for each in targets if isinstance(each, ast.Name))


class _Loader(SourceFileLoader):
    """Takes other source than the file's, and neither reads nor writes its compiled form."""

    mutant: Mutant

    def get_code(self, fullname: str) -> CodeType:
        if MARK in os.environ:
            Path(os.environ[MARK]).touch()
        return compile(self.mutant.source(), str(self.mutant.path), "exec", dont_inherit=True)


class _Finder:
    """Goes before all others, and asks them where the module is."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != f"{PACKAGE}.{self.mutant.module}":
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)) is not None:
                spec.loader = _Loader(name, str(self.mutant.path))
                spec.loader.mutant = self.mutant
                return spec
        return None


def plant(mutant: Mutant) -> None:
    """From here on the module is imported with the fault, in this process and in those that it starts."""
    assert f"{PACKAGE}.{mutant.module}" not in sys.modules, "A module that is imported already keeps its code."
    os.environ[VARIABLE] = mutant.name
    paths = [str(SITE), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.meta_path.insert(0, _Finder(mutant))  # type: ignore[arg-type]


def plant_from_environment() -> None:
    """In a process that a test starts."""
    name = os.environ[VARIABLE]
    mutant = next(each for each in all_mutants() if each.name == name)
    # FATE-Flow's tasks have a sitecustomize of our own, which runs the next one on the path once more.
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(mutant))  # type: ignore[arg-type]


def all_mutants() -> list[Mutant]:
    """Of all modules of `planted`, in order."""
    names = sorted(path.stem for path in Path(__file__).with_name("planted").glob("[a-z]*.py"))
    return [each for name in names for each in import_module(f"tests.mutants.planted.{name}").MUTANTS]


def contract(case: str, *clauses: str) -> tuple[str, ...]:
    """Names of the contract's tests of a case: ``contract("label_count / default / labels at two of three parties", "a")``."""
    return tuple(f"tests/contract/test_contract.py::test_contract[{case}-{CLAUSES[clause]}]" for clause in clauses)


def aloud(sentence: str) -> str:
    """A statement that refuses with a sentence, the inside of an f-string, which all parties read."""
    where = "fate_dp.components.common.preflight"
    return f"raise __import__('{where}', fromlist=['Refusal']).Refusal(f'{sentence}')"


CLAUSES = {
    "a": "a drawn is charged",
    "b": "b charged before it leaves",
    "c": "c neighbours",
    "d": "d hostile data",
    "e": "e checks are called",
    "f": "f streams",
}
