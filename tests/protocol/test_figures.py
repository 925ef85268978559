"""What guests are shown of a model's quality: figures on the labels as they are, and on true ones as far as these follow."""

import numpy as np
import pytest

from fate_dp.privacy.labels.noisy_metrics import Fit, corrected_figures

from .scenarios import GUEST, assert_refused, flip, play
from .test_score_releases import (
    ALL,
    HELD_OUT,
    PAIR,
    SWAPS,
    TABLES,
    again,
    job,
    predict,
    revise,
    score_flips,
    unlabelled,
)

HOME = "figures"
SCENARIOS = {
    "flip": again(flip, HOME, PAIR, tables=TABLES, epsilon=0.5),
    "model a": job(HOME, 1, score_cap=9),
    "unscored": job(HOME, 4, train_scores=False),
    "held-out rows": again(predict, HOME, tables=HELD_OUT, of="model a"),
    "held-out rows with true labels": again(predict, HOME, tables=HELD_OUT, of="model a", true_labels=True),
    "flips": again(score_flips, HOME, labels_of="flip", of="model a"),
    "flips said to be true": again(score_flips, HOME, labels_of="flip", of="model a", true_labels=True),
    "no labels said to be true": again(predict, HOME, tables=unlabelled(HELD_OUT), of="model a", true_labels=True),
    "swapped": again(revise, HOME, PAIR, labels_of="flip", scores_of="model a"),
    "after flipback": job(HOME, 2, labels_of="swapped"),
    "with flipback inside": job(HOME, 3, flipback=SWAPS, epochs=3),
}
REFUSED = {
    "flips said to be true": "true_labels is true, but the labels of the guest's table are flips that were released",
    "no labels said to be true": "true_labels is true, but the guest's table has no label column",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return play(SCENARIOS, tmp_path_factory.mktemp("homes"), ALL)


@pytest.mark.parametrize("name", SCENARIOS)
def test_only_what_cannot_be_true_is_refused(runs, name):
    if name in REFUSED:
        assert_refused(runs[name], REFUSED[name])
    else:
        assert {outcome.error for outcome in runs[name].values()} == {None}


def figures_of(runs, name, rows) -> dict:
    shown, before = runs[name][GUEST].value["summary"], f"{rows}: "
    return {key.removeprefix(before): value for key, value in shown.items() if key.startswith(before)}


def expected_figures(scored, labels, epsilon, fit=None):
    scores = scored["predict_score"].astype(float)
    return corrected_figures(labels.to_numpy(dtype=float), np.log(scores / (1 - scores)).to_numpy(), epsilon, fit=fit)


def test_a_training_shows_the_figures_on_its_flips_and_the_corrected_ones(runs):
    value = runs["model a"][GUEST].value
    scored, _meta = value["scored"], value["model"]["meta"]
    fit = Fit(4 + 8, 0.25)
    found, shown_figures = (
        expected_figures(scored, scored["label"], 0.5, fit),
        figures_of(runs, "model a", "training rows"),
    )
    for name, figure in found.items():
        told = (f"{name} on flips", f"{name} on true labels, estimated", f"{name}, standard error", f"{name}, bias")
        expected = (figure.on_flips, min(1.0, figure.estimate), figure.standard_error, figure.most_bias)
        np.testing.assert_allclose([shown_figures.pop(key) for key in told], expected, rtol=1e-6)
        assert figure.most_bias > 0
    assert shown_figures == {
        "figures on true labels": "estimated from flips at rate 0.3775; the model was fitted to these very flips, so the "
        "estimates err upwards, by 'bias' at most, to first order"
    }


def test_a_training_without_scores_shows_no_figures(runs):
    assert not figures_of(runs, "unscored", "training rows")


def test_flips_of_other_rows_than_a_model_was_fitted_to_are_corrected_without_a_bias(runs):
    told = figures_of(runs, "flips", "predicted rows")
    assert told["figures on true labels"].endswith("unbiased for rows that the model was not fitted to")
    assert "AUC, bias" not in told and told["AUC on true labels, estimated"] != told["AUC on flips"]


def test_labels_that_the_ledger_does_not_know_have_figures_only_if_they_are_said_to_be_true(runs):
    told = figures_of(runs, "held-out rows", "predicted rows")
    assert list(told) == ["figures on true labels"] and told["figures on true labels"].startswith("none: ")
    told = figures_of(runs, "held-out rows with true labels", "predicted rows")
    scored = runs["held-out rows with true labels"][GUEST].value["scored"]
    labels = HELD_OUT[GUEST].set_index("id")["y"][scored["id"]]
    exact = expected_figures(scored, labels, 100.0)
    assert told.pop("figures on true labels") == "of the labels, which true_labels says are true"
    for name, figure in exact.items():
        np.testing.assert_allclose(
            [told.pop(f"{name} on true labels"), told.pop(f"{name}, standard error")],
            [figure.on_flips, figure.standard_error],
            rtol=1e-6,
        )
    assert not told


def test_nothing_corrects_labels_that_flipback_revised_and_no_bound_is_stated_for_a_fit_to_them(runs):
    told = figures_of(runs, "after flipback", "training rows")
    assert told["figures on true labels"].startswith("none: flipback revised the labels")
    assert {"accuracy on revised labels", "AUC on revised labels", "KS on revised labels"} == set(told) - {
        "figures on true labels"
    }
    told = figures_of(runs, "with flipback inside", "training rows")
    assert told["figures on true labels"].endswith("the estimates err upwards, nobody knows how far")
    assert "AUC on true labels, estimated" in told and "AUC, bias" not in told
    # The labels beside the scores are the flips still, whatever labels flipback trained on.
    flipped = runs["flip"][GUEST].value["table"].set_index("id")["y"]
    scored = runs["with flipback inside"][GUEST].value["scored"]
    assert (flipped[scored["id"]].to_numpy() == scored["label"].astype(int).to_numpy()).all()
