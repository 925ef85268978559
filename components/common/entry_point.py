"""Entry points of components: a stage takes a declaration of parameters, and FATE sees the parameters themselves."""

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass
from functools import wraps
from typing import Any

from fate.components.core import cpn
from fate.components.core.params import Parameter as FateParameter

from ..disclosure.declaration import disclosure_of, joined_roles
from .federation import Context, Document
from .job_files import JobFiles
from .parameters import Parameter, parameters_of, settings_of
from .preflight import Refused
from .vocabulary import OLD_NAMES, refuse_old_names
from .wire.channel import with_plain_messages
from .wire.kinds import Messages


def party_stage(
    messages: Messages, *, leave_out: Iterable[str] = (), unmade: Mapping[str, type] | None = None
) -> Callable[[Callable], Callable]:
    """A decorator of a component's function: `with_parameters`, where ``messages`` are all that its parties exchange."""

    def decorated(stage: Callable) -> Callable:
        return with_plain_messages(messages)(with_parameters(stage, leave_out=leave_out, unmade=unmade))

    return decorated


FATE_EXECUTES = "fate.components.entrypoint.cli.component.execute_cli"
"""The logger by which FATE tells with which exception a task ended."""


def sentence_alone(record: logging.LogRecord) -> bool:
    """A filter: of a refusal a task's log gets its sentence, and of what nobody foresaw the traceback as well."""
    error: object = record.msg
    while isinstance(error, BaseException):
        if type(error).__module__.startswith("fate_dp.") and isinstance(error, (ValueError, RuntimeError)):
            record.msg, record.exc_info = str(error), None
            break
        # FATE raises an error of its own from what a parameter's check raised.
        error = error.__cause__
    return True


logging.getLogger(FATE_EXECUTES).addFilter(sentence_alone)


def with_parameters(
    stage: Callable, *, leave_out: Iterable[str] = (), unmade: Mapping[str, type] | None = None
) -> Callable:
    """A component's function as FATE reads it, from its signature.

    An argument that is annotated with a dataclass of parameters (`parameters.parameter`) stands in FATE's eyes for all of
    them, in their order; the function gets the dataclass made from what FATE gives. A stage does not take what it may
    ``leave_out``, and gets a mapping for each argument of ``unmade``, since it makes that dataclass itself.
    """
    whole, signature = dict(unmade or {}), inspect.signature(stage)
    given = {each.name: each.annotation for each in signature.parameters.values()}
    kinds = whole | {name: kind for name, kind in given.items() if isinstance(kind, type) and is_dataclass(kind)}
    taken = {
        argument: [each for each in parameters_of(kind).values() if each.name not in leave_out]
        for argument, kind in kinds.items()
    }

    component = stage.__module__.split(".")[-2:][0]
    known = {each.name for declared in taken.values() for each in declared}

    def resolve(values: Mapping[str, object]) -> Document:
        """What settings come to that follow from others where nobody gives them; raises ValueError for those that do not fit."""
        made = [
            (kind, {each.name: values.get(each.name) for each in taken[argument]}) for argument, kind in kinds.items()
        ]
        found = [settings_of(kind, own).resolved() for kind, own in made if hasattr(kind, "resolved")]
        return {name: value for each in found for name, value in each.items()}

    @wraps(stage)
    def called(ctx: Context, role: object, **given: object) -> object:
        # FATE passes over what it does not know; a task that predicts may still carry what its training was given.
        if component in OLD_NAMES and (files := JobFiles.of_this_task()):
            refuse_old_names(component, known, files.given())
        refuse_joined_roles(component, stage.__name__, ctx, lambda: {**given, **resolve(given)})
        for argument, declared in taken.items():
            values = {each.name: given.pop(each.name, each.shown_default) for each in declared}
            given[argument] = values if argument in whole else settings_of(kinds[argument], values)
        return stage(ctx, role, **given)

    called.resolve = resolve  # type: ignore[attr-defined]
    called.__signature__ = signature.replace(parameters=list(_expanded(signature, taken)))  # type: ignore[attr-defined]
    return called


def refuse_joined_roles(component: str, stage: str, ctx: Context, settings: Callable[[], Mapping[str, object]]) -> None:
    """Refuse at every party, before any message, one party in roles that the component's guarantee keeps apart.

    All parties read the same list of parties, so that all refuse.
    """
    declared = disclosure_of(component)
    if declared is not None and declared.apart:
        sentence = joined_roles(declared, ctx.federation.parties, stage, settings())
        if sentence is not None:
            raise Refused(sentence)


def _expanded(signature: inspect.Signature, taken: Mapping[str, list[Parameter]]) -> Iterable[inspect.Parameter]:
    for argument in signature.parameters.values():
        if argument.name not in taken:
            yield argument
        for each in taken.get(argument.name, ()):
            yield argument.replace(name=each.name, annotation=fate_parameter(each))


def fate_parameter(declared: Parameter) -> Any:
    """FATE's parameter: the check makes its value, and FATE shows the sentence that the check raises."""
    type_ = type(
        declared.title,
        (FateParameter,),
        {
            "parse": staticmethod(declared.check),
            "schema": staticmethod(lambda: {"title": declared.title, "description": declared.note}),
            "__module__": __name__,
        },
    )
    return cpn.parameter(
        type=type_, default=declared.shown_default, optional=not declared.needed, desc=declared.sentence
    )
