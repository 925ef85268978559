"""Is FATE-DP installed once, whole, and found by FATE?"""
from __future__ import annotations

from pathlib import Path

from .environment import Environment, Plugin
from .finding import Finding, ok, problem


def installed_once(environment: Environment) -> Finding:
    """One installation, and the modules come from it."""
    if not environment.plugins:
        return problem(f"FATE-DP is not installed for {environment.executable}.",
                       f"Run {environment.install_plugin()}.")  # fmt: skip
    places = [each.location for each in environment.plugins]
    if len(places) > 1:
        return problem(
            f"FATE-DP is installed {len(places)} times, in {' and '.join(places)}; only the first is used.",
            f"Run `{environment.executable} -m pip uninstall fate-dp` until none is left and take folders that pip "
            "does "
            f"not know off PYTHONPATH, then run {environment.install_plugin()}.",
        )
    return _comes_from(environment, environment.plugin)


def _comes_from(environment: Environment, plugin: Plugin) -> Finding:
    """What is recorded as installed is what is imported."""
    if plugin.source is not None and not Path(plugin.source).is_dir():
        return problem(
            f"FATE-DP {plugin.version} is an editable installation of {plugin.source}, which is gone.",
            f"Bring that folder back, or run {environment.install_plugin()}.",
        )
    folder = environment.folders["components"]
    expected = Path(plugin.source) if plugin.source else Path(plugin.location) / "fate_dp"
    if folder is None:
        return problem(f"FATE-DP {plugin.version} is recorded in {plugin.location}, but cannot be imported.",
                       f"Run {environment.install_plugin()}.")  # fmt: skip
    if not Path(folder).resolve().is_relative_to(expected.resolve()):
        return problem(
            f"FATE-DP {plugin.version} is recorded in {plugin.location}, but is imported from {Path(folder).parent}.",
            f"Take {Path(folder).parent} off PYTHONPATH, or run {environment.install_plugin()}.",
        )
    return ok(f"FATE-DP {plugin.version} in {Path(folder).parent}.")


def components_found(environment: Environment) -> Finding:
    """Every component that lies in the package is announced to FATE, found by it, and imports."""
    if "error" in environment.lookup:
        return problem(f"FATE finds no component, because pkg_resources fails: {environment.lookup['error']}.",
                       f"Run {environment.pip_install('--force-reinstall', 'setuptools<81')}.")  # fmt: skip
    expected = component_names(environment)
    found = {name for name, _ in environment.lookup["found"].values() if name}
    looked_up = environment.lookup["found"].items()
    failed = {entry: reason for entry, (_, reason) in looked_up if reason and entry in expected}
    if failed:
        entry, reason = next(iter(failed.items()))
        return problem(
            f"{len(failed)} of {len(expected)} components cannot be imported; {entry}: {reason}.",
            "Mend the packages that are marked above or install the one that the message names; if it names fate_dp "
            f"itself, run {environment.install_plugin()}.",
        )
    missing = [name for name in expected if name not in found]
    if missing or not expected:
        return problem(
            f"FATE does not find {', '.join(missing) or 'any component'}, because the installation does not announce "
            "it.",
            f"Run {environment.install_plugin()}, which writes the entry points anew.",
        )
    return ok(f"FATE finds and imports {', '.join(expected)}.")


def component_files(environment: Environment) -> Finding:
    """The descriptions that the client and FATE-Board read."""
    folder = environment.folders["pipelines"]
    if folder is None:
        return problem("fate_dp.pipelines cannot be found, in which the components are described for the client.",
                       f"Run {environment.install_plugin()}.")  # fmt: skip
    descriptions = Path(folder) / "components"
    for name in component_names(environment):
        trouble = _trouble_of(descriptions / f"{name}.yaml", name)
        if trouble:
            return problem(trouble, f"Run {environment.install_plugin()}.")
    return ok(f"The descriptions of all components are in {descriptions}.")


def _trouble_of(path: Path, name: str) -> str:
    import yaml

    try:
        described = yaml.safe_load(path.read_text(encoding="utf-8"))["component"]["name"]
    except OSError as error:
        return f"The description {path} of a component cannot be read: {error.strerror}."
    except (yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError):
        described = None
    return "" if described == name else f"The file {path} does not describe the component {name}."


def component_names(environment: Environment) -> list:
    """The components that the package holds or its installation announces."""
    folder = environment.folders["components"]
    held = [path.parent.name for path in Path(folder).glob("*/component.py")] if folder else []
    announced = environment.plugin.announces if environment.plugin else ()
    return sorted({*held, *announced})
