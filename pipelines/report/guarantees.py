"""What components and mechanisms guarantee, as declared in YAML beside them, checked field by field.

Every component has a ``guarantee.yaml`` in its folder, every package of mechanisms one ``guarantees.yaml``. A missing
file, a missing or unknown field, or a word that ``privacy/events.py`` does not know is refused: a page that documents
guarantees must not be complete by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import fate_dp.components
import fate_dp.privacy
from fate_dp.components.disclosure import declaration
from fate_dp.components.disclosure.declaration import ComponentDisclosure
from fate_dp.privacy import declared
from fate_dp.privacy.events import OBSERVERS, PROCESS_NAMES, RELATIONS, UNITS
from fate_dp.privacy.validation import InvalidArgument

COMPONENTS = Path(fate_dp.components.__file__).parent
NO_EVENT = "none"


@dataclass(frozen=True)
class Promise:
    """One statement of a component: who is protected from whom, and by what formula (LaTeX)."""

    guarantee: str
    unit: str
    relation: str
    observers: tuple[str, ...]
    formula: str
    event: str


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
    """All that the page says about one component; ``protocols`` only of one that has several.

    Promises say what is guaranteed, ``disclosure`` what each party receives, in the words in which FATE's components are
    described as well.
    """

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


def component_guarantee(name: str, folder: Path = COMPONENTS) -> ComponentGuarantee:
    """The declaration of one component; raises InvalidArgument for none, or one incomplete or of another component."""
    content, where = declared.read(folder / name / "guarantee.yaml")
    guarantee = RULES.checked(ComponentGuarantee, content, where)
    if guarantee.component != name:
        raise InvalidArgument.of(f"component in {where}", guarantee.component, repr(name))
    declaration.check(guarantee.disclosure, name, where)
    return guarantee
