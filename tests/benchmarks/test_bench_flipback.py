"""The benches behind the claims on flips: verdicts follow from intervals, and every training is what its name says."""

import math

import numpy as np
import pytest
import torch

from bench import label_methods
from bench.flipback import CONFIRMED, REFUTED, UNDECIDED, Course, decided, epochs_to_convergence, figures, verdicts_on
from bench.flipback_report import write_report
from bench.label_methods import FLIPBACKS, SGD, Trials
from bench.label_methods import verdicts_on as verdicts_on_methods
from bench.label_noise import RAW, Table, split_of
from bench.split_network import EPSILONS, corrected_loss, verdict
from examples.credit_risk.models import interval


def courses(shift):
    """Two splits of three epochs per setting; flips at epsilon 4 move the held-out accuracy by ``shift`` and a little."""
    from bench.flipback import SWEPT

    found = {}
    for epsilon, penalty in SWEPT:
        last = np.array([0.9, 0.92]) + (np.array([shift, shift * 1.01]) if epsilon == 4.0 else 0.0)
        accuracies = np.full((2, 3, 3), 0.8)
        accuracies[:, -1, 2] = last
        losses = np.array([[0.7, 0.5, 0.4], [0.7, 0.45, 0.4]])
        settled = np.array([3.0, 3.0]) + (np.array([2.0, 2.01]) if epsilon == 2.0 else 0.0)
        found[epsilon, penalty] = Course(epsilon, penalty, accuracies, losses, last + 0.01, settled)
    return found


def test_a_claim_is_decided_by_the_interval_of_its_difference():
    above, below, around = ({"low": low, "high": high} for low, high in ((0.1, 0.2), (-0.2, -0.1), (-0.1, 0.1)))
    assert [decided(each, 1) for each in (above, below, around)] == [CONFIRMED, REFUTED, UNDECIDED]
    assert [decided(each, -1) for each in (above, below, around)] == [REFUTED, CONFIRMED, UNDECIDED]


@pytest.mark.parametrize("shift, found", [(-0.02, REFUTED), (0.02, CONFIRMED)])
def test_flips_regularise_if_and_only_if_they_raise_the_held_out_accuracy(shift, found):
    verdicts = verdicts_on(courses(shift), "source")
    assert {each.found for each in verdicts if "regularise" in each.claim} == {found}
    assert next(each.found for each in verdicts if "converges" in each.claim) == REFUTED


def test_the_gap_is_training_less_held_out_accuracy_and_the_report_has_every_part(tmp_path):
    sweeps = {"source": courses(-0.02), "default": courses(0.02)}
    gain = interval([0.01, 0.02])
    shares = {
        (mode, epsilon, share): gain
        for mode in ("swap", "resample")
        for epsilon in (0.5, 1.0)
        for share in (0.01, 0.02)
    }
    named = figures(sweeps, shares)
    assert named["source_gap_eps_4_lambda_2"] == pytest.approx(0.01)
    assert named["default_epochs_eps_2"] == pytest.approx(5.0, abs=0.01)
    write_report(tmp_path / "report.html", sweeps, shares, ["A sentence."])
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "A sentence." in text and text.count("data:image/png") == 5 and "loss" in text


@pytest.mark.parametrize("losses, epoch", [([1.0, 0.5, 0.04, 0.0], 3), ([1.0, 0.0, 0.0], 2), ([1.0, 1.1, 1.2], 3)])
def test_convergence_is_most_of_the_way_to_the_last_loss(losses, epoch):
    assert epochs_to_convergence(losses) == epoch


def trials(rows=600):
    generator = np.random.default_rng(3)
    numbers = generator.normal(size=(rows, 3)), generator.normal(size=(rows, 2))
    labels = (numbers[0][:, 0] - numbers[1][:, 1] + generator.normal(size=rows) > 0).astype(float)
    none = np.zeros((rows, 0))
    table = Table(numbers, (none, none), (0, 0), labels)
    return Trials(split_of(table, np.arange(rows // 2), np.arange(rows // 2, rows), RAW), 5)


def test_every_method_loses_more_at_a_small_epsilon_and_nothing_much_without_noise():
    fold = trials()
    for method in ("flips", "noise", *SGD):
        aucs = {
            epsilon: np.mean([fold.run(method, epsilon, draw).auc for draw in range(6)]) for epsilon in (0.1, math.inf)
        }
        assert aucs[0.1] < aucs[math.inf] - 0.02 and aucs[math.inf] > 0.8, method


def test_the_noise_of_dp_sgd_is_calibrated_for_what_one_label_or_one_record_can_move(monkeypatch):
    asked = []
    monkeypatch.setattr(label_methods, "gaussian_sigma", lambda epsilon, delta, moved: asked.append(moved) or 0.0)
    fold = trials(200)
    for method in ("sgd label", "sgd record"):
        fold.run(method, 1.0, 0)
    # Rows of five numbers and an intercept have a norm of at most R = sqrt(6); 100 steps move a hundred sums.
    radius = math.sqrt(6)
    assert asked == pytest.approx([10 * radius, 10 * 2 * 0.5 * radius])


def test_flips_are_judged_with_flipback_by_their_paired_difference():
    found = {("auto", epsilon): [0.8, 0.81] for epsilon in (0.5, 1.0, 2.0, 4.0)} | {("flips", math.inf): [0.82, 0.83]}
    for other in ("sgd label", "sgd record", "noise"):
        found |= {(other, epsilon): [0.75, 0.7605] for epsilon in (0.5, 1.0, 2.0, 4.0)}
        found[other, math.inf] = [0.75, 0.76]
    verdicts = verdicts_on_methods("a task", found)
    assert {each.found for each in verdicts if "beat" in each.claim} == {CONFIRMED}
    assert {each.found for each in verdicts if "lose less" in each.claim} == {REFUTED}
    assert set(FLIPBACKS) == {"flips", "auto", "swap", "posterior", "resample"}


def test_the_corrected_loss_is_least_at_the_law_of_the_true_labels():
    """With a wrong flip rate, 2/3 or 3/2 of the right one, the least loss is elsewhere."""
    truth, flip = 0.3, 0.2
    shown = flip + (1 - 2 * flip) * truth
    candidates = torch.linspace(0.01, 0.99, 981, dtype=torch.float64)

    def best(rate):
        losses = [
            shown * float(corrected_loss(torch.logit(p)[None], torch.ones(1, dtype=torch.float64), rate))
            + (1 - shown) * float(corrected_loss(torch.logit(p)[None], torch.zeros(1, dtype=torch.float64), rate))
            for p in candidates
        ]
        return float(candidates[int(np.argmin(losses))])

    assert best(flip) == pytest.approx(truth, abs=2e-3)
    assert all(abs(best(rate) - truth) > 0.02 for rate in (flip * 2 / 3, flip * 3 / 2))


@pytest.mark.parametrize(
    "low, high, said",
    [
        (0.0031, 0.0040, "beats the scorecard by more than 0.003;"),
        (-0.001, 0.0029, "does not beat the scorecard by more than 0.003 at any epsilon;"),
        (0.0014, 0.0044, "undecided;"),
    ],
)
def test_the_split_network_is_judged_by_the_rule_that_was_set_before(low, high, said):
    gains = {("columns", epsilon): {"mean": -0.02, "low": -0.03, "high": -0.01} for epsilon in EPSILONS}
    gains["bins", 4.0] = {"mean": (low + high) / 2, "low": low, "high": high}
    assert said in verdict(gains) and "on bins at epsilon 4" in verdict(gains)
