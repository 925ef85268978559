"""The twin behind bench/label_noise.py: without noise it is ridge regression, and the command ends with its figures."""

import json
import sys

import numpy as np

from bench import label_noise
from bench.label_noise import BINNED, RAW, Table, clipped_rows, fold_figures, noise_terms, noisy_weights, split_of


def table(rows=400):
    generator = np.random.default_rng(2)
    numbers = generator.normal(size=(rows, 3)), generator.normal(size=(rows, 2))
    groups = np.eye(3)[generator.integers(3, size=rows)], np.zeros((rows, 0))
    labels = (numbers[0][:, 0] + numbers[1][:, 1] + generator.normal(size=rows) > 0).astype(float)
    return Table(numbers, groups, (1, 0), labels)


def test_without_noise_it_is_ridge_regression_on_clipped_rows():
    split = split_of(table(), np.arange(300), np.arange(300, 400), RAW)
    terms = noise_terms([part.shape[1] for part in split.train], split.radii, 1.0)
    rows, targets = clipped_rows(split.train, split.train_labels, terms)
    moments = rows.T @ rows, rows.T @ targets
    optimizer = {"alpha": 0.1, "optimizer_params": {"lr": 0.3, "momentum": 0.9}}
    found = noisy_weights(moments, terms, 300, np.zeros(len(rows.T), dtype=object), optimizer, epochs=2000)
    np.testing.assert_allclose(
        found, np.linalg.solve(moments[0] + 0.1 * 1200 * np.eye(len(found)), moments[1]), atol=1e-8
    )


def test_binned_rows_have_the_norm_that_is_stated_exactly():
    split = split_of(table(), np.arange(300), np.arange(300, 400), BINNED)
    for part, radius in zip(split.train, split.radii):
        assert set(np.unique(part)) == {0.0, 1.0}
        np.testing.assert_allclose((part**2).sum(axis=1), radius**2)
    terms = noise_terms([part.shape[1] for part in split.train], split.radii, 1.0)
    rows, _ = clipped_rows(split.train, split.train_labels, terms)
    # Rounded towards zero, so that a row that is as long as its clip keeps its length but for the grid.
    assert np.abs((rows**2).sum(axis=1) - (4 + 1 + 2)).max() < 1e-4


def test_less_epsilon_costs_accuracy():
    found = fold_figures(split_of(table(2000), np.arange(1500), np.arange(1500, 2000), RAW), epsilons=(0.02, 4.0))
    for method in ("flips", "noise"):
        assert found[method, 0.02] < found[method, 4.0] <= found["none", np.inf] + 0.02


def test_the_last_line_holds_the_figures(monkeypatch, capsys):
    monkeypatch.setattr(label_noise, "TASKS", {"made_up": table})
    monkeypatch.setattr(sys, "argv", ["label_noise"])
    label_noise.main()
    result = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert result["bench"] == "label-noise" and 0.5 < result["figures"]["auc_made_up_bins_noise_eps_1"] < 1
    assert {"auc_made_up_raw_none", "auc_made_up_raw_flips_eps_0.5"} <= set(result["figures"])
