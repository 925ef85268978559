"""What components and mechanisms guarantee, as declared in YAML beside them, checked field by field.

Every component has a ``guarantee.yaml`` in its folder, every package of mechanisms one ``guarantees.yaml``. A missing
file, a missing or unknown field, or a word that ``privacy/events.py`` does not know is refused: a page that documents
guarantees must not be complete by chance.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import fate_dp.components
import fate_dp.privacy
from fate_dp.components.common.row_origin import mixed_rows
from fate_dp.components.disclosure import declaration
from fate_dp.components.disclosure.declaration import ComponentDisclosure, fits
from fate_dp.components.disclosure.tracing import Disclosure, Walk
from fate_dp.components.disclosure.verdicts import advice, told
from fate_dp.privacy import declared
from fate_dp.privacy.events import OBSERVERS, PROCESS_NAMES, RELATIONS, UNITS
from fate_dp.privacy.validation import InvalidArgument

COMPONENTS = Path(fate_dp.components.__file__).parent
ENTRY_POINTS = "fate.ext.component_desc"
NO_EVENT = "none"
NO_PROMISE = (NO_EVENT, "NotPrivate", "RandomizedResponse")
"""Events of promises that no step on a table makes: flips keep theirs, and label_flip has another one."""


@dataclass(frozen=True)
class Promise:
    """One statement of a component: who is protected from whom, by what formula (LaTeX), and ``when``, as of
    `declaration.Shown`."""

    guarantee: str
    unit: str
    relation: str
    observers: tuple[str, ...]
    formula: str
    event: str
    when: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ProtocolView:
    """What one observer sees of a protocol, and what protects the others from it."""

    observer: str
    sees: str
    protected_by: str


@dataclass(frozen=True)
class Protocol:
    """One of the ways in which a component computes, by the value of its parameter ``solver``."""

    solver: str
    does: str
    views: tuple[ProtocolView, ...]
    collusion: str

    def view_of(self, observer: str) -> ProtocolView:
        """What one observer sees; raises KeyError where the declaration says nothing of it."""
        return {view.observer: view for view in self.views}[observer]


@dataclass(frozen=True)
class ComponentGuarantee:
    """All that the page says about one component: ``promises``, and in ``disclosure`` what each party receives;
    ``protocols`` only of one that has several."""

    component: str
    does: str
    promises: tuple[Promise, ...]
    assumptions: tuple[str, ...]
    not_covered: tuple[str, ...]
    references: tuple[str, ...]
    ledger: tuple[str, ...]
    disclosure: ComponentDisclosure
    protocols: tuple[Protocol, ...] = ()

    def protocol(self, solver: str) -> Protocol:
        """The declared protocol of a solver; raises InvalidArgument where there is none."""
        found = next((protocol for protocol in self.protocols if protocol.solver == solver), None)
        if found is None:
            raise InvalidArgument(f"{self.component} declares no protocol for solver {solver!r}.")
        return found


ALLOWED = {
    "unit": UNITS,
    "observer": OBSERVERS,
    "relation": RELATIONS,
    "observers": OBSERVERS,
    "event": (*PROCESS_NAMES, NO_EVENT),
    "events": tuple(PROCESS_NAMES),
}
RULES = declared.Rules(
    {**ALLOWED, **declaration.RULES.words},
    may_be_empty=("events", "supporting", "caveats", *declaration.RULES.may_be_empty),
)


def component_names() -> list[str]:
    """Components of FATE-DP that FATE discovers."""
    points = metadata.entry_points(group=ENTRY_POINTS)
    return sorted({point.name for point in points if point.value.startswith("fate_dp.components.")})


@cache
def component_guarantee(name: str, folder: Path = COMPONENTS) -> ComponentGuarantee:
    """The declaration of one component; raises InvalidArgument for none, or one incomplete or of another component."""
    content, where = declared.read(folder / name / "guarantee.yaml")
    guarantee = RULES.checked(ComponentGuarantee, content, where)
    if guarantee.component != name:
        raise InvalidArgument.of(f"component in {where}", guarantee.component, repr(name))
    declaration.check(guarantee.disclosure, name, where)
    return guarantee


def broken_promises(disclosure: Disclosure) -> list[str]:
    """Why tasks of ours would refuse a job, or protect nothing in it: a sentence for each that promises what does not hold."""
    walk, found = Walk(disclosure.plan), list(disclosure.joined)
    ours = set(component_names())
    for name in walk.order:
        component = walk.plan.task(name).component
        if component in ours and walk.stage_of(name) != "predict":
            events = [
                (promise.unit == "label", promise.event)
                for promise in component_guarantee(component).promises
                if any(fits(promise.when, each) for each in walk.settings_of(name))
            ]
            promises = [of_labels for of_labels, event in events if event not in NO_PROMISE]
            # What a promise for records needs is more than what one for labels does.
            found += [mixed_rows(walk, name, labels_alone=all(promises)) or ""] if promises else []
            found += [shown_beside(disclosure, name)] if any(of for of, event in events if event != NO_EVENT) else []
    return [sentence for sentence in found if sentence]


def shown_beside(disclosure: Disclosure, name: str) -> str:
    """What another task shows of single true labels that this one protects, a sentence; leaks are told by themselves."""
    for sight in disclosure.shown_beside:
        if sight.task != name:
            return f"True labels that {name} protects must be shown by no other task, got: {told(sight)}; {advice(disclosure, sight)}."
    return ""
