"""What mechanisms guarantee, as their folders' guarantees.yaml declare it, and rules that do not hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import fate_dp.components
import fate_dp.privacy
from fate_dp.pipelines.report.guarantees import RULES
from fate_dp.privacy import declared
from fate_dp.privacy.validation import InvalidArgument

PRIVACY = Path(fate_dp.privacy.__file__).parent


MECHANISM_PACKAGES = ("mechanisms", "noise", "accounting")


@dataclass(frozen=True)
class MechanismGuarantee:
    """All that the page says about one mechanism, sampler or accountant; ``names`` are its public functions."""

    module: str
    names: tuple[str, ...]
    guarantee: str
    sensitivity: str
    events: tuple[str, ...]
    references: tuple[str, ...]
    caveats: tuple[str, ...]


@dataclass(frozen=True)
class Declarations:
    """The mechanisms of one package, and its modules that declare nothing because others stand for them."""

    mechanisms: tuple[MechanismGuarantee, ...]
    supporting: tuple[str, ...]


@dataclass(frozen=True)
class UnsoundRule:
    """A rule that is found in print and does not hold, what it really gives, and what is done instead."""

    rule: str
    claim: str
    really: str
    instead: str


def mechanism_guarantees(package: str, folder: Path = PRIVACY) -> tuple[MechanismGuarantee, ...]:
    """The declarations of one package of ``fate_dp.privacy``; raises InvalidArgument unless they name each module."""
    content, where = declared.read(folder / package / "guarantees.yaml")
    declarations = RULES.checked(Declarations, content, where)
    named = {item.module for item in declarations.mechanisms} | set(declarations.supporting)
    modules = {path.stem for path in (folder / package).glob("*.py")} - {"__init__"}
    if named != modules:
        raise InvalidArgument(
            f"{where} declares no guarantee of the modules {sorted(modules - named)} and names "
            f"{sorted(named - modules)}, which do not exist; name every module of its package."
        )
    return declarations.mechanisms


def unsound_rules(path: Path = PRIVACY / "unsound_rules.yaml") -> tuple[UnsoundRule, ...]:
    """Rules of the sources and of common practice that do not hold."""
    content, where = declared.read(path)
    return tuple(RULES.checked(UnsoundRule, rule, where) for rule in content)
