"""`make house`: how large the house is, how it hangs together, and whether it keeps its limits.

Counts the product alone: privacy, crypto, components, attacks, pipelines, data_prep and deploy. A module is a file
without `__init__.py` files under five lines; circles are strongly connected modules, imports inside functions counted;
exception classes are found by their bases; a function's length is counted without its docstring, its parameters
without self and with keyword-only ones.
"""

from __future__ import annotations

import ast
import json
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
PARTS = ("privacy", "crypto", "components", "attacks", "testing", "pipelines", "data_prep", "deploy")
CORE = ("privacy", "crypto")
GENERATED = frozenset(
    [*(ROOT / "docs" / "privacy").glob("*.md"), ROOT / "docs" / "parameters.md", ROOT / "docs" / "coverage.md"]
)
TYPED = ("components", "pipelines", "deploy")
FLOORS = {
    ("components.common", "components.disclosure"): ("components.",),
    ("pipelines.jobs",): ("pipelines.cli.", "pipelines.demo."),
    ("pipelines.report",): ("pipelines.cli.", "pipelines.demo."),
}
"""What stands below, and what of its own part it must not import; the folders of one line may import each other."""
LIMITS = {
    "modules": ("at most", 325),
    "median_lines": ("at least", 130),
    "circles": ("at most", 0),
    "annotated_core": ("at least", 1.0),
    "annotated_rest": ("at least", 0.9),
    "readme_lines": ("at most", 150),
    "docs_words": ("at most", 60_000),
    "largest_page_words": ("at most", 6_500),
    "exception_classes": ("at most", 40),
    "longest_function": ("at most", 60),
    "functions_over_6_parameters": ("at most", 16),
    "any_in_components": ("at most", 200),
    "bare_dicts": ("at most", 32),
    "upward_imports": ("at most", 0),
    "lines": ("at most", 60_000),
}


@dataclass(frozen=True)
class Module:
    """One file of the product."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def part(self) -> str:
        return self.path.relative_to(ROOT).parts[0]

    @property
    def name(self) -> str:
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def package(self) -> list[str]:
        return list(self.path.relative_to(ROOT).parent.parts)

    @property
    def counts(self) -> bool:
        return self.path.name != "__init__.py" or self.lines >= 5

    @cached_property
    def functions(self) -> list:
        return [node for node in ast.walk(self.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]

    def imported(self, known: set[str]) -> set[str]:
        """Modules of the product that this one imports, anywhere in the file."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names = [
                    alias.name.removeprefix("fate_dp.") for alias in node.names if alias.name.startswith("fate_dp.")
                ]
                found |= {name for name in names if name in known}
            elif isinstance(node, ast.ImportFrom):
                base = self._base_of(node)
                if base is not None:
                    wanted = {f"{base}.{alias.name}".lstrip(".") for alias in node.names}
                    inner = wanted & known
                    found |= inner | ({base} & known if wanted - inner else set())
        return found - {self.name}

    def _base_of(self, node: ast.ImportFrom) -> str | None:
        if node.level:
            above = self.package[: len(self.package) - node.level + 1]
            return ".".join([*above, *([node.module] if node.module else [])])
        module = node.module or ""
        return module.removeprefix("fate_dp").lstrip(".") if module.split(".")[0] == "fate_dp" else None


def modules() -> list[Module]:
    return [Module(path) for part in PARTS for path in sorted((ROOT / part).rglob("*.py"))]


def circles(found: list[Module]) -> list[set[str]]:
    """Sets of modules that import each other, directly or not (Tarjan's algorithm, without recursion's limit)."""
    known = {module.name for module in found}
    arrows = {module.name: module.imported(known) for module in found}
    reached = {name: _reached(name, arrows) for name in arrows}
    rings = {
        frozenset(other for other in reached[name] if name in reached[other])
        for name in arrows
        if name in reached[name]
    }
    return sorted(map(set, rings), key=sorted)


def _reached(start: str, arrows: dict[str, set[str]]) -> set[str]:
    found, waiting = set(), list(arrows[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(arrows[name])
    return found


def parameters_of(function) -> list[ast.arg]:
    """All parameters but self and cls."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    named += [extra for extra in (arguments.vararg, arguments.kwarg) if extra]
    return [each for each in named if each.arg not in ("self", "cls")]


def annotated(functions: list) -> float:
    """Share of parameters and returns with an annotation."""
    total = have = 0
    for function in functions:
        marks = [each.annotation for each in parameters_of(function)] + [function.returns]
        total, have = total + len(marks), have + sum(mark is not None for mark in marks)
    return have / max(total, 1)


def length_of(function) -> int:
    """Lines from ``def`` to the end, without the docstring."""
    first, lines = function.body[0], function.end_lineno - function.lineno + 1
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return lines - (first.end_lineno - first.lineno + 1 if documented else 0)


def annotations(module: Module) -> list[ast.expr]:
    """Of parameters, returns, variables and fields."""
    marks = [getattr(node, "annotation", None) for node in ast.walk(module.tree)]
    return [mark for mark in [*marks, *(function.returns for function in module.functions)] if mark is not None]


def names_any(mark: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(mark))


def has_bare_dict(mark: ast.expr) -> bool:
    """Whether it says ``dict`` somewhere without the kinds of its keys and values."""
    told = {id(node.value) for node in ast.walk(mark) if isinstance(node, ast.Subscript)}
    return any(isinstance(node, ast.Name) and node.id == "dict" and id(node) not in told for node in ast.walk(mark))


def upward_imports(found: list[Module]) -> list[str]:
    """Imports, late ones too, from a floor of the house into what stands on it."""
    known = {module.name for module in found}
    return sorted(
        f"{module.name} -> {other}"
        for module in found
        for floors, above in FLOORS.items()
        for floor in [tuple(f"{folder}." for folder in floors)]
        if f"{module.name}.".startswith(floor)
        for other in module.imported(known)
        if f"{other}.".startswith(above) and not f"{other}.".startswith(floor)
    )


def exception_classes(found: list[Module]) -> list[str]:
    """Classes that are exceptions by a base, as its name says or as another class here shows."""
    bases = {}
    for module in found:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                named = [
                    base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases
                ]
                bases[node.name] = named
    known = {
        name for name in vars(__import__("builtins")) if name.endswith(("Error", "Exception", "Interrupt", "Warning"))
    }
    known |= {"UnpicklingError", "Exception", "BaseException"}
    while more := {name for name, above in bases.items() if name not in known and known & set(above)}:
        known |= more
    return sorted(name for name in bases if name in known)


def words_of_pages() -> dict[Path, int]:
    """Words (`str.split`) of every English page at the top, in docs/ and in deploy/, those that a program writes included."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    return {page: len(page.read_text("utf-8").split()) for page in pages if not page.name.endswith(".zh.md")}


def figures() -> dict[str, float]:
    """The figures under the names of `LIMITS`."""
    found = modules()
    counted = [module for module in found if module.counts]
    functions = [function for module in found for function in module.functions]
    core = [function for module in found if module.part in CORE for function in module.functions]
    rest = [function for module in found if module.part not in CORE for function in module.functions]
    words = words_of_pages()
    return {
        "modules": len(counted),
        "median_lines": median(module.lines for module in counted),
        "circles": len(circles(found)),
        "annotated_core": round(annotated(core), 4),
        "annotated_rest": round(annotated(rest), 4),
        "readme_lines": len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()),
        "docs_words": sum(count for page, count in words.items() if page not in GENERATED),
        "largest_page_words": max(words.values()),
        "exception_classes": len(exception_classes(found)),
        "longest_function": max(map(length_of, functions)),
        "functions_over_6_parameters": sum(len(parameters_of(function)) > 6 for function in functions),
        "any_in_components": sum(
            names_any(mark) for module in found if module.part == "components" for mark in annotations(module)
        ),
        "bare_dicts": sum(
            has_bare_dict(mark) for module in found if module.part in TYPED for mark in annotations(module)
        ),
        "upward_imports": len(upward_imports(found)),
        "lines": sum(module.lines for module in found),
    }


CURES = {
    "bare_dicts": "write dict[str, int], or Document of components/common/federation.py",
    "any_in_components": "write what the value is, or object",
    "lines": "a new component may raise the limit in tests/house.py by its own lines",
    "modules": "a new component may raise the limit in tests/house.py by its own modules",
}


def kept(name: str, value: float) -> bool:
    kind, limit = LIMITS[name]
    return value <= limit if kind == "at most" else value >= limit


def main() -> int:
    found, table = figures(), Table(title="The house", title_justify="left")
    for heading in ("figure", "value", "limit", ""):
        table.add_column(heading)
    for name, value in found.items():
        table.add_row(name, f"{value:g}", " ".join(map(str, LIMITS[name])), "" if kept(name, value) else "beyond")
    Console(width=100).print(table)
    for name in CURES:
        if not kept(name, found[name]):
            print(f"{name}:", CURES[name])
    for ring in circles(modules()):
        print("circle:", ", ".join(sorted(ring)))
    for arrow in upward_imports(modules()):
        print("upward:", arrow)
    print(json.dumps({"bench": "house", "figures": found}))
    return 0 if all(kept(*item) for item in found.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
