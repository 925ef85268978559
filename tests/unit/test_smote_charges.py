"""What a private step is charged as after SMOTE, and the ledger line of over-sampling itself."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.privacy.events import (
    ADD_OR_REMOVE,
    OBSERVERS,
    REASON,
    RELATIONS,
    REPLACE_ONE,
    Event,
    Gaussian,
    NotPrivate,
    PoissonSampledGaussian,
    event_after_over_sampling,
)
from fate_dp.privacy.ledger.entries import BudgetCap, BudgetExceeded
from fate_dp.privacy.ledger.ledger import Ledger

DATASET, CAP = "bank/loans", BudgetCap(epsilon=8.0, delta=1e-6)
TRAINING = Event(PoissonSampledGaussian(0.01, 2.0), "record", ADD_OR_REMOVE, ("server", "model"))


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


def record(ledger, event, key="draw", cap=CAP):
    return ledger.record(
        dataset=DATASET, event=event, count=10, cap=cap, release_key=key, job_id="j", task_id="t", fingerprint="f"
    )


def total(ledger, observer="server"):
    return ledger.total(DATASET, "record", ADD_OR_REMOVE, observer, delta=1e-6)


def over_sampled(ledger, method="smotenc, 5 neighbours", job="job 1", rows=150, synthetic_rows=50):
    ledger.record_over_sampling(
        dataset=DATASET, method=method, rows=rows, synthetic_rows=synthetic_rows, job_id=job, task_id="t"
    )


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(("record", "label")),
    st.sampled_from(RELATIONS),
    st.sets(st.sampled_from(OBSERVERS), min_size=1),
    st.floats(0.0, 1.0),
)
def test_record_and_label_lose_their_guarantee_against_the_same_observers(unit, relation, observers, slack):
    event = Event(Gaussian(1.0), unit, relation, tuple(observers), slack)
    charged = event_after_over_sampling(event)
    assert charged == Event(NotPrivate(REASON), unit, relation, tuple(observers))
    assert event_after_over_sampling(charged) == charged


def test_a_client_that_over_samples_its_own_rows_keeps_its_guarantee():
    event = Event(Gaussian(1.0), "client", REPLACE_ONE, ("server",))
    assert event_after_over_sampling(event) is event


def test_no_cap_allows_a_record_private_step_after_smote(ledger):
    with pytest.raises(BudgetExceeded, match=r"asks for inf \(total inf\), and the cap is 1e\+300"):
        record(ledger, event_after_over_sampling(TRAINING), cap=BudgetCap(1e300, 0.5))
    assert ledger.entries() == [] and total(ledger) == 0.0


def test_the_same_step_without_smote_is_charged_as_it_claims(ledger):
    record(ledger, TRAINING)
    assert 0 < total(ledger) < CAP.epsilon


def test_outside_a_cap_the_totals_say_infinity_and_why(ledger):
    record(ledger, event_after_over_sampling(TRAINING), cap=None)
    (entry,) = ledger.entries()
    assert total(ledger) == total(ledger, "model") == math.inf and total(ledger, "host") == 0.0
    assert entry["epsilon"] == "infinity" and "SMOTE interpolated between records" in entry["note"]


def test_flips_that_were_charged_before_smote_keep_their_epsilon(ledger):
    source = f"{DATASET}/y"
    ledger.record_flips(
        source=source,
        epsilon=1.0,
        classes=2,
        key_id="k",
        rows=[(b"id", b"true", "1")],
        cap=2.0,
        job_id="j",
        task_id="t",
        fingerprint="f",
    )
    over_sampled(ledger)
    assert ledger.spent(source) == ledger.total(source, "label", REPLACE_ONE, "host", delta=0.0) == 1.0


def test_the_line_of_over_sampling_says_infinity_to_everybody_and_spends_nothing(ledger):
    over_sampled(ledger)
    (entry,) = ledger.entries()
    expected = {
        "source": DATASET,
        "mechanism": "over-sampling",
        "unit": "record",
        "relation": REPLACE_ONE,
        "epsilon": "infinity",
        "event": None,
        "counted": False,
        "records": 150,
        "uses": 1,
        "pending": 0,
        "jobs": ["job 1"],
        "parameters": {"purpose": "smotenc, 5 neighbours"},
        "rounds": 1,
    }
    assert {name: entry[name] for name in expected} == expected
    assert set(entry["observer"].split(", ")) == set(OBSERVERS)
    assert entry["note"].endswith("has no guarantee for a record; 50 of 150 rows are synthetic")
    assert ledger.totals() == []
    record(ledger, TRAINING)


def test_a_repeated_job_is_another_use_of_the_line_and_another_method_another_line(ledger):
    over_sampled(ledger)
    over_sampled(ledger, job="job 2")
    over_sampled(ledger, method="smote, 5 neighbours")
    assert [(entry["uses"], entry["jobs"]) for entry in ledger.entries()] == [(2, ["job 1", "job 2"]), (1, ["job 1"])]


@pytest.mark.parametrize("counts", [{"rows": -1}, {"rows": 1.5}, {"synthetic_rows": True}])
def test_counts_of_rows_are_whole_numbers(ledger, counts):
    with pytest.raises(ValueError, match="must be a whole number of at least 0"):
        over_sampled(ledger, **counts)
    assert ledger.entries() == []
