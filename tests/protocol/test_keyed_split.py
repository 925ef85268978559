"""keyed_split between party processes: parties agree row by row, and no row's side depends on another row."""

import numpy as np
import pytest

from fate_dp.components.common.preflight import Refusal
from fate_dp.components.keyed_split.party import is_tested
from fate_dp.components.keyed_split.settings import Settings
from tests.protocol.scenarios import GUEST, HOST, Scenario, frame_at, play, tables

IDS = [f"person {row:04d}" for row in range(4000)]
SETTINGS = {"salt": "spring", "test_share": 0.25}
SIDES = ("training", "testing")


class Kept:
    """An output that keeps what is written."""

    table = None

    def write(self, frame):
        self.table = frame.as_pd_df()


def split_table(ctx, earlier, given, settings, own=()):
    from fate_dp.components.keyed_split.party import split

    outputs = [Kept() for _ in SIDES]
    chosen = {**settings, **dict(own).get(tuple(ctx.federation.local_party), {})}
    split(ctx, Settings(**chosen), frame_at(ctx, given), outputs)
    return {side: output.table for side, output in zip(SIDES, outputs)}


WHOLE = tables(rows=200)
GONE = {party: table.drop(index=range(40, 60)).reset_index(drop=True) for party, table in WHOLE.items()}
CHANGED = {party: table.assign(**{table.columns[-1]: 1}) for party, table in WHOLE.items()}
FEW = {party: table.iloc[:1] for party, table in WHOLE.items()}
SPLITS = {
    "whole": (WHOLE, SETTINGS),
    "records left": (GONE, SETTINGS),
    "values and labels replaced": (CHANGED, SETTINGS),
    "first fold": (WHOLE, {"salt": "spring", "folds": 2, "fold": 1}),
    "second fold": (WHOLE, {"salt": "spring", "folds": 2, "fold": 2}),
}
REFUSED = {
    "another salt at the host": (WHOLE, SETTINGS, {HOST: {"salt": "summer"}}, "Settings must be {'salt': 'spring'"),
    "a part without rows": (FEW, SETTINGS, {}, "Both parts must have rows"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    scenarios = {
        name: Scenario(split_table, {"given": given, "settings": settings}, (GUEST, HOST))
        for name, (given, settings) in SPLITS.items()
    }
    scenarios |= {
        name: Scenario(split_table, {"given": given, "settings": settings, "own": own}, (GUEST, HOST))
        for name, (given, settings, own, _) in REFUSED.items()
    }
    return play(scenarios, tmp_path_factory.mktemp("keyed_split"), (GUEST, HOST))


def sides(runs, name, party=GUEST):
    """{id: side} of every row that the party wrote."""
    parts = runs[name][party].value
    placed = [(each, side) for side, table in parts.items() for each in table["id"]]
    assert len(placed) == len(dict(placed)), "A row lies on two sides."
    return dict(placed)


@pytest.mark.parametrize("name", SPLITS)
def test_parties_agree_row_by_row_and_lose_none(runs, name):
    assert sides(runs, name, GUEST) == sides(runs, name, HOST)
    assert set(sides(runs, name)) == set(SPLITS[name][0][GUEST]["id"])
    for side, table in runs[name][GUEST].value.items():
        hosts = runs[name][HOST].value[side]
        # In the same order, as a training needs it, with the values that they had.
        assert list(table["id"]) == list(hosts["id"])
        assert hosts.set_index("id")["x3"].eq(SPLITS[name][0][HOST].set_index("id")["x3"].loc[hosts["id"]]).all()


def test_no_row_moves_when_others_leave_or_change(runs):
    whole, fewer = sides(runs, "whole"), sides(runs, "records left")
    assert fewer == {each: side for each, side in whole.items() if each in fewer} and len(fewer) == 180
    assert sides(runs, "values and labels replaced") == whole
    assert set(whole.values()) == set(SIDES)


def test_every_row_is_tested_in_one_fold(runs):
    tested = [
        {each for each, side in sides(runs, f"{which} fold").items() if side == "testing"}
        for which in ("first", "second")
    ]
    assert not tested[0] & tested[1] and tested[0] | tested[1] == set(WHOLE[GUEST]["id"])


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_everybodys(runs, name):
    told = REFUSED[name][3]
    assert any(told in (outcome.error or "") for outcome in runs[name].values())
    assert all(outcome.error and outcome.value is None for outcome in runs[name].values())


def test_shares_are_about_those_asked_for_and_another_salt_splits_anew():
    found, other = (is_tested(IDS, Settings(**{**SETTINGS, "salt": salt})) for salt in ("spring", "summer"))
    assert np.mean(found) == pytest.approx(0.25, abs=0.04)
    # Alike by chance alone.
    assert np.mean(found & other) == pytest.approx(0.25**2, abs=0.03)


@pytest.mark.parametrize(
    "given, told",
    [
        ({"salt": ""}, "salt must be text"),
        ({"salt": "a", "folds": 3}, "fold must be one of 1 to folds"),
        ({"salt": "a", "fold": 1}, "fold must be one of 1 to folds"),
        ({"salt": "a", "folds": 3, "fold": 4}, "fold must be one of 1 to folds"),
        ({"salt": "a", "test_share": 1.0}, "test_share"),
    ],
)
def test_settings_that_split_nothing_are_refused(given, told):
    from fate_dp.pipelines.clients import KeyedSplit

    with pytest.raises(Refusal, match=told):
        KeyedSplit("split", **given)
