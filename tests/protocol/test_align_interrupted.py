"""An align that is interrupted between two steps: what is run afterwards is a job of its own, with nothing of the first in it."""

import os

import pytest

from tests.support.local_parties import run_parties

from .messages import values_of
from .scenarios import GUEST, HOST, ONE_THREAD, Artifact, frame_at
from .test_align import ALL_COMMON, Model

BOTH = (GUEST, HOST)
STAGES = ("matches", "masks")
ROWS = ("records", "double_tags", "masked")


class Interrupted(BaseException):
    """As if the process had ended there: nothing catches it, and the other party waits until it is killed."""


def attempt(ctx, stage, folder):
    """One run with a hidden size, which the guest leaves just before both would agree on ``stage``, None for to the end."""
    os.environ["FATE_DP_HOME"] = folder
    from fate_dp.components.align import run
    from fate_dp.components.align.component import align
    from fate_dp.components.common.charges import home_of

    agree = run.Settlement.agree

    def leave(settlement):
        if settlement.stage == stage and ctx.federation.local_party[0] == "guest":
            raise Interrupted(stage)
        return agree(settlement)

    run.Settlement.agree = leave
    types = align.parameters.mapping
    given = {"hide_size": types["hide_size"].type.parse({"epsilon": 1.0}), "he_param": None}
    given |= {"label_source": None, "worker_memory": None}
    written = Artifact()
    align.execute(
        ctx, None, input_data=Artifact(frame_at(ctx, ALL_COMMON)), output_data=written, alignment=Model(), **given
    )
    return len(written.frame.as_pd_df()), home_of(ctx).ledger.entries()


def rows_of(result) -> set:
    """Tags and records that a party received, in any message of rows."""
    found = set()
    for name in ROWS:
        for rows in values_of(result.received, name):
            found |= {tag for tag, _ in rows} | {record for _, record in rows if record != 0}
    return found


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("interrupted"))
    return {
        stage: run_parties(attempt, BOTH, ONE_THREAD, forked=True, stage=stage, folder=folder)
        for stage in (*STAGES, None)
    }


def test_the_party_that_is_interrupted_ends_there(played):
    for stage in STAGES:
        assert "Interrupted" in played[stage][GUEST].error and HOST not in played[stage]


def test_a_run_after_interruptions_is_whole_and_repeats_nothing(played):
    errors = [played[None][party].error for party in BOTH]
    assert errors == [None, None] and played[None][GUEST].value[0] == played[None][HOST].value[0] >= 5
    seen = [rows_of(played[stage][GUEST]) for stage in (*STAGES, None)]
    assert all(seen) and sum(map(len, seen)) == len(set().union(*seen))


def test_every_attempt_that_drew_dummies_is_charged_and_only_the_whole_one_is_released(played):
    for party in BOTH:
        (line,) = played[None][party].value[1]
        assert (line["parameters"]["epsilon"], line["uses"], line["pending"]) == (1.0, len(STAGES) + 1, len(STAGES))
