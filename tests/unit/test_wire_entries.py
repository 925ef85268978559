"""Nothing of ours sends by FATE's own way, and our own way knows no component."""

import re
from pathlib import Path

import fate_dp.components.common.wire.channel as task
from fate_dp.components.common.wire.channel import with_plain_messages

COMPONENTS = Path(task.__file__).parents[2]


def test_nothing_but_the_channel_sends_or_receives():
    for path in sorted(COMPONENTS.rglob("*.py")):
        if path.parent.name != "wire":
            assert not re.search(
                r"\.(push|pull)_(bytes|table)\b|arch\.federation|context\._parties", path.read_text()
            ), path


def test_the_channel_knows_no_component():
    for path in sorted(Path(task.__file__).parent.glob("*.py")):
        names = {each.parent.name for each in COMPONENTS.glob("*/component.py")}
        assert len(names) > 10 and not names & set(re.findall(r"\w+", path.read_text())), path


def test_a_stage_keeps_its_parameters_for_fate():
    import inspect

    def stage(ctx, role, train_data: int):
        """Stage."""

    assert list(inspect.signature(with_plain_messages({})(stage)).parameters) == ["ctx", "role", "train_data"]
