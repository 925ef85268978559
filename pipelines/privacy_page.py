"""``docs/privacy.md``: what every component and mechanism guarantees, written from declarations and computed tables.

    python -m fate_dp.pipelines.privacy_page docs/privacy.md

The text comes from the YAML files that ``guarantees`` reads, the numbers from the library itself (``privacy_tables``).
"""
from __future__ import annotations

import sys
from pathlib import Path

from . import guarantees
from .privacy_tables import TABLES, markdown_table

TITLES = {"mechanisms": "Mechanisms", "noise": "Noise on a grid", "accounting": "Accounting"}
INTRODUCTION = """\
# What FATE-DP guarantees, and what not

<!-- Written by `make docs-privacy`; a change by hand is lost. -->

Every statement names four things, since an epsilon without them says nothing:

- **Unit**: whose data may change: `label` (the label of one record), `record`, or `client` (all data of one client).
- **Relation**: how neighbouring data sets differ: `replace_one`, or `add_or_remove` one unit. The sum of
  contributions clipped at C moves by C under add-or-remove and by up to 2C under replace-one. Only epsilons of one
  relation are added.
- **Observers**: whom the statement holds against: `guest`, `host`, `arbiter`, `server`, `shuffler`, `client` (another
  client), `model` (whoever gets the model).
- **Event**: what an accountant is charged with (`privacy/events.py`). `none` is post-processing, `NotPrivate` is
  epsilon infinity.

Epsilons are in nats. A reported epsilon, delta or noise scale is an upper bound of what is needed or spent; in the
tables it is rounded up.
"""
LEDGER = """\
Each party keeps its own (`fate-dp ledger`). Every release is written, and charged, before its output is. A total is the
composed epsilon of all events of one dataset, unit, relation and observer; a cap bounds each of these totals by itself.
Labels are capped at delta 0, other private steps at the delta of the policy's cap, which may differ from the delta that
`fate-dp ledger` shows.

**Not covered**:

- Observers who pool what they saw. A total is what one observer learned.
- What one unit or relation says about another. A release at epsilon under add-or-remove is one at 2 epsilon (and a
  larger delta) under replace-one, and is not added there; a total of unit `record` does not hold the flips of labels,
  one of unit `client` holds no event of unit `record`. Whoever needs one number must charge all steps on a dataset
  under one unit and relation.
- Two names of the same data, which have two budgets. Flips are charged to `namespace/name/column`; other steps on
  these labels must be charged to that name, too.
- A step that is repeated under its release key with fresh noise. It is charged once; the caller has to use another key.
- Whoever can write the file. An older copy, or a missing or empty file, has spent less.
- Data declared public: outside every cap, and a run on labels declared public is in no total.
"""
UNSOUND = """\
Found in the sources of this project or in common practice. None of them is used; where a variant is kept for
comparison, it is labelled, and its ledger line says what it really gives.
"""


def privacy_page() -> str:
    """The page as Markdown.

    :raises InvalidGuarantee: when a component that FATE discovers, or a module of mechanisms, declares nothing.
    """
    parts = [INTRODUCTION, "## Components"]
    parts += [_component(guarantees.component_guarantee(name)) for name in guarantees.component_names()]
    for package in guarantees.MECHANISM_PACKAGES:
        parts.append(f"## {TITLES[package]}")
        parts += [_mechanism(package, item) for item in guarantees.mechanism_guarantees(package)]
    parts += ["## The ledger", LEDGER]
    parts += ["## Rules that do not hold", UNSOUND, _rules(guarantees.unsound_rules())]
    parts.append("## Computed tables")
    parts += [_table(name, make()) for name, make in TABLES.items()]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _component(item: guarantees.ComponentGuarantee) -> str:
    lists = (
        ("Assumed", item.assumptions), ("**Not covered**", item.not_covered), ("Ledger", item.ledger),
        ("References", item.references),
    )  # fmt: skip
    promises = [_promise(promise) for promise in item.promises]
    return "\n\n".join([f"### `{item.component}`", item.does, *promises, *(_list(*entry) for entry in lists)])


def _promise(promise: guarantees.Promise) -> str:
    facts = markdown_table(
        ("unit", "relation", "observers", "event"),
        [(promise.unit, promise.relation, ", ".join(promise.observers), promise.event)],
    )
    return f"{facts}\n\n{promise.guarantee}\n\n```math\n{promise.formula}\n```"


def _mechanism(package: str, item: guarantees.MechanismGuarantee) -> str:
    names = ", ".join(f"`{name}`" for name in item.names)
    facts = [
        f"- Functions: {names}",
        f"- Sensitivity: {item.sensitivity}",
        f"- Events: {', '.join(f'`{event}`' for event in item.events) or 'none of its own'}",
    ]
    lists = [_list("References", item.references), *([_list("**Caveats**", item.caveats)] if item.caveats else [])]
    return "\n\n".join([f"### `privacy/{package}/{item.module}.py`", item.guarantee, "\n".join(facts), *lists])


def _rules(rules) -> str:
    cells = [(rule.rule, rule.claim, rule.really, rule.instead) for rule in rules]
    return markdown_table(("rule (unsound)", "claimed", "what it really gives", "here instead"), cells)


def _table(name: str, table) -> str:
    command = f"`.venv/bin/python -m fate_dp.pipelines.privacy_tables {name}`"
    return f"### {table.title}\n\n{table.says}\n\n{markdown_table(table.headings, table.rows)}\n\nMade by {command}."


def _list(title: str, items) -> str:
    return f"{title}:\n\n" + "\n".join(f"- {item}" for item in items)


def main() -> None:
    """Write the page to the path given on the command line."""
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(privacy_page(), encoding="utf-8")
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
