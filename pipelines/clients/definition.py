"""What the client classes share: their signature, documentation and checks, made from what the component declares."""

import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache, reduce
from importlib import import_module
from operator import or_
from pathlib import Path
from textwrap import TextWrapper
from types import new_class
from typing import Any, ClassVar

import yaml
from fate_client.pipeline.components.component_base import Component
from fate_client.pipeline.conf.types import PlaceHolder

from fate_dp.components.common.parameters import Parameter, parameters_of, settings_of
from fate_dp.components.common.vocabulary import refuse_old_names
from fate_dp.privacy.declared import YamlReader, plain

DECLARE = ("Settings", "TrainSettings", "PredictSettings", "FoldSettings")
"""The dataclasses of a component's settings.py that declare its parameters; the docstring of the first says what it is for."""
SHORT = ("dp", "lr", "nn", "gbdt")


class DeclaredTask(Component):
    """A task of a component: takes the parameters that the component's settings declare, and refuses what it refuses.

        class Smote(DeclaredTask, component="smote"):

    The component's settings declare them (`DECLARE`), or the classes that ``declares`` names. Inputs are those of the
    component's YAML. A parameter may be left out, or be None, where it has a default or is given for each party:
    ``task.hosts[0].task_parameters(epsilon=1.0)``.
    """

    declarations: ClassVar[tuple[type, ...]] = ()
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    inputs: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, component: str = "", declares: tuple[type, ...] = (), **others: Any) -> None:
        super().__init_subclass__(**others)
        if not component:
            return
        # Absolute, since fate_client would look for a relative path inside itself.
        cls.yaml_define_path = str(Path(__file__).parent / f"{component}.yaml")
        settings = import_module(f"fate_dp.components.{component}.settings")
        cls.declarations = declares or tuple(getattr(settings, name) for name in DECLARE if hasattr(settings, name))
        cls.parameters = reduce(or_, (dict(parameters_of(each)) for each in cls.declarations))
        artifacts = described(component)["input_artifacts"].values()
        cls.inputs = tuple(name for kind in artifacts for name in kind or ())
        cls.__signature__ = _signature(cls)
        told = cls.__doc__ or cls.declarations[0].__doc__ or ""
        cls.__doc__ = f"{inspect.cleandoc(told)}\n\nArgs:\n{_told(cls)}\n"

    def __init__(self, _name: str, runtime_parties: dict[str, Any] | None = None, **given: Any) -> None:
        names, given = (*self.parameters, *self.inputs), plain(given)
        refuse_old_names(
            Path(self.yaml_define_path).stem, names, {name: given[name] for name in given if is_given(given[name])}
        )
        refuse_unknown(type(self).__name__, (name for name in given if name not in names), self.parameters)
        values = {name: given.get(name, PlaceHolder()) for name in names}
        asked = self._checked(values)
        self._process_init_inputs({"_name": _name, "runtime_parties": runtime_parties, **values})
        super().__init__()
        self._name = _name
        self.runtime_parties = runtime_parties
        self.__dict__.update(values)
        self.check_together(asked)

    def _checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: each.check(values[name]) for name, each in self.parameters.items() if is_given(values.get(name))}

    def get_role_parameters(self, role: str, index: int) -> dict[str, Any]:
        """What ``task.hosts[0].task_parameters(...)`` gave, by the same checks as what the task was made with."""
        given: dict[str, Any] = plain(super().get_role_parameters(role, index))
        self._checked(given)
        return given

    def check_together(self, asked: Mapping[str, Any]) -> dict[type, Any]:
        """What the given parameters make, by declaration, where all that is needed was given; ValueError, in the
        component's own sentence, where they do not go together."""
        own = {each: parameters_of(each) for each in self.declarations}
        return {
            declaration: settings_of(declaration, {name: value for name, value in asked.items() if name in declared})
            for declaration, declared in own.items()
            if all(name in asked for name, each in declared.items() if each.needed)
        }


def derived_tasks(module: str) -> dict[str, type[DeclaredTask]]:
    """{name: class} of the components that have a YAML and no class of their own: LabelCount of label_count.

    The component's settings say what it is for, and its parameters; pickle finds the classes in ``module``.
    """
    written = {Path(each.yaml_define_path).stem for each in DeclaredTask.__subclasses__()}
    components = {path.stem for path in Path(__file__).parent.glob("*.yaml")} - written
    return {each.__name__: each for each in (_derived(name, module) for name in sorted(components))}


def _derived(component: str, module: str) -> type[DeclaredTask]:
    name = "".join(word.upper() if word in SHORT else word.capitalize() for word in component.split("_"))
    return new_class(name, (DeclaredTask,), {"component": component}, lambda to: to.update(__module__=module))


@cache
def described(component: str) -> dict[str, Any]:
    """What FATE's own description of a component says: its YAML beside this file."""
    path = Path(__file__).parent / f"{component}.yaml"
    return dict(yaml.load(path.read_text(encoding="utf-8"), YamlReader)["component"])


def is_given(value: Any) -> bool:
    return value is not None and not isinstance(value, PlaceHolder)


def _signature(task: type[DeclaredTask]) -> inspect.Signature:
    """That of `DeclaredTask.__init__` with the parameters and inputs by name."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    first = list(inspect.signature(DeclaredTask.__init__, eval_str=True).parameters.values())[1:3]
    declared = [
        inspect.Parameter(each.name, keyword, default=_default(each), annotation=_annotation(each))
        for each in task.parameters.values()
    ]
    inputs = [inspect.Parameter(name, keyword, default=None, annotation="Artifact | None") for name in task.inputs]
    return inspect.Signature([*first, *declared, *inputs])


def _annotation(declared: Parameter) -> Any:
    kind: Any = reduce(or_, declared.kinds)
    return kind | None if declared.shown_default is None else kind


def _told(task: type[DeclaredTask]) -> str:
    wrap = TextWrapper(width=120, initial_indent="    ", subsequent_indent="        ").fill
    lines = []
    for each in task.parameters.values():
        default = "" if each.shown_default is None else f"; {_default(each)!r} unless given"
        kind = " | ".join(kind.__name__ for kind in each.kinds)
        lines.append(wrap(f"{each.name} ({kind}): {each.sentence}{'; needed' if each.needed else default}."))
    return "\n".join(lines)


def _default(declared: Parameter) -> Any:
    """As a job writes it: FATE's files have lists, no tuples."""
    return list(declared.shown_default) if isinstance(declared.shown_default, tuple) else declared.shown_default


OF_FATE: Mapping[str, Mapping[str, str]] = yaml.load(
    (Path(__file__).parents[1] / "of_fate.yaml").read_text(encoding="utf-8"), YamlReader
)
"""Parameters that FATE's components have and ours have not: what to do instead, in one sentence."""


def refuse_unknown(component: str, unknown: Iterable[str], known: Iterable[str]) -> None:
    """Raise one sentence for the first parameter that a client class has not: what FATE calls so, or a name like it."""
    for name in unknown:
        advice = OF_FATE.get(component, {}).get(name)
        if advice is None:
            alike = get_close_matches(name, list(known), 1)
            advice = f"did you mean {alike[0]}?" if alike else f"it has {', '.join(known)}."
            raise ValueError(f"{component} has no parameter {name}; {advice}")
        raise ValueError(f"{component} has no parameter {name}: {advice}.")
