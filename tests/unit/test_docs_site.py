"""The documentation hangs together: pages of the menu exist, links and keys of references lead somewhere.

Cheap, and without building the site: `make docs` checks the rest, and fails on every warning.
"""

import importlib.util
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from tests import house
from tests.support.page_blocks import blocks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README_LINES = 150
FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.M | re.S)
INDENTED = re.compile(r"(?:^|\n)\n((?: {4}|\t).*\n)+")
LINK = re.compile(r"\]\(([^()\s]+)(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.M)


def hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "_site" / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOKS = hooks()
PAGES = sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / page for page in HOOKS.PAGES.values())})
FIGURES = [DOCS / "figures.md", ROOT / "bench" / "README.md", ROOT / "bench" / "thesis" / "README.md"]


def prose(path):
    """The text of a page without its code."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def slugs(path):
    """Anchors of a page: of its headings, as GitHub and the site make them, and those written as HTML."""
    text = prose(path)
    titles = [re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in HEADING.findall(text)]
    made = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


def nav_pages(entries):
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            yield from nav_pages(value) if isinstance(value, list) else [value]


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, whose settings name functions of Python."""


Loader.add_multi_constructor("!!python/", lambda loader, suffix, node: None)
Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)


@pytest.fixture(scope="module")
def site():
    return yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)


def is_page(name):
    if name.startswith("reference/"):
        stem = Path(name).stem
        return stem == "index" or all((ROOT / folder).exists() for folder in HOOKS.REFERENCE[stem][1])
    return (ROOT / HOOKS.origin_of(name)).is_file()


def test_every_page_of_the_menu_exists(site):
    names = list(nav_pages(site["nav"]))
    assert len(names) == len(set(names)) > 30
    assert [name for name in names if not is_page(name)] == []


def test_the_search_of_files_needs_no_script_from_elsewhere(site):
    scripts = site["extra"]["polyfills"]
    assert [name for name in scripts if not (DOCS / name).is_file()] == []
    # The plugin adds one from elsewhere unless a name holds this word.
    assert any("iframe-worker" in name for name in scripts)


def test_every_page_is_in_the_menu(site):
    names = set(nav_pages(site["nav"]))
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    notebooks = {f"notebooks/{path.stem}.md" for path in (DOCS / "notebooks").glob("*.ipynb")}
    reference = {f"reference/{name}.md" for name in HOOKS.REFERENCE}
    assert (written | notebooks | reference | set(HOOKS.PAGES)) - names == set()


def test_every_relative_link_leads_somewhere():
    for path in PAGES:
        lost = []
        for target in LINK.findall(prose(path)):
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = unquote(target).partition("#")
            aim = (path.parent / name).resolve() if name else path
            if not aim.exists() or (anchor and aim.suffix == ".md" and anchor not in slugs(aim)):
                lost.append(target)
        assert lost == [], path


OWN = re.compile(r"`((?:privacy|crypto|components|pipelines|data_prep|deploy|bench|tests|docs|conf|examples)/[\w./]+)`")


def test_every_file_that_a_page_names_exists():
    for path in (page for page in PAGES if page not in house.GENERATED and page.name != "CHANGELOG.md"):
        lost = [name for name in OWN.findall(prose(path)) if "NAME" not in name and not (ROOT / name).exists()]
        assert lost == [], path


def test_the_readme_is_short_and_names_both_commands():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= README_LINES
    assert "    make install" in "\n".join(lines) and "    make demo" in "\n".join(lines)


CHINESE = [
    (ROOT / "README.md", ROOT / "README.zh.md"),
    *((page.with_name(page.name.replace(".zh.", ".")), page) for page in DOCS.rglob("*.zh.md")),
]


@pytest.mark.parametrize("english, chinese", CHINESE, ids=lambda page: page.name)
def test_a_chinese_page_keeps_step_with_the_english_one(english, chinese):
    """The same headings, blocks of code, rows of tables and links, in the same order."""

    def skeleton(page):
        targets = [link.replace(".zh.md", ".md") for link in LINK.findall(prose(page))]
        return {
            "headings": re.findall(r"^(#+) ", prose(page), re.M),
            "blocks": [(block.language, block.text) for block in blocks(page)],
            "rows": re.findall(r"^\|", prose(page), re.M),
            "points": re.findall(r"^- ", prose(page), re.M),
            "links": {link for link in targets if not link.endswith(english.name)},
        }

    assert skeleton(chinese) == skeleton(english)
    letters = re.findall(r"[\u4e00-\u9fff]", chinese.read_text(encoding="utf-8"))
    assert len(letters) > 500 and not re.findall(r"[\u4e00-\u9fff][,;!?]", prose(chinese))


def test_every_word_of_the_glossary_has_its_chinese_one():
    rows = re.findall(r"^\| \*\*(.*?)\*\*.*\| (.*) \|$", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.M)
    assert len(rows) > 50 and all(re.search(r"[\u4e00-\u9fff]", chinese) for _, chinese in rows)
    assert {"隐私预算", "标签", "相邻数据集", "评分卡"} <= set(
        re.findall("隐私预算|标签|相邻数据集|评分卡", " ".join(chinese for _, chinese in rows))
    )


def test_every_key_that_a_page_cites_is_in_the_references():
    for path in PAGES:
        cited = set(HOOKS.KEY.findall(INDENTED.sub("\n", prose(path))))
        assert cited - defined_keys() == set(), path


def defined_keys():
    return set(re.findall(r"\*\*\[(\w+)\]\*\*", (DOCS / "references.md").read_text(encoding="utf-8")))


def test_every_key_has_an_anchor_of_its_own_and_the_documents_are_in_the_citation_file():
    text = (DOCS / "references.md").read_text(encoding="utf-8")
    keys = re.findall(r'<a id="(\w+)"></a>\*\*\[(\w+)\]\*\*', text)
    assert len(keys) == len(defined_keys()) == text.count("**[")
    assert all(anchor == key.lower() for anchor, key in keys)
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    documents = text.split("## ")[1]
    noted = " ".join(entry["notes"] for entry in citation["references"])
    for key in re.findall(r"\*\*\[(\w+)\]\*\*", documents):
        assert key in noted
    assert len(citation["references"]) == 5


@pytest.mark.parametrize("page", FIGURES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_measured_tables_stand_beside_their_commands(page):
    """Each section of the figures names the command that measured it, or the one that computes it."""
    sections = page.read_text(encoding="utf-8").split("\n## ")[1:]
    without = [
        section.splitlines()[0]
        for section in sections
        if not re.search(r"(`|    \S*)(make|python -m|fate-dp) ?[^`]*", section)
    ]
    assert sections and without == []


def test_every_component_stands_in_the_drawing_of_the_house():
    components = {path.parent.name for path in (ROOT / "components").glob("*/component.py")}
    drawn = set(re.findall(r">([^<>]+)</text>", (DOCS / "architecture.svg").read_text(encoding="utf-8")))
    assert components <= drawn, sorted(components - drawn)


def test_notebooks_become_pages_with_their_cells():
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        page = HOOKS.notebook_page(path, {})
        assert page.startswith("# ") and page.count("```python") >= 3


def test_links_are_moved_to_where_the_site_has_their_targets():
    text = HOOKS.with_site_links(
        "[a](../../deploy/README.md#install) [b](../privacy.md) [c](../../examples/config.yaml) [He2021]\n"
        "```\n[d](../../deploy/README.md)\n```\n",
        "howto/plan.md",
    )
    assert "[a](../operators.md#install) [b](../privacy.md) [c](../files/examples/config.yaml)" in text
    assert "../references.md#he2021" in text and "[d](../../deploy/README.md)" in text
