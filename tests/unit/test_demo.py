"""The demo's jobs that need nothing of each other run at once, and end together where one fails."""

from threading import Barrier, Event

import pytest

from fate_dp.deploy.flow.client import FlowAddress
from fate_dp.pipelines.demo.run import Run, Site

PATIENCE_SECONDS = 30.0


@pytest.fixture
def run(tmp_path):
    site = Site(FlowAddress("127.0.0.1", 1), tmp_path)
    return Run(site, site, tmp_path, lambda *news: None)


def test_works_meet_while_they_run_and_their_results_keep_their_order(run):
    meeting = Barrier(3)

    def work(number):
        meeting.wait(PATIENCE_SECONDS)
        return number

    assert run.together(lambda: work(1), lambda: work(2), lambda: work(3)) == [1, 2, 3]
    assert not run.stop.is_set()


def test_where_one_fails_the_others_are_stopped_and_its_sentence_is_told(run):
    stopped = Event()

    def waits_for_the_others():
        assert run.stop.wait(PATIENCE_SECONDS)
        stopped.set()
        raise ValueError("it was stopped")

    def fails():
        raise ValueError("the reason")

    with pytest.raises(ValueError, match="the reason"):
        run.together(waits_for_the_others, fails)
    assert stopped.is_set()
