"""The catalogue says of each of FATE's own components who sees what; here it is held against FATE as it is installed."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fate.components
from fate.components.components import LazyBuildInComponentsLoader
from fate.components.core import load_component
from fate.components.core.spec.component import ComponentSpec
from pydantic import BaseModel

from fate_dp.components.disclosure.declaration import (
    EVERY,
    FLIPPED,
    LABELS,
    PROOF,
    ComponentDisclosure,
    catalogue,
    disclosure_of,
)

ROOT = Path(__file__).parents[2]
FATE = Path(fate.components.__file__).parents[1]
BUILT_IN = sorted(LazyBuildInComponentsLoader().list())
# FATE-Flow's own, which run at one party alone and send nothing. Found without an import, which would change what json takes.
FLOW = Path(find_spec("fate_flow").origin).parent
OF_FATE_FLOW = sorted(path.stem for path in (FLOW / "components" / "components").glob("[a-z]*.py"))
SUBJECTS = ("the guest ", "the host ", "each host ", "the arbiter ", "each party ")


def declared(name: str) -> ComponentDisclosure:
    found = disclosure_of(name)
    assert found is not None, f"{name} is not declared."
    return found


@cache
def fates(name: str) -> ComponentSpec:
    return load_component(name).dict().component


@cache
def stages_of(name: str) -> tuple[str, ...]:
    return tuple(stage.name for stage in load_component(name).stage_components) or ("default",)


def default_of(name: str, setting: str) -> tuple[bool, Any]:
    """Whether FATE's definition says what a setting is when nobody sets it, and what.

    Where the declaration tells a group of settings that nobody set (null) from one that was set in part, the defaults of
    the group's members are those of the latter.
    """
    first, *rest = setting.split(".")
    value = fates(name).parameters[first].default
    if first in declared(name).settings:
        if not rest:
            return not isinstance(value, BaseModel), value
        value = type(value)()
    for part in rest:
        value = value.get(part, ...) if isinstance(value, dict) else getattr(value, part)
        if value is ...:
            return False, None
    return True, value


def test_all_of_fates_components_are_declared_and_no_others():
    assert sorted(catalogue()) == sorted(BUILT_IN + OF_FATE_FLOW)
    assert OF_FATE_FLOW and not any(declared(name).shows for name in OF_FATE_FLOW)


def test_stages_are_those_of_the_component():
    for name in BUILT_IN:
        assert declared(name).stages == stages_of(name), name


def test_settings_are_parameters_with_fates_defaults():
    for name in BUILT_IN:
        for setting, value in declared(name).settings.items():
            assert setting.split(".")[0] in fates(name).parameters, f"{name} has no parameter {setting}."
            known, default = default_of(name, setting)
            assert not known or default == value, f"{setting} of {name} is {default!r} by default."


def test_statements_name_stages_and_inputs_of_their_component():
    for name in BUILT_IN:
        inputs = fates(name).input_artifacts.data
        for shown in declared(name).shows:
            stages = set(shown.stages or stages_of(name))
            assert stages <= set(stages_of(name)), name
            for each in shown.inputs:
                read = {stage.name for stage in inputs[each].stages}
                assert stages <= read, f"{each} of {name} is read in {read} only: {shown}"


def test_statements_rest_on_lines_of_fate_and_on_scripts_that_are_there():
    for name in BUILT_IN:
        for shown in declared(name).shows:
            for place in (place for place in shown.evidence if not PROOF.fullmatch(place)):
                path, line = place.split(":")
                lines = (FATE / path).read_text(encoding="utf-8").splitlines()
                assert lines[int(line) - 1].strip(), f"{place} is an empty line."
            assert not shown.attack or (ROOT / shown.attack).is_file(), shown.attack


def test_statements_have_an_observer_who_computes():
    for name in BUILT_IN:
        for shown in declared(name).shows:
            assert shown.computes.startswith(SUBJECTS), shown
            subject = shown.computes.removeprefix("each ").removeprefix("the ").split()[0]
            assert subject == "party" or subject in shown.to, shown


def test_whoever_shows_every_label_is_told_what_to_do():
    for name in BUILT_IN:
        for shown in declared(name).shows:
            assert shown.what != LABELS or shown.learns != EVERY or shown.instead, shown


def test_outputs_are_those_of_the_component_and_hold_no_flips():
    for name in BUILT_IN:
        for output in declared(name).outputs:
            assert set(output.outputs) <= set(fates(name).output_artifacts.data), name
            assert output.labels != FLIPPED, name


def test_the_labels_of_binning_are_shown_unless_metrics_are_skipped():
    shown = [each for each in declared("hetero_feature_binning").shows if each.what == LABELS and each.learns == EVERY]
    assert shown and all(each.when["skip_metrics"] == [False] for each in shown)
