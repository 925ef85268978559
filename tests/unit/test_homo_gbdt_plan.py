"""`fate-dp plan homo-gbdt`: what it shows is what a training is charged, and what its sums are like."""

import json
import math

import numpy as np
import pytest

from fate_dp.components.dp_homo_gbdt.boosting import contribution, round_terms
from fate_dp.components.dp_homo_gbdt.settings import TrainSettings
from fate_dp.components.protocols.noisy_rounds.account import epsilon_of
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.cli.plan_horizontal import plan_homo_gbdt
from fate_dp.privacy.mechanisms.clipping import ClippedSum, grid_for
from fate_dp.privacy.noise.stream import ReproducibleStream
from tests.support.simulated_rounds import Transport

COMMAND = ["plan", "homo-gbdt", "--clients", "3", "--records", "6000"]


def test_a_plan_meets_its_target_and_is_what_parties_charge(capsys):
    assert main([*COMMAND, "--epsilon", "1", "--delta", "1e-6", "--json"]) in (0, None)
    plan = json.loads(capsys.readouterr().out)
    assert [row["aggregation"] for row in plan["rows"]] == ["secure_sum", "local"]
    settings = TrainSettings(records=6000, epsilon=1.0, delta=1e-6)
    for row in plan["rows"]:
        assert 0.99 < row["epsilon"]["add_or_remove"] <= 1 < row["epsilon"]["replace_one"]
    terms = round_terms(settings, 3).with_noise(plan["rows"][0]["noise_multiplier"])
    for relation, epsilon in plan["rows"][0]["epsilon"].items():
        assert epsilon_of(terms, 1e-6, relation) == pytest.approx(epsilon, rel=1e-9)


def test_five_trainings_cost_more_than_one_and_less_than_five_times_it():
    settings = TrainSettings(records=6000, noise_multiplier=12.0, delta=1e-6)
    one, five = (plan_homo_gbdt(settings, 3, trainings).rows[0].epsilon["add_or_remove"] for trainings in (1, 5))
    assert one < five < 5 * one


@pytest.mark.parametrize("place, aggregation", [(0, "secure_sum"), (1, "local")])
def test_the_noise_of_a_leaf_is_that_of_what_parties_send(place, aggregation):
    """Some 5,000 sums of no records: their spread, within 5 %, five standard errors."""
    settings = TrainSettings(records=6000, noise_multiplier=2.0, aggregation=aggregation)
    row, terms = plan_homo_gbdt(settings, 3).rows[place], round_terms(settings, 3)
    clip, stream = terms.clip_of(1), ReproducibleStream(b"leaf")
    nothing = ClippedSum(np.zeros(terms.dimension, dtype=np.int64), grid_for(clip), clip)
    sent = [contribution(nothing, terms, party, 1, stream) for party in range(3)]
    sums = Transport(terms).deliver(sent).gradient * terms.batch_size
    assert row.aggregation == aggregation and sums.std() == pytest.approx(row.noise_of_leaf, rel=0.05)


def test_the_table_says_how_many_records_a_leaf_needs(capsys):
    assert main([*COMMAND, "--noise-multiplier", "10", "--depth", "3", "--delta", "0.001"]) in (0, None)
    printed = " ".join(capsys.readouterr().out.split())
    assert "160 trees of depth 3 in 8 rounds" in printed and "A leaf has 750 records on average" in printed
    noise = 10 * math.sqrt(20 * 3 / 2)
    assert f" {math.ceil(noise / 0.125)} " in printed and "Warning: delta is 0.001" in printed


@pytest.mark.parametrize(
    "flags, sentence",
    [
        (["--rounds", "7"], "trees must be a multiple of rounds, 7, got 160."),
        (["--clients", "1"], "clients must be at least 2"),
        (["--trainings", "0"], "trainings must be a whole number"),
        (["--depth", "11"], "depth must be "),
    ],
    ids=str,
)
def test_a_plan_that_cannot_be_is_refused_in_one_sentence(flags, sentence, capsys):
    assert main([*COMMAND, "--epsilon", "1", *flags]) == 1
    refusal = capsys.readouterr().err.strip()
    assert sentence in refusal and "\n" not in refusal
