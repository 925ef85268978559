"""The recorders of a real training between processes keep what each party received and was asked, no more and no less."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from fate_dp.attacks.of_views import Truth
from fate_dp.attacks.recorded_round import informed_labels, ones_in_round, recorded_round
from fate_dp.attacks.recorded_view import read_view, views_of
from tests.support.local_parties import frame_of, run_parties

GUEST, HOST, ARBITER = ("guest", "9981"), ("host", "9982"), ("arbiter", "9983")
RECORDING = (HOST, ARBITER)
RECORDS, FEATURES = 60, 20
NOISE, STRAYED = 0.6, 6.0
TRAINING = {"rounds": 1, "batch_size": RECORDS, "records": RECORDS, "clip": 1.0, "noise_multiplier": NOISE}
# Of so little noise a cap must allow much.
CAP = "default_dataset_cap: {epsilon: 1000, delta: 0.0001}\n"


def tables():
    """{role: pandas table}: records so short that no gradient is clipped, and the truth of all."""
    import pandas as pd

    draw = np.random.default_rng(42)
    features = draw.uniform(-0.5, 0.5, (RECORDS, FEATURES))
    labels, ids = (draw.random(RECORDS) < 0.7).astype(int), [f"record {row}" for row in range(RECORDS)]
    table = pd.DataFrame(features, columns=[f"x{column}" for column in range(FEATURES)])
    table = table.assign(sample_id=ids, id=ids, y=labels)
    half = RECORDS // 2
    return {"guest": table[:half], "host": table[half:]}, Truth(tuple(ids), labels, features)


def train(ctx, parts, home):
    """A training of one round, recorded at those of `RECORDING`, as FATE's executor would have it."""
    # Not in the environment of the process that all parties are forked from, which another test may have started.
    os.environ["FATE_DP_HOME"] = home
    from fate_dp.components.common.charges import home_of
    from fate_dp.components.common.wire.channel import plain_messages
    from fate_dp.components.dp_homo_nn.component import MESSAGES
    from fate_dp.components.dp_homo_nn.train import train_party
    from fate_dp.deploy.recorder.recording import recording
    from fate_dp.privacy.private_files import replace_file

    role, party = ctx.federation.local_party
    policy = CAP + ("record_views: [dp_homo_nn]\n" if (role, party) in RECORDING else "")
    replace_file(home_of(ctx).path / "policy.yaml", policy.encode())
    task = {"component": "dp_homo_nn", "task_name": "nn_0", "party_task_id": "nn_0", "stage": "train", "parameters": {}}
    frame = frame_of(ctx, parts[role], "y") if role in parts else None
    with recording(SimpleNamespace(**task, role=role, party_id=party)), plain_messages(ctx, MESSAGES) as plain:
        train_party(plain, TRAINING, frame)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """What each party received by the test's own record, views by party, and the truth."""
    home, (parts, truth) = tmp_path_factory.mktemp("parties"), tables()
    variables = {"OMP_NUM_THREADS": "1"}
    results = run_parties(train, (GUEST, HOST, ARBITER), variables, forked=True, parts=parts, home=str(home))
    assert not [result.error for result in results.values() if result.error]
    views = {party: [read_view(path) for path in views_of(home, party=party[1])] for party in results}
    return {party: result.received for party, result in results.items()}, views, truth, home


def test_each_recording_party_keeps_all_messages_in_their_order_and_others_keep_none(trained):
    received, views, *_ = trained
    assert views[GUEST] == []
    for party in RECORDING:
        (view,) = views[party]
        kept = [(message.sender, message.name) for message in view.messages]
        assert kept == [(sender, name) for sender, name, _ in received[party]] and kept
        assert view.finished and not view.problems and not any(message.left_out for message in view.messages)


def test_what_the_messages_said_is_kept_as_it_was(trained):
    received, views, *_ = trained
    for party in RECORDING:
        for message, (_, name, value) in zip(views[party][0].messages, received[party], strict=True):
            kept = message.content
            if isinstance(value, dict):
                # The task has taken parts out of some since.
                kept = {key: kept[key] for key in value}
            np.testing.assert_equal(kept, value, err_msg=name)


def test_the_servers_view_adds_up_to_the_mean_gradient_and_the_noise_of_the_terms(trained):
    _, views, truth, _ = trained
    found = recorded_round(views[ARBITER][0])
    rows = found.gradients.rows(found.start, truth.features.astype(np.float32), truth.labels)
    strayed = (found.received - rows.mean(axis=0)) / found.deviation
    assert np.abs(strayed).max() < STRAYED and found.terms.noise_multiplier == NOISE
    allowed = STRAYED * found.deviation * RECORDS + 1
    assert abs(ones_in_round(found).ones - truth.labels.sum()) <= allowed
    assert informed_labels(found, truth.features, truth.labels).expected_share < found.bound < 1.0
