"""docs/privacy/ is what `make docs-privacy` writes, complete, and its numbers are the specification's."""

import importlib
import importlib.util
import re
import shutil
from pathlib import Path

import pytest
import yaml

from fate_dp.components.disclosure import declaration
from fate_dp.pipelines.report import guarantees
from fate_dp.pipelines.report.guarantees import component_names
from fate_dp.privacy.validation import InvalidArgument
from tests.pages import computed_tables, mechanisms
from tests.pages.privacy import LISTS, privacy_pages

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages():
    return privacy_pages()


@pytest.fixture(scope="module")
def page(pages):
    """All pages as one text."""
    return "\n".join(pages.values())


@pytest.fixture
def components(tmp_path):
    """A copy of the declarations of all components, to be spoilt."""
    for name in component_names():
        (tmp_path / name).mkdir()
        shutil.copy(guarantees.COMPONENTS / name / "guarantee.yaml", tmp_path / name)
    return tmp_path


def spoil(path, change):
    content = yaml.safe_load(path.read_text())
    change(content)
    path.write_text(yaml.safe_dump(content))


def test_the_committed_pages_are_what_the_declarations_and_the_library_say_now(pages):
    folder = ROOT / "docs" / "privacy"
    assert {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.md")} == pages, (
        "run `make docs-privacy`"
    )


def test_every_component_has_a_page_and_the_index_links_to_every_page(pages):
    listed = {path.parent.name for path in (ROOT / "components").glob("*/component.py")}
    assert listed and listed == set(component_names()) <= set(pages)
    index = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    assert [name for name in pages if f"](privacy/{name}.md)" not in index] == []


@pytest.mark.parametrize("name", component_names())
def test_every_statement_of_a_component_stands_once_on_its_page_or_on_the_common_one(pages, name):
    item = guarantees.component_guarantee(name)
    for field, title in LISTS.items():
        statements = getattr(item, field)
        own = pages[name].split(f"## {title}\n")[1].split("\n## ")[0]
        common = pages["common"].split(f"## {title}\n")[1].split("\n## ")[0]
        shared = [line for line in common.splitlines() if f"({name}.md)" in line]
        alone = [text for text in statements if f"- {text}\n" in own]
        assert {text for text in statements if text not in alone} == {line[2:].split(" | ")[0] for line in shared}
        assert (f"[{len(shared)} more, shared" in own) == bool(shared)


def test_each_component_tells_unit_relation_observers_formula_reference_and_what_is_not_covered():
    for name in component_names():
        item = guarantees.component_guarantee(name)
        assert item.not_covered and item.references and item.ledger and item.promises
        assert all(part.unit and part.relation and part.observers and part.formula for part in item.promises)


@pytest.mark.parametrize("package", mechanisms.MECHANISM_PACKAGES)
def test_declared_functions_exist(package):
    for item in mechanisms.mechanism_guarantees(package):
        module = importlib.import_module(f"fate_dp.privacy.{package}.{item.module}")
        missing = [name for name in item.names if not hasattr(module, name)]
        assert missing == [], f"{package}/{item.module}.py has no {missing}"


def test_the_page_names_exactly_the_events_that_accountants_and_totals_compose():
    from fate_dp.privacy.accounting.accountant import DIVERGENCES, HAS_PROFILE
    from fate_dp.privacy.events import PROCESSES, Gaussian, GroupedGaussian

    # Unsampled Gaussian noise is composed exactly, without a profile.
    exact = {Gaussian, GroupedGaussian}
    composed = {
        "PLDAccountant": {*HAS_PROFILE, *exact},
        "RDPAccountant": {*DIVERGENCES, *exact},
        "total_epsilon": PROCESSES,
    }
    for item in mechanisms.mechanism_guarantees("accounting"):
        for name in composed.keys() & set(item.names):
            wrong = {kind.__name__ for kind in composed[name]} ^ set(item.events)
            assert not wrong, f"accounting/guarantees.yaml and what {name} composes differ in {wrong}"


def test_features_are_said_not_to_be_covered():
    for name in component_names():
        assert any("eatures" in line for line in guarantees.component_guarantee(name).not_covered)


def test_components_that_show_single_rows_are_fates_and_stand_on_the_page(pages):
    section = pages["fate-components"]
    named = set(re.findall(r"^\| `(\w+)` \|", section, flags=re.M))
    known = [declaration.disclosure_of(name) for name in declaration.catalogue()]
    telling = {item.component: [shown for shown in item.shows if shown.learns in ("every", "some")] for item in known}
    assert named == {name for name, shows in telling.items() if shows}
    fates = Path(importlib.util.find_spec("fate").submodule_search_locations[0]) / "components" / "components"
    assert "hetero_feature_binning" in named <= {path.stem for path in fates.glob("*.py")}
    for shown in (shown for shows in telling.values() for shown in shows):
        assert all(f"`{place}`" in section for place in shown.evidence)
    assert "hetero_feature_binning" in " ".join(guarantees.component_guarantee("label_flip").not_covered)


def test_the_guide_names_the_components_that_show_a_host_every_label():
    guide = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    known = [declaration.disclosure_of(name) for name in declaration.catalogue()]
    showing = [
        item.component
        for item in known
        if any(shown.what == "labels" and shown.learns == "every" and "host" in shown.to for shown in item.shows)
    ]
    assert showing and [name for name in showing if f"`{name}`" not in guide] == []


@pytest.mark.parametrize("name", component_names())
def test_the_page_says_of_every_component_what_each_party_receives_the_worst_first(pages, name):
    disclosure = guarantees.component_guarantee(name).disclosure
    received = pages[name].split("## What each party receives\n")[1].split("\n## ")[0]
    assert all(f"{shown.message}. Reveals: {shown.computes}" in received for shown in disclosure.shows)
    learnt = re.findall(r"^\| (?:labels|features|ids|scores).*? \| .*? \| .*? \| (\w+) \|", received, flags=re.M)
    assert learnt == sorted(learnt, key=declaration.LEARNS.index)
    assert set(learnt) == {shown.learns for shown in disclosure.shows}


def test_statements_that_differ_in_the_asset_alone_are_one_line(pages):
    assert "| labels and features of guest, host | arbiter | masked | nothing |" in pages["dp_homo_nn"]
    assert "| train; `aggregation` is secure_sum; `noise_spread` is uniform or adaptive |" in pages["dp_homo_nn"]
    assert "Whether the checks of the others passed, and nothing else." in pages["flipback"]
    assert "| train; of rows of `validate_data` |" in "\n".join(pages.values())
    assert "| `hide_size` is not set or false |" in pages["align"]


def test_every_promise_for_records_says_that_features_computed_over_all_rows_end_it(page):
    """All components that promise a record anything of their own; align and smote do not read features for a promise."""
    for name in ("dp_binning", "dp_hetero_lr", "dp_homo_nn", "shuffler"):
        item = guarantees.component_guarantee(name)
        assert any(promise.unit == "record" for promise in item.promises)
        said = [
            line
            for line in item.not_covered
            if "binning" in line and "standardising" in line and "smote has" not in line
        ]
        assert len(said) == 1
    assert "public units" in (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")


def test_every_solver_has_a_protocol_whose_observers_the_page_lists(page):
    from fate_dp.components.dp_hetero_lr.settings import SOLVERS

    item = guarantees.component_guarantee("dp_hetero_lr")
    assert {protocol.solver for protocol in item.protocols} == set(SOLVERS)
    for protocol in item.protocols:
        assert {view.observer for view in protocol.views} == {"guest", "host", "arbiter", "model"}
        assert f"**`solver: {protocol.solver}`**" in page and all(view.sees in page for view in protocol.views)
    with pytest.raises(InvalidArgument, match="dp_hetero_lr declares no protocol for solver 'secret'"):
        item.protocol("secret")


@pytest.mark.parametrize(
    "words",
    [
        "fixed count of labels",
        "with probability p",
        "delta is at least 1 - p",
        "Flipback adds epsilon",
        "post-processing",
    ],
)
def test_unsound_rules_of_the_sources_are_labelled(pages, words):
    assert words in pages["tables"].split("## Rules that do not hold")[1]


def test_a_component_without_a_declaration_fails_the_build(components):
    (components / "flipback" / "guarantee.yaml").unlink()
    with pytest.raises(
        InvalidArgument, match="flipback/guarantee.yaml declares what is guaranteed and cannot be read: No such file"
    ):
        guarantees.component_guarantee("flipback", components)
    (components / "flipback" / "guarantee.yaml").write_text("component: flipback\ndoes: [1\npromises: x\n")
    with pytest.raises(InvalidArgument, match="flipback/guarantee.yaml:3: invalid YAML: expected"):
        guarantees.component_guarantee("flipback", components)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda content: content.pop("not_covered"), "not_covered"),
        (lambda content: content.update(more="x"), "more"),
        (lambda content: content.update(not_covered=[]), "not_covered in label_flip/guarantee.yaml must be"),
        (
            lambda content: content.update(does=" "),
            "does in label_flip/guarantee.yaml must be text that is not empty, got ' '.",
        ),
        (
            lambda content: content.update(references=[1]),
            "references in label_flip/guarantee.yaml must be text that is not empty, got 1.",
        ),
        (lambda content: content.update(component="flipback"), "must be 'label_flip'"),
        (lambda content: content["promises"][0].update(unit="person"), "unit in label_flip/guarantee.yaml must be"),
        (
            lambda content: content["promises"][0].update(relation="swap"),
            "must be one of add_or_remove, replace_one, got 'swap'.",
        ),
        (lambda content: content["promises"][0].update(observers=["everybody"]), "must be one of guest"),
        (lambda content: content["promises"][0].update(event="Magic"), "must be one of RandomizedResponse"),
        (lambda content: content["promises"][0].pop("formula"), "formula"),
        (
            lambda content: content.update(protocols=[{"solver": "x"}]),
            "must be solver, does, views, collusion, each once, got ['solver'].",
        ),
        (lambda content: content.update(protocols=[]), "protocols in label_flip/guarantee.yaml must be"),
        (lambda content: content.pop("disclosure"), "disclosure"),
        (lambda content: content["disclosure"].update(component="flipback"), "must be 'label_flip', got 'flipback'."),
        (
            lambda content: content["disclosure"]["shows"][0].update(learns="much"),
            "learns in label_flip/guarantee.yaml must be one of every, some, sums, nothing, got 'much'.",
        ),
        (
            lambda content: content["disclosure"]["shows"][0].update(when={"noise": ["none"]}),
            "when in label_flip/guarantee.yaml must be settings of []",
        ),
    ],
)
def test_an_incomplete_declaration_fails_the_build(components, change, said):
    spoil(components / "label_flip" / "guarantee.yaml", change)
    with pytest.raises(InvalidArgument) as refusal:
        guarantees.component_guarantee("label_flip", components)
    assert said in str(refusal.value) and str(refusal.value).count("\n") == 0


def test_a_module_without_a_declaration_fails_the_build(tmp_path):
    shutil.copytree(mechanisms.PRIVACY / "noise", tmp_path / "noise")
    (tmp_path / "noise" / "new_noise.py").write_text("")
    with pytest.raises(InvalidArgument, match=r"no guarantee of the modules \['new_noise'\]"):
        mechanisms.mechanism_guarantees("noise", tmp_path)


def test_tables_hold_the_specifications_values(page):
    assert "| 1 | 0.73106 | 0.26894 |" in page and "| 2 | 0.88080 | 0.11920 |" in page
    assert "| 4 | 0.98201 | 0.01799 |" in page and "| 8 | 0.99966 | 0.00034 |" in page
    assert "| 1 | 10 | 1 | 10 | 9.99978 |" in page and "| 0.5 | 20 | 0.5 | 10 | 9.85942 |" in page
    assert "| 0.1 | 30.75 |" in page and "| 1 | 3.7307 |" in page


def test_each_table_names_the_command_that_prints_it(page, capsys, monkeypatch):
    for name in computed_tables.TABLES:
        assert f"`.venv/bin/python -m tests.pages.computed_tables {name}`" in page
    monkeypatch.setattr("sys.argv", ["computed_tables", "flip_rates"])
    computed_tables.main()
    assert capsys.readouterr().out.strip() in page


def test_every_row_of_a_markdown_table_has_as_many_cells_as_its_head(page):
    blocks = re.findall(r"(?:^\|.*\n)+", page, flags=re.MULTILINE)
    assert len(blocks) > 10
    for block in blocks:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1
