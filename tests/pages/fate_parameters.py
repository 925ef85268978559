"""FATE 2.2.0's parameters as data, for clients without FATE: components/disclosure/fate_parameters.json.

    python -m tests.pages.fate_parameters components/disclosure/fate_parameters.json

A component stands on one line: {parameter: [kind, default, stages, members of a group]}. Kinds are those of `reading._taken`, of
parameters on which a statement of the catalogue depends. A test holds the file to the FATE that is installed.
"""

import json
import sys
import typing
from pathlib import Path

import pydantic
from fate.components.components import LazyBuildInComponentsLoader
from fate.components.core.params._fields import StringChoice

from fate_dp.components.disclosure.declaration import disclosure_of
from fate_dp.components.disclosure.reading import declared_by, stages_of


def kind_of(type_):
    """A type as data; any for one that is left as it is."""
    if typing.get_origin(type_) is list:
        return ["list", kind_of(typing.get_args(type_)[0])]
    if not isinstance(type_, type):
        return "any"
    if issubclass(type_, pydantic.BaseModel):
        return {
            name: [kind_of(each.outer_type_), [] if each.required else [json_value(each.default)]]
            for name, each in type_.__fields__.items()
        }
    if issubclass(type_, StringChoice):
        assert type_.lower, f"{type_} takes its words in one spelling only"
        return ["choice", *sorted(each.lower() for each in type_.choice)]
    return "bool" if type_ is bool else "int" if issubclass(type_, int) else "any"


def json_value(value):
    return json.loads(json.dumps(value))


def content():
    """{component: {parameter: [kind, default, stages, members]}} of the FATE that is installed."""
    found = {}
    for name in sorted(LazyBuildInComponentsLoader().list()):
        stages, told = stages_of(name), {setting.partition(".")[0] for setting in disclosure_of(name).settings}
        types = {key: each.type for stage in stages.values() for key, each in stage.parameters.mapping.items()}
        found[name] = {
            key: [kind_of(types[key]) if key in told else "any", json_value(each.default), each.stages, each.members]
            for key, each in sorted(declared_by(stages).items())
        }
    return found


def text():
    lines = (f"{json.dumps(name)}: {json.dumps(parameters)}" for name, parameters in content().items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
