"""The relay of `make bench-wan`: its line is late and slow by as much as it says, and hands over what it got."""

import socket
import time
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import wan_link
from bench.wan_link import ADDRESS, Line, relayed

GUEST, HOST = ("guest", "1"), ("host", "2")


def test_a_byte_is_late_by_the_delay_and_chunks_leave_at_the_rate():
    line = Line(delay=0.05, rate=8e6)
    assert line.due(1_000_000, now=10.0) == pytest.approx(11.05)
    # It waits for the one before it, whose last byte left at 11.0; a later one finds the line free.
    assert line.due(500_000, now=10.2) == pytest.approx(11.55)
    assert line.due(8, now=20.0) == pytest.approx(20.05, abs=1e-4)


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.floats(0, 1)), min_size=1, max_size=30),
    st.floats(0, 2),
    st.floats(1e3, 1e10),
)
def test_no_line_is_faster_than_its_rate_or_changes_the_order(chunks, delay, rate):
    line, now, arrived = Line(delay, rate), 0.0, []
    for size, pause in chunks:
        now += pause
        arrived.append(line.due(size, now))
        assert arrived[-1] >= now + delay + 8 * size / rate - 1e-9
    assert arrived == sorted(arrived)
    assert arrived[-1] >= delay + 8 * sum(size for size, _ in chunks) / rate - 1e-6


@pytest.mark.parametrize("delay, rate, field", [(-1, 1e6, "delay"), (0, 0, "rate"), (0.1, float("nan"), "rate")])
def test_a_line_that_cannot_be_is_refused_before_anything_starts(delay, rate, field):
    with pytest.raises(ValueError, match=f"^{field} must be "), relayed((GUEST, HOST), delay, rate):
        pass


def test_the_relay_hands_over_every_byte_no_sooner_than_its_line_does():
    sent = bytes(range(256)) * 800
    with relayed((GUEST, HOST), delay=0.1, rate=8e6) as link:
        listening = socket.create_server((ADDRESS, link.own[HOST]))
        with closing(listening), closing(wan_link._connection(link.ways[GUEST, HOST])) as sender:
            receiver, _ = listening.accept()
            with closing(receiver), receiver.makefile("rb") as stream:
                # The clock starts before the first byte leaves, so that a busy machine can only be slower.
                began = time.monotonic()
                sender.sendall(sent)
                assert stream.read(len(sent)) == sent
                took = time.monotonic() - began
    # 204,800 bytes take 0.2048 s on this line and arrive a tenth of a second later.
    assert took >= 0.3
