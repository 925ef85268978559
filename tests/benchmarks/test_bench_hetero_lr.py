"""The arithmetic between clock readings and the figures of `make bench-hetero-lr`, on made-up numbers."""

import numpy as np
import pytest

from bench.epoch_clock import EpochClock, PartyCost, Seconds
from bench.epoch_sides import Measurement, Side
from bench.hetero_lr import Comparison, growth_exponent, later_epoch_share
from bench.hetero_lr_rows import made_rows, made_tables


def trained(figure, total, epoch, epochs):
    """A training in which guest and host each took these CPU seconds, and the arbiter a tenth of them."""
    data, helper = Seconds(total, epoch, epochs), Seconds(total / 10, epoch / 10, epochs)
    costs = {role: PartyCost(data, data) for role in ("guest", "host")} | {"arbiter": PartyCost(helper, helper)}
    return Measurement(Side("made up", figure, None, {}), costs, 0.0)


def clock_with(passes, monkeypatch):
    clock = EpochClock.__new__(EpochClock)
    clock._start, clock._passes = np.zeros(2), [np.array(reading) for reading in passes[:-1]]
    monkeypatch.setattr("bench.epoch_clock._reading", lambda: np.array(passes[-1]))
    return clock


def test_an_epoch_is_one_after_the_first(monkeypatch):
    cost = clock_with([(5, 50), (9, 90), (11, 110), (13, 130), (14, 140)], monkeypatch).cost()
    assert cost.cpu == Seconds(total=14, epoch=2, epochs=3)
    assert cost.wall == Seconds(total=140, epoch=20, epochs=3)


def test_an_only_epoch_stands_for_itself(monkeypatch):
    assert clock_with([(5, 50), (9, 90), (10, 100)], monkeypatch).cost().cpu == Seconds(total=10, epoch=4, epochs=1)


def test_only_epochs_are_scaled():
    seconds = Seconds(total=14, epoch=2, epochs=3)
    assert seconds.setup == 8
    assert seconds.scaled_to(30) == 68
    assert seconds.scaled_to(3) == 14


def test_figures_are_theirs_over_ours():
    ours, once = trained(None, 4, 0.01, 30), trained(None, 3.5, 3.0, 1)
    others = [trained(None, 50, 20, 2), trained("cpu_ratio_one", 50, 20, 2), trained("cpu_ratio_other", 9, 8, 1)]
    assert Comparison(ours, once, others).figures() == {
        "cpu_ratio_one": round((10 + 30 * 20) / 4, 1),
        "cpu_ratio_other": round((1 + 30 * 8) / 4, 1),
        "later_epoch_share": round((4 - 3.5) / 29 / 3.5, 5),
    }


def test_a_later_epoch_as_dear_as_the_first_has_share_one():
    assert later_epoch_share(30 * 7.0, 7.0, 30) == pytest.approx(1)


@pytest.mark.parametrize("exponent", [0.5, 1, 2])
def test_growth_exponent_of_a_power_law(exponent):
    rows = (10**4, 10**5, 10**6)
    assert growth_exponent(rows, [3.0 * n**exponent for n in rows]) == pytest.approx(exponent)


def test_a_constant_part_makes_growth_look_slower():
    rows = (10**4, 10**5, 10**6)
    assert growth_exponent(rows, [2 + n / 1000 for n in rows]) < 1


def test_every_process_makes_the_same_rows_and_parts_differ():
    first, again, other = made_rows(500), made_rows(500), made_rows(500, part=1)
    assert np.array_equal(first.guest, again.guest) and np.array_equal(first.labels, again.labels)
    assert not np.array_equal(first.guest, other.guest)
    assert np.std(np.column_stack([first.guest, first.host]), axis=0) == pytest.approx(np.ones(30), abs=0.2)


def test_tables_hold_the_made_rows_of_both_parties():
    tables, made = made_tables(50), made_rows(50)
    assert np.array_equal(tables["guest"].filter(like="guest_").to_numpy(), made.guest)
    assert np.array_equal(tables["host"].filter(like="host_").to_numpy(), made.host)
    assert list(tables["guest"]["id"]) == list(tables["host"]["id"])
    assert np.array_equal(tables["guest"]["y"], made.labels)
