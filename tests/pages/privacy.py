"""``docs/privacy.md``: what every component and mechanism guarantees, written from declarations and computed tables.

    python -m tests.pages.privacy docs/privacy.md

The text comes from the YAML files that ``guarantees`` reads, the numbers from the library itself (`computed_tables`).
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
    SOME,
    ComponentDisclosure,
    Shown,
    catalogue,
    disclosure_of,
)
from fate_dp.pipelines.report import guarantees

from . import mechanisms
from .computed_tables import TABLES, ComputedTable, markdown_table

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

Beside the promises stands *what each party receives*, in the same words for components of FATE and of FATE-DP. An asset is
the `labels` (true ones, unless a `label_flip` stands before), `features`, `ids` (which records are in whose table) or `scores`
(joint predictions of rows); an observer is a role of the job, alone and semi-honest, and never observes itself; with several
hosts, one host observes another. What it learns is `every` value exactly but for rounding, `some` number or relation that is a
function of a single record, `sums` over many rows, or `nothing` that it could compute from. What no line mentions, nobody but its
owner receives.
"""
OTHERS_BEFORE = """\
**Labels.** A guarantee on labels begins where they are flipped. These components of FATE 2.2.0 show one party what is a function of
single rows of another, labels among it when they run *before* `label_flip`, or on labels that were never flipped:
"""
OTHERS_AFTER = """\
*Every* and *some* are explained above. *Tried*: a script takes the ciphertexts of a job, or of the very call, apart; *read*: the
call stands in FATE's source, at the file and line that are named. Put `label_flip` directly behind `reader` and `psi`, and everything
else behind it: binning, selection and trees then show flips, at the epsilon of the flips. `fate-dp check` says it of any job; `run_job` and the guest's `label_flip` refuse one that leaks.

**Features.** A statement for the unit `record` takes a row to be a function of that record alone. `feature_scale`,
`hetero_feature_binning`, imputation, standardising and whatever else computes over the rows of a table makes every row depend on all
records: one replaced record then moves many rows, and the statement ends, as with `smote`. No component can see that it happened.
Bring features in *public* units, from limits that no table gave (`fate-dp prep lending-club --units public` does).
For the unit `client` it is enough that each party computed over its own rows alone. Labels keep their epsilon: features are no part of it,
as long as they were not computed from the labels.
"""
ARITHMETIC = """\
A sensitivity bounds how far one record moves a sum. It would not hold if the record also moved what *others* contribute,
were it by their last bits: and libraries round a row of a matrix product or of a sum by its place, by the number of rows,
by how an array lies in memory, by the processor and by the number of threads. So nothing here rests on how a library orders
its work. What a record contributes is a function of that record alone, for these reasons:

| what | why it depends on that record alone | where |
| --- | --- | --- |
| gradients of dense layers | products of whole numbers of at most 23 bits, so short that their sums stay below 2^53: exact in any order | `record_layers.Dense` |
| gradients of convolutions | one call per record and product, float32, one thread, same shapes and alignment; no call sees two records | `record_layers.Convolution` |
| gradients of convolutions with maximum pooling, by the native kernel | each number is a sum over one record in a fixed order of instructions; no library is asked | `pooled_convolution` |
| gradients of modules of other layers | `torch.autograd` on one record at a time, one thread | `gradients` |
| tanh, ReLU, pooling, softmax, losses' slopes | element by element in operations that IEEE 754 fixes to the bit; exponentials from a table and a polynomial | `record_arithmetic` |
| norms, hence clips and whether a record counts as clipped (`clip.quantile`) | sums of whole numbers, exact in any order | `record_arithmetic`, `privacy/mechanisms/clipping` |
| clipped sums | whole numbers, exact in any order | `record_arithmetic`, `privacy/mechanisms/clipping` |
| relevances and shares of contributions (`noise: adaptive`) | exact products, sums of whole numbers | `relevance`, `privacy/adaptive_scales` |
| scattering features, matches with patches | one image per call, one thread | `models/features`, `models/patches` |
| whitened features | products of one row, one thread | `models/whitening` |
| second moments | rows clipped one by one to whole numbers; exact integer products | `privacy/mechanisms/second_moments`, `crypto/cross_product` |
| bounded means and medians, randomised responses, shuffled answers | one record's number at a time, added as whole numbers | `privacy/mechanisms` |
| updates of a whole party (unit `client`) | clipped as one row; other parties' updates are computed by themselves | `rounds/client` |

Two further lines. FATE-Flow servers of ours set `MKL_CBWR=AVX2` unless the operator set something else: with it MKL rounds
rows alike on more processors. And every training first checks made-up records of its own shapes: that sums of its dense
layers are the same in another order, and that gradients, relevances and features of a record are the same in other
company; a machine on which they are not is refused with one sentence, before a record is read or anything is charged.

**Between processors.** Parties may compute on different ones. To the last bit the same on all of them: flips, clips,
clipped sums of dense models, relevances, shares of scores in vertical training (the host's count of different scores
rests on that), start weights, everything under encryption. Convolutions, scattering features, matches with patches and
predictions agree to about 1e-6 of their largest number, whitened features to about 1e-4; no count and no agreement
between parties rests on them. Every party computes epsilons
anew and takes the guest's if they agree to 1e-9. `make test-arithmetic` runs the tests that touch floating point under
settings of other processors.
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
Found in the sources of this project or in common practice. None of them is used.
"""


def privacy_page() -> str:
    """The page as Markdown.

    Raises:
        InvalidArgument: when a component that FATE discovers, or a module of mechanisms, declares nothing.
    """
    parts = [INTRODUCTION, "## Components"]
    parts += [_component(guarantees.component_guarantee(name)) for name in guarantees.component_names()]
    parts += ["## What other components show or change before these", OTHERS_BEFORE, _of_others(), OTHERS_AFTER]
    for package in mechanisms.MECHANISM_PACKAGES:
        parts.append(f"## {TITLES[package]}")
        parts += [_mechanism(package, item) for item in mechanisms.mechanism_guarantees(package)]
    rules = [(rule.rule, rule.claim, rule.really, rule.instead) for rule in mechanisms.unsound_rules()]
    table = markdown_table(("rule (unsound)", "claimed", "what it really gives", "here instead"), rules)
    parts += ["## What a sensitivity rests on", ARITHMETIC, "## The ledger", LEDGER]
    parts += ["## Rules that do not hold", UNSOUND, table, "## Computed tables"]
    parts += [_table(name, make()) for name, make in TABLES.items()]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _component(item: guarantees.ComponentGuarantee) -> str:
    lists = (
        ("Assumed", item.assumptions),
        ("**Not covered**", item.not_covered),
        ("Ledger", item.ledger),
        ("References", item.references),
    )
    parts = [*map(_promise, item.promises), *map(_protocol, item.protocols), _received(item.disclosure)]
    return "\n\n".join([f"### `{item.component}`", item.does, *parts, *(_list(*entry) for entry in lists)])


def _received(item: ComponentDisclosure) -> str:
    if not item.shows:
        return "**What each party receives**: whether the checks of the others passed, and nothing else."
    rows = [
        (*_assets(what, shown), f"{shown.message}. Tells: {shown.computes}", _condition(item, shown))
        for what, shown in _worst_first(item.shows)
    ]
    headings = ("of whom", "to whom", "form", "learns", "what is received", "when")
    return f"**What each party receives**:\n\n{markdown_table(headings, rows)}"


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
    return f"{what} of {', '.join(shown.of)}", ", ".join(shown.to), shown.form.replace("_", " "), shown.learns


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
    return f"tried (`{shown.attack}`), {evidence}" if shown.attack else f"read, {evidence}"


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
    lists = [_list("References", item.references), *([_list("**Caveats**", item.caveats)] if item.caveats else [])]
    heading = f"### `{item.names[0]}` in `privacy/{package}/{item.module}.py`"
    return "\n\n".join([heading, item.guarantee, facts, *lists])


def _table(name: str, table: ComputedTable) -> str:
    command = f"`.venv/bin/python -m tests.pages.computed_tables {name}`"
    return f"### {table.title}\n\n{table.says}\n\n{markdown_table(table.headings, table.rows)}\n\nMade by {command}."


def _list(title: str, items: Iterable[str]) -> str:
    return f"{title}:\n\n" + "\n".join(f"- {item}" for item in items)


def main() -> None:
    """Write the page to the path given on the command line."""
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(privacy_page(), encoding="utf-8")
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
