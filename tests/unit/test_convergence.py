"""When training ends, and whether it is said to have converged."""

import pytest

from fate_dp.components.dp_hetero_lr.settings import TrainSettings
from fate_dp.components.protocols.optimizers import CONVERGED, EXHAUSTED, GOES_ON, Convergence, in_words
from fate_dp.crypto.shared_descent import LOSS_DEVIATION

FALLING = [0.7 - 0.001 * epoch for epoch in range(100)]
SETTLING = [0.5 + 0.2 * 0.8**epoch for epoch in range(100)]


def states(losses, criterion="diff", tol=0.0):
    convergence = Convergence(criterion, tol)
    return [convergence.state(epoch, len(losses), loss, None) for epoch, loss in enumerate(losses)]


@pytest.mark.parametrize(
    "losses, end",
    [
        (FALLING, EXHAUSTED),
        (SETTLING, CONVERGED),
        (SETTLING[:5], EXHAUSTED),
        ([0.7], EXHAUSTED),
        ([0.5, 0.5], CONVERGED),
    ],
)
def test_with_tol_0_all_epochs_run_and_the_last_ones_say_whether_training_converged(losses, end):
    assert states(losses) == [GOES_ON] * (len(losses) - 1) + [end]


def test_hidden_losses_of_a_converged_training_pass_as_such():
    """Each of 9 hosts adds a part of deviation 2^-16; tenths of 100 epochs differ by four deviations in one of 10,000."""
    apart = 4 * 3 * LOSS_DEVIATION * (2 / 10) ** 0.5
    assert states([0.5 + apart * (epoch // 10 % 2) for epoch in range(100)])[-1] == CONVERGED


def test_where_no_loss_is_shown_all_epochs_run_and_nobody_knows_whether_training_converged():
    assert states([None] * 5) == states([None] * 5, "abs", tol=1e3) == [GOES_ON] * 4 + [EXHAUSTED]
    assert in_words(False, []) == "not known without losses"


def test_a_tolerance_ends_training_and_is_the_only_measure_then():
    assert states(SETTLING, tol=1e-4).index(CONVERGED) == 28
    assert states(FALLING, tol=1e-4)[-1] == EXHAUSTED
    assert states([0.6, 0.5, 0.4], "abs", tol=0.5)[:2] == [GOES_ON, CONVERGED]
    assert states(SETTLING, "abs")[-1] == EXHAUSTED


def test_the_summary_says_what_was_left():
    assert in_words(True, [0.6, 0.5]) == "yes"
    assert in_words(True, [0.5001, 0.5]).startswith("the loss settled, but changed by 0.0001 in all")
    assert in_words(False, FALLING).startswith("no: the loss still changed by 0.001 in the last epoch; more epochs")
    assert in_words(False, [0.7]) == "no; more epochs may give another model"


@pytest.mark.parametrize(
    "given, epochs, tol",
    [
        ({}, 100, 0.0),
        ({"solver": "cross_product", "sigmoid": "exact"}, 100, 0.0),
        ({"family": "gaussian"}, 100, 0.0),
        ({"batch_size": 500}, 30, 1e-4),
        ({"solver": "per_epoch"}, 30, 1e-4),
        ({"early_stop": "weight_diff"}, 30, 1e-4),
        ({"optimizer": {"method": "adam", "penalty": "l2", "alpha": 1.0, "optimizer_params": {}}}, 30, 1e-4),
        ({"optimizer": {"method": "sgd", "penalty": "l1", "alpha": 1.0, "optimizer_params": {}}}, 30, 1e-4),
        ({"epochs": 7, "tol": 0.5}, 7, 0.5),
        ({"solver": "per_epoch", "tol": 0}, 30, 0),
    ],
)
def test_default_epochs_and_tolerance_follow_the_price_of_an_epoch(given, epochs, tol):
    settings = TrainSettings(**given)
    assert (settings.epochs, settings.tol) == (epochs, tol)
