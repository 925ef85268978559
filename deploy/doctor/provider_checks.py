"""Would the tasks that FATE-Flow starts find the components?"""
from __future__ import annotations

from .environment import Environment
from .environment_checks import environment_findings
from .finding import PROBLEM, UNSEEN, WARNING, Finding, ok, problem, unseen, warning
from .flow_provider import Provider
from .flow_site import FlowSite

# Providers of ours are told by their version, because FATE-Flow runs no provider whose name is not `fate`.
PLUGIN_PREFIX = "dp"
MOST_URGENT_FIRST = (PROBLEM, WARNING, UNSEEN)


def default_provider(site: FlowSite, own: Environment | None) -> Finding:
    """The environment of tasks that choose no provider."""
    if site.providers is None:
        return unseen("Which environment tasks run in cannot be seen while FATE-Flow does not tell.",
                      "Mend the line about FATE-Flow first.")  # fmt: skip
    provider = next((each for each in site.providers if each.name == site.default_provider), None)
    if provider is None:
        return problem(f"FATE-Flow has no provider {site.default_provider}, in which tasks run that choose none.",
                       "Set default_provider in service_conf.yaml to one that `fate-dp provider list` shows.")
    finding = holds_plugin(provider, own)
    ours = [each.name for each in site.providers if is_plugin_provider(each) and not holds_plugin(each, own).cure]
    if finding.cure and ours:
        return warning(f"{finding.said} Only jobs that choose {ours[0]} find the components.",
                       f"Choose it: `pipeline.conf.set(\"task\", {{\"provider\": \"{ours[0]}\"}})`.")  # fmt: skip
    return finding


def plugin_providers(site: FlowSite, own: Environment | None) -> Finding:
    """The environments that `fate-dp provider register` made known."""
    if site.providers is None:
        return unseen("Which providers are registered cannot be seen while FATE-Flow does not tell.",
                      "Mend the line about FATE-Flow first.")  # fmt: skip
    ours = [each for each in site.providers if is_plugin_provider(each)]
    remarks = [finding for finding in (_registered(each, site, own) for each in ours) if finding.cure]
    if remarks:
        return min(remarks, key=lambda finding: MOST_URGENT_FIRST.index(finding.state))
    return ok(", ".join(each.name for each in ours) + "." if ours else "None is registered, and none is needed.")


def is_plugin_provider(provider: Provider) -> bool:
    return provider.version.startswith(PLUGIN_PREFIX)


def _registered(provider: Provider, site: FlowSite, own: Environment | None) -> Finding:
    """One of another version harms nobody who does not choose it: an upgrade leaves the old one beside the new one."""
    if provider.name == site.default_provider or not _has_other_version(provider, own):
        return holds_plugin(provider, own)
    return warning(_other_version(provider, own),
                   f"Run `fate-dp provider remove {provider.version}` when no job of any party chooses it any "
                   "longer.")  # fmt: skip


def _has_other_version(provider: Provider, own: Environment | None) -> bool:
    there, here = provider.environment and provider.environment.plugin, own and own.plugin
    return bool(there and here) and there.version != here.version


def _other_version(provider: Provider, own: Environment) -> str:
    return (f"The provider {provider.name} has FATE-DP {provider.environment.plugin.version}, but "
            f"{own.plugin.version} is installed here.")  # fmt: skip


def holds_plugin(provider: Provider, own: Environment | None) -> Finding:
    """The provider's files are there, and FATE-DP among them, in the version that is installed here."""
    again = "run `fate-dp provider register --python PYTHON` with one that is there, or " \
            f"`fate-dp provider remove {provider.version}`."
    if provider.trouble:
        return problem(f"The provider {provider.name} cannot run: {provider.trouble}.", f"Bring it back, or {again}")
    environment = provider.environment
    if environment is None:
        return unseen(f"The provider {provider.name} was not looked into: {provider.unseen}.",
                      "Run the doctor where it is, as the user who runs FATE-Flow.")  # fmt: skip
    if environment.plugin is None:
        return problem(f"The provider {provider.name} has no FATE-DP in {provider.python}.",
                       f"Run {environment.install_plugin()}, or register one that has: `fate-dp provider register`.")
    if _has_other_version(provider, own):
        return problem(_other_version(provider, own),
                       f"Run {environment.install_plugin()}, of version {own.plugin.version}.")  # fmt: skip
    troubles = [each for each in environment_findings(environment) if each.state == PROBLEM]
    if troubles:
        return problem(f"The provider {provider.name} cannot run the components. {troubles[0].said}", troubles[0].cure)
    return ok(f"{provider.name} has FATE-DP {environment.plugin.version} in {provider.python}.")
