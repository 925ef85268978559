"""Models that commit 64436b6 trained, whose metadata hold the parameters' old names, still predict the same.

The file beside this one has a model of `dp_homo_nn` for the unit client, with rows and what 64436b6 predicted of them, and
both parties' models of `dp_hetero_lr` with noise uniform and adaptive.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from .scenarios import GUEST, HOST, Scenario, features_of, frame_at, play, role_of, tables

MODELS = json.loads(Path(__file__).with_name("models_of_64436b6.json").read_text(encoding="utf-8"))
ROWS = tables(rows=6)
NOISES = ("uniform", "adaptive")


def predict_alone(ctx, earlier):
    from fate_dp.components.dp_homo_nn.model import predict_party

    stored = MODELS["dp_homo_nn"]
    return predict_party(ctx, stored["model"], frame_at(ctx, {GUEST: pd.DataFrame(stored["rows"])})).as_pd_df()


def predict_together(ctx, earlier, noise):
    from fate_dp.components.dp_hetero_lr import predict as stage
    from fate_dp.components.dp_hetero_lr.settings import PredictSettings

    arguments = ctx, PredictSettings(), MODELS["dp_hetero_lr"][noise][role_of(ctx)], frame_at(ctx, ROWS)
    return stage.predict_guest(*arguments).as_pd_df() if role_of(ctx) == "guest" else stage.predict_host(*arguments)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    together = {noise: Scenario(predict_together, {"noise": noise}, (GUEST, HOST)) for noise in NOISES}
    alone = {"alone": Scenario(predict_alone, {}, (GUEST,))}
    return play({**alone, **together}, tmp_path_factory.mktemp("homes"), (GUEST, HOST))


def scores_of(runs, name):
    outcome = runs[name][GUEST]
    assert outcome.error is None, outcome.error
    return outcome.value["predict_score"].to_numpy(dtype=float)


def test_a_model_of_the_old_unit_and_noise_predicts_what_it_did(runs):
    meta = MODELS["dp_homo_nn"]["model"]["meta"]
    assert (meta["unit"], meta["noise"]) == ("client", "uniform")
    np.testing.assert_allclose(scores_of(runs, "alone"), MODELS["dp_homo_nn"]["scores"], atol=1e-6)


@pytest.mark.parametrize("noise", NOISES)
def test_vertical_models_of_the_old_noise_predict_together(runs, noise):
    stored = MODELS["dp_hetero_lr"][noise]
    assert {each["meta"]["noise"]["kind"] for each in stored.values()} == {noise}
    scores = 0.0
    for party, document in zip((GUEST, HOST), (stored["guest"], stored["host"])):
        estimator = document["data"]["estimator"]
        scores = scores + features_of(ROWS[party]) @ np.ravel(estimator["param"]["coef_"])
        scores = scores + np.ravel(estimator["param"]["intercept_"] or 0.0)
    # The host rounds its part to a multiple of 2^-7.
    np.testing.assert_allclose(scores_of(runs, noise), 1 / (1 + np.exp(-scores)), atol=2.0**-8)
