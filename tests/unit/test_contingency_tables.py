"""Contingency tables with noise: what a replaced record changes, where noise stands, what is refused."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fate_dp.components.dp_scorecard.tables import TableShares, added_up
from fate_dp.components.protocols.shared_descent import JointColumns
from fate_dp.privacy.events import ADD_OR_REMOVE, Gaussian, InvalidEvent, NotPrivate
from fate_dp.privacy.mechanisms.contingency_tables import FRACTION_BITS, TARGET, BinnedRows, ContingencyTables
from fate_dp.privacy.mechanisms.second_moments import noise_multiplier_for, replace_one_sensitivity
from fate_dp.privacy.noise.stream import ReproducibleStream
from fate_dp.privacy.validation import InvalidArgument

GUEST, HOST, SECOND = BinnedRows((2, 3), labelled=True), BinnedRows((2, 2, 2)), BinnedRows((4,))
OBSERVERS = ("host", "model")


def all_rows(size):
    """Every row that a record of these sizes can have."""
    starts = np.cumsum([0, *size.counts[:-1]])
    for bins in itertools.product(*map(range, size.counts)):
        row = np.zeros(size.width, dtype=np.int64)
        row[starts + np.array(bins)] = 1
        for target in (TARGET, -TARGET) if size.labelled else (0,):
            if size.labelled:
                row[-1] = target
            yield row.copy()


def change(first, second, others):
    """l2 norm of how far a replaced record moves its party's tables, both halves counted, and those with the others."""
    own = np.outer(first, first) - np.outer(second, second)
    crossed = sum(np.sum(np.outer(first - second, other) ** 2) for other in others)
    return math.sqrt(np.sum(own**2) + crossed)


@pytest.mark.parametrize("parties", [(GUEST, HOST), (HOST, GUEST), (GUEST, HOST, SECOND), (SECOND, GUEST)])
@pytest.mark.parametrize("party", [0, 1])
def test_the_sensitivity_is_the_largest_change_that_any_two_records_make(parties, party):
    tables = ContingencyTables(parties, (1.0,) * len(parties))
    others = [next(all_rows(size)) for position, size in enumerate(parties) if position != party]
    rows = list(all_rows(parties[party]))
    largest = max(change(first, second, others) for first, second in itertools.product(rows, rows))
    assert largest <= tables.sensitivity(party) <= largest * (1 + 1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(2, 6), min_size=1, max_size=6), st.lists(st.integers(2, 6), min_size=1, max_size=6))
def test_rows_of_known_length_need_no_more_noise_than_clipped_ones(guest, host):
    tables = ContingencyTables((BinnedRows(guest, labelled=True), BinnedRows(host)), (1.0, 1.0))
    for party in (0, 1):
        own, other = tables.parties[party], tables.parties[1 - party]
        assert tables.sensitivity(party) <= replace_one_sensitivity(own.square, other.square) * (1 + 1e-12)


def test_noise_is_where_the_records_move_the_tables_and_nowhere_else():
    tables = ContingencyTables((GUEST, HOST), (1.0, 1.0))
    draw = tables.draw(0, OBSERVERS, ReproducibleStream(1))
    rows = np.array(list(all_rows(GUEST)))
    moving = np.ptp([np.outer(row, row) for row in rows], axis=0) > 0
    assert ((draw.own != 0) == moving).all() and (draw.own == draw.own.T).all()
    assert draw.cross[1].shape == (GUEST.width, HOST.width) and (draw.cross[1] != 0).all()


def test_without_a_multiplier_a_party_adds_nothing_and_is_charged_nothing():
    draw = ContingencyTables((GUEST, HOST), (1.0, 0.0)).draw(1, OBSERVERS)
    assert not draw.own.any() and not draw.cross[0].any() and draw.event is None


def test_the_event_is_gaussian_for_records_with_a_slack_far_below_delta():
    multiplier = noise_multiplier_for(20.0, 1e-6)
    tables = ContingencyTables((BinnedRows((12,) * 13, labelled=True), BinnedRows((12,) * 10)), (multiplier,) * 2)
    event = tables.draw(0, OBSERVERS).event
    assert (event.process, event.unit, event.relation) == (Gaussian(multiplier), "record", "replace_one")
    assert event.slack > 0 and (1 + math.exp(20)) * event.slack < 1e-6 * 2**-10


def test_noise_of_a_repeatable_stream_is_charged_as_no_privacy():
    event = ContingencyTables((GUEST, HOST), (1.0, 1.0)).draw(0, OBSERVERS, ReproducibleStream(1)).event
    assert isinstance(event.process, NotPrivate)


def test_the_ridge_makes_the_noisy_matrix_positive_definite():
    sizes = (BinnedRows((6, 6), labelled=True), BinnedRows((6, 6)))
    tables, stream = ContingencyTables(sizes, (1.0, 1.0)), ReproducibleStream(3)
    guest, host = (tables.draw(party, OBSERVERS, stream) for party in (0, 1))
    cross = guest.cross[1][:-1] + host.cross[0][:, :-1].T
    noise = np.block([[guest.own[:-1, :-1], cross], [cross.T, host.own]]) * 2.0**-FRACTION_BITS
    assert np.linalg.eigvalsh(noise).min() > -tables.required_ridge()


@pytest.mark.statistical
@pytest.mark.parametrize("factor, fits", [(1, True), (2 / 3, False), (3 / 2, False)])
def test_the_noise_has_the_stated_scale(factor, fits):
    sizes, stream = (BinnedRows((12,) * 4, labelled=True), BinnedRows((12,) * 3)), ReproducibleStream(11)
    tables = ContingencyTables(sizes, (1.5, 0.7))
    unit = 2.0**-FRACTION_BITS
    for party in (0, 1):
        draw, sigma = tables.draw(party, OBSERVERS, stream), tables.sigma(party)
        own = sizes[party].column_of_bins()
        apart = np.triu(own[:, None] != own, 1)
        parts = [(draw.own[apart] * unit, sigma / math.sqrt(2)), (draw.cross[1 - party].ravel() * unit, sigma)]
        for noise, scale in parts:
            squares = (noise / (factor * scale)) ** 2
            assert bool(abs(squares.mean() - 1) < 5 * math.sqrt(2 / squares.size)) is fits


def test_stated_variances_are_those_of_the_noise_on_every_entry_of_the_joint_tables():
    sizes, stream = (BinnedRows((3, 2), labelled=True), BinnedRows((2,))), ReproducibleStream(5)
    tables, draws, unit = ContingencyTables(sizes, (1.5, 0.7)), 400, 2.0**-FRACTION_BITS
    found = []
    for _ in range(draws):
        guest, host = tables.draw(0, OBSERVERS, stream), tables.draw(1, OBSERVERS, stream)
        cross = guest.cross[1] + host.cross[0].T
        found.append(np.block([[guest.own, cross], [cross.T, host.own]]) * unit)
    stated, drawn = tables.variances(), np.var(found, axis=0)
    assert np.array_equal(stated == 0, drawn == 0) and np.array_equal(stated, stated.T)
    assert np.abs(drawn[stated > 0] / stated[stated > 0] - 1).max() < 6 * math.sqrt(2 / draws)


@pytest.mark.parametrize(
    "make, told",
    [
        (lambda: BinnedRows(()), "number of binned columns must be .*, got 0"),
        (lambda: BinnedRows((1, 3)), "number of bins of a column must be .*, got 1"),
        (lambda: BinnedRows((5000, 5000)), "number of bins of all columns must be .*, got 10000"),
        (lambda: ContingencyTables((GUEST,), (1.0,)), "at least two parties"),
        (lambda: ContingencyTables((GUEST, HOST), (1.0,)), "a finite number for each of 2"),
        (
            lambda: ContingencyTables((GUEST, HOST), (1e6, 1.0)),
            r"noise_multipliers must be small enough for noise of at most 16384 counts, got \(1000000\.0, 1\.0\)",
        ),
    ],
)
def test_bad_sizes_are_refused_in_one_sentence(make, told):
    with pytest.raises(InvalidArgument, match=told):
        make()


def test_only_replace_one_is_promised():
    with pytest.raises(InvalidEvent, match="must be replace_one"):
        ContingencyTables((GUEST, HOST), (1.0, 1.0)).sensitivity(0, ADD_OR_REMOVE)


def test_shares_of_another_job_come_to_more_than_all_rows_and_are_refused():
    columns = JointColumns((("guest", "1"), ("host", "2")), (GUEST.width, HOST.width), 0)
    law = ContingencyTables((GUEST, HOST), (1.0, 1.0))
    own, other = (np.array([next(all_rows(size))] * 50) for size in (GUEST, HOST))
    mask = np.random.default_rng(5).integers(0, 2**60, (GUEST.width, HOST.width)).astype(object)
    shares = (
        TableShares(columns, own.T @ own, {1: mask}),
        TableShares(columns, other.T @ other, {0: (own.T @ other - mask).T}),
    )
    parts = {at: each.noisy(law.draw(at, OBSERVERS)) for at, each in enumerate(shares)}
    tables = added_up(columns, parts, law.largest(50))
    assert np.abs(tables - np.hstack([own, other]).T @ np.hstack([own, other])).max() < 20 * max(map(law.sigma, (0, 1)))
    parts[1]["cross"][0] += 2**50
    with pytest.raises(ValueError, match="another job or step"):
        added_up(columns, parts, law.largest(50))
