"""Losses that the guest sees: hidden anew in every training, and shown by no more trainings than each host allows."""

from contextlib import nullcontext
from unittest import mock

import numpy as np
import pytest

from fate_dp.components.protocols import shared_descent
from fate_dp.components.protocols.score_counts import NOT_SHOWN
from fate_dp.crypto.shared_descent import LOSS_DEVIATION, UNSHOWN_DEVIATION
from fate_dp.privacy.ledger.entries import LOSSES

from . import joined_rows
from .messages import changed_sending
from .scenarios import GUEST, HOST, SECOND_HOST, Scenario, flip, play, role_of, tables, train, weights
from .test_score_releases import cross_validate

PAIR, TRIO = (GUEST, HOST), (GUEST, HOST, SECOND_HOST)
TABLES, TWO_HOSTS = tables(rows=130, hosts=(4,)), tables(rows=150, hosts=(4, 2), seed=1)
ZEROS = {"method": "zeros", "fill_val": 0.0, "fit_intercept": True, "random_state": None}
DESCENT = {"method": "sgd", "penalty": "l2", "alpha": 0.01, "optimizer_params": {"lr": 0.5}}
COMMON = dict(tables=TABLES, public=True, epochs=40, tol=0, optimizer=DESCENT, init_param=ZEROS)
SHORT = {**COMMON, "epochs": 3}
JOINED = joined_rows.joined(rows=130, seed=5)
OF_SHARES = dict(stage=joined_rows.train, made=JOINED, epochs=40, tol=0, optimizer=DESCENT)


def rate(factor):
    return {"method": "constant", "scheduler_params": {"factor": factor, "total_iters": 1000}}


def noting(ctx, earlier, stage=train, exact=False, cap=None, lying=False, **arguments):
    """A training with what the guest opened, {"seen": means without their constants}; ``exact`` ones nothing hides.

    Args:
        cap: {party: the cap that its operator sets for all its tables}.
        lying: the guest says that all hosts show losses, whatever they said.
    """
    means, seen, me = shared_descent.SharedSteps._means, [], tuple(ctx.federation.local_party)

    def noted(*given):
        seen.append(means(*given)[0])
        return [seen[-1]]

    if cap and me in cap:
        allow(ctx, arguments.get("tables", {}).get(me), cap[me])
    with mock.patch.object(shared_descent.SharedSteps, "_means", noted):
        with mock.patch.object(shared_descent, "loss_part", lambda *given: 0) if exact else nullcontext():
            with changed_sending({"all_consent": True}) if lying and me == GUEST else nullcontext():
                return {**stage(ctx, earlier, **arguments), "seen": np.array(seen)}


def allow(ctx, table, cap, **more):
    from fate_dp.components.common.charges import columns_name, home_of
    from fate_dp.privacy.ledger.policy import declare_caps

    columns = [f"host column {at}" for at in range(JOINED["host"])] if table is None else list(table.columns[2:])
    declare_caps(home_of(ctx).path / "policy.yaml", columns_name(columns), losses=cap, **more)


def validate(ctx, earlier, cap, **arguments):
    """Cross-validation of dp_hetero_lr; the summaries of all folds at the guest."""
    if role_of(ctx) == "host":
        allow(ctx, TABLES[HOST], cap, scores=3)
    found = cross_validate(ctx, earlier, **arguments)
    return found[1] if found else None


def on(home, parties=PAIR, **changed):
    return Scenario(noting, {**SHORT, **changed}, parties, home)


ONE, RENAMED = {HOST: 1}, {**TABLES, HOST: TABLES[HOST].iloc[5:, [0, 1, 3, 4]].rename(columns={"x4": "other name"})}
RENAMED[GUEST] = TABLES[GUEST].iloc[5:]
NOISE = {"privacy": "record", "optimizer": None, "cap": {HOST: 0}}


def noisy(ctx, earlier, of_host, **arguments):
    own = {"guest": 1.0, "host": of_host}[role_of(ctx)]
    return noting(ctx, earlier, epsilon=own, **arguments)


SCENARIOS = {
    # A training whose rate is 0 stays where all losses are known, and so told once what hid those of the next one.
    "still": on("runs", epochs=40, learning_rate_scheduler=rate(0.0)),
    "usual": on("runs", epochs=40, learning_rate_scheduler=rate(1.0)),
    "usual again": on("runs", epochs=40, learning_rate_scheduler=rate(1.0)),
    "exact": on("runs", epochs=40, learning_rate_scheduler=rate(1.0), exact=True),
    "exactly still": on("runs", epochs=40, learning_rate_scheduler=rate(0.0), exact=True),
    "of shares": Scenario(noting, OF_SHARES, PAIR, "shares"),
    "of shares again": Scenario(noting, OF_SHARES, PAIR, "shares"),
    "of shares, exact": Scenario(noting, {**OF_SHARES, "exact": True}, PAIR, "shares"),
    "of shares, none left": Scenario(noting, {**OF_SHARES, "cap": {HOST: 3}}, PAIR, "shares"),
    "one": on("count", cap=ONE),
    "none left": on("count", epochs=40, learning_rate_scheduler=rate(1.0)),
    "a warm start": on("count", warm_start="one"),
    "other rows and columns": on("count", tables=RENAMED),
    "early stop without losses": on("count", epochs=5, tol=1e3),
    "lying guest": on("count", epochs=40, learning_rate_scheduler=rate(1.0), lying=True),
    "many epochs": on("many", epochs=101, cap=ONE),
    "as many": on("many", epochs=100, tol=1e3),
    "second host refuses": on("two", TRIO, tables=TWO_HOSTS, cap={SECOND_HOST: 0}),
    "three classes": on(
        "classes",
        tables={**TABLES, GUEST: TABLES[GUEST].assign(y=np.arange(130) % 3)},
        classes=(0.0, 1.0, 2.0),
        epochs=34,
        cap=ONE,
    ),
    "noise of the host": Scenario(noisy, {**SHORT, **NOISE, "of_host": 2.0}, PAIR, "noise"),
    "noise of the guest alone": Scenario(noisy, {**SHORT, **NOISE, "of_host": None}, PAIR, "no noise"),
    "flip": Scenario(flip, dict(tables=TABLES, epsilon=1.0), PAIR, "folds"),
    "folds": Scenario(validate, dict(cap=2, tables=TABLES, labels_of="flip", n_splits=3), PAIR, "folds"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    found = play(SCENARIOS, tmp_path_factory.mktemp("homes"), TRIO)
    assert [outcome.error for of in found.values() for outcome in of.values() if outcome.error] == []
    return found


def seen(runs, name):
    return runs[name][GUEST].value["seen"]


def counted(runs, name, party=HOST):
    """Trainings with losses that the party's ledger counts after a scenario."""
    return sum(entry["rounds"] for entry in runs[name][party].ledger["entries"] if entry["mechanism"] == LOSSES)


def last_loss(runs, name):
    return runs[name][GUEST].value["summary"]["last loss"]


@pytest.mark.parametrize(
    "first, second, truth, truth_of_second",
    [
        ("still", "usual", "exactly still", "exact"),
        ("usual", "usual again", "exact", "exact"),
        ("of shares", "of shares again", "of shares, exact", "of shares, exact"),
    ],
)
def test_no_training_takes_off_what_hides_the_losses_of_another(runs, first, second, truth, truth_of_second):
    """Once a host's part was a keyed function of terms that lacked the learning rates and the data."""
    parts, others = seen(runs, first) - seen(runs, truth), seen(runs, second) - seen(runs, truth_of_second)
    for apart in (parts, others, (others - parts) / np.sqrt(2)):
        assert LOSS_DEVIATION / 1.6 < np.sqrt(np.mean(apart**2)) < 1.6 * LOSS_DEVIATION
    assert np.abs(others - parts).min() > 2.0**-31 and len(set(parts)) == len(parts) == 40
    # Nor does one epoch of a training tell of another.
    assert abs(np.corrcoef(parts[1:], parts[:-1])[0, 1]) < 0.6


def test_beyond_the_cap_a_training_goes_on_and_shows_no_loss(runs):
    assert (counted(runs, "one"), counted(runs, "none left")) == (1, 1)
    assert isinstance(last_loss(runs, "one"), float) and last_loss(runs, "none left") == NOT_SHOWN
    guest = runs["none left"][GUEST].value
    assert guest["model"]["data"]["estimator"]["losses"] == []
    assert guest["summary"]["converged"] == "not known without losses" and guest["summary"]["epochs run"] == 40
    host = runs["none left"][HOST].value["summary"]
    assert host["losses of this training"] == NOT_SHOWN and host["cap on these trainings"] == 1
    for party in PAIR:
        np.testing.assert_allclose(weights(runs["none left"], party), weights(runs["usual"], party), atol=2.0**-21)


@pytest.mark.parametrize("name", ["none left", "lying guest"])
def test_what_the_guest_opens_then_is_hidden_by_parts_as_wide_as_the_loss_may_be_checked(runs, name):
    parts = seen(runs, name) - seen(runs, "exact")
    assert UNSHOWN_DEVIATION / 1.6 < np.sqrt(np.mean(parts**2)) < 1.6 * UNSHOWN_DEVIATION
    assert last_loss(runs, "lying guest") == NOT_SHOWN and counted(runs, "lying guest") == 1


def test_without_losses_no_tolerance_ends_a_training(runs):
    assert runs["early stop without losses"][GUEST].value["summary"]["epochs run"] == 5


@pytest.mark.parametrize("name", ["a warm start", "other rows and columns", "many epochs", "three classes"])
def test_these_count_like_the_trainings_that_they_are(runs, name):
    """A model that goes on, other columns of some of the records, 101 epochs, and 34 of models of three classes."""
    assert last_loss(runs, name) == NOT_SHOWN
    assert counted(runs, name) == (1 if name in ("a warm start", "other rows and columns") else 0)


def test_100_losses_are_one_training_whatever_ends_it(runs):
    assert counted(runs, "as many") == 1 and runs["as many"][GUEST].value["summary"]["epochs run"] == 2


def test_each_fold_is_a_training(runs):
    shown = [summary["last loss"] for summary in runs["folds"][GUEST].value]
    assert [loss == NOT_SHOWN for loss in shown] == [False, False, True] and counted(runs, "folds") == 2


def test_one_host_keeps_losses_from_the_guest_and_none_counts_then(runs):
    assert last_loss(runs, "second host refuses") == NOT_SHOWN
    assert [counted(runs, "second host refuses", party) for party in (HOST, SECOND_HOST)] == [0, 0]


def test_noise_of_a_hosts_own_covers_its_losses(runs):
    assert isinstance(last_loss(runs, "noise of the host"), float) and counted(runs, "noise of the host") == 0
    assert last_loss(runs, "noise of the guest alone") == NOT_SHOWN


def test_trainings_on_shares_count_alike(runs):
    assert counted(runs, "of shares, none left") == 3 and last_loss(runs, "of shares, none left") == NOT_SHOWN
    parts = seen(runs, "of shares, none left") - seen(runs, "of shares, exact")
    assert np.sqrt(np.mean(parts**2)) > UNSHOWN_DEVIATION / 1.6
