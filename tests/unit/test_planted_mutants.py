"""`make mutants` takes minutes; that its mutants can be planted where the code is now is seen here, in a second."""

import ast
import os
import subprocess
import sys

import pytest

from tests.contract.registry import CASES
from tests.contract.test_contract import CLAUSES
from tests.mutants.planting import KINDS, ROOT, SITE, VARIABLE, Mutant, NotPlanted, all_mutants

MUTANTS = all_mutants()
TRUST_MODELS = ("secure_sum", "local", "shuffle")


def test_every_mutant_is_found_where_it_says_and_is_python():
    for mutant in MUTANTS:
        ast.parse(mutant.source())
        assert mutant.source() != mutant.path.read_text(encoding="utf-8")
        assert mutant.equivalent or mutant.tests, mutant.name


def test_all_components_kinds_and_trust_models_have_mutants():
    components = {path.parent.name for path in ROOT.glob("components/*/component.py")}
    assert len({each.name for each in MUTANTS}) == len(MUTANTS) >= 120
    assert {each.kind for each in MUTANTS} == set(KINDS)
    assert components <= {each.module.split(".")[1] for each in MUTANTS}
    assert all(any(each.name.startswith(f"{model}: ") for each in MUTANTS) for model in TRUST_MODELS)
    assert len({each.patch for each in MUTANTS} - {""}) == 14


def test_their_tests_are_in_files_that_are_there():
    for file in {test.partition("::")[0] for each in MUTANTS for test in each.tests}:
        assert (ROOT / file).is_file(), file


def test_the_cells_that_must_fail_of_them_are_cells_of_the_contract():
    cells = {
        f"tests/contract/test_contract.py::test_contract[{case.name}-{clause}]" for case in CASES for clause in CLAUSES
    }
    asked = {test for each in MUTANTS for test in each.tests if "::test_contract[" in test}
    assert asked and asked <= cells, asked - cells


@pytest.mark.parametrize(
    "symbol, fragment",
    [
        ("components.label_count.party:publish", "no such text"),
        ("components.label_count.party:publish", "own."),
        ("components.label_count.party:Counting.none", "own"),
    ],
)
def test_a_mutant_whose_code_moved_fails_with_a_sentence(symbol, fragment):
    mutant = Mutant("a fault", "A", symbol, ((fragment, ""),))
    with pytest.raises(NotPlanted, match="a fault: .*write the mutant anew"):
        mutant.source()


def test_a_process_that_a_test_starts_has_the_mutant():
    mutant = next(each for each in MUTANTS if each.name == "label_count charges the guest alone")
    environment = {**os.environ, VARIABLE: mutant.name, "PYTHONPATH": os.pathsep.join((str(SITE), str(ROOT)))}
    program = "from fate_dp.components.label_count import party; print(party.publish.__code__.co_names)"
    names = [
        subprocess.run([sys.executable, "-c", program], env=each, capture_output=True, text=True, check=True).stdout
        for each in (environment, os.environ)
    ]
    assert ["is_on_guest" in each for each in names] == [True, False]
