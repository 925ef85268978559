"""All that is checked of one environment: this one, or that of a provider."""
from __future__ import annotations

from . import plugin_checks, version_checks
from .environment import Environment
from .finding import Finding
from .run_checks import run_checks

ENVIRONMENT_CHECKS = (
    ("Python", version_checks.python),
    ("FATE", version_checks.fate),
    ("numpy", version_checks.numpy),
    ("pydantic", version_checks.pydantic),
    ("setuptools", version_checks.setuptools),
    ("FATE-DP", plugin_checks.installed_once),
    ("requirements", version_checks.requirements),
    ("components", plugin_checks.components_found),
    ("descriptions", plugin_checks.component_files),
)


def environment_findings(environment: Environment) -> list[Finding]:
    """What can be said of an environment alone, in the order in which it is shown."""
    return run_checks(ENVIRONMENT_CHECKS, environment)
