"""All cases, a module of `of_components` for each component and that of the guide, and what does not hold with its reason."""

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
EXCUSED: dict[tuple[str, str], str] = {}
"""{(component, clause): why it does not hold, or is not played}."""
