"""What every component keeps to, whatever it computes; a new folder with a ``component.py`` is held to it, too."""

import copy
import importlib
import inspect
import math
import pickle
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from fate.components.core import Component
from fate_client.pipeline.conf.types import PlaceHolder

import fate_dp.components
from fate_dp.components.common.entry_point import with_parameters
from fate_dp.components.common.parameters import OneOf, Parameter, parameter, parameters_of, same_as, settings_of
from fate_dp.components.common.preflight import Refusal
from fate_dp.components.common.wire.codec import MEMORY_FOR_ANY
from fate_dp.components.common.wire.kinds import Rows
from fate_dp.components.protocols.messages import AGREEMENT
from fate_dp.pipelines import clients
from fate_dp.pipelines.report.guarantees import component_guarantee, component_names
from fate_dp.privacy.events import OBSERVERS, RELATIONS, UNITS
from fate_dp.privacy.validation import InvalidArgument
from tests.pages.parameters import kind_of

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.parent.name for path in Path(fate_dp.components.__file__).parent.glob("*/component.py"))
CLIENTS = {
    Path(client.yaml_define_path).stem: client for client in (getattr(clients, name) for name in clients.__all__)
}
NONSENSE = ("no such word", -1.5, math.nan, math.inf, True, [], [[]], {"no such key": 1}, 10**400, {})


@cache
def entry_of(name: str) -> Component:
    return getattr(importlib.import_module(f"fate_dp.components.{name}.component"), name)


def stages_of(name: str) -> list[Component]:
    return entry_of(name).stage_components or [entry_of(name)]


@cache
def fates_parameters(name: str) -> dict:
    return entry_of(name)._flatten_stages().parameters.mapping


@cache
def definition_of(name: str) -> dict:
    return yaml.safe_load(Path(CLIENTS[name].yaml_define_path).read_text(encoding="utf-8"))


def in_order(part):
    """FATE writes the stages of an artifact that several of them have in any order."""
    if isinstance(part, dict):
        return {key: sorted(item) if key == "stages" else in_order(item) for key, item in part.items()}
    return part


PARAMETERS = [(name, each) for name in NAMES for each in fates_parameters(name)]

of_every_component = pytest.mark.parametrize("name", NAMES)


def test_every_component_has_one_client_class_and_is_announced():
    assert sorted(CLIENTS) == NAMES == component_names()


@of_every_component
def test_every_stage_is_entered_with_the_messages_that_the_component_declares(name):
    """And with no others: a name that no code of the component or of a protocol says is none of its messages."""
    folder = Path(fate_dp.components.__file__).parent / name
    (declared, *others) = [stage.callback.messages for stage in stages_of(name)]
    assert all(each is declared for each in others) and declared.items() >= AGREEMENT.items()
    assert (declared is AGREEMENT) is not ("MESSAGES: Messages" in (folder / "component.py").read_text())
    texts = {
        path: path.read_text()
        for part in (folder, folder.parent / "common", folder.parent / "protocols")
        for path in part.rglob("*.py")
        if path.name not in ("component.py", "messages.py")
    }
    sent = {
        said
        for path, text in texts.items()
        if folder in path.parents
        for said in re.findall(r'\.put\(\s*"(\w+)"', text)
    }
    assert sent <= set(declared)
    assert all(f'"{each.removesuffix("*")}' in "".join(texts.values()) for each in declared)


@of_every_component
def test_a_kind_of_message_is_finite_and_is_known_to_workers(name):
    for kind in stages_of(name)[0].callback.messages.values():
        assert pickle.loads(pickle.dumps(kind)) == kind
        for each in (kind.values, kind.keys) if isinstance(kind, Rows) else (kind,):
            assert each.size < 1 << 62 and each.memory < MEMORY_FOR_ANY


@of_every_component
def test_what_a_component_guarantees_is_declared(name):
    declared = component_guarantee(name)
    for each in declared.promises:
        assert set(each.observers) <= set(OBSERVERS) and each.unit in UNITS and each.relation in RELATIONS
        assert len(each.guarantee.split()) > 5
    assert declared.does.endswith(".") and declared.not_covered and declared.assumptions and declared.ledger


@of_every_component
def test_the_yaml_is_what_fate_generates(name):
    generated = yaml.safe_load(entry_of(name).dump_yaml())
    assert in_order(definition_of(name)) == in_order(generated), "run `make component-yaml`"


@of_every_component
def test_the_client_class_has_the_parameters_and_inputs_of_the_component(name):
    client, content = CLIENTS[name], definition_of(name)["component"]
    inputs = {each for kind in ("data", "model") for each in content["input_artifacts"][kind] or ()}
    assert list(client.parameters) == list(content["parameters"]) and set(client.inputs) == inputs
    offered = list(inspect.signature(client).parameters)
    assert offered == ["_name", "runtime_parties", *client.parameters, *client.inputs]


@of_every_component
def test_a_task_keeps_what_it_is_given_and_survives_a_copy(name):
    task = CLIENTS[name](f"{name}_7", runtime_parties={"guest": "9999"})
    for each in (task, copy.deepcopy(task), pickle.loads(pickle.dumps(task))):
        assert each.task_name == f"{name}_7" and each.component_spec.name == name and not each.get_task_parameters()
        assert all(isinstance(getattr(each, part), PlaceHolder) for part in (*each.parameters, *each.inputs))


@of_every_component
def test_an_unknown_parameter_is_refused_by_name(name):
    client = CLIENTS[name]
    first = next(iter(client.parameters))
    with pytest.raises(ValueError, match=f"^{client.__name__} has no parameter {first}z; did you mean {first}"):
        client("task_0", **{f"{first}z": 1})


@of_every_component
def test_what_fate_gives_where_a_job_says_nothing_makes_the_defaults(name):
    seen = fates_parameters(name)
    for declaration in CLIENTS[name].declarations:
        own = parameters_of(declaration)
        if not any(each.needed for each in own.values()):
            assert settings_of(declaration, {each: seen[each].apply(None) for each in own}) == declaration()


def test_a_parameter_is_documented_in_the_yaml_on_the_page_and_in_the_client_class():
    for name, called in PARAMETERS:
        declared = CLIENTS[name].parameters[called]
        assert len(declared.sentence.split()) >= 3 and not declared.sentence.endswith("."), called
        assert definition_of(name)["component"]["parameters"][called]["description"] == declared.sentence, called
        section = (ROOT / "docs" / "parameters.md").read_text().split(f"## `{name}`, class ")[1].split("\n## ")[0]
        (row,) = (line for line in section.splitlines() if line.startswith(f"| `{called}` | {kind_of(declared)} | "))
        assert row.endswith(f"{declared.sentence[1:]}. |"), called
        told = " ".join(inspect.getdoc(CLIENTS[name]).split())
        assert f" {called} ({' | '.join(kind.__name__ for kind in declared.kinds)}): {declared.sentence}" in told, (
            called
        )


def test_fate_sees_the_declared_default():
    for name, called in PARAMETERS:
        declared = CLIENTS[name].parameters[called]
        for stage in stages_of(name):
            for seen in (each for each in stage.parameters.mapping.values() if each.name == called):
                assert seen.default == declared.shown_default and seen.optional is not declared.needed, called
        shown = definition_of(name)["component"]["parameters"][called]["default"]
        # YAML 1.1 takes 1e-05 for a text.
        kind = type(declared.default) if isinstance(declared.default, (float, tuple)) else type(shown)
        assert (shown if shown is None else kind(shown)) == declared.shown_default, called
        # Only what the dataclass fills in is not shown.
        assert (
            declared.shown_default is not None or declared.needed or not isinstance(declared.default, (int, str, tuple))
        ), called


def test_what_the_component_refuses_the_client_class_refuses_with_the_same_sentence():
    for name, called in PARAMETERS:
        refused = 0
        for value in NONSENSE:
            try:
                fates_parameters(name)[called].type.parse(value)
            except ValueError as at_component:
                refused += 1
                assert str(at_component).rstrip().endswith((".", "?")) and "object at 0x" not in str(at_component), (
                    called
                )
                with pytest.raises(ValueError) as at_client:
                    CLIENTS[name]("task_0", **{called: value})
                assert str(at_client.value) == str(at_component), called
        assert refused, f"{called} of {name} takes every value; give it a check that raises ValueError, such as OneOf"


# The declaration itself.


def checked_even(value):
    """An even number."""
    if value % 2:
        raise ValueError(f"even must be even, got {value!r}.")
    return value


@dataclass(frozen=True)
class Declared:
    epochs: int = parameter("most epochs of all", 100, at_least=1)
    tol: float | None = parameter("what is small enough; None means nothing", None, above=0)
    solver: str = parameter("how it is solved", "a", check=OneOf(("a", "b"), any_case=True))
    groups: tuple[str, ...] = parameter("some lists of names", (), check=tuple)
    depth: dict | None = parameter("levels of the mapping", {"a": [1]}, check=dict, title="HowDeep")
    even: int = parameter("an even number of them", 2, check=checked_even)
    plain: float = 3.0


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"epsilon": np.float64(2)}, 2.0),
        ({"epsilon": np.int64(2)}, 2),
        ({"epsilon": Fraction(1, 2)}, 0.5),
        ({"classes": np.array([0, 1])}, [0, 1]),
        ({"classes": [np.int64(0), np.float32(1)]}, [0, 1.0]),
    ],
    ids=str,
)
def test_numbers_of_other_libraries_reach_fate_as_plain_ones(given, expected):
    both = {"guest": "9999", "host": "10000"}
    (parameter,) = given
    task = clients.LabelFlip("flip", runtime_parties=both, **{"epsilon": 1.0, "label_source": "a/b/y", **given})
    assert yaml.safe_load(yaml.safe_dump(getattr(task, parameter))) == expected
    task.guest.task_parameters(**given)
    assert yaml.safe_load(yaml.safe_dump(task.get_role_parameters("guest", 0)))[parameter] == expected


def test_what_one_party_is_given_is_checked_as_what_all_are():
    task = clients.LabelFlip("flip", runtime_parties={"guest": "9999", "host": "10000"}, label_source="a/b/y")
    task.guest.task_parameters(epsilon=-1.0)
    with pytest.raises(InvalidArgument, match="^epsilon must be"):
        task.get_role_parameters("guest", 0)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_no_number_in_a_mapping_is_infinite(number):
    with pytest.raises(Refusal, match="^optimizer.optimizer_params.lr must be a finite number"):
        clients.DPHomoNN("train", epsilon=1.0, optimizer={"method": "sgd", "optimizer_params": {"lr": number}})


def test_a_declaration_tells_kind_default_check_and_title():
    found = parameters_of(Declared)
    assert list(found) == ["epochs", "tol", "solver", "groups", "depth", "even"]
    assert [each.kinds for each in found.values()] == [(int,), (float,), (str,), (list,), (dict,), (int,)]
    assert [each.shown_default for each in found.values()] == [100, None, "a", (), None, 2]
    assert found["depth"].title == "HowDeep" and found["epochs"].title == found["epochs"].note == "Epochs"
    assert found["even"].note == "An even number." and found["solver"].check("B") == "b"
    with pytest.raises(ValueError, match=r"^epochs must be a whole number at least 1, got 1\.5\.$"):
        found["epochs"].check(1.5)
    assert isinstance(found["tol"].check(1), float)


def test_a_mapping_is_copied_for_every_object():
    Declared().depth["a"].append(2)
    assert Declared().depth == {"a": [1]}


def test_a_parameter_of_another_declaration_is_the_same_one():
    @dataclass
    class Other:
        tol: float | None = same_as(Declared, "tol")
        depth: dict | None = same_as(Declared, "depth")

    for name, each in parameters_of(Other).items():
        first = parameters_of(Declared)[name]
        assert (each.sentence, each.default, each.title) == (first.sentence, first.default, first.title)
    assert Other() == Other(None, {"a": [1]})


def test_a_stage_gets_the_dataclass_and_fate_sees_the_parameters():
    def declared(ctx, role, rows: list, settings: Declared, more: list):
        return settings, rows, more

    stage = with_parameters(declared, leave_out=("tol", "groups", "even"))
    seen = inspect.signature(stage).parameters
    assert list(seen) == ["ctx", "role", "rows", "epochs", "solver", "depth", "more"]
    assert (seen["epochs"].annotation.default, seen["epochs"].annotation.desc) == (100, "most epochs of all")
    made, rows, more = stage(None, None, rows=[1], more=[2], epochs=7, solver=None)
    assert (made, rows, more) == (Declared(epochs=7), [1], [2])


def test_a_stage_may_make_the_dataclass_itself():
    def declared(ctx, role, given: dict):
        return given

    stage = with_parameters(declared, unmade={"given": Declared})
    assert stage(None, None, tol=2.0) == {
        "epochs": 100,
        "tol": 2.0,
        "solver": "a",
        "groups": (),
        "depth": None,
        "even": 2,
    }
    assert all(isinstance(each, Parameter) for each in parameters_of(Declared).values())
