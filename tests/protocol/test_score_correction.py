"""score_correction at the guest: what it writes, what it refuses, and that nothing leaves or is charged."""

import json
from functools import partial

import numpy as np
import pytest

from fate_dp.privacy.mechanisms.randomized_response import flip_probability, true_probability

from .scenarios import GUEST, HOST, Artifact, Scenario, assert_refused, flip, frame_at, play, tables

ROWS, EPSILON = 240, 1.0
TABLES = tables(rows=ROWS, hosts=(2,))
SCORES = np.linspace(0, 1, ROWS)


def _beside(ids, scores):
    """What a model says of the records of a block; record number n has the n-th score."""
    told = [scores[int(str(each).split()[-1])] for each in np.ravel(ids)]
    return told, [0] * len(told), ["{}"] * len(told)


def scored(ctx, earlier, scores=SCORES, epsilon=EPSILON, labels=None, kinds=("train_set",), threshold=0.5):
    """The component on a table of these scores in FATE's format, beside no labels or those of an earlier scenario."""
    from fate_dp.components.common.frames import match_id_blocks, prediction_frame_of
    from fate_dp.components.score_correction.component import score_correction

    table = TABLES[GUEST] if labels == "true" else earlier[labels].value["table"] if labels else TABLES[HOST]
    frame = frame_at(ctx, {GUEST: table})
    if scores is not None:
        columns = match_id_blocks(frame).mapValues(partial(_beside, scores=scores))
        parts = [prediction_frame_of(frame, columns, kind) for kind in kinds]
        frame = parts[0] if len(parts) == 1 else type(frame).vstack(parts)
    given_scores = frame.as_pd_df()[["id", "predict_score"]] if scores is not None else None
    written = Artifact()
    given = {"input_data": Artifact(frame), "output_data": written, "epsilon": epsilon, "threshold": threshold}
    score_correction.execute(ctx, None, **given)
    return written.frame.as_pd_df().merge(given_scores, on="id", suffixes=("", "_given"))


REFUSED = {
    "no scores": ({"scores": None}, "input_data must have the columns predict_score and type, got x3, x4"),
    "no probabilities": ({"scores": SCORES * 2}, "predict_score holds values outside 0 to 1"),
    "missing scores": ({"scores": np.where(SCORES > 0.9, np.nan, SCORES)}, "predict_score holds values outside 0 to 1"),
    "another epsilon": (
        {"labels": "flips", "epsilon": 2.0},
        "epsilon is 2.0, but the labels beside the scores were flipped",
    ),
    "true labels": ({"labels": "true"}, "they are not those flips"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    arguments = {
        "new rows": {},
        "strict": {"threshold": 0.9},
        "training rows": {"labels": "flips"},
        **{name: each for name, (each, _) in REFUSED.items()},
    }
    alone = {name: Scenario(scored, each, (GUEST,), home="one") for name, each in arguments.items()}
    first = {"flips": Scenario(flip, {"tables": TABLES, "epsilon": EPSILON}, (GUEST, HOST), home="one")}
    return play({**first, **alone}, tmp_path_factory.mktemp("homes"), (GUEST, HOST))


@pytest.mark.parametrize("name, threshold", [("new rows", 0.5), ("strict", 0.9), ("training rows", 0.5)])
def test_every_score_is_corrected_and_everything_beside_it_follows(runs, name, threshold):
    table = runs[name][GUEST].value
    expected = true_probability(table["predict_score_given"].astype(float), EPSILON)
    np.testing.assert_allclose(table["predict_score"].astype(float), expected, atol=1e-12)
    assert sorted(table["predict_score_given"].astype(float)) == pytest.approx(SCORES)
    assert (table["predict_result"].astype(int) == (expected > threshold)).all()
    assert set(table["type"]) == {"train_set"}
    details = [json.loads(each.strip('"').replace("'", '"')) for each in table["predict_detail"]]
    np.testing.assert_allclose([each["1"] for each in details], expected, atol=1e-12)
    np.testing.assert_allclose([each["0"] for each in details], 1 - expected, atol=1e-12)


def test_labels_beside_the_scores_stay(runs):
    flipped, table = runs["flips"][GUEST].value["table"], runs["training rows"][GUEST].value
    both = table.merge(flipped[["id", "y"]], on="id")
    assert len(both) == ROWS and (both["label"].astype(int) == both["y"].astype(int)).all()
    assert "label" not in runs["new rows"][GUEST].value


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_cannot_be_corrected_is_refused_in_one_sentence(runs, name):
    assert_refused(runs[name], REFUSED[name][1])


def test_nothing_is_received_and_nothing_charged(runs):
    before = runs["flips"][GUEST].ledger["entries"]
    for name, outcomes in runs.items():
        if name != "flips":
            assert not outcomes[GUEST].received and outcomes[GUEST].ledger["entries"] == before


def test_scores_below_the_rate_of_flips_are_zero_and_above_its_complement_one():
    flip_rate = flip_probability(EPSILON)
    assert (
        true_probability([0, flip_rate, 1 - flip_rate, 1], EPSILON) == pytest.approx([0, 0, 1, 1])
    ) and true_probability(0.5, EPSILON) == pytest.approx(0.5)
