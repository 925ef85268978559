"""Linear regression on numbers that stay private: label_flip makes them noisy, dp_hetero_lr fits what they say on average."""

import numpy as np
import pytest

from fate_dp.components.common.charges import CHANGED_BY_OPERATOR
from fate_dp.components.common.preflight import UNTOLD
from fate_dp.components.label_flip.guest import REFUSAL
from fate_dp.privacy.mechanisms.local_numbers import piecewise_law
from tests.support.plaintext import TrainingSettings, train_plaintext

from .scenarios import GUEST, HOST, SOURCE, Scenario, assert_refused, features_of, flip, play, tables, train, weights

ROWS, EPSILON, BOUNDS = 2000, 4.0, (-3.0, 3.0)
PAIR = (GUEST, HOST)
TRUE = np.array([0.5, -0.3, 0.2, 0.4, -0.2])


def numeric(rows=ROWS, seed=9) -> dict:
    """Tables whose labels are a line in all features plus a little noise, within the bounds."""
    made = tables(rows=rows, guest=3, hosts=(2,), seed=seed)
    columns = np.column_stack([features_of(made[GUEST]), features_of(made[HOST])])
    labels = columns @ TRUE + 0.2 * np.random.default_rng(seed).normal(size=rows)
    return {**made, GUEST: made[GUEST].assign(y=np.clip(labels, *BOUNDS))}


TABLES = numeric()
OUTSIDE = {**TABLES, GUEST: TABLES[GUEST].assign(y=TABLES[GUEST]["y"].where(TABLES[GUEST].index != 7, 3.01))}
CORRECTED = {**TABLES, GUEST: TABLES[GUEST].assign(y=TABLES[GUEST]["y"].where(TABLES[GUEST].index != 7, 0.123))}
SUBSET = {
    party: table.sample(300, random_state=1).sort_index().reset_index(drop=True) for party, table in TABLES.items()
}
# Fixed starts: the plaintext twin begins where the parties do.
FIT = {
    "family": "gaussian",
    "epochs": 60,
    "tol": 0,
    "init_param": {"method": "zeros", "fill_val": 0.0, "fit_intercept": True, "random_state": None},
}


def noisy(tables=TABLES, home="numbers", **given):
    arguments = {"tables": tables, "epsilon": EPSILON, "bounds": BOUNDS, "label_type": "float64", **given}
    return Scenario(flip, arguments, PAIR, home)


def fit(labels_of, home="numbers", **given):
    return Scenario(
        train, {"tables": TABLES, "labels_of": labels_of, "label_type": "float64", **FIT, **given}, PAIR, home
    )


SCENARIOS = {
    "noisy": noisy(),
    "same again": noisy(partitions=3),
    "subset": noisy(SUBSET),
    "trained": fit("noisy"),
    "trained as classes": fit("noisy", family="binomial"),
    "other bounds": noisy(bounds=(-4.0, 4.0)),
    "corrected": noisy(CORRECTED),
    "outside": noisy(OUTSIDE, home="outside"),
    "beyond the cap": noisy(epsilon=5.0),
    "without bounds": noisy(bounds=None, home="outside"),
    "true numbers": Scenario(train, {"tables": TABLES, "label_type": "float64", **FIT}, PAIR, "numbers"),
    "other bins": noisy(epsilon=1.0, bins=16),
}
REFUSED = {
    "trained as classes": "family is binomial; set family to gaussian",
    "other bounds": "were released at epsilon 4 within other bounds",
    "corrected": "",
    "outside": "A label lies outside the declared bounds [-3, 3].",
    "beyond the cap": "cap is 8",
    "without bounds": "or give bounds, such as",
    "true numbers": "",
}
TOLD = {"outside": UNTOLD, "without bounds": UNTOLD, "beyond the cap": f"{REFUSAL} {CHANGED_BY_OPERATOR}"}
"""What others are told, where it is another sentence."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return play(SCENARIOS, tmp_path_factory.mktemp("homes"), PAIR)


def labels(runs, name):
    return runs[name][GUEST].value["table"].set_index("id")["y"].sort_index()


@pytest.mark.parametrize("name", SCENARIOS)
def test_only_what_would_spend_for_nothing_or_show_labels_is_refused(runs, name):
    if name not in REFUSED:
        assert {outcome.error for outcome in runs[name].values()} == {None}
        return
    assert_refused(runs[name], REFUSED[name], TOLD.get(name))


def test_refusals_spend_nothing(runs):
    assert runs["outside"][GUEST].ledger["entries"] == []
    assert runs["without bounds"][GUEST].ledger["spent"] == 0.0
    assert [
        runs[name][GUEST].ledger["spent"] for name in ("noisy", "same again", "subset", "other bounds", "true numbers")
    ] == [4] * 5
    assert runs["other bins"][GUEST].ledger["spent"] == 5


def test_the_ledger_says_what_was_done_to_the_numbers(runs):
    (entry,) = runs["subset"][GUEST].ledger["entries"]
    law = piecewise_law(EPSILON, BOUNDS)
    assert (entry["mechanism"], entry["unit"], entry["epsilon"], entry["records"]) == ("piecewise", "label", 4.0, ROWS)
    assert entry["parameters"]["bounds"] == [-3.0, 3.0] and entry["parameters"]["bins"] == law.points
    assert entry["event"]["mechanism"] == "PureDP" and entry["source"] == SOURCE and entry["uses"] == 3


def test_numbers_are_noisy_unbiased_and_always_the_same(runs):
    first, true = labels(runs, "noisy"), TABLES[GUEST].set_index("id")["y"].sort_index()
    assert (first == labels(runs, "same again")).all()
    subset = labels(runs, "subset")
    assert len(subset) == 300 and (subset == first[subset.index]).all()
    law = piecewise_law(EPSILON, BOUNDS)
    assert np.isin(first, law.values()).all() and (first != true).all()
    errors, variance = first - true, float(law.variance(true).mean())
    # Of draws that the home's key gives alike in every run.
    assert abs(errors.mean()) < 5 * np.sqrt(variance / ROWS)
    assert 0.8 < errors.var() / variance < 1.2


def test_the_regression_is_the_plaintext_twins_and_finds_the_line(runs):
    outcome = runs["trained"][GUEST].value
    model, noisy_table = outcome["model"], runs["noisy"][GUEST].value["table"].set_index("id")
    order = outcome["order"]
    parts = [features_of(TABLES[party].set_index("id").loc[order]) for party in PAIR]
    settings = TrainingSettings(optimizer=model["meta"]["optimizer_param"], epochs=60, family="gaussian")
    twin = train_plaintext(
        parts,
        noisy_table["y"].loc[order].to_numpy(),
        settings,
        [runs["trained"][party].value["start"] for party in PAIR],
    )
    for party, expected in zip(PAIR, twin.weights):
        np.testing.assert_allclose(weights(runs["trained"], party), expected, atol=1e-6)
    found = np.concatenate([weights(runs["trained"], GUEST)[:3], weights(runs["trained"], HOST)])
    # The noise of 2,000 labels moves a weight by some 0.03; six times as far is one in 10^8 for each.
    error = np.sqrt(float(piecewise_law(EPSILON, BOUNDS).variance(0.0)) / ROWS)
    assert np.abs(found - TRUE).max() < 6 * error + 0.05
    assert model["meta"]["privacy"]["epsilon"] == 4.0
    (release,) = model["meta"]["privacy"]["releases"]
    assert (
        release["bounds"] == [-3.0, 3.0] and outcome["summary"]["flip probability"] == "none: unbiased noise on numbers"
    )
