"""Rows of tables are recovered cell by cell, and results say how sure they are."""

import numpy as np
import pytest
from torch import nn

from bench.attack_methods.gradient_inversion import SearchOptions
from bench.attack_methods.results import MAX_DECIBELS, AttackResult, Cost, Yardstick, bootstrap, defence_of, psnr, ssim
from bench.attack_methods.round_views import clipped_view, plain_view
from bench.attack_methods.table_inversion import TableColumns, invert_rows, likely_cells, recovered_cells
from fate_dp.attacks.of_views import Interval, share_interval
from fate_dp.components.dp_homo_nn.models.registry import fill_uniform, linear
from fate_dp.privacy.validation import InvalidArgument

COLUMNS = TableColumns(
    ("age", "income"), (("home", 3), ("term", 2)), np.array([-2.0, -2.0]), np.array([2.0, 2.0]), np.array([1.0, 1.0])
)


def rows(count, seed=0):
    generator = np.random.default_rng(seed)
    numbers = generator.uniform(-1.5, 1.5, (count, 2))
    home, term = generator.integers(3, size=count), generator.integers(2, size=count)
    return np.concatenate([numbers, np.eye(3)[home], np.eye(2)[term]], axis=1).astype(np.float32)


def net():
    return fill_uniform(nn.Sequential(linear(COLUMNS.width, 20), nn.Tanh(), linear(20, 1)), 0)


def test_rows_of_a_batch_are_recovered():
    records, labels = rows(2), np.array([0, 1])
    found = invert_rows(plain_view(net(), records, labels), labels, COLUMNS, SearchOptions(150, 3))
    assert recovered_cells(records, COLUMNS.decided(found.records), COLUMNS).mean() >= 0.9


def test_cells_are_right_within_the_tolerance_and_in_any_order():
    records = rows(3).astype(np.float64)
    cells = COLUMNS.decided(records)
    cells[0, 0] += 0.31
    cells[1, 1] += 0.33
    cells[2, 2] = (cells[2, 2] + 1) % 3
    right = recovered_cells(records, cells[::-1], COLUMNS)
    assert right.tolist() == [[True] * 4, [True, False, True, True], [True, True, False, True]]


def test_without_a_view_the_commonest_values_are_likely():
    public = rows(3)[[0, 0, 1]].astype(np.float64)
    equal = likely_cells(np.full(3, 1 / 3), public, COLUMNS)
    assert equal.tolist() == COLUMNS.decided(public[:1]).tolist()
    last = likely_cells(np.array([0.1, 0.1, 0.8]), public, COLUMNS)
    assert last.tolist() == COLUMNS.decided(public[2:]).tolist()


def test_views_of_other_rows_are_refused():
    records = rows(1)[:, :4]
    view = plain_view(fill_uniform(nn.Sequential(linear(4, 1)), 0), records, np.array([1]))
    with pytest.raises(InvalidArgument, match="the columns encode rows of 7 numbers"):
        invert_rows(view, np.array([1]), COLUMNS, SearchOptions(1, 1))


def test_measures_of_pictures():
    picture = np.random.default_rng(0).random((1, 12, 12))
    assert psnr(picture, picture) == MAX_DECIBELS
    assert psnr(np.zeros((1, 12, 12)), np.full((1, 12, 12), 0.1)) == pytest.approx(20)
    assert ssim(picture, picture) == pytest.approx(1)
    assert ssim(picture, 1 - picture) < 0
    assert ssim(picture, np.full_like(picture, 0.5)) < 0.1


def test_intervals():
    values = np.arange(21.0)
    interval = bootstrap(values)
    assert interval == bootstrap(values)
    assert interval.low < 10 < interval.high
    share = share_interval(9, 10)
    assert share.low == pytest.approx(0.5550, abs=1e-3) and share.high == pytest.approx(0.9975, abs=1e-3)
    with pytest.raises(InvalidArgument, match="at least 2"):
        bootstrap([1.0])
    with pytest.raises(InvalidArgument, match="wrong order"):
        Interval(1.0, 0.0, "by hand")


def test_results_know_their_baseline_and_their_yardstick():
    cost = Cost.mean([Cost(1.0, 10), Cost(3.0, 20)])
    assert cost == Cost(2.0, 15)
    interval = Interval(30.0, 50.0, "by hand")
    yardstick = Yardstick(30.0, "a control")
    result = AttackResult("psnr", "DLG", "none", 40.0, "dB", interval, 12.0, yardstick, 20, cost)
    assert result.excess == 28 and result.reaches_yardstick
    with pytest.raises(InvalidArgument, match="must be finite"):
        AttackResult("psnr", "DLG", "none", float("nan"), "dB", interval, 12.0, None, 20, cost)


def test_views_under_several_defences_make_no_result():
    records, labels = rows(1), np.array([1])
    plain, clipped = plain_view(net(), records, labels), clipped_view(net(), records, labels, 1.0)
    assert defence_of([plain, plain]) == "plain averaging"
    with pytest.raises(InvalidArgument, match="clipping alone, plain averaging"):
        defence_of([plain, clipped])
    with pytest.raises(InvalidArgument, match="A result reads a RoundView"):
        defence_of([records])
