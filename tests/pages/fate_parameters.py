"""FATE 2.2.0's definitions as data, for clients without FATE: components/disclosure/fate_parameters.json.

    python -m tests.pages.fate_parameters components/disclosure/fate_parameters.json

A component, FATE's or ours, stands on one line: its parameters, as {name: [kind, default, stages, members of a group]}, and its
stages, with the roles that run each and its inputs and outputs. Kinds are those of `reading._taken`, of parameters on which a
statement of the catalogue depends; those of members are of `reading.strange`. Beside them stand the classes of which FATE's own
client makes networks, and what training arguments may be: numbers, or words where only a word is meant. A test holds the file to
the FATE that is installed.
"""

import ast
import dataclasses
import inspect
import json
import sys
import textwrap
import typing
from pathlib import Path

import pydantic
from fate.components.components import LazyBuildInComponentsLoader
from fate.components.components.nn.runner import hetero_default_runner, homo_default_runner
from fate.components.components.nn.torch import nn, optim
from fate.components.core.params._fields import StringChoice
from fate.ml.aggregator import AggregatorType
from fate.ml.nn.homo.fedavg import FedAVGArguments
from fate.ml.nn.model_zoo.hetero_nn_model import (
    FedPassArgument,
    SSHEArgument,
    StdAggLayerArgument,
    TopModelStrategyArguments,
)
from fate.ml.nn.trainer.trainer_base import TrainingArguments, _TrainingArguments

from fate_dp.components.disclosure.declaration import COMPONENTS, disclosure_of
from fate_dp.components.disclosure.reading import ANY_OF, NUMBERS, TEXTS, TRUTHS, declared_by, stages_of

OURS = sorted(path.parent.name for path in COMPONENTS.glob("*/component.py"))
ITEM = dict.fromkeys(("module_name", "item_name", "kwargs", "source"), "any")
# Of training arguments. FATE's runners put the task's own folder in place of the files.
WORD_ARGUMENTS = (
    *("lr_scheduler_type", "evaluation_strategy", "logging_strategy", "save_strategy", "optim", "label_names"),
    *("metric_for_best_model", "log_level", "log_level_replica", "half_precision_backend"),
)
FILES = ("output_dir", "logging_dir", "resume_from_checkpoint")
LAYERS = {"fed_pass": FedPassArgument, "std": StdAggLayerArgument, "hess": SSHEArgument}


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
    if issubclass(type_, StringChoice) and type_.lower:
        return ["choice", *sorted(each.lower() for each in type_.choice)]
    return "bool" if type_ is bool else "int" if issubclass(type_, int) else "any"


def json_value(value):
    return json.loads(json.dumps(value))


def arguments():
    """What each of FATE's training arguments may be; not those that FATE overwrites, or that name files or a hub."""
    settle = ast.parse(textwrap.dedent(inspect.getsource(_TrainingArguments.__post_init__)))
    overwritten = {node.attr for node in ast.walk(settle) if isinstance(node, ast.Attribute)}
    names = {each.name for each in dataclasses.fields(TrainingArguments)} - overwritten - {*FILES}
    return {name: TEXTS if name in WORD_ARGUMENTS else NUMBERS for name in sorted(names) if "hub" not in name}


def member(name, type_):
    """The kind of a runner's argument, or of a field of its settings, by its annotation."""
    if name in GROUPS:
        return GROUPS[name]()
    if name in CHOICES:
        return CHOICES[name]
    if typing.get_origin(type_) is typing.Literal:
        return [each for each in typing.get_args(type_) if each is not None]
    return ITEM if name.endswith("_conf") else TRUTHS if type_ is bool else NUMBERS


def fields(settings):
    return {each.name: member(each.name, each.type) for each in dataclasses.fields(settings)}


GROUPS = {
    "training_args_conf": arguments,
    "fed_args_conf": lambda: fields(FedAVGArguments),
    "agglayer_arg_conf": lambda: [ANY_OF, *({**fields(layer), "agg_type": [word]} for word, layer in LAYERS.items())],
    "top_model_strategy_arg_conf": lambda: fields(TopModelStrategyArguments),
    "fed_pass_arg": lambda: fields(FedPassArgument),
}
CHOICES = {
    "aggregator": [each.value for each in AggregatorType],
    # Its "steps" FATE's runner refuses.
    "aggregate_strategy": ["epoch"],
    "algo": homo_default_runner.SUPPORTED_ALGO,
}


def runner_of(component):
    """The members of ``runner_conf``."""
    runner = {"homo_nn": homo_default_runner, "hetero_nn": hetero_default_runner}[component].DefaultRunner
    given = list(inspect.signature(runner.__init__).parameters.values())[1:]
    return {each.name: member(each.name, each.annotation) for each in given}


def members_of(component, name, type_):
    if name == "runner_conf":
        return runner_of(component)
    known = getattr(type_, "__fields__", None)
    return known and dict.fromkeys(known, "any")


def stage_of(stage):
    """Roles, parameters that must be given, inputs as {name: [roles, optional, multi]}, and outputs of which one table or model is written, as {key: roles}."""

    def roles(each):
        return [role.name for role in each.roles]

    found = stage.artifacts
    given = {"data": found.data_inputs, "model": found.model_inputs}
    made = {"data": found.data_outputs, "model": found.model_outputs}
    return {
        "roles": roles(stage),
        "needs": [name for name, each in stage.parameters.mapping.items() if not each.optional],
        "inputs": {
            kind: {name: [roles(each), each.optional, each.is_multi] for name, each in listed.items()}
            for kind, listed in given.items()
        },
        "outputs": {
            kind: {name: roles(each) for name, each in listed.items() if not each.is_multi}
            for kind, listed in made.items()
        },
    }


def components():
    """{component: {parameters, stages}} of the FATE that is installed, and ours."""
    found = {}
    for name in sorted([*LazyBuildInComponentsLoader().list(), *OURS]):
        stages, told = stages_of(name), {setting.partition(".")[0] for setting in disclosure_of(name).settings}
        types = {key: each.type for stage in stages.values() for key, each in stage.parameters.mapping.items()}
        found[name] = {
            "parameters": {
                key: [
                    kind_of(types[key]) if key in told else "any",
                    json_value(each.default),
                    each.stages,
                    members_of(name, key, types[key]),
                ]
                for key, each in sorted(declared_by(stages).items())
            },
            "stages": {key: stage_of(stage) for key, stage in stages.items()},
        }
    return found


def items():
    """What FATE's own client writes into a network's settings, by module."""

    def classes(module):
        own = [
            name for name, each in vars(module).items() if isinstance(each, type) and each.__module__ == module.__name__
        ]
        return sorted(name for name in own if not name.startswith("_"))

    return {
        "torch.nn": classes(nn),
        "torch.optim": classes(optim),
        "fate.components.components.nn.torch.base": ["load_seq"],
        "fate.ml.nn.dataset.table": ["TableDataset"],
    }


def text():
    lines = (f"{json.dumps(name)}: {json.dumps(each)}" for name, each in components().items())
    return (
        f'{{"items": {json.dumps(items())},\n"arguments": {json.dumps(arguments())},\n"components": {{\n'
        + ",\n".join(lines)
        + "\n}}\n"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
