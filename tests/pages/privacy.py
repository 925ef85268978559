"""``docs/privacy/``: what every component and mechanism guarantees, written from declarations and computed tables.

    python -m tests.pages.privacy docs/privacy

One page for each component, one for what several of them state alike, one for FATE's components, one for mechanisms,
one for tables and rules. The text comes from the YAML files that ``guarantees`` reads, the numbers from the library
itself (`computed_tables`); ``docs/privacy.md`` is the index.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from fate_dp.components.disclosure.declaration import (
    EVERY,
    LEARNS,
    PROOF,
    SOME,
    ComponentDisclosure,
    Shown,
    catalogue,
    disclosure_of,
)
from fate_dp.pipelines.report import guarantees
from fate_dp.pipelines.report.guarantees import component_names

from . import mechanisms
from .computed_tables import TABLES, ComputedTable, markdown_table

PACKAGES = {"mechanisms": "Mechanisms", "noise": "Noise on a grid", "accounting": "Accounting"}
LISTS = {"assumptions": "Assumed", "not_covered": "Not covered", "ledger": "Ledger"}
WRITTEN = "<!-- Written by `make docs-privacy`; a change by hand is lost. -->"
COMMON = (
    "Several components share these statements. Each counts like a statement on the page of the components it names."
)
OTHERS = """\
A promise on labels begins where `label_flip` flips them. These components of FATE 2.2.0 show one party functions of
another party's single rows. They show true labels if they run before `label_flip` or on labels that were never flipped.

*Every* and *some* are explained in the [index](../privacy.md#what-each-party-receives). *Tried*: a script recovers the
values from the ciphertexts of a job or of the call. *Read*: FATE's source makes the call at the file and line named.

Put `label_flip` directly behind `reader` and `psi`, and everything else behind it. Binning, selection and trees then show
flips, at the epsilon of the flips. `fate-dp check` reports any job that leaks; `run_job` and the guest's `label_flip`
refuse it.
"""
MECHANISMS = "Functions of `fate_dp.privacy`. [Proofs](../proofs-privacy.md) are on a page of their own."
TABLES_AND_RULES = "Tables that the library computes, and rules in print or in common use that do not hold."


def privacy_pages() -> dict[str, str]:
    """The pages as Markdown, by the name of their file without its suffix.

    Raises:
        InvalidArgument: when a component that FATE discovers, or a module of mechanisms, declares nothing.
    """
    items = [guarantees.component_guarantee(name) for name in component_names()]
    shared = _shared(items)
    sections = [MECHANISMS]
    for package, title in PACKAGES.items():
        sections.append(f"## {title}")
        sections += [_mechanism(package, item) for item in mechanisms.mechanism_guarantees(package)]
    rules = [(rule.rule, rule.claim, rule.really, rule.instead) for rule in mechanisms.unsound_rules()]
    table = markdown_table(("rule (unsound)", "claimed", "what it really gives", "here instead"), rules)
    numbers = [TABLES_AND_RULES, "## Computed tables", *(_table(name, make()) for name, make in TABLES.items())]
    pages = {item.component: (f"`{item.component}`", _component(item, shared)) for item in items}
    pages |= {
        "common": ("What several components state", [COMMON, *_common(shared)]),
        "fate-components": ("What FATE's components show", [OTHERS, _of_others()]),
        "mechanisms": ("Mechanisms, noise and accounting", sections),
        "tables": ("Tables and unsound rules", [*numbers, "## Rules that do not hold", table]),
    }
    return {
        name: "\n\n".join(part.strip("\n") for part in (f"# {title}", WRITTEN, *parts)) + "\n"
        for name, (title, parts) in pages.items()
    }


def _shared(items: Iterable[guarantees.ComponentGuarantee]) -> dict[str, dict[str, list[str]]]:
    """By field of `LISTS`: the statements that several components declare word for word, with those components."""
    found: dict[str, dict[str, list[str]]] = {field: {} for field in LISTS}
    for item in items:
        for field, statements in found.items():
            for statement in getattr(item, field):
                statements.setdefault(statement, []).append(item.component)
    return {
        field: {text: names for text, names in statements.items() if len(names) > 1}
        for field, statements in found.items()
    }


def _common(shared: dict[str, dict[str, list[str]]]) -> Iterator[str]:
    for field, title in LISTS.items():
        yield f"## {title}"
        yield markdown_table(
            ("statement", "components"),
            [(text, ", ".join(f"[`{name}`]({name}.md)" for name in names)) for text, names in shared[field].items()],
        )


def _component(item: guarantees.ComponentGuarantee, shared: dict[str, dict[str, list[str]]]) -> list[str]:
    parts = [item.does, *map(_promise, item.promises), *map(_protocol, item.protocols), _received(item.disclosure)]
    for field, title in LISTS.items():
        statements = getattr(item, field)
        own = [text for text in statements if text not in shared[field]]
        link = f"[{len(statements) - len(own)} more, shared with other components](common.md#{_anchor(title)})."
        parts += [f"## {title}", _list(own + [link] * (len(own) < len(statements)))]
    return [*parts, "## References", _list(item.references)]


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _received(item: ComponentDisclosure) -> str:
    if not item.shows:
        return "## What each party receives\n\nWhether the checks of the others passed, and nothing else."
    rows = [
        (*_assets(what, shown), f"{shown.message}. Reveals: {shown.computes}", _condition(item, shown))
        for what, shown in _worst_first(item.shows)
    ]
    headings = ("of whom", "to whom", "form", "learns", "what is received", "when")
    return f"## What each party receives\n\n{markdown_table(headings, rows)}"


def _of_others() -> str:
    """What components of FATE show of single rows."""
    known = [item for item in map(disclosure_of, catalogue()) if item is not None]
    rows = [
        (f"`{item.component}`", *_assets(what, shown), _condition(item, shown), _seen(shown), shown.instead)
        for item in known
        for what, shown in _worst_first(item.shows)
        if shown.learns in (EVERY, SOME)
    ]
    headings = ("component", "of whom", "to whom", "form", "learns", "when", "seen", "what to do")
    return markdown_table(headings, rows)


def _worst_first(shows: Iterable[Shown]) -> Iterator[tuple[str, Shown]]:
    """(assets, statement): those that tell most come first; statements that differ in the asset alone become one."""
    ordered = sorted(shows, key=lambda shown: LEARNS.index(shown.learns))
    for shown, alike in groupby(ordered, key=lambda shown: replace(shown, what="")):
        yield " and ".join(each.what for each in alike), shown


def _assets(what: str, shown: Shown) -> tuple[str, str, str, str]:
    """What and of whom, to whom, in what form, and how much they learn."""
    return (
        f"{what} of {', '.join(shown.of)}",
        " and ".join((", ".join(shown.to), *shown.also)),
        shown.form.replace("_", " "),
        shown.learns,
    )


def _condition(item: ComponentDisclosure, shown: Shown) -> str:
    """Under which stages, settings and inputs a statement holds."""
    stages = ", ".join(shown.stages) if set(shown.stages or item.stages) < set(item.stages) else ""
    settings = [f"`{name}` is {' or '.join(map(_value, values))}" for name, values in shown.when.items()]
    inputs = [f"of rows of {' or '.join(f'`{name}`' for name in shown.inputs)}"] if shown.inputs else []
    return "; ".join(filter(None, [stages, *settings, *inputs])) or "always"


def _value(value: object) -> str:
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _seen(shown: Shown) -> str:
    evidence = ", ".join(f"`{place}`" for place in shown.evidence)
    tried = f"tried (`{shown.attack}`)" if shown.attack else "tried" if PROOF.match(shown.evidence[0]) else "read"
    return f"{tried}, {evidence}"


def _protocol(protocol: guarantees.Protocol) -> str:
    rows = [(view.observer, view.sees, view.protected_by) for view in protocol.views]
    views = markdown_table(("observer", "sees", "protected by"), rows)
    return f"**`solver: {protocol.solver}`**: {protocol.does}\n\n{views}\n\nCollusion: {protocol.collusion}"


def _promise(promise: guarantees.Promise) -> str:
    row = promise.unit, promise.relation, ", ".join(promise.observers), promise.event
    facts = markdown_table(("unit", "relation", "observers", "event"), [row])
    return f"{facts}\n\n{promise.guarantee}\n\n```math\n{promise.formula}\n```"


def _mechanism(package: str, item: mechanisms.MechanismGuarantee) -> str:
    names, events = (", ".join(f"`{name}`" for name in listed) for listed in (item.names, item.events))
    facts = f"- Functions: {names}\n- Sensitivity: {item.sensitivity}\n- Events: {events or 'none of its own'}"
    lists = [f"References:\n\n{_list(item.references)}"]
    lists += [f"**Caveats**:\n\n{_list(item.caveats)}"] * bool(item.caveats)
    heading = f"### `{item.names[0]}` in `privacy/{package}/{item.module}.py`"
    return "\n\n".join([heading, item.guarantee, facts, *lists])


def _table(name: str, table: ComputedTable) -> str:
    command = f"`.venv/bin/python -m tests.pages.computed_tables {name}`"
    return f"### {table.title}\n\n{table.says}\n\n{markdown_table(table.headings, table.rows)}\n\nMade by {command}."


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def main() -> None:
    """Write the pages into the folder given on the command line, and remove pages of components that are gone."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    pages = privacy_pages()
    for path in folder.glob("*.md"):
        if path.stem not in pages and WRITTEN in path.read_text(encoding="utf-8"):
            path.unlink()
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    print(f"Wrote {len(pages)} pages into {folder}.")


if __name__ == "__main__":
    main()
