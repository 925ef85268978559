"""Flips of labels and noise on their sums are one budget, under one name, and models name both."""

import math

import pytest

from fate_dp.components.common.provenance import LabelPrivacy
from fate_dp.privacy import BudgetCap, BudgetExceeded, Ledger
from fate_dp.privacy.accounting.total import total_epsilon
from fate_dp.privacy.events import REPLACE_ONE, Event, Gaussian, PureDP
from fate_dp.privacy.labels.flips import LabelRelease, releases_of_json, releases_to_json
from fate_dp.privacy.mechanisms.second_moments import noise_multiplier_for

SOURCE, DELTA = "bank/loans/y", 1e-6
NOISE = Event(Gaussian(noise_multiplier_for(1.0, DELTA)), "label", REPLACE_ONE, ("host", "model"))
ROWS = [(b"i%d" % at, b"l%d" % at, "01"[at % 2]) for at in range(4)]
OF_JOB = {"job_id": "job", "task_id": "task", "fingerprint": ""}


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


def flip(ledger, epsilon, cap, delta=DELTA, source=SOURCE):
    given = dict(source=source, epsilon=epsilon, classes=2, key_id="k", rows=ROWS, cap=cap, delta=delta)
    return ledger.record_flips(**given, **OF_JOB)


def add_noise(ledger, cap, key="first"):
    return ledger.record(dataset=SOURCE, event=NOISE, cap=BudgetCap(cap, DELTA), release_key=key, **OF_JOB)


def test_flips_after_noise_count_on_top_of_it(ledger):
    add_noise(ledger, 1.5)
    alone = total_epsilon([(NOISE, 1)], DELTA)
    assert ledger.spent_of_labels(SOURCE) == math.inf
    assert ledger.spent_of_labels(SOURCE, DELTA) == pytest.approx(alone, rel=1e-6)
    with pytest.raises(BudgetExceeded, match="the cap is 1.9"):
        flip(ledger, 1.0, 1.9)
    with pytest.raises(BudgetExceeded, match="inf"):
        flip(ledger, 1.0, 8.0, delta=0.0)
    flip(ledger, 1.0, 2.1)
    together = total_epsilon([(NOISE, 1), (Event(PureDP(1.0), "label", REPLACE_ONE, "host"), 1)], DELTA)
    assert ledger.spent_of_labels(SOURCE, DELTA) == pytest.approx(together, rel=1e-6)
    assert alone < together < 1.0 + alone
    assert ledger.label_spending(SOURCE, DELTA)[-1].amount == pytest.approx(ledger.spent_of_labels(SOURCE, DELTA))


def test_noise_after_flips_counts_on_top_of_them(ledger):
    flip(ledger, 1.0, 2.0)
    with pytest.raises(BudgetExceeded, match="label source bank/loans/y .*fate-dp cap bank/loans --labels EPSILON"):
        add_noise(ledger, 1.5)
    add_noise(ledger, 2.1)
    assert [entry["mechanism"] for entry in ledger.entries()] == ["randomized_response", "Gaussian"]


def test_steps_on_one_source_count_for_every_source_of_its_family(ledger):
    for source in (SOURCE, "bank/copy/y"):
        ledger.remember_dataset(f"columns:{source}", ["x"], records=[b"r" * 16], key_id="k", labels=source)
    add_noise(ledger, 1.5)
    with pytest.raises(BudgetExceeded, match="the cap is 1.9"):
        flip(ledger, 1.0, 1.9, source="bank/copy/y")
    flip(ledger, 1.0, 2.1, source="bank/copy/y")
    assert ledger.spent_of_labels(SOURCE, DELTA) == ledger.spent_of_labels("bank/copy/y", DELTA) > 1.9


def test_a_model_names_its_noise_and_every_draw_adds_up():
    privacy = LabelPrivacy.of_noise(SOURCE, 1.0, 1e-5)
    told = privacy.to_json("none")
    assert (told["epsilon"], told["delta"]) == (1.0, 1e-5) and privacy.flips is None and privacy.private
    assert LabelPrivacy.from_json(told).releases == privacy.releases
    later = LabelPrivacy(SOURCE, (LabelRelease(SOURCE, 2.0, 2, "k", 1),)).after({"meta": {"privacy": told}})
    assert (later.epsilon, later.delta) == (3.0, 1e-5) and later.flips is None
    twice = privacy.after({"meta": {"privacy": told}})
    assert (twice.epsilon, twice.delta) == (2.0, 2e-5)


def test_releases_without_delta_are_stored_as_before():
    flips = (LabelRelease(SOURCE, 2.0, 2, "k", 1),)
    assert "delta" not in releases_to_json(flips)[0] and releases_of_json(releases_to_json(flips)) == flips
    for delta in (-1e-9, 1.0, math.nan, "0"):
        with pytest.raises(ValueError, match="damaged"):
            releases_of_json([{"source": SOURCE, "epsilon": 1.0, "delta": delta}])
