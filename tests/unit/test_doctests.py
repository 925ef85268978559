"""The examples in docstrings do what they show."""

import doctest
from importlib import import_module

import pytest

from tests.house import modules

SHOWN = [module.name for module in modules() if ">>>" in module.text]


@pytest.mark.parametrize("name", SHOWN)
def test_the_examples_of_a_module(name):
    result = doctest.testmod(import_module(f"fate_dp.{name}"), optionflags=doctest.ELLIPSIS)
    assert result.attempted and not result.failed


def test_what_is_used_most_has_an_example():
    assert {"privacy.labels.flips", "privacy.accounting.gaussian", "crypto.paillier"} <= set(SHOWN)
