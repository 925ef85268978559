"""A refusal reads `FIELD must be RULE, got VALUE. CURE.` wherever the product writes one."""

import ast
import re

import numpy as np
import pytest

from fate_dp.privacy.validation import refusal
from tests.house import Module, modules

OTHER_GRAMMARS = re.compile(
    r"but must|[;,] (it|they|both|all|each|there) must|is not allowed|[;,] allowed (is|are)|must (agree|read)"
    r"|exactly one of (the two|them) must"
)


def sentences(tree: ast.Module):
    """(line, text) of each string but docstrings, with {} for what an f-string fills in."""
    inner = {id(each) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in node.values}
    inner |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(each.value if isinstance(each, ast.Constant) else "{}" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def faults(module: Module) -> list[str]:
    return [f"{module.path}:{line}: {text}" for line, text in sentences(module.tree) if OTHER_GRAMMARS.search(text)]


def test_the_product_writes_refusals_in_one_grammar():
    assert not [fault for module in modules() for fault in faults(module)]


@pytest.mark.parametrize(
    "sentence",
    [
        'f"{name} is {value!r} but must be {allowed}."',
        'f"rows is {rows}; " "it must be above 0."',
        '"Shares have two lengths; they must agree."',
        'f"{name} is {value!r}; allowed are on and off."',
        '"The port is not allowed."',
    ],
)
def test_another_grammar_is_found_with_its_file_and_line(tmp_path, sentence):
    path = tmp_path / "some.py"
    path.write_text(f'"""What is refused; it must be said."""\n\nraise ValueError({sentence})\n')
    (fault,) = faults(Module(path))
    assert fault.startswith(f"{path}:3: ")


def test_a_refusal_names_field_rule_and_value_and_then_the_cure():
    assert refusal("rows", 0, "at least 1") == "rows must be at least 1, got 0."
    assert refusal("port", "80", "free", "Name another.") == "port must be free, got '80'. Name another."


def test_a_refused_array_tells_its_shape_and_never_its_numbers():
    assert refusal("labels", np.ones((2, 3)), "whole") == "labels must be whole, got shape (2, 3) and type float64."
    assert "0.0" in refusal("epsilon", np.float64(0), "above 0")


@pytest.mark.parametrize("value", ["x" * 10**6, list(range(10**5)), {str(n): n for n in range(10**5)}])
def test_a_refusal_of_a_long_value_is_short_enough_for_every_party(value):
    told = refusal("field", value, "a number", "Cure.")
    assert (
        len(told) < 600
        and told.startswith(f"field must be a number, got {repr(value)[:100]}")
        and told.endswith(" Cure.")
    )
