"""`fate-dp plan homo-nn`: what the parties will compute, in a table and as JSON, and refusals before anything is spent."""

import json
import math

import pytest

from fate_dp.components.dp_homo_nn.settings import given_settings
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.cli.plan_horizontal import HomoNNRequest, dimension_of, plan_homo_nn

NEEDED = {"rounds": 4, "batch_size": 60, "records": 600}
COMMAND = [
    "plan",
    "homo-nn",
    "--clients",
    "3",
    "--records",
    "600",
    "--batch-size",
    "60",
    "--rounds",
    "4",
    "--features",
    "5",
]


def request_of(clients=3, dimension=6, **given):
    return HomoNNRequest(given_settings({**NEEDED, **given}), clients, dimension=dimension)


@pytest.fixture(scope="module")
def rows():
    plan = plan_homo_nn(request_of(noise_multiplier=1.5, max_dropouts=2))
    return {row.aggregation: row for row in plan.rows}


def test_the_models_differ_in_noise_and_in_what_protects(rows):
    secure_sum, local, shuffle = rows["secure_sum"], rows["local"], rows["shuffle"]
    assert secure_sum.noise_of_mean == pytest.approx(1.5 * math.sqrt(3 / 1) / 60)
    assert local.noise_of_mean == pytest.approx(1.5 * math.sqrt(3) / 60)
    assert secure_sum.epsilon["add_or_remove"] == pytest.approx(local.epsilon["add_or_remove"], rel=1e-6)
    assert secure_sum.epsilon["add_or_remove"] < secure_sum.epsilon["replace_one"]
    assert set(shuffle.epsilon) == {"replace_one"} and shuffle.epsilon0 == 1.0
    assert shuffle.epsilon["replace_one"] <= shuffle.epsilon_if_shuffler_and_server_collude == 1.0


def test_the_noise_of_a_mean_of_duchis_answers():
    """200 means of 60 answers to the zero vector: their spread, within 10 %, a good four standard errors."""
    import numpy as np

    from fate_dp.privacy.mechanisms.local_numbers import duchi_l2

    row = next(row for row in plan_homo_nn(request_of(noise_multiplier=9.0)).rows if row.aggregation == "shuffle")
    answers = duchi_l2(np.zeros((12000, 6)), 1.0, 1.0, observers="server").value
    means = answers.reshape(200, 60, 6).mean(axis=1)
    assert means.std() == pytest.approx(row.noise_of_mean, rel=0.1)


def test_a_target_is_met_under_the_relation_that_was_asked_for(capsys):
    assert main([*COMMAND, "--epsilon", "2", "--relation", "replace_one", "--json"]) in (0, None)
    plan = json.loads(capsys.readouterr().out)
    assert [row["aggregation"] for row in plan["rows"]] == ["secure_sum", "local", "shuffle"] and plan["dimension"] == 6
    assert all(1.98 < row["epsilon"]["replace_one"] <= 2.0 for row in plan["rows"])


def test_the_table_names_trust_models_and_says_what_is_refused(capsys):
    assert main([*COMMAND, "--noise-multiplier", "2", "--local-steps", "2", "--local-learning-rate", "0.1"]) in (
        0,
        None,
    )
    printed = " ".join(capsys.readouterr().out.split())
    assert "secure_sum refused" in printed and "use privacy client, aggregation local, or one step" in printed
    assert "local sigma 2" in printed and "local_steps must be 1 in aggregation shuffle" in printed


def test_a_delta_that_promises_too_little_is_warned_of(capsys):
    main([*COMMAND, "--noise-multiplier", "2", "--delta", "0.01"])
    assert "Warning: delta is 0.01, which is not below 1 / 600" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    "flags, sentence",
    [
        (["--model", "resnet"], "model.name must be one of"),
        (["--model", "module:net"], "Only the parties' operators have the model 'module:net'"),
        (["--model", "cnn"], "input_shape must be given"),
        (["--model", "mlp", "--model-params", "{"], "--model-params must be a JSON object"),
        (
            ["--batch-size", "601"],
            "batch_size must be at most records, 600, of which it is the expected number in a round, got 601.0",
        ),
        (["--clients", "1"], "clients must be at least 2"),
        (["--max-dropouts", "3"], "max_dropouts must be less than the number of clients, 3, got 3"),
    ],
    ids=str,
)
def test_a_plan_that_cannot_be_is_refused_in_one_sentence(flags, sentence, capsys):
    assert main([*COMMAND, "--noise-multiplier", "2", *flags]) == 1
    refusal = capsys.readouterr().err.strip()
    assert sentence in refusal and "\n" not in refusal


def test_the_dimension_is_that_of_the_model():
    settings = given_settings({**NEEDED, "noise_multiplier": 1.0, "classes": 10, "model": {"name": "cnn"}})
    assert dimension_of(HomoNNRequest(settings, 3, features=1024)) == 105_506
    with pytest.raises(ValueError, match="--features is missing"):
        dimension_of(HomoNNRequest(settings, 3))
