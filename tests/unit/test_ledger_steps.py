"""Private steps of any mechanism: one charge per draw, caps on composed totals, and what the ledger shows of them."""

import json
import math
import sqlite3
import subprocess
import sys
import time
from itertools import combinations

import pytest
from ledger_scenarios import DATASET, KEY, OTHER_KEY, SOURCE, dump, release, run_at_once, score

from fate_dp.privacy import BudgetExceeded, Ledger, LedgerUnavailable
from fate_dp.privacy.accounting.total import under
from fate_dp.privacy.events import (
    ADD_OR_REMOVE,
    REPLACE_ONE,
    Event,
    Gaussian,
    InvalidEvent,
    NotPrivate,
    PoissonSampledGaussian,
    PureDP,
    RandomizedResponse,
)
from fate_dp.privacy.ledger import steps as private_steps
from fate_dp.privacy.ledger import totals
from fate_dp.privacy.ledger.entries import BudgetCap, LedgerError, flip_event
from fate_dp.privacy.ledger.steps import FittingCharges
from fate_dp.privacy.private_files import key_id
from fate_dp.privacy.validation import InvalidArgument

LOANS = "bank/loans"
NOISE = Event(Gaussian(4.0), "record", ADD_OR_REMOVE, ("server", "model"))
TRAINING = Event(PoissonSampledGaussian(0.01, 2.0), "record", ADD_OR_REMOVE, ("model", "server"))
MEAN = Event(PureDP(0.5), "record", ADD_OR_REMOVE, "client")
FIXED_SEED = Event(NotPrivate("the noise came from a seed"), "record", ADD_OR_REMOVE, "server")
WIDE = BudgetCap(50.0, 1e-6)


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


def step(ledger, event=NOISE, release_key="draw", **changes):
    request = {"dataset": LOANS, "count": 1, "cap": WIDE, "fingerprint": "f", "purpose": "noise", **changes}
    return ledger.record(event=event, release_key=release_key, job_id="job", task_id="task", **request)


def total_of(*charges, delta):
    from fate_dp.privacy.accounting.total import total_epsilon

    return total_epsilon(list(charges), delta)


def spent(ledger, observer="server", delta=1e-6, dataset=LOANS):
    return ledger.total(dataset, "record", ADD_OR_REMOVE, observer, delta)


# --- one draw, one charge ---


def test_a_step_is_pending_and_charged_until_it_is_marked(ledger):
    recorded = step(ledger)
    assert recorded.is_new and ledger.entries()[0]["pending"] == 1 and spent(ledger) > 0
    before = spent(ledger)
    ledger.mark_released(recorded.release_id)
    ledger.mark_released(recorded.release_id)
    assert ledger.entries()[0]["pending"] == 0 and spent(ledger) == before


def test_the_same_draw_again_is_the_same_release_even_beyond_a_lowered_cap(ledger):
    first = step(ledger)
    ledger.mark_released(first.release_id)
    before = dump(ledger.path)
    again = step(ledger, cap=BudgetCap(0.001, 1e-6))
    assert (again.release_id, again.is_new, again.is_released) == (first.release_id, False, True)
    assert dump(ledger.path) == before


@pytest.mark.parametrize(
    "change",
    [
        {"event": TRAINING},
        {"event": Event(Gaussian(4.0), "record", ADD_OR_REMOVE, "server")},
        {"count": 2},
        {"dataset": "bank/others"},
        {"fingerprint": "other data"},
        {"purpose": "something else"},
    ],
)
def test_a_release_key_names_one_release_only(ledger, change):
    step(ledger)
    before = dump(ledger.path)
    with pytest.raises(LedgerError) as caught:
        step(ledger, **change)
    assert dump(ledger.path) == before
    assert str(caught.value) == (
        "release_key 'draw' names another release in the ledger, of the dataset bank/loans. Give every "
        "draw a name of its own."
    )


def test_purposes_are_lines_of_their_own_and_draws_of_their_own(ledger):
    first = step(ledger, MEAN, "first", purpose="mean age")
    second = step(ledger, MEAN, "second", purpose="mean income")
    assert [entry["parameters"]["purpose"] for entry in ledger.entries()] == ["mean age", "mean income"]
    again = step(ledger, MEAN, "second", purpose="mean income")
    # Still pending: whether somebody saw the first output, nobody knows.
    assert (again.release_id, again.is_new, again.is_released) == (second.release_id, False, False)
    assert first.release_id != second.release_id
    assert spent(ledger, "client", 0) == 1


def test_other_draws_compose_on_one_line(ledger):
    for number in range(3):
        step(ledger, release_key=f"draw {number}", count=2)
    (entry,) = ledger.entries()
    assert (entry["uses"], entry["rounds"], entry["pending"]) == (3, 6, 3)
    assert spent(ledger) == total_of((NOISE, 6), delta=1e-6) < 3 * total_of((NOISE, 2), delta=1e-6)


# --- totals ---


def test_totals_are_composed_per_dataset_unit_relation_and_observer(ledger):
    step(ledger, count=2, cap=None)
    step(ledger, MEAN, "mean", cap=None)
    step(ledger, Event(PureDP(0.5), "record", REPLACE_ONE, "server"), "other relation", cap=None)
    step(ledger, Event(PureDP(0.25), "client", ADD_OR_REMOVE, "server"), "other unit", cap=None)
    step(ledger, TRAINING, "training", count=30, dataset="bank/others", cap=None)
    step(ledger, Event(PureDP(1.0), "record", ADD_OR_REMOVE, ("server", "client")), "both see it", cap=None)
    both = (Event(PureDP(1.0), "record", ADD_OR_REMOVE, ("server", "client")), 1)
    twice = {epsilon: Event(PureDP(2 * epsilon), "record", REPLACE_ONE, "server") for epsilon in (0.25, 0.5, 1.0)}
    louder = Event(Gaussian(2.0), "record", REPLACE_ONE, "server")
    replaced = Event(TRAINING.process, "record", REPLACE_ONE, "server")
    expected = {
        (LOANS, "client", ADD_OR_REMOVE, "server"): [(Event(PureDP(0.25), "client", ADD_OR_REMOVE, "server"), 1)],
        (LOANS, "client", REPLACE_ONE, "server"): [(twice[0.25], 1)],
        (LOANS, "record", ADD_OR_REMOVE, "client"): [(MEAN, 1), both],
        (LOANS, "record", ADD_OR_REMOVE, "model"): [(NOISE, 2)],
        (LOANS, "record", ADD_OR_REMOVE, "server"): None,
        (LOANS, "record", REPLACE_ONE, "client"): [(twice[0.5], 1), (twice[1.0], 1)],
        (LOANS, "record", REPLACE_ONE, "model"): [(louder, 2)],
        (LOANS, "record", REPLACE_ONE, "server"): [(louder, 2), (twice[1.0], 1), (twice[0.25], 1)],
        ("bank/others", "record", ADD_OR_REMOVE, "model"): [(TRAINING, 30)],
        ("bank/others", "record", ADD_OR_REMOVE, "server"): [(TRAINING, 30)],
        ("bank/others", "record", REPLACE_ONE, "model"): [(replaced, 30)],
        ("bank/others", "record", REPLACE_ONE, "server"): [(replaced, 30)],
    }
    names = ("dataset", "unit", "relation", "observer")
    shown = {tuple(line[name] for name in names): line for line in ledger.totals(1e-6)}
    assert [view for view in shown if view[-1] != "everybody"] == list(expected)
    together = [(louder, 2), (twice[0.5], 1), (twice[0.25], 1), (twice[1.0], 1)]
    everybody = shown[LOANS, "record", REPLACE_ONE, "everybody"]["epsilon"]
    assert math.isclose(everybody, total_of(*together, delta=1e-6), rel_tol=1e-6)
    for view, charges in expected.items():
        assert shown[view]["delta"] == 1e-6
        if charges is not None:
            assert math.isclose(shown[view]["epsilon"], total_of(*charges, delta=1e-6), rel_tol=1e-6)
    # A pure step under replace-one may have told how many records there are.
    rest = total_of((NOISE, 2), both, delta=1e-6)
    told = shown[LOANS, "record", ADD_OR_REMOVE, "server"]
    assert told["epsilon"] == "infinity" and told["note"] == (
        "PureDP may show how many records there are, and protects no record's presence; what else was released gives "
        f"{rest:.6g}"
    )
    assert ledger.total(LOANS, "record", ADD_OR_REMOVE, "server", 1e-6) == math.inf
    view = (LOANS, "record", REPLACE_ONE, "server")
    assert ledger.total(*view, 1e-6) == shown[view]["epsilon"]
    assert ledger.total("nobody/knows", "record", ADD_OR_REMOVE, "server", 1e-6) == 0.0


def flips_of_everyone(ledger):
    """Records 0 to 4 pay 2 + 1, records 5 to 9 pay 2.9, under another key 1.5 and 0.5 are paid by disjoint records."""
    release(ledger, range(5), 2)
    release(ledger, range(5), 1)
    release(ledger, range(5, 10), 2.9)
    release(ledger, range(3), 1.5, key=OTHER_KEY)
    release(ledger, range(3, 6), 0.5, key=OTHER_KEY)


def test_flips_count_as_those_of_the_worst_record_of_each_key(ledger):
    flips_of_everyone(ledger)
    label = (SOURCE, "label", REPLACE_ONE)
    for observer in ("host", "arbiter", "model"):
        assert math.isclose(ledger.total(*label, observer, 0), ledger.spent(SOURCE)) and ledger.spent(SOURCE) == 4.5
    assert ledger.total(*label, "guest", 0) == 0
    for delta in (1e-6, 0.3):
        worst = total_of((Event(PureDP(4.5), *label[1:], "host"), 1), delta=delta)
        assert math.isclose(ledger.total(*label, "host", delta), worst, rel_tol=1e-6)


def test_no_record_tells_more_than_the_total_at_any_delta(ledger):
    """At delta 0.3 a single flip at 2.9 tells more than one at 2 and one at 1, which cost more at delta 0."""
    deltas = (0.0, 0.3)
    pair, single = [(flip_event(2, 2), 1), (flip_event(1, 2), 1)], [(flip_event(2.9, 2), 1)]
    assert [total_of(*pair, delta=delta) > total_of(*single, delta=delta) for delta in deltas] == [True, False]
    release(ledger, range(5), 2)
    release(ledger, range(5), 1)
    release(ledger, range(5, 10), 2.9)
    for delta in deltas:
        largest = max(total_of(*pair, delta=delta), total_of(*single, delta=delta))
        assert ledger.total(SOURCE, "label", REPLACE_ONE, "host", delta) >= largest * (1 - 1e-9)


def test_a_step_on_the_labels_of_a_source_composes_with_its_flips(ledger):
    flips_of_everyone(ledger)
    query = Event(RandomizedResponse(0.5, 2), "label", REPLACE_ONE, "host")
    with pytest.raises(BudgetExceeded, match=r"spent epsilon 4\.5,.* asks for 0\.5 \(total 5\), and the cap is 4\.9"):
        step(ledger, query, dataset=SOURCE, cap=BudgetCap(4.9, 0))
    step(ledger, query, dataset=SOURCE, cap=BudgetCap(5, 0))
    assert math.isclose(ledger.total(SOURCE, "label", REPLACE_ONE, "host", 0), 5.0)
    assert math.isclose(ledger.total(SOURCE, "label", REPLACE_ONE, "model", 0), 4.5) and ledger.spent(SOURCE) == 4.5


def test_flips_fit_beside_the_steps_on_their_labels_or_are_refused(ledger):
    step(ledger, Event(RandomizedResponse(3, 2), "label", REPLACE_ONE, "host"), "query", dataset=SOURCE)
    step(ledger, Event(RandomizedResponse(2, 2), "label", REPLACE_ONE, "model"), "seen by another", dataset=SOURCE)
    ledger.remember_dataset("columns:a", ["x"], records=[b"r" * 16], key_id=key_id(KEY), labels=SOURCE)
    step(ledger, Event(PureDP(8), "record", REPLACE_ONE, "host"), "of another unit", dataset="columns:a")
    before = dump(ledger.path)
    with pytest.raises(BudgetExceeded) as caught:
        release(ledger, range(5), 2, cap=6.9)
    assert dump(ledger.path) == before
    assert str(caught.value) == (
        f"The label source {SOURCE} has spent epsilon 5, this job asks for 2 (total 7), and the cap is 6.9; the guest's "
        f"operator changes that with `fate-dp cap {SOURCE.rpartition('/')[0]} --labels EPSILON`."
    )
    release(ledger, range(5), 2, cap=7)
    release(ledger, range(5), 2, cap=1)
    assert ledger.total(SOURCE, "label", REPLACE_ONE, "host", 0) == 5


def test_flips_do_not_fit_beside_a_step_that_has_no_epsilon_at_delta_0(ledger):
    step(ledger, Event(Gaussian(4.0), "label", REPLACE_ONE, "host"), "noisy count", dataset=SOURCE)
    with pytest.raises(BudgetExceeded, match="has spent epsilon inf, this job asks for 1"):
        release(ledger, range(5), 1)


def test_joint_scores_have_no_finite_total_and_a_cap_of_their_own(ledger):
    score(ledger, "w1")
    view = (DATASET, "record", REPLACE_ONE, "guest")
    assert ledger.total(*view, 1e-6) == math.inf
    assert [line["epsilon"] for line in ledger.totals()] == ["infinity"] * 2
    step(ledger, Event(PureDP(0.5), "record", REPLACE_ONE, "guest"), dataset=DATASET, cap=BudgetCap(0.5, 0))
    assert ledger.total(*view, 1e-6) == math.inf


def test_public_data_and_derived_labels_have_no_total(ledger):
    ledger.record_not_private(source=SOURCE, reason="public copy", job_id="job", task_id="task")
    assert ledger.totals() == [] and ledger.entries()[0]["event"] is None


# --- caps ---


def test_a_step_beyond_the_cap_is_refused_in_one_sentence_and_writes_nothing(ledger):
    step(ledger, MEAN, "first", cap=BudgetCap(2.0, 0))
    before = dump(ledger.path)
    with pytest.raises(BudgetExceeded) as caught:
        step(ledger, MEAN, "second", count=2, cap=BudgetCap(2.0, 0))
    assert dump(ledger.path) == before
    assert str(caught.value) == (
        "The dataset bank/loans has spent epsilon 1, this step asks for 2 (total 3), and the cap "
        "is 2, all at delta 0 (unit record, relation replace_one; an add-or-remove step counts for removing one and "
        "adding one); its operator changes that with `fate-dp cap bank/loans --epsilon EPSILON`."
    )
    step(ledger, MEAN, "second", cap=BudgetCap(2.0, 0))


def test_the_cap_holds_for_everybody_together(ledger):
    """A party that is the host of one job and a client of the next is one observer."""
    cap = BudgetCap(3.0, 0)
    for pair in combinations(("client", "model", "server"), 2):
        step(ledger, Event(PureDP(0.5), "record", ADD_OR_REMOVE, pair), f"draw for {pair}", cap=cap)
    told = {(line["observer"], line["relation"]): line["epsilon"] for line in ledger.totals(0)}
    assert told["client", REPLACE_ONE] == 2.0 and told["everybody", REPLACE_ONE] == 3.0
    with pytest.raises(BudgetExceeded, match="spent epsilon 3, this step asks for 0.02 .total 3.02."):
        step(ledger, Event(PureDP(0.01), "record", ADD_OR_REMOVE, "arbiter"), "one more", cap=cap)


def test_a_cap_is_passed_by_rounding_errors_and_by_nothing_else(ledger):
    tenth, fifth = (Event(PureDP(epsilon), "record", REPLACE_ONE, "server") for epsilon in (0.1, 0.2))
    step(ledger, tenth, "one", cap=BudgetCap(0.3, 0))
    with pytest.raises(BudgetExceeded):
        step(ledger, fifth, "two", cap=BudgetCap(0.3 * (1 - 1e-9), 0))
    step(ledger, fifth, "two", cap=BudgetCap(0.3, 0))


def test_the_cap_bounds_what_is_composed_and_not_a_sum(ledger):
    replaced = under(NOISE, REPLACE_ONE)
    cap = BudgetCap(total_of((replaced, 10), delta=1e-6) * (1 + 1e-9), 1e-6)
    for number in range(10):
        step(ledger, release_key=f"draw {number}", cap=cap)
    assert cap.epsilon < 10 * total_of((replaced, 1), delta=1e-6)
    with pytest.raises(BudgetExceeded):
        step(ledger, release_key="one more", cap=cap)


def test_a_step_without_guarantee_fits_under_no_cap_but_may_be_noted_of_public_data(ledger):
    with pytest.raises(BudgetExceeded, match=r"asks for inf \(total inf\), and the cap is 50"):
        step(ledger, FIXED_SEED)
    assert ledger.entries() == []
    step(ledger, FIXED_SEED, cap=None)
    (entry,) = ledger.entries()
    assert entry["epsilon"] == "infinity" and entry["note"] == "no guarantee at all: the noise came from a seed"
    assert spent(ledger) == math.inf and [line["epsilon"] for line in ledger.totals()] == ["infinity"] * len(
        ledger.totals()
    )
    assert {line["note"] for line in ledger.totals()} == {"no guarantee: the noise came from a seed"}
    with pytest.raises(BudgetExceeded, match="has spent epsilon inf, this step"):
        step(ledger, MEAN, "seen by others only")


def test_of_two_steps_at_once_under_one_cap_exactly_one_fits(ledger, monkeypatch):
    def slow_total(seen, delta):
        time.sleep(0.1)
        return totals.total_of(seen, delta)

    monkeypatch.setattr(private_steps, "total_of", slow_total)
    cap = BudgetCap(1.5, 0)
    results = run_at_once(
        lambda: step(ledger, MEAN, "one", cap=cap).is_new, lambda: step(ledger, MEAN, "two", cap=cap).is_new
    )
    assert sorted(map(str, results)) == ["BudgetExceeded", "True"]
    assert spent(ledger, "client", 0) == 0.5 and ledger.entries()[0]["uses"] == 1


def test_of_two_tasks_at_once_with_one_draw_only_one_is_charged(ledger):
    results = run_at_once(*[lambda: step(ledger, MEAN).is_new] * 3)
    assert sorted(results) == [False, False, True] and spent(ledger, "client", 0) == 0.5


# --- composed once for many rounds ---


@pytest.fixture
def composed(monkeypatch):
    """What was composed, call by call."""
    calls = []
    monkeypatch.setattr(
        private_steps, "total_of", lambda seen, delta: calls.append(seen) or totals.total_of(seen, delta)
    )
    return calls


def test_rounds_that_were_asked_for_together_are_recorded_without_composing_again(ledger, composed):
    ledger.check_steps(dataset=LOANS, events=[(TRAINING, 4), (NOISE, 1)], cap=WIDE)
    (asked,) = composed
    for number, event in enumerate([TRAINING, NOISE, TRAINING, TRAINING, TRAINING]):
        step(ledger, event, f"round {number}")
    assert composed == [asked] and spent(ledger) == total_of((TRAINING, 4), (NOISE, 1), delta=1e-6)
    step(ledger, TRAINING, "one more")
    assert len(composed) == 2


@pytest.mark.parametrize(
    "change", [{"cap": BudgetCap(0.001, 1e-6)}, {"cap": BudgetCap(50.0, 1e-8)}, {"event": MEAN}, {"count": 5}]
)
def test_another_cap_another_event_or_more_rounds_are_composed(ledger, composed, change):
    ledger.check_steps(dataset=LOANS, events=[(TRAINING, 4)], cap=WIDE)
    try:
        step(ledger, **{"event": TRAINING, **change})
    except BudgetExceeded:
        assert change == {"cap": BudgetCap(0.001, 1e-6)} and ledger.entries() == []
    assert len(composed) > 1


def test_what_another_job_took_meanwhile_counts(ledger):
    cap = BudgetCap(total_of((under(TRAINING, REPLACE_ONE), 4), delta=1e-6), 1e-6)
    ledger.check_steps(dataset=LOANS, events=[(TRAINING, 4)], cap=cap)
    step(Ledger(ledger.path), NOISE, "another job", cap=None)
    with pytest.raises(BudgetExceeded):
        step(ledger, TRAINING, "round 0", cap=cap)
    assert [entry["mechanism"] for entry in ledger.entries()] == ["Gaussian"]


# --- refusals, display ---


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"dataset": " "}, "dataset must be non-empty text, got ' '."),
        ({"dataset": "bank/loans "}, "dataset must be text without white space around it, got 'bank/loans '."),
        ({"release_key": ""}, "release_key must be non-empty text, got ''."),
        ({"fingerprint": None}, "fingerprint must be text, got None."),
        ({"purpose": 3}, "purpose must be text, got 3."),
        (
            {"event": Event(PureDP(1), "label", REPLACE_ONE, "host")},
            "dataset must be an account of labels, such as namespace/name/column, for the unit label alone, here label, got "
            "'bank/loans'.",
        ),
        ({"event": Gaussian(4.0)}, "event must be an Event, got Gaussian(noise_multiplier=4.0)."),
        ({"count": 0}, "count must be a whole number from 1 to 1000000000, got 0."),
        ({"count": True}, "count must be a whole number from 1 to 1000000000, got True."),
        ({"count": 1.0}, "count must be a whole number from 1 to 1000000000, got 1.0."),
        ({"count": 10**9 + 1}, "count must be a whole number from 1 to 1000000000, got 1000000001."),
        ({"cap": 3.0}, "cap must be a BudgetCap, or None for public data, got 3.0."),
    ],
)
def test_a_malformed_step_is_refused_in_one_sentence(ledger, change, sentence):
    with pytest.raises(InvalidArgument) as caught:
        step(ledger, **change)
    assert str(caught.value) == sentence and not ledger.path.exists()


@pytest.mark.parametrize(
    "epsilon, delta, sentence",
    [
        (0, 1e-6, "epsilon must be a finite number greater than 0 (in nats), got 0."),
        (math.inf, 1e-6, "epsilon must be a finite number greater than 0 (in nats), got inf."),
        ("3", 1e-6, "epsilon must be a finite number greater than 0 (in nats), got '3'."),
        (3, 1, "delta must be a number of at least 0 and less than 1, got 1."),
        (3, -1e-6, "delta must be a number of at least 0 and less than 1, got -1e-06."),
        (3, None, "delta must be a number of at least 0 and less than 1, got None."),
    ],
)
def test_a_cap_is_checked_when_it_is_made(epsilon, delta, sentence):
    with pytest.raises(ValueError) as caught:
        BudgetCap(epsilon, delta)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("delta", [1, 1.5, -1e-9, math.nan, True, "0"])
def test_a_delta_that_is_none_is_refused(ledger, delta):
    for question in (ledger.entries, ledger.totals):
        with pytest.raises(ValueError, match="must be a number of at least 0 and less than 1"):
            question(delta)


@pytest.mark.parametrize(
    "view",
    [("labels", ADD_OR_REMOVE, "server"), ("record", "replace-one", "server"), ("record", REPLACE_ONE, "nobody")],
)
def test_a_total_of_something_unknown_is_not_zero(ledger, view):
    with pytest.raises(InvalidEvent, match="must be one of"):
        ledger.total(LOANS, *view, 1e-6)


def test_an_entry_shows_the_event_and_its_own_epsilon_at_delta(ledger):
    step(ledger, TRAINING, "training", count=300, cap=None, purpose="logistic regression")
    (entry,) = ledger.entries(1e-6)
    expected = {
        "source": LOANS,
        "mechanism": "PoissonSampledGaussian",
        "unit": "record",
        "relation": ADD_OR_REMOVE,
        "observer": "model, server",
        "delta": 1e-6,
        "sampling": "poisson",
        "rounds": 300,
        "uses": 1,
        "counted": True,
        "parameters": {"sampling_probability": 0.01, "noise_multiplier": 2.0, "purpose": "logistic regression"},
        "event": json.loads(TRAINING.to_json()),
    }
    assert {name: entry[name] for name in expected} == expected
    assert entry["epsilon"] == total_of((TRAINING, 300), delta=1e-6)
    assert json.loads(json.dumps(entry, allow_nan=False)) == entry


def test_no_epsilon_of_a_step_is_stored(ledger):
    step(ledger)
    ((*_, event),) = dict(dump(ledger.path))["entry"]
    assert event == NOISE.to_json()
    (row,) = dict(dump(ledger.path))["entry"]
    assert row[6] is None and row[7] is None


def test_events_that_no_accountant_adds_up_have_no_finite_total(ledger, monkeypatch):
    from fate_dp.privacy.accounting import total
    from fate_dp.privacy.accounting.accountant import UnsupportedEvent
    from fate_dp.privacy.ledger.totals import total_of

    def refuse(charges, delta):
        raise UnsupportedEvent("No accountant knows this event.")

    step(ledger)
    monkeypatch.setattr(total, "total_epsilon", refuse)
    total_of.cache_clear()
    assert {line["epsilon"] for line in ledger.totals()} == {"infinity"}
    assert {line["note"] for line in ledger.totals()} == {"no bound is known at delta 1e-06"}
    with pytest.raises(UnsupportedEvent):
        step(ledger, release_key="another")
    assert ledger.entries()[0]["uses"] == 1


def test_a_damaged_event_is_refused_in_one_sentence(ledger):
    step(ledger)
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("UPDATE entry SET event = '{}'")
    connection.close()
    for question in (ledger.entries, ledger.totals, lambda: step(ledger, release_key="another")):
        with pytest.raises(LedgerUnavailable, match="holds an event that is damaged"):
            question()


def test_flips_and_scores_need_no_accounting_library(tmp_path):
    program = f"""
import sys
from fate_dp.privacy import Ledger
ledger = Ledger({str(tmp_path / "ledger.sqlite")!r})
ledger.record_scores(dataset="d", weights_digest="w", purpose="p", rows=1, cap=1, job_id="j", task_id="t")
ledger.record_flips(source="a/b/c", epsilon=1, classes=2, key_id="k", rows=[(b"i", b"l", "0")], cap=8, job_id="j",
                    task_id="t", fingerprint="f")
assert len(ledger.entries()) == 2 and ledger.spent("a/b/c") == 1
assert not [name for name in sys.modules if name.startswith(("dp_accounting", "scipy"))]
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_datasets_that_share_a_record_are_charged_together_whatever_their_columns_are(ledger):
    for dataset, columns, records in (("both", ["a", "b"], (1, 2)), ("one", ["c"], (2, 3)), ("other", ["a"], (4, 5))):
        tags = [bytes([number]) for number in records]
        assert ledger.remember_dataset(dataset, columns, records=tags, key_id="k") == dataset
    cap = BudgetCap(2.4, 0)
    step(ledger, MEAN, "first", dataset="both", cap=cap)
    step(ledger, MEAN, "second", dataset="one", cap=cap)
    for dataset in ("both", "one"):
        assert ledger.total(dataset, "record", ADD_OR_REMOVE, "client", delta=0) == pytest.approx(1.0)
        with pytest.raises(BudgetExceeded):
            ledger.check_steps(dataset=dataset, events=[(MEAN, 1)], cap=cap)
    ledger.check_steps(dataset="other", events=[(MEAN, 2)], cap=cap)


def test_events_of_several_relations_units_and_observers_are_each_held_against_the_cap(ledger):
    """None is dropped because the first one is of another kind."""
    cap = BudgetCap(2.4, 0)
    others = [
        Event(PureDP(3.0), "record", REPLACE_ONE, "client"),
        Event(PureDP(2.0), "client", ADD_OR_REMOVE, "client"),
        Event(PureDP(2.0), "record", ADD_OR_REMOVE, "shuffler"),
    ]
    for other in others:
        with pytest.raises(BudgetExceeded, match=f"unit {other.unit}, relation replace_one"):
            ledger.check_steps(dataset=DATASET, events=[(MEAN, 1), (other, 1)], cap=cap)


def test_what_fits_covers_a_part_of_it_and_nothing_else():
    cap, fitting = BudgetCap(2.0, 0), FittingCharges()
    first, second = ((MEAN, 2),), ((MEAN, 1), (NOISE, 1))
    fitting.add(first, cap)
    assert fitting.cover(first, cap) and fitting.cover(((MEAN, 1),), cap) and not fitting.cover(second, cap)
    assert not fitting.cover(first, BudgetCap(1.0, 0))
