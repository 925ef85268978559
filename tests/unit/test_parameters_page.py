"""docs/parameters.md is what `make docs-parameters` writes, and every parameter of every component has a sentence there."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fate_dp.pipelines import clients
from fate_dp.privacy.validation import InvalidArgument
from tests.pages import parameters as parameters_page

ROOT = Path(__file__).parents[2]
DEFINITIONS = sorted(Path(clients.__file__).parent.glob("*.yaml"))


@pytest.fixture(scope="module")
def page():
    return parameters_page.parameters_page()


def section(page, component):
    return page.split(f"## `{component}`, class ")[1].split("\n## ")[0]


def test_the_committed_page_is_what_the_components_declare_now(page):
    assert (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8") == page, "run `make docs-parameters`"


def test_every_component_is_on_the_page(page):
    listed = [path.parent.name for path in (ROOT / "components").glob("*/component.py")]
    assert sorted(listed) == sorted(re.findall(r"^## `(\w+)`", page, flags=re.MULTILINE))


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: path.stem)
def test_every_parameter_has_a_row_with_kind_default_and_sentence(page, path):
    rows = {
        cells[0].strip("` "): [cell.strip() for cell in cells[1:]]
        for cells in (
            line.strip("|").split(" | ") for line in section(page, path.stem).splitlines() if line.startswith("| `")
        )
    }
    declared = yaml.safe_load(path.read_text(encoding="utf-8"))["component"]["parameters"]
    assert set(rows) == {f"{name}" for name in declared}
    for name, (kind, default, sentence) in rows.items():
        assert set(re.split(", | or (?!false)", kind)) <= set(parameters_page.KINDS.values()) and default, name
        assert sentence.rstrip(" |").endswith(".") and len(sentence.split()) >= 3, name
        assert (default == "*needed*") == (not declared[name]["optional"]), name


def test_defaults_of_mappings_show_their_keys_and_numbers_are_no_truth_values(page):
    assert "`kind: paillier`, `key_length: 2048`" in section(page, "dp_hetero_lr")
    assert "| `max_dropouts` | whole number | `1` |" in section(page, "dp_homo_nn")
    assert "| `train_scores` | true or false | `false` |" in section(page, "share_lr")


@pytest.mark.parametrize("told", ["", "two words"])
def test_a_parameter_without_a_sentence_fails_the_build(told):
    mode = replace(clients.Flipback.parameters["mode"], sentence=told)
    with pytest.raises(InvalidArgument, match="The parameter mode of flipback is described as"):
        parameters_page._row("flipback", mode)
