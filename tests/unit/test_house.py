"""The house keeps its limits: `make house` shows the figures, and here no commit leaves them."""

import pytest

from tests.house import (
    CURES,
    LIMITS,
    Module,
    annotations,
    circles,
    exception_classes,
    figures,
    has_bare_dict,
    kept,
    length_of,
    names_any,
    parameters_of,
    upward_imports,
    words_of_pages,
)


@pytest.fixture(scope="module")
def found():
    return figures()


@pytest.mark.parametrize("name", LIMITS)
def test_the_house_keeps_a_limit(found, name):
    wanted = f"must be {' '.join(map(str, LIMITS[name]))}"
    assert kept(name, found[name]), f"{name} {wanted}, got {found[name]}. {CURES.get(name, '')}"


@pytest.fixture
def product(tmp_path, monkeypatch):
    """Modules of a made-up product, by name and text."""
    monkeypatch.setattr("tests.house.ROOT", tmp_path)

    def make(**texts):
        (tmp_path / "privacy").mkdir(exist_ok=True)
        for name, text in texts.items():
            (tmp_path / "privacy" / f"{name}.py").write_text(text)
        return [Module(path) for path in sorted(tmp_path.glob("privacy/*.py"))]

    return make


def test_a_circle_is_found_although_one_of_its_imports_is_late(product):
    modules = product(
        first="from .second import b\n",
        second="def b():\n    from fate_dp.privacy import third\n",
        third="def c():\n    from .first import a\n",
        alone="from .first import a\n",
    )
    assert circles(modules) == [{"privacy.first", "privacy.second", "privacy.third"}]


def test_exceptions_are_found_by_their_bases_at_any_distance(product):
    modules = product(
        errors="class A(ValueError): pass\nclass B(A): pass\nclass C: pass\n",
        more="from .errors import B\nclass D(B): pass\n",
    )
    assert exception_classes(modules) == ["A", "B", "D"]


def test_functions_are_measured_without_their_docstring_and_self(product):
    (module,) = product(
        one='class A:\n    def f(self, a, *, b: int = 1, **rest) -> int:\n        """Say\n\n        so."""\n        return 1\n'
    )
    (function,) = module.functions
    assert length_of(function) == 2 and [each.arg for each in parameters_of(function)] == ["a", "b", "rest"]


def test_words_are_those_of_english_pages_at_the_top_in_docs_and_in_deploy(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.house.ROOT", tmp_path)
    for name in ("README.md", "docs/howto/plan.md", "deploy/docker/README.md", "docs/plan.zh.md", "bench/README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("| two | words |\n", encoding="utf-8")
    counted = {page.relative_to(tmp_path).as_posix(): count for page, count in words_of_pages().items()}
    assert counted == {"README.md": 5, "docs/howto/plan.md": 5, "deploy/docker/README.md": 5}


def test_annotations_are_counted_wherever_they_stand(product):
    (module,) = product(
        one="from typing import Any\nx: Any = 1\ny: dict[str, Any]\ndef f(a: list[dict], *b: dict[str, int], **c: Any) -> dict: ...\n"
    )
    marks = annotations(module)
    assert sum(map(names_any, marks)) == 3 and sum(map(has_bare_dict, marks)) == 2


def test_an_import_into_what_stands_above_is_found_although_it_is_late(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.house.ROOT", tmp_path)
    texts = {
        "common/low.py": "def f():\n    from ..dp_thing.high import g\n",
        "common/wire/deep.py": "from ..low import f\n",
        "dp_thing/high.py": "from ..common.low import f\n",
    }
    for name, text in texts.items():
        (tmp_path / "components" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "components" / name).write_text(text)
    found = [Module(path) for path in sorted(tmp_path.glob("components/**/*.py"))]
    assert upward_imports(found) == ["components.common.low -> components.dp_thing.high"]
