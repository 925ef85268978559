"""The thesis' figures: printed values stand beside what was measured, and every overhead is of one client."""

import io
import json
import sys

import numpy as np
import pytest
from rich.console import Console

from bench.data_files import with_files
from bench.homo_nn_adaptive_tasks import Settings, Task
from bench.homo_nn_adaptive_training import Run, _Delayed, plans_of
from bench.thesis import figures as thesis
from bench.thesis.figures import EPSILONS, PAIRS, PRINTED, UNIFORM, WITHOUT, accuracies, contributions, overheads
from fate_dp.components.dp_homo_nn.models.registry import build_model
from fate_dp.components.dp_homo_nn.models.spec import ModelSpec, flat_weights
from fate_dp.components.protocols.noisy_rounds.contribution import NoisyMean


def task(epsilons=(8.0,)):
    """Made-up rows of four numbers in two classes, for a perceptron."""
    generator = np.random.default_rng(1)
    features = generator.normal(size=(400, 4)).astype(np.float32)
    labels = (features[:, 0] > 0).astype(np.int64)
    split = (features[:300], labels[:300], features[300:], labels[300:])
    settings = Settings(3, 6, 1, 100, clip=1.0, learning_rate=0.3)
    spec = ModelSpec("mlp", 4, 2)
    return Task("made_up", spec, (split,), 1, "accuracy", epsilons, settings)


def test_every_kind_is_trained_at_every_epsilon_and_the_reference_learns():
    found = accuracies(task())
    assert set(found) == {(8.0, UNIFORM), *((8.0, threshold) for threshold, _ in PAIRS), (float("inf"), WITHOUT)}
    assert found[float("inf"), WITHOUT] > 0.8


def test_each_pair_of_f_and_p_reaches_the_rule(monkeypatch):
    asked = []
    monkeypatch.setattr(thesis, "source_rule", lambda run, epsilon, f, p: asked.append((epsilon, f, p)) or 0.1)
    accuracies(task((2.0,)))
    assert asked == [(2.0, *pair) for pair in PAIRS]


def test_the_table_has_the_printed_values_beside_the_measured_ones(monkeypatch):
    kinds = (UNIFORM, *(threshold for threshold, _ in PAIRS))
    found = {(epsilon, kind): 0.5 for epsilon in EPSILONS for kind in kinds} | {(float("inf"), WITHOUT): 0.9}
    monkeypatch.setattr(thesis, "accuracies", lambda task: found)
    text = io.StringIO()
    figures = contributions(None, Console(file=text, width=140))
    assert all(f"0.5000 / {printed}" in text.getvalue() for printed in PRINTED.values())
    assert figures["mnist_rule_f_0.15_eps_8"] == 0.5 and figures["mnist_without_eps_inf"] == 0.9


def test_overheads_are_told_for_clients_of_both_sizes(monkeypatch):
    monkeypatch.setattr(thesis, "TIMES", 1)
    text = io.StringIO()
    figures = overheads(task(), Console(file=text, width=140))
    assert set(figures) == {
        f"{what}_ms_{records}" for what in ("warm_up", "contributions", "noise") for records in thesis.CLIENT_RECORDS
    }
    assert "4.35" in text.getvalue() and "68220" in text.getvalue()


def test_messages_have_the_size_that_their_numbers_have():
    console = Console(file=io.StringIO(), width=140)
    figures = thesis.messages(task(), console)
    dimension = len(flat_weights(build_model(task().spec)))
    assert figures["bytes_secure_sum"] == figures["bytes_local"] == 8 * dimension
    # A tenth of the values, 8 bytes each, and of their places, 4 bytes each.
    assert figures["bytes_local_tenth"] == 12 * -(-dimension // 10)
    assert figures["bytes_shuffle"] > 4 * dimension * thesis.CLIENT_RECORDS[0] / thesis.ROUNDS_PER_EPOCH


def test_a_missing_file_is_named_in_a_sentence_and_the_last_line_holds_the_figures(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["thesis", "--data", str(tmp_path)])
    with pytest.raises(SystemExit, match="There is no file .*mnist.npz; name its folder"):
        with_files(thesis.main)
    monkeypatch.setattr(thesis, "TASKS", {"mnist": lambda folder, change: task()})
    monkeypatch.setattr(thesis, "PARTS", {"overheads": lambda task, console: {"a_ms_10": 1.0}})
    monkeypatch.setattr(sys, "argv", ["thesis"])
    thesis.main()
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"bench": "thesis", "figures": {"a_ms_10": 1.0}}


def test_the_published_rules_meet_epsilon_and_move_along_whitened_gradients():
    found = task((2.0,))
    plans = plans_of(found, 2.0)
    assert plans["quantile"].terms.clip_quantile == 0.5
    assert all(1.9 < plan.epsilons[0] <= 2.0 for plan in plans.values())
    run = Run(found, found.splits[0], plans, "published")
    assert run.quantile() > 0.6 and run.delayed() > 0.6
    server = _Delayed(plans["uniform"].terms, run.start, {"method": "sgd", "optimizer_params": {"lr": 1.0}})
    server.begin(None)
    gradient = np.zeros(len(run.start))
    gradient[0] = 2.0
    server.step(NoisyMean(gradient))
    scales = server.preconditioner()
    assert scales[0] == pytest.approx(len(run.start) ** 0.5 + 0.3) and scales[1:] == pytest.approx(0.3)
    before = server.weights
    server.begin(scales)
    assert before - server.step(NoisyMean(scales)) == pytest.approx(np.ones(len(scales)))
