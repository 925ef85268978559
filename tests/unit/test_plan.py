"""`fate-dp plan`: answers agree with the specification's values, budgets are composed, and nonsense is refused."""

import json
import math
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from fate_dp.pipelines.cli import plan as plan_tables
from fate_dp.pipelines.cli.main import main
from fate_dp.pipelines.jobs.plan import (
    MAX_MESSAGES,
    InvalidArgument,
    LabelPlanRequest,
    TrainingPlanRequest,
    plan_labels,
    plan_training,
)
from fate_dp.privacy.mechanisms.randomized_response import label_posterior

TRAINING = dict(records=60000, clients=10, rounds=219, sampling_probability=4096 / 60000, delta=1e-5)
LABELS = ["plan", "labels", "--records", "426", "--epsilon", "2"]
TRAIN = [
    "plan",
    "training",
    "--records",
    "60000",
    "--clients",
    "10",
    "--rounds",
    "219",
    "--batch-size",
    "4096",
    "--delta",
    "1e-5",
]


@pytest.fixture(scope="module")
def golden_plan():
    return plan_training(TrainingPlanRequest(**TRAINING, noise_multiplier=3.937, cap_epsilon=2.0, dimension=10000))


@pytest.fixture(scope="module")
def target_plan():
    return plan_training(TrainingPlanRequest(**TRAINING, epsilon=1.0, clip=0.5, max_dropouts=3))


@pytest.mark.parametrize("epsilon, flip", [(1, 0.2689), (2, 0.1192), (4, 0.0180), (8, 0.00034)])
def test_flip_rates_of_the_specification(epsilon, flip):
    plan = plan_labels(LabelPlanRequest(records=1000, epsilon=epsilon))
    assert plan.flip_probability == pytest.approx(flip, abs=5e-5)
    assert plan.expected_flips == pytest.approx(1000 * plan.flip_probability)
    assert plan.keep_probability + plan.flip_probability == pytest.approx(1)


def test_ten_classes_keep_as_often_as_the_golden_value():
    assert plan_labels(LabelPlanRequest(1000, 2.0, classes=10)).keep_probability == pytest.approx(0.45085306037928)


@pytest.mark.parametrize(
    "epsilon, shown, not_shown", [(1, 0.404609675192, 0.084223808401), (3, 0.833925230201, 0.012293749653)]
)
def test_what_a_flipped_label_says(epsilon, shown, not_shown):
    plan = plan_labels(LabelPlanRequest(records=10, epsilon=epsilon, prior=0.2))
    assert plan.posterior_if_shown == pytest.approx(shown, rel=1e-9)
    assert plan.posterior_if_not_shown == pytest.approx(not_shown, rel=1e-9)


@given(epsilon=st.floats(1e-3, 40), prior=st.floats(0.001, 0.999))
def test_the_posterior_of_two_classes_is_the_librarys(epsilon, prior):
    plan = plan_labels(LabelPlanRequest(records=10, epsilon=epsilon, prior=prior))
    expected = label_posterior([1, 0], epsilon, prior)
    assert [plan.posterior_if_shown, plan.posterior_if_not_shown] == pytest.approx(list(expected), rel=1e-9)


@given(epsilon=st.floats(1e-3, 40), classes=st.integers(2, 50), prior=st.floats(0.001, 0.999))
def test_flips_lose_information_but_never_gain_any(epsilon, classes, prior):
    plan = plan_labels(LabelPlanRequest(records=1000, epsilon=epsilon, classes=classes, prior=prior))
    assert 0 < plan.equivalent_records <= 1000 * (1 + 1e-12)
    assert plan.standard_error >= plan.standard_error_unflipped * (1 - 1e-12)


def test_the_worth_of_flipped_labels_at_prior_one_half():
    plan = plan_labels(LabelPlanRequest(records=1000, epsilon=1.0))
    assert plan.equivalent_records == pytest.approx(1000 * (1 - 2 * plan.flip_probability) ** 2)
    assert plan.standard_error == pytest.approx(math.sqrt(0.25 / plan.equivalent_records))


def test_the_standard_error_is_that_of_simulated_estimates():
    import numpy as np

    rng = np.random.default_rng(5)
    plan = plan_labels(LabelPlanRequest(records=400, epsilon=1.5, classes=3, prior=0.3))
    true_is_class = rng.random((4000, 400)) < plan.prior
    shown = np.where(
        true_is_class,
        rng.random((4000, 400)) < plan.keep_probability,
        rng.random((4000, 400)) < plan.flip_probability / 2,
    ).mean(axis=1)
    estimates = (shown - plan.flip_probability / 2) / (plan.keep_probability - plan.flip_probability / 2)
    assert estimates.mean() == pytest.approx(0.3, abs=6 * plan.standard_error / math.sqrt(4000))
    assert estimates.std() == pytest.approx(plan.standard_error, rel=0.07)


@pytest.mark.parametrize("epsilon, cap, releases, left", [(2, 8, 4, 6), (0.1, 0.3, 3, 0.2), (3, 8, 2, 5), (9, 8, 0, 8)])
def test_releases_within_the_cap(epsilon, cap, releases, left):
    plan = plan_labels(LabelPlanRequest(records=10, epsilon=epsilon, cap=cap))
    assert plan.releases == releases and plan.left_after_one == pytest.approx(left)


def test_relation_golden_through_the_planner(golden_plan):
    for row in golden_plan.rows:
        assert row.epsilon_server["add_or_remove"] == pytest.approx(1.00, abs=5e-3)
        assert row.epsilon_server["replace_one"] == pytest.approx(2.05, abs=5e-3)


def test_noise_of_the_three_trust_models(golden_plan):
    local, shuffle, secure_sum = golden_plan.rows
    assert [row.aggregation for row in golden_plan.rows] == ["local", "shuffle", "secure_sum"]
    assert local.client_sigma == shuffle.client_sigma == 3.937
    assert secure_sum.client_sigma == pytest.approx(3.937 / 3)
    assert 9 * Decimal(secure_sum.client_sigma) ** 2 >= Decimal(3.937) ** 2
    assert local.sum_sigma == pytest.approx(3.937 * math.sqrt(10))
    assert secure_sum.mean_sigma == pytest.approx(3.937 * math.sqrt(10 / 9) / 4096)
    assert local.noise_to_signal == pytest.approx(local.sum_sigma * 100 / 4096)


def test_gaussian_messages_are_not_amplified_by_a_shuffler(golden_plan):
    local, shuffle, _ = golden_plan.rows
    assert shuffle.epsilon_server == local.epsilon_server


def test_other_clients_see_the_noise_of_all_but_their_own(golden_plan):
    local, _, secure_sum = golden_plan.rows
    others = plan_training(TrainingPlanRequest(**TRAINING, noise_multiplier=3.937 * 3))
    assert local.epsilon_client == pytest.approx(others.rows[0].epsilon_server)
    assert secure_sum.epsilon_client == secure_sum.epsilon_server


def test_runs_are_composed_not_divided(golden_plan):
    runs = golden_plan.rows[0].runs
    assert runs == 3
    within, beyond = (
        plan_training(TrainingPlanRequest(**{**TRAINING, "rounds": 219 * count}, noise_multiplier=3.937)).rows[0]
        for count in (runs, runs + 1)
    )
    assert within.epsilon_server["add_or_remove"] <= 2.0 < beyond.epsilon_server["add_or_remove"]


@pytest.mark.parametrize("cap, runs", [(1e-3, 0), (10.0, 100)])
def test_budgets_of_no_run_and_of_more_runs_than_anybody_wants(cap, runs):
    plan = plan_training(TrainingPlanRequest(60000, 10, 1, 0.01, 1e-5, noise_multiplier=3.0, cap_epsilon=cap))
    assert [row.runs for row in plan.rows] == [runs] * 3


def test_a_target_is_met_under_its_relation(target_plan):
    assert target_plan.noise_multiplier == pytest.approx(3.937, rel=1e-3)
    local, _, secure_sum = target_plan.rows
    assert 0.99 < local.epsilon_server["add_or_remove"] <= 1.0
    assert local.client_sigma == target_plan.noise_multiplier * 0.5
    assert secure_sum.client_sigma == pytest.approx(local.client_sigma / math.sqrt(7))
    assert local.runs is None and local.noise_to_signal is None


def test_a_target_under_replace_one_needs_more_noise(target_plan):
    plan = plan_training(TrainingPlanRequest(**TRAINING, epsilon=1.0, relation="replace_one"))
    assert plan.noise_multiplier > 1.5 * target_plan.noise_multiplier
    assert 0.99 < plan.rows[0].epsilon_server["replace_one"] <= 1.0


def test_shuffled_pure_messages_are_never_worse_than_local_and_better_when_many(golden_plan):
    per_client, per_record = golden_plan.shuffled_pure
    assert (per_client.messages, per_record.messages) == (10, 4096)
    assert per_client.epsilon_one_round == 1.0 and per_record.epsilon_one_round < 0.5
    assert all(line.epsilon_one_round <= line.epsilon_all_rounds for line in golden_plan.shuffled_pure)


def test_messages_beyond_what_the_bounds_can_count_are_left_out():
    """Without that a plan for 10^15 clients takes minutes; fewer messages are the safe side."""
    huge = TrainingPlanRequest(
        records=10**15, clients=10**15, rounds=1, sampling_probability=1.0, delta=1e-5, noise_multiplier=1.0
    )
    plan = plan_training(huge)
    assert [line.messages for line in plan.shuffled_pure] == [MAX_MESSAGES] * 2
    assert [row[1] for row in plan_tables.shuffled_table(plan).rows] == [f"{MAX_MESSAGES} (of more)"] * 2


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"records": 0}, "--records must be a whole number from 1 to 1000000000000000, got 0."),
        ({"records": True}, "--records must be a whole number from 1 to 1000000000000000, got True."),
        ({"rounds": 100001}, "--rounds must be a whole number from 1 to 100000, got 100001."),
        (
            {"clients": 1},
            "--clients must be a whole number from 2 (one more than --max-dropouts) to 1000000000000000, got 1.",
        ),
        ({"clients": 60001}, "--clients must be at most the number of records, 60000, got 60001."),
        ({"max_dropouts": 0}, "--max-dropouts must be a whole number from 1 to 1000000000000000, got 0."),
        ({"sampling_probability": 1.5}, "--sampling-probability must be at least 1e-12 and at most 1, got 1.5."),
        ({"sampling_probability": 1e-13}, "--sampling-probability must be at least 1e-12 and at most 1, got 1e-13."),
        ({"sampling_probability": 0.0}, "--sampling-probability must be at least 1e-12 and at most 1, got 0.0."),
        ({"delta": 1.0}, "--delta must be at least 1e-12 and less than 1, got 1.0."),
        ({"delta": 1e-15}, "--delta must be at least 1e-12 and less than 1, got 1e-15."),
        ({"epsilon": math.nan}, "--epsilon must be a number from 1e-06 to 1e+06, got nan."),
        ({"epsilon": None}, "--epsilon must be given if and only if --noise-multiplier is not, got None."),
        ({"noise_multiplier": 1.0}, "--epsilon must be given if and only if --noise-multiplier is not, got 1.0."),
        ({"relation": "replace"}, "--relation must be one of add_or_remove, replace_one, got 'replace'."),
        ({"clip": -1.0}, "--clip must be a number from 1e-06 to 1e+06, got -1.0."),
        ({"dimension": 1.5}, "--dimension must be a whole number from 1 to 1000000000000000, got 1.5."),
    ],
)
def test_training_refusals_are_one_whole_sentence(change, sentence):
    with pytest.raises(InvalidArgument) as refusal:
        TrainingPlanRequest(**{**TRAINING, "epsilon": 1.0, **change})
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ([*LABELS, "--epsilon", "-1"], "--epsilon must be a number from 1e-06 to 1e+06, got -1.0."),
        ([*LABELS, "--prior", "1"], "--prior must be greater than 0 and less than 1, got 1.0."),
        ([*LABELS, "--classes", "1"], "--classes must be a whole number from 2 to 1000000000000000, got 1."),
        ([*LABELS, "--cap", "inf"], "--cap must be a number from 1e-06 to 1e+06, got inf."),
        ([*TRAIN, "--epsilon", "0"], "--epsilon must be a number from 1e-06 to 1e+06, got 0.0."),
        (
            [*TRAIN, "--epsilon", "1", "--batch-size", "60001"],
            "--batch-size must be a whole number from 1 to 60000, got 60001.",
        ),
        (
            [*TRAIN, "--epsilon", "1", "--records", "-5"],
            "--records must be a whole number from 1 to 1000000000000000, got -5.",
        ),
    ],
)
def test_the_command_refuses_in_one_sentence_with_status_1(arguments, sentence, capsys):
    assert main(arguments) == 1
    assert capsys.readouterr().err == sentence + "\n"


@pytest.mark.parametrize(
    "arguments, named",
    [
        (TRAIN, "--epsilon"),
        ([*TRAIN, "--epsilon", "1", "--noise-multiplier", "1"], "--noise-multiplier"),
        ([*TRAIN, "--epsilon", "1", "--sampling-probability", "0.1"], "--sampling-probability"),
        ([*LABELS, "--records", "many"], "--records"),
        (["plan"], "WHAT"),
        ([*TRAIN, "--epsilon", "1", "--relation", "replace"], "--relation"),
    ],
)
def test_what_cannot_be_parsed_ends_with_status_2(arguments, named, capsys):
    with pytest.raises(SystemExit) as exit_status:
        main(arguments)
    assert exit_status.value.code == 2 and named in capsys.readouterr().err.splitlines()[-1]


def test_json_of_labels_is_valid_and_agrees(capsys):
    assert main([*LABELS, "--json", "--classes", "3", "--cap", "5", "--prior", "0.1"]) == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert told["flip_probability"] == plan_labels(LabelPlanRequest(426, 2.0, 3, 5.0, 0.1)).flip_probability


def test_json_of_training_is_valid_and_agrees(capsys, golden_plan):
    arguments = ["--noise-multiplier", "3.937", "--cap-epsilon", "2", "--dimension", "10000", "--json"]
    assert main([*TRAIN, *arguments]) == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert told["rows"][0]["epsilon_server"] == golden_plan.rows[0].epsilon_server
    assert [row["runs"] for row in told["rows"]] == [3, 3, 3]


@pytest.mark.parametrize("width", [20, 100])
def test_tables_are_drawn_whole_in_terminals_of_any_width(width, golden_plan):
    console = Console(width=width, record=True, quiet=False, file=open("/dev/null", "w", encoding="utf-8"))
    plan_tables.print_training_plan(golden_plan, console)
    plan_tables.print_label_plan(plan_labels(LabelPlanRequest(426, 2.0)), console)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "unit record" in " ".join(text.split()) and "Features are not covered" in " ".join(text.split())


def test_the_printed_table_names_relations_and_says_what_shuffling_does_not_do(capsys):
    assert main([*TRAIN, "--noise-multiplier", "3.937"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "amplifies nothing" in text and "replace-one" in text and "add-or-remove" in text


@settings(max_examples=200)
@given(st.floats(0, 1e300), st.integers(1, 8))
def test_rounded_texts_lie_on_their_side_of_the_value(value, digits):
    up, down = plan_tables.rounded_up(value, digits), plan_tables.rounded_down(value, digits)
    assert Decimal(down) <= Decimal(value) <= Decimal(up)
    assert float(up) - float(down) <= 10.0 ** (1 - digits) * max(value, 1e-300) * 1.0001


def test_infinity_is_told_in_words():
    assert plan_tables.rounded_up(math.inf) == "infinity"
