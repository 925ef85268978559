"""``docs/parameters.md``: every parameter of every component, written from what declares them.

    python -m fate_dp.pipelines.parameters_page docs/parameters.md

Names, defaults and sentences come from the components' YAML files, kinds from the client classes, and what a mapping holds
where nothing is given from the checks that client and component share.
"""
from __future__ import annotations

import importlib
import inspect
import sys
from dataclasses import asdict, is_dataclass
from pathlib import Path

from .privacy_tables import markdown_table

INTRODUCTION = """\
# Parameters

<!-- Written by `make docs-parameters`; a change by hand is lost. -->

Of every component, as its Python class (`from fate_dp.pipelines.components import LabelFlip`) and a DAG file for
`flow job submit` take them. Whatever is given is checked when the object is made, and by every party again. Parameters with
a name of FATE's mean what they mean there. *Needed* parameters have no default; *settled* ones are chosen as the sentence says.
A mapping may leave out any of its keys; its default shows all of them. What the components guarantee stands in
[privacy.md](privacy.md).
"""
KINDS = {
    "int": "whole number", "float": "number", "str": "text", "bool": "true or false", "dict": "mapping", "list": "list",
    "float | list | dict": "number, list or mapping",
}  # fmt: skip


class UndescribedParameter(ValueError):
    """A component declares a parameter without saying what it is; one sentence."""


def parameters_page() -> str:
    """The page as Markdown.

    :raises UndescribedParameter: when a parameter has no sentence, or its client class no kind that the page knows.
    """
    from . import components

    classes = {name: getattr(components, name) for name in components.__all__}
    sections = {_component_of(client): _section(_component_of(client), name, client) for name, client in classes.items()}
    return "\n\n".join([INTRODUCTION.strip(), *(sections[component] for component in sorted(sections))]) + "\n"


def _section(component: str, called: str, client) -> str:
    import yaml

    declared = yaml.safe_load(Path(client.yaml_define_path).read_text(encoding="utf-8"))["component"]
    rows = [_row(component, client, name, entry) for name, entry in declared["parameters"].items()]
    table = markdown_table(("parameter", "kind", "default", "what it is"), rows)
    roles, read, given = ", ".join(declared["roles"]), declared["input_artifacts"], declared["output_artifacts"]
    flow = f"Roles: {roles}. Reads {_artifacts(read)}; gives {_artifacts(given)}."
    return f"## `{component}`, class `{called}`\n\n{_first_paragraph(client)}\n\n{flow}\n\n{table}"


def _row(component: str, client, name: str, entry: dict) -> tuple:
    told = " ".join((entry["description"] or "").split())
    if len(told.split()) < 3:
        raise UndescribedParameter(
            f"The parameter {name} of {component} is described as {told!r}; a sentence must say what it is.")
    # namespace/name/column is written as it is typed.
    sentence = told if "/" in told.split()[0] else told[0].upper() + told[1:]
    return f"`{name}`", _kind(component, client, name), _default(component, name, entry), f"{sentence}."


def _kind(component: str, client, name: str) -> str:
    annotation = inspect.signature(client.__init__).parameters[name].annotation
    kind = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    kind = str(annotation) if kind == "UnionType" else kind
    if kind not in KINDS:
        raise UndescribedParameter(f"The parameter {name} of {component} is of kind {kind}, for which the page has no word.")
    return KINDS[kind]


def _default(component: str, name: str, entry: dict) -> str:
    if not entry["optional"]:
        return "*needed*"
    if entry["default"] is not None:
        return _as_code(entry["default"])
    filled = _filled(component, name) if "None means" not in entry["description"] else None
    if filled:
        return _as_code(filled)
    return "*settled*" if "None means" in entry["description"] else "none"


def _filled(component: str, name: str):
    """What a parameter's check makes of an empty mapping, None where it is no mapping or needs a key."""
    settings = importlib.import_module(f"fate_dp.components.{component}.settings")
    check = getattr(settings, "CHECKS", {}).get(name) or getattr(settings, name, None)
    try:
        made = check({})
    except (TypeError, ValueError):
        return None
    made = asdict(made) if is_dataclass(made) else made
    return made if isinstance(made, dict) else None


def _as_code(value) -> str:
    if isinstance(value, dict):
        return ", ".join(f"`{key}: {_as_text(item)}`" for key, item in value.items())
    return f"`{_as_text(value)}`"


def _as_text(value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_as_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_as_text, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _artifacts(declared: dict) -> str:
    """Tables and models by name, with the stages that have them where there are several stages."""
    entries = [(name, entry["stages"]) for kind in ("data", "model") for name, entry in (declared.get(kind) or {}).items()]
    told = [f"`{name}`" + ("" if stages == ["default"] else f" ({', '.join(sorted(stages))})") for name, stages in entries]
    return ", ".join(told) or "nothing"


def _first_paragraph(client) -> str:
    return " ".join(inspect.getdoc(client).split("\n\n")[0].split())


def _component_of(client) -> str:
    return Path(client.yaml_define_path).stem


def main() -> None:
    """Write the page to the path given on the command line."""
    path = Path(sys.argv[1])
    path.write_text(parameters_page(), encoding="utf-8")
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
