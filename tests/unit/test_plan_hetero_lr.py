"""``fate-dp plan hetero-lr``: bytes, delays and waiting for a line."""

import json

import pytest

from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.cli.plan import LinkRequest, plan_link

SIZES = {"rows": 10_000, "guest_columns": 10, "host_columns": 20}


def test_waiting_grows_with_delay_and_falls_with_the_rate():
    plan = plan_link(LinkRequest(**SIZES))
    assert plan.delays == 48 and 5.5e6 < plan.bytes < 5.6e6
    assert plan.seconds == pytest.approx(48 * 0.05 + 8 * plan.bytes / 1e8)
    assert plan_link(LinkRequest(**SIZES, delay=100)).seconds == pytest.approx(plan.seconds + 48 * 0.05)
    assert plan_link(LinkRequest(**SIZES, delay=0, rate=1e9)).seconds < 1e-4
    assert plan_link(LinkRequest(**SIZES, flipback=True)).delays > plan.delays


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({"rate": 0}, "rate must be a finite number above 0, got 0."),
        ({"delay": -1}, "delay must be a finite number at least 0, got -1."),
        ({"rows": 0}, "rows must be a whole number at least 1, got 0."),
        ({"key_length": 1024}, "key_length must be a whole number at least 2048, got 1024."),
    ],
)
def test_bad_input_gets_one_sentence(changed, sentence):
    with pytest.raises(ValueError) as refused:
        LinkRequest(**{**SIZES, **changed})
    assert str(refused.value) == sentence


def test_the_command_prints_a_table_or_json(capsys):
    flags = ["plan", "hetero-lr", "--rows", "10000", "--guest-columns", "10", "--host-columns", "20"]
    assert main(flags) == 0
    assert " 48 " in capsys.readouterr().out
    assert main([*flags, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["delays"] == 48
