"""All cases, a module of `of_components` for each component and that of the guide, and what is left out with its reason."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from . import of_components
from .cases import Case
from .installed import install_template


def all_cases() -> list[Case]:
    names = sorted(each.name for each in pkgutil.iter_modules(of_components.__path__))
    return [case for name in names for case in import_module(f"{of_components.__name__}.{name}").CASES]


install_template()
CASES = all_cases()
WITHOUT_CASES = {
    "flipback": "reads a training's scores; its case is still to be written",
    "score_correction": "the guest alone corrects its own scores; its case is still to be written",
    "share_lr": "trains on shares of align; its case is still to be written",
    "smote": "releases nothing; its case is still to be written",
}
"""Components that no clause sees yet: the contract is not whole before this is empty."""
EXCUSED: dict[tuple[str, str], str] = {}
"""{(component, clause): why it does not hold, or is not played}."""
