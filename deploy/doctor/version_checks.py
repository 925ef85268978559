"""Are the versions of Python, FATE and the other packages ones that the components run with?"""
from __future__ import annotations

from .environment import Environment
from .finding import Finding, ok, problem

FATE_VERSION = "2.2.0"
FATE_PACKAGES = ("pyfate", "fate-flow", "fate-client")
FATE_REQUIREMENT = f"fate_client[fate,fate_flow]=={FATE_VERSION}"
LOOKED_AT_ALONE = ("fate-client", "numpy", "setuptools")
FIRST_PYTHON, FIRST_UNKNOWN_PYTHON = (3, 10), (3, 12)


def python(environment: Environment) -> Finding:
    version = ".".join(map(str, environment.python))
    if FIRST_PYTHON <= tuple(environment.python[:2]) < FIRST_UNKNOWN_PYTHON:
        return ok(f"Python {version} at {environment.executable}.")
    return problem(
        f"{environment.executable} is Python {version}, but FATE-DP runs on 3.10 and 3.11.",
        "Make an environment with `python3.11 -m venv FOLDER` and install FATE and FATE-DP there.",
    )


def fate(environment: Environment) -> Finding:
    versions = {name: environment.version(name) for name in FATE_PACKAGES}
    wrong = {name: version for name, version in versions.items() if version != FATE_VERSION}
    if not wrong:
        return ok(f"FATE, FATE-Flow and fate_client {FATE_VERSION}.")
    found = ", ".join(f"{name} {version or 'missing'}" for name, version in wrong.items())
    return problem(f"FATE-DP is made for FATE {FATE_VERSION}, but found: {found}.", _cure(environment, list(wrong)))


def _cure(environment: Environment, wrong: list) -> str:
    """How the right FATE comes there; pip would put a second copy beside one that it does not know."""
    unrecorded = [name for name in wrong if name in environment.unrecorded]
    if unrecorded:
        places = " and ".join(sorted({environment.distributions[name][0][1] for name in unrecorded}))
        return f"Put FATE {FATE_VERSION} in place of what lies in {places}, which pip did not install there."
    if environment.unrecorded:
        return f"Run {environment.pip_install(*(f'{name}=={FATE_VERSION}' for name in wrong))}."
    return f"Run {environment.pip_install(FATE_REQUIREMENT)}."


def numpy(environment: Environment) -> Finding:
    return _within(environment, "numpy", "<2", "FATE's messages name modules that numpy 2 has renamed")


def pydantic(environment: Environment) -> Finding:
    return _within(environment, "pydantic", ">=1.10,<2", "FATE's parameter types are written for pydantic 1.10")


def setuptools(environment: Environment) -> Finding:
    finding = _within(environment, "setuptools", "<81", "FATE finds components by pkg_resources, which later ones drop")
    if finding.cure or "error" not in environment.lookup:
        return finding
    return problem(
        f"pkg_resources cannot be imported ({environment.lookup['error']}), so FATE finds no component.",
        f"Run {environment.pip_install('--force-reinstall', 'setuptools<81')}.",
    )


def requirements(environment: Environment) -> Finding:
    """What else FATE-DP itself requires, as its own metadata says it."""
    from packaging.requirements import Requirement

    if environment.plugin is None:
        return ok("FATE-DP is not installed here, so it requires nothing.")
    required = [each for each in map(Requirement, environment.plugin.requires) if _applies(each, environment)]
    broken = [each for each in required if not _met(each, environment)]
    if not broken:
        return ok(f"The other {len(required)} packages that FATE-DP requires are there.")
    found = "; ".join(f"{each.name} is {environment.version(_normal(each.name)) or 'missing'}" for each in broken)
    return problem(f"Requirements of FATE-DP are not met: {found}.",
                   f"Run {environment.pip_install(*map(_without_marker, broken))}.")  # fmt: skip


def _within(environment: Environment, name: str, allowed: str, why: str) -> Finding:
    from packaging.specifiers import SpecifierSet

    version = environment.version(name)
    if version is not None and SpecifierSet(allowed).contains(version, prereleases=True):
        return ok(f"{name} {version}.")
    return problem(f"{name} is {version or 'missing'} but must be {allowed}: {why}.",
                   f"Run {environment.pip_install(name + allowed)}.")  # fmt: skip


def _applies(requirement, environment: Environment) -> bool:
    if _normal(requirement.name) in LOOKED_AT_ALONE:
        return False
    version = ".".join(map(str, environment.python[:2]))
    return requirement.marker is None or requirement.marker.evaluate({"extra": "", "python_version": version})


def _met(requirement, environment: Environment) -> bool:
    version = environment.version(_normal(requirement.name))
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def _normal(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def _without_marker(requirement) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"
