"""``docs/parameters.md``: every parameter of every component, written from what declares them.

    python -m tests.pages.parameters docs/parameters.md

Parameters come from the components' settings, by way of the client classes; roles and tables from the components' YAML.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fate_dp.components.common.parameters import Parameter
from fate_dp.privacy.validation import InvalidArgument

from .computed_tables import markdown_table

if TYPE_CHECKING:
    from fate_dp.pipelines.clients.definition import DeclaredTask

INTRODUCTION = """\
# Parameters

<!-- Written by `make docs-parameters`; a change by hand is lost. -->

Of every component, as its Python class (`from fate_dp.pipelines.clients import LabelFlip`) and a DAG file for
`flow job submit` take them. Whatever is given is checked when the object is made, and by every party again. Parameters with
a name of FATE's mean what they mean there. *Needed* parameters have no default; *settled* ones are chosen as the sentence says.
A mapping may leave out any of its keys; its default shows all of them. What the components guarantee stands in
[privacy.md](privacy.md).
"""
KINDS = {int: "whole number", float: "number", str: "text", bool: "true or false", dict: "mapping", list: "list"}


def parameters_page() -> str:
    """The page as Markdown.

    Raises:
        InvalidArgument: a parameter has no sentence.
    """
    from fate_dp.pipelines import clients

    tasks = {name: getattr(clients, name) for name in clients.__all__}
    sections = {Path(task.yaml_define_path).stem: (name, task) for name, task in tasks.items()}
    return "\n\n".join([INTRODUCTION.strip(), *(_section(each, *sections[each]) for each in sorted(sections))]) + "\n"


def _section(component: str, called: str, task: type[DeclaredTask]) -> str:
    import yaml

    declared = yaml.safe_load(Path(task.yaml_define_path).read_text(encoding="utf-8"))["component"]
    rows = [_row(component, each) for each in task.parameters.values()]
    table = markdown_table(("parameter", "kind", "default", "what it is"), rows)
    roles, read, given = ", ".join(declared["roles"]), declared["input_artifacts"], declared["output_artifacts"]
    flow = f"Roles: {roles}. Reads {_artifacts(read)}; gives {_artifacts(given)}."
    about = " ".join((inspect.getdoc(task) or "").split("\n\n")[0].split())
    return f"## `{component}`, class `{called}`\n\n{about}\n\n{flow}\n\n{table}"


def _row(component: str, declared: Parameter) -> tuple[str, str, str, str]:
    told = " ".join(declared.sentence.split())
    if len(told.split()) < 3:
        raise InvalidArgument(
            f"The parameter {declared.name} of {component} is described as {told!r}; a sentence must say what it is."
        )
    # namespace/name/column is written as it is typed.
    sentence = told if "/" in told.split()[0] else told[0].upper() + told[1:]
    return f"`{declared.name}`", kind_of(declared), _default(declared), f"{sentence}."


def kind_of(declared: Parameter) -> str:
    """What a job may give for a parameter, in words."""
    *first, last = (KINDS[kind] for kind in declared.kinds)
    return f"{', '.join(first)} or {last}" if first else last


def _default(declared: Parameter) -> str:
    if declared.needed:
        return "*needed*"
    if declared.default is not None:
        return _as_code(asdict(declared.default) if is_dataclass(declared.default) else declared.default)  # type: ignore[arg-type]
    return "*settled*" if "None means" in declared.sentence else "none"


def _as_code(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"`{key}: {_as_text(item)}`" for key, item in value.items())
    return f"`{_as_text(value)}`"


def _as_text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_as_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_as_text, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _artifacts(declared: dict[str, Any]) -> str:
    """Tables and models by name, with the stages that have them where there are several stages."""
    told = []
    for name, entry in {**(declared.get("data") or {}), **(declared.get("model") or {})}.items():
        stages = "" if entry["stages"] == ["default"] else f" ({', '.join(sorted(entry['stages']))})"
        told.append(f"`{name}`{stages}")
    return ", ".join(told) or "nothing"


def main() -> None:
    """Write the page to the path given on the command line."""
    path = Path(sys.argv[1])
    path.write_text(parameters_page(), encoding="utf-8")
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
