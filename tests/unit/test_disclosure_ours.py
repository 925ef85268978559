"""What our components declare that they show fits what they are: stages, parameters, data and places in the source."""

import ast
import importlib
from collections.abc import Mapping
from dataclasses import MISSING, asdict, is_dataclass
from functools import cache
from pathlib import Path

import pytest

from fate_dp.components.common.job_files import JobPlan
from fate_dp.components.common.parameters import parameters_of
from fate_dp.components.disclosure.declaration import FLIPPED, INPUT, MODEL, SHUFFLER, disclosure_of
from fate_dp.components.disclosure.tracing import trace
from fate_dp.pipelines.report.guarantees import component_guarantee, component_names

ROOT = Path(__file__).parents[2]
NAMES = component_names()
SHOWN = [(name, number) for name in NAMES for number in range(len(disclosure_of(name).shows))]

of_every_component = pytest.mark.parametrize("name", NAMES)
of_every_statement = pytest.mark.parametrize("name, number", SHOWN)


@cache
def entry_of(name):
    return getattr(importlib.import_module(f"fate_dp.components.{name}.component"), name)


@cache
def artifacts_of(name):
    return entry_of(name)._flatten_stages().artifacts


@cache
def declared_parameters(name):
    """{name: parameters that are declared under it} of all declarations that the component's settings are made of."""
    settings = importlib.import_module(f"fate_dp.components.{name}.settings")
    kinds = [kind for kind in vars(settings).values() if isinstance(kind, type) and is_dataclass(kind)]
    own = [kind for kind in kinds if kind.__module__ == settings.__name__]
    found = {}
    for kind in own:
        for each in parameters_of(kind).values():
            found.setdefault(each.name, []).append(each)
    return found


def default_of(parameter, key):
    """The default of a parameter, or of one key of it."""
    if not key:
        return parameter.default
    filled = parameter.default if isinstance(parameter.default, Mapping) else asdict(parameter.default)
    return filled[key]


def names_in(path):
    """Functions, methods and classes that a file defines."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, kinds)}


@of_every_component
def test_every_component_declares_what_it_shows_in_all_its_stages(name):
    declared = disclosure_of(name)
    stages = [stage.name for stage in entry_of(name).stage_components] or ["default"]
    assert sorted(declared.stages) == sorted(stages)
    assert component_guarantee(name).disclosure == declared


@of_every_component
def test_settings_are_parameters_with_these_defaults(name):
    parameters = declared_parameters(name)
    for setting, default in disclosure_of(name).settings.items():
        called, _, key = setting.partition(".")
        assert called in parameters, f"{name} has no parameter {called}"
        for parameter in parameters[called]:
            assert parameter.default is not MISSING and default_of(parameter, key) == default


def test_values_of_settings_are_ones_that_the_component_takes():
    for name, number in SHOWN:
        for setting, values in disclosure_of(name).shows[number].when.items():
            called, _, key = setting.partition(".")
            for value in (value for value in values if value is not None):
                for parameter in declared_parameters(name)[called]:
                    parameter.check({key: value} if key else value)


def test_stages_roles_and_inputs_are_those_of_the_component():
    for name, number in SHOWN:
        declared = disclosure_of(name)
        shown = declared.shows[number]
        roles = {role.name for role in entry_of(name).roles}
        assert set(shown.stages) <= set(declared.stages), name
        assert set(shown.of) <= roles and set(shown.to) <= roles | {MODEL, SHUFFLER}, name
        assert set(shown.inputs) <= set(artifacts_of(name).data_inputs), name
        assert any(owner != observer or owner == "host" for owner in shown.of for observer in shown.to), name


@of_every_component
def test_outputs_are_those_of_the_component(name):
    declared = {output for group in disclosure_of(name).outputs for output in group.outputs}
    assert declared <= set(artifacts_of(name).data_outputs)


def test_evidence_is_a_class_a_function_or_a_test_of_this_project():
    for name, number in SHOWN:
        for place in disclosure_of(name).shows[number].evidence:
            path, _, called = place.partition("::")
            assert called in names_in(ROOT / path), f"{place} is not there"


def test_labels_are_flipped_behind_label_flip_and_as_before_elsewhere():
    carried = {name: {group.labels for group in disclosure_of(name).outputs} - {INPUT} for name in NAMES}
    assert {name for name, labels in carried.items() if labels == {FLIPPED}} == {"label_flip"}
    assert all(labels <= {FLIPPED} for labels in carried.values())


def test_every_label_is_shown_to_nobody():
    told = {(name, shown.learns) for name in NAMES for shown in disclosure_of(name).shows if shown.what == "labels"}
    assert not any(learns == "every" for _, learns in told)
    # Shuffled answers on gradients are one record's each, and differentially private.
    assert {name for name, learns in told if learns == "some"} == {"dp_homo_nn"}


def test_whatever_tells_of_single_features_in_clear_is_a_host_s_part_of_scores():
    for name in NAMES:
        for shown in disclosure_of(name).shows:
            if shown.what == "features" and shown.learns in ("some", "every") and shown.form == "clear":
                assert name in ("dp_hetero_lr", "dp_scorecard", "share_lr") and (shown.of, shown.to) == (
                    ("host",),
                    ("guest",),
                )
                assert shown.instead


@pytest.mark.parametrize("name, stage", [("dp_homo_nn", "train"), ("shuffler", "default")])
def test_the_host_that_shuffles_shows_no_rows_and_reads_none(name, stage):
    parties = [
        {"role": role, "party_id": ids} for role, ids in (("guest", ["1"]), ("host", ["2", "3"]), ("arbiter", ["4"]))
    ]
    given = {"shuffler": "3", **({"aggregation": "shuffle"} if name == "dp_homo_nn" else {})}
    task = {"component_ref": name, "stage": stage, "parameters": given}
    sights = trace(JobPlan({"stage": "train", "parties": parties, "tasks": {"task_0": task}})).sights
    assert {str(sight.owner) for sight in sights} == {"guest 1", "host 2"}
    sealed = {str(sight.observer) for sight in sights if sight.shown.form == "encrypted_blinded"}
    rows = [sight for sight in sights if str(sight.observer) == "host 3" and sight.shown.what == "features"]
    assert sealed == {"host 3"} and rows and {sight.shown.learns for sight in rows} == {"nothing"}


@pytest.mark.parametrize(
    "flip, shows",
    [({}, True), ({"classes": [0, 1]}, True), ({"classes": [0, 1, 2, 3]}, False), ({"bounds": [0, 9]}, False)],
)
def test_scores_for_flipback_are_told_of_flips_of_two_classes_alone(flip, shows):
    parties = [{"role": role, "party_id": [party]} for role, party in (("guest", "1"), ("host", "2"), ("arbiter", "3"))]
    flips = {"task_output_artifact": [{"producer_task": "label_flip_0", "output_artifact_key": "output_data"}]}
    tasks = {
        "label_flip_0": {"component_ref": "label_flip", "parameters": {"epsilon": 1.0, **flip}},
        "train_0": {"component_ref": "dp_hetero_lr", "stage": "train", "inputs": {"data": {"train_data": flips}}},
    }
    sights = trace(JobPlan({"stage": "train", "parties": parties, "tasks": tasks})).sights
    assert any("before each" in sight.shown.message and "score" in sight.shown.message for sight in sights) == shows
