"""No component of ours is entered without plain messages, and nothing of ours sends by FATE's own way."""

import re
from pathlib import Path

import pytest

import fate_dp.components.common.wire.channel as task
from fate_dp.components.common.wire.channel import with_plain_messages

COMPONENTS = Path(task.__file__).parents[2]
ENTRIES = sorted(COMPONENTS.glob("*/component.py"))


def components_of(path):
    from importlib import import_module

    from fate.components.core import Component

    module = import_module(f"fate_dp.components.{path.parent.name}.component")
    return [value for value in vars(module).values() if isinstance(value, Component)]


@pytest.mark.parametrize("path", ENTRIES, ids=[path.parent.name for path in ENTRIES])
def test_every_stage_is_entered_with_plain_messages(path):
    entered = [stage for found in components_of(path) for stage in (found.stage_components or [found])]
    assert entered and all(getattr(stage.callback, "has_plain_messages", False) for stage in entered)


@pytest.mark.parametrize("path", sorted(COMPONENTS.rglob("*.py")), ids=str)
def test_nothing_but_the_channel_sends_or_receives(path):
    if path.parent.name != "wire":
        assert not re.search(r"\.(push|pull)_(bytes|table)\b|arch\.federation|context\._parties", path.read_text())


def test_a_stage_keeps_its_parameters_for_fate():
    import inspect

    def stage(ctx, role, train_data: int):
        """Stage."""

    assert list(inspect.signature(with_plain_messages(stage)).parameters) == ["ctx", "role", "train_data"]
