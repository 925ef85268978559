"""The server: FATE's optimisers and schedules on flat weights, penalties on public weights, and nothing that is NaN."""

import numpy as np
import pytest
import torch
from homo_nn_doubles import DIMENSION, make_terms

from fate_dp.components.dp_homo_nn.rounds.client import NotFinite
from fate_dp.components.dp_homo_nn.rounds.server import OPTIMIZERS, Server
from fate_dp.components.protocols.noisy_rounds.contribution import NoisyMean
from fate_dp.privacy.validation import InvalidArgument

START = np.array([1.0, -1.0, 0.05, 2.0])
GRADIENT = np.array([1.0, 0.5, 0.0, -1.0])


def server(optimizer=None, scheduler=None, **terms):
    return Server(
        make_terms(**terms), START, optimizer or {"method": "sgd", "optimizer_params": {"lr": 0.1}}, scheduler
    )


def test_plain_descent():
    np.testing.assert_allclose(server().step(GRADIENT), START - 0.1 * GRADIENT)
    np.testing.assert_allclose(server().step(NoisyMean(GRADIENT)), START - 0.1 * GRADIENT)


@pytest.mark.parametrize("method", sorted(OPTIMIZERS))
def test_every_optimizer_moves_as_torch_does(method):
    ours, parameter = (
        server({"method": method, "optimizer_params": {"lr": 0.1}}),
        torch.nn.Parameter(torch.tensor(START)),
    )
    theirs = OPTIMIZERS[method]([parameter], lr=0.1)
    for step in range(3):
        gradient = GRADIENT * (step + 1)
        parameter.grad = torch.tensor(gradient)
        theirs.step()
        np.testing.assert_array_equal(ours.step(gradient), parameter.detach().numpy())


def test_the_names_are_fates():
    fate = pytest.importorskip("fate.ml.utils._optimizer")
    for method in OPTIMIZERS:
        made = fate.optimizer_factory([torch.nn.Parameter(torch.zeros(1))], method, {"lr": 0.1})
        assert type(made) is OPTIMIZERS[method]


def test_momentum_by_its_parameter():
    ours = server({"method": "sgd", "optimizer_params": {"lr": 0.1, "momentum": 0.9}})
    ours.step(GRADIENT)
    np.testing.assert_allclose(ours.step(GRADIENT), START - 0.1 * GRADIENT * (1 + 1.9))


def test_penalties_read_the_weights_only():
    l2 = server({"method": "sgd", "penalty": "l2", "alpha": 0.5, "optimizer_params": {"lr": 0.1}})
    np.testing.assert_allclose(l2.step(GRADIENT), START - 0.1 * (GRADIENT + 0.5 * START))
    l1 = server({"method": "sgd", "penalty": "l1", "alpha": 1.0, "optimizer_params": {"lr": 0.1}})
    np.testing.assert_allclose(l1.step(0 * GRADIENT), [0.9, -0.9, 0.0, 1.9])


@pytest.mark.parametrize(
    "schedule, rates",
    [
        (None, [0.1, 0.1, 0.1]),
        ({"method": "constant", "scheduler_params": {}}, [0.1, 0.1, 0.1]),
        ({"method": "constant", "scheduler_params": {"factor": 0.5, "total_iters": 1}}, [0.05, 0.1, 0.1]),
        ({"method": "step", "scheduler_params": {"step_size": 1, "gamma": 0.5}}, [0.1, 0.05, 0.025]),
        (
            {"method": "linear", "scheduler_params": {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 2}},
            [0.1, 0.05, 0],
        ),
        ({"method": "cosine", "scheduler_params": {"T_max": 2}}, [0.1, 0.05, 0.0]),
    ],
)
def test_schedules_count_rounds(schedule, rates):
    ours, seen = server(scheduler=schedule), []
    for _ in rates:
        seen.append(ours.learning_rate)
        ours.step(GRADIENT)
    np.testing.assert_allclose(seen, rates, atol=1e-12)


@pytest.mark.parametrize(
    "optimizer, schedule, sentence",
    [
        ({"method": "lion"}, None, "optimizer.method must be one of adadelta.*, got 'lion'"),
        ({"method": "sgd", "penalty": "l3"}, None, "optimizer.penalty must be l1, l2 or none, got 'l3'."),
        ({"method": "sgd", "optimizer_params": {"lr": -1}}, None, "optimizer sgd refuses its parameters"),
        ({"method": "sgd", "optimizer_params": {"speed": 1}}, None, "optimizer sgd refuses its parameters"),
        (None, {"method": "stairs"}, "learning_rate_scheduler.method must be one of constant.*, got 'stairs'"),
    ],
)
def test_unknown_names_and_parameters_are_refused(optimizer, schedule, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        server(optimizer, schedule)


def test_nothing_that_is_nan_is_taken_and_the_weights_stay():
    ours = server()
    with pytest.raises(NotFinite, match="There is NaN or an infinity in the noisy mean gradient"):
        ours.step(np.array([np.nan, 0, 0, 0]))
    far = server({"method": "sgd", "optimizer_params": {"lr": 1e300}})
    with pytest.raises(NotFinite, match="The weights became infinite or NaN in a step"):
        far.step(1e300 * GRADIENT)
    np.testing.assert_array_equal(ours.weights, START)
    np.testing.assert_array_equal(far.weights, START)
    with pytest.raises(NotFinite, match="start weights"):
        Server(make_terms(), np.full(DIMENSION, np.inf), {"method": "sgd"})


def test_weights_are_copies():
    ours = server()
    ours.weights[:] = 7
    np.testing.assert_array_equal(ours.weights, START)


def test_clips_follow_the_schedule_or_the_released_share():
    fixed = server(clips=(4.0, 3.0, 2.0, 1.0))
    assert [fixed.clip(number) for number in range(4)] == [4.0, 3.0, 2.0, 1.0]
    private = server(clip_quantile=0.5)
    assert private.clip(0) == 1.0
    private.step(NoisyMean(GRADIENT, 1.0))
    assert private.clip(1) == pytest.approx(np.exp(-0.1)) and private.clip(0) == private.clip(1)
    private.step(NoisyMean(GRADIENT, 0.0))
    assert private.clip(2) == pytest.approx(1.0)
