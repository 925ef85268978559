"""Do the tasks of this site's FATE-Flow take from other parties only what is on the fence's list?"""
from __future__ import annotations

import os
from pathlib import Path

from fate_dp.deploy.site import fence as rules

from .finding import Finding, ok, problem, unseen, warning
from .flow_site import FlowSite

OURS, RULES = Path(rules.__file__).parent, Path(rules.__file__).name
CUSTOMISATION = "sitecustomize.py"
HARM = "whoever is another party, or can write to the broker, can run programs in its tasks"


def fence(site: FlowSite) -> Finding:
    """What Python runs first in the server, and in each provider's tasks, whose folder comes before the server's."""
    if site.variables is None:
        return unseen("Whether tasks take from other parties only what is on the fence's list cannot be seen here.",
                      "Run the doctor on the server's machine, as the user who runs FATE-Flow, while it runs.")
    path = site.variables.get("PYTHONPATH", "")
    if not is_fenced(path):
        return problem(f"FATE-Flow is not fenced: {HARM}.",
                       "Start it with `fate-dp up`, or with this in its environment: "
                       f"`export PYTHONPATH={OURS}:$PYTHONPATH`.")  # fmt: skip
    for provider in site.providers or ():
        if not is_fenced(os.pathsep.join(filter(None, (provider.path, path)))):
            return problem(
                f"The provider {provider.name} is not fenced, because {provider.path} has a {CUSTOMISATION} of its "
                f"own: {HARM}.",
                f"Move that file away, or run `fate-dp provider remove {provider.version}`.",
            )
    return _widening(site.variables.get(rules.ALLOW, "").replace(",", " ").split())


def is_fenced(python_path: str) -> bool:
    """Whether the first customisation on a module path is ours."""
    folders = [Path(each) for each in python_path.split(os.pathsep) if each]
    first = next((each for each in folders if (each / CUSTOMISATION).is_file()), None)
    return first is not None and (first / RULES).is_file()


def _widening(names: list[str]) -> Finding:
    """What the operator lets in beside the list."""
    wrong = [sentence for sentence in map(rules.wrong_name, names) if sentence]
    if wrong:
        return problem(f"Tasks fail at the first name that is not on the fence's list: {wrong[0]}",
                       f"Correct {rules.ALLOW} in FATE-Flow's environment and start it again.")  # fmt: skip
    if names:
        return warning(f"Other parties may also name {', '.join(names)}, which this server's {rules.ALLOW} lets in.",
                       "Keep only those that do no harm whatever a peer calls them with.")  # fmt: skip
    return ok("Tasks take from other parties only what is on the fence's list.")
