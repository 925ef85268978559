"""The benchmark of align: both parties over a pipe, the check of their shares, the growth exponent."""

import multiprocessing
import queue
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from bench import align as bench
from bench.align_party import align


def play(parties) -> tuple:
    """({first: its shares}, what was reported); both parties in this process."""
    ends, shares, steps = multiprocessing.Pipe(), {}, []

    def run(end, party):
        shares[party.first] = align(end, party, steps.append)

    threads = [threading.Thread(target=run, args=pair) for pair in zip(ends, parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return shares, steps


@pytest.mark.parametrize("common", [0, 2])
def test_the_benchmark_runs_the_protocol_and_notices_wrong_shares(common):
    parties = bench.tables(5, common, features=2)
    shares, steps = play(parties)
    bench._check(shares, parties, common)
    # Both parties encrypt 5 and tag 5 again, blind and open what is common.
    assert sum(steps) == 2 * (10 + 2 * common)
    if common:
        shares[True][0][0, 0] += 1
        with pytest.raises(RuntimeError, match="do not add up to the joined records"):
            bench._check(shares, parties, common)
    with pytest.raises(RuntimeError, match="do not add up to the joined records"):
        bench._check(shares, parties, common + 1)


def test_tables_have_as_many_common_ids_as_asked():
    first, second = bench.tables(500, 250)
    assert len(set(first.names) & set(second.names)) == 250 and len(set(first.names)) == 500
    assert first.values.shape == (500, bench.FEATURES) and np.abs(first.values).max() < 16


@pytest.mark.parametrize("power", [1.0, 1.5])
def test_the_growth_exponent_is_the_slope(power):
    assert bench.growth_exponent({rows: 3e-3 * rows**power for rows in bench.GROWTH}) == pytest.approx(power)


class Waiting:
    """A queue of messages that has nothing yet when it is asked first."""

    def __init__(self, messages):
        self.messages = [queue.Empty(), *messages]

    def get(self, timeout):
        message = self.messages.pop(0)
        if isinstance(message, Exception):
            raise message
        return message


@pytest.mark.parametrize("codes, fails", [((0, None), False), ((None, None), False), ((0, 0), True), ((1, None), True)])
def test_a_party_that_is_through_may_leave_the_other_at_work(codes, fails):
    parties = bench.tables(5, 2, features=2)
    shares, _ = play(parties)
    processes, start = [SimpleNamespace(exitcode=code) for code in codes], SimpleNamespace(wait=lambda: None)
    messages = Waiting([("shares", (first, bench.Seconds(1.0 + first, 3.0), found)) for first, found in shares.items()])
    if fails:
        with pytest.raises(RuntimeError, match="ended before it had its shares"):
            bench._watch(processes, parties, 2, start, messages, print)
    else:
        assert bench._watch(processes, parties, 2, start, messages, print) == (2.0, 6.0)


def test_the_figures_name_the_sizes_of_the_targets():
    growth = {
        10_000: bench.Seconds(1.234, 2.0),
        31_600: bench.Seconds(4.0, 7.0),
        1_000_000: bench.Seconds(100.0, 199.0),
    }
    assert bench.of_sizes(growth) == {
        "wall_seconds_10k": 1.23,
        "cpu_seconds_10k": 2.0,
        "wall_seconds_1m": 100.0,
        "cpu_seconds_1m": 199.0,
    }
