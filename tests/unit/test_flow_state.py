"""What is at an address, in the answers that FATE-Flow gives and in those that it would never give."""

import pytest
from flow_double import VERSION, flow_double, speaking

from fate_dp.deploy.flow.client import Answer, FlowAddress
from fate_dp.deploy.flow.server import ANSWERS, FOREIGN, REFUSES, SILENT, FlowState, state_of
from fate_dp.pipelines.jobs.flow import FlowUnavailable, answering

ADDRESS = FlowAddress("127.0.0.1", 1)


def state_with(monkeypatch, answer):
    monkeypatch.setattr("fate_dp.deploy.flow.server.ask", lambda *arguments, **options: answer)
    return state_of(ADDRESS)


@pytest.mark.parametrize(
    "answer, state",
    [
        (Answer(0, "success", VERSION["server/fateflow"]), FlowState(ANSWERS, version="2.2.0")),
        (Answer(5001, "Invalid parameter: name[appId]"), FlowState(REFUSES, "Invalid parameter: name[appId]")),
        (Answer(5003, "varify failed!"), FlowState(REFUSES, "varify failed!")),
        (Answer(5005, "No Permission"), FlowState(REFUSES, "No Permission")),
        (Answer(5000, "old"), FlowState(REFUSES, "old: its clock and that of this machine differ by over a minute")),
        (Answer(6000, "database is locked"), FlowState(SILENT, "it reports the error 6000: database is locked")),
        (Answer(0, "success", {}), FlowState(SILENT, "it reports the error 0: success")),
    ],
    ids=lambda value: str(value.code) if isinstance(value, Answer) else "",
)
def test_only_a_missing_signature_is_a_refusal(answer, state, monkeypatch):
    """`flow init` does not mend a broken database, and a server with one has not started."""
    assert state_with(monkeypatch, answer) == state
    assert state.runs == (state.state in (ANSWERS, REFUSES))
    if state.state == REFUSES:
        with pytest.raises(FlowUnavailable, match="run `flow init --ip 127.0.0.1 --port 1 "):
            answering(ADDRESS)
    elif state.state == SILENT:
        with pytest.raises(FlowUnavailable, match="No FATE-Flow answers at 127.0.0.1:1"):
            answering(ADDRESS)


def test_a_signature_is_not_sent_on_to_another_server():
    with flow_double(VERSION) as (target, asked):
        redirect = (
            b"HTTP/1.1 302 Found\r\nLocation: http://%s/v2/server/fateflow\r\nContent-Length: 0\r\n\r\n"
            % str(target).encode()
        )
        with speaking(redirect) as port:
            assert state_of(FlowAddress("127.0.0.1", port)) == FlowState(FOREIGN, "HTTP status 302")
        assert asked == []
