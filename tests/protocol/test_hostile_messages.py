"""What would run a command where FATE unpickles it is refused: one sentence at every party, no command, no charge.

Each attack worked on the messages that our components had before they had their own codec, and those that are in its form on
the codec that read a message before it looked at its kind.
"""

from contextlib import nullcontext
from functools import partial

import pytest

from . import homo_nn_parties
from .hostile import colliding_keys, dotted_name, hostile_message, hostile_table, hungry, large, nameless
from .scenarios import ARBITER, GUEST, HOST, Scenario, assert_refused, frame_at, play, tables, train

TABLES = tables(rows=90, guest=2, hosts=(4,))
TRAINING = dict(tables=TABLES, public=True, epochs=2)
WITH_ARBITER = dict(TRAINING, solver="per_epoch", train_scores=False)
HOMO = dict(tables=homo_nn_parties.TABLES, **homo_nn_parties.QUICK)


def align(ctx, earlier, tables):
    from fate_dp.components.align.run import run
    from fate_dp.components.align.settings import Settings

    run(ctx, Settings(), frame_at(ctx, tables))


def attacked(ctx, earlier, play_part, by, attack, folder, **arguments):
    """``play_part`` as ever, but one party attacks."""
    me = tuple(ctx.federation.local_party)
    with attack(ctx, folder) if me == by else nullcontext():
        return play_part(ctx, earlier, **arguments)


def message(kind, receiver, number=0):
    return partial(_message, kind=kind, receiver=receiver, number=number)


def _message(ctx, folder, kind, receiver, number):
    return hostile_message(ctx, receiver, number, kind, folder)


def table(ctx, folder):
    return hostile_table(folder)


def table_of_keys(ctx, folder):
    return hostile_table(folder, of_keys=True)


TRAINERS, TWO = (GUEST, HOST, ARBITER), (GUEST, HOST)
# name: (who attacks, with what, who of whom plays what, sentence)
ATTACKS = {
    "a message to the guest": (
        HOST,
        message(dotted_name, GUEST),
        train,
        TRAINING,
        TRAINERS,
        "'preflight' from host 10000",
    ),
    "a message to a host": (GUEST, message(dotted_name, HOST), train, TRAINING, TRAINERS, "'verdict' from guest 9999"),
    "a message to the arbiter": (
        GUEST,
        message(dotted_name, ARBITER),
        train,
        WITH_ARBITER,
        TRAINERS,
        "'verdict' from guest 9999",
    ),
    "a message of the arbiter": (
        ARBITER,
        message(dotted_name, GUEST, 1),
        train,
        WITH_ARBITER,
        TRAINERS,
        "'public_key' from arbiter 10002",
    ),
    "2 MiB to the guest": (HOST, message(large, GUEST), train, TRAINING, TRAINERS, "'preflight' from host 10000"),
    "2 MiB to a host": (GUEST, message(large, HOST), train, TRAINING, TRAINERS, "'verdict' from guest 9999"),
    "2 MiB to the arbiter": (
        GUEST,
        message(large, ARBITER),
        train,
        WITH_ARBITER,
        TRAINERS,
        "'verdict' from guest 9999",
    ),
    "keys of one hash to the guest": (
        HOST,
        message(colliding_keys, GUEST),
        train,
        TRAINING,
        TRAINERS,
        "'preflight' from host 10000",
    ),
    "empty lists to a host": (GUEST, message(hungry, HOST), train, TRAINING, TRAINERS, "'verdict' from guest 9999"),
    "a name of no message": (HOST, message(nameless, GUEST), train, TRAINING, TRAINERS, "'preflight' from host 10000"),
    "2 MiB amid a training": (HOST, message(large, GUEST, 2), train, TRAINING, TWO, "from host 10000"),
    "a table to a host": (GUEST, table, train, TRAINING, TWO, "'encrypted_rows' from guest 9999"),
    "a table of hostile keys": (GUEST, table_of_keys, train, TRAINING, TWO, "'encrypted_rows' from guest 9999"),
    "a table to the guest": (HOST, table, align, dict(tables=TABLES), TWO, "'records' from host 10000"),
    "a column to the guest": (HOST, table, train, dict(WITH_ARBITER), TRAINERS, "'encrypted_scores' from host 10000"),
    "weights from the server": (
        homo_nn_parties.ARBITER,
        message(dotted_name, GUEST, 2),
        homo_nn_parties.train,
        HOMO,
        homo_nn_parties.WITHOUT_SHUFFLER,
        "'round' from arbiter 10001",
    ),
    "2 MiB from the server": (
        homo_nn_parties.ARBITER,
        message(large, homo_nn_parties.SECOND_HOST, 1),
        homo_nn_parties.train,
        HOMO,
        homo_nn_parties.WITHOUT_SHUFFLER,
        "'present' from arbiter 10001",
    ),
}


@pytest.fixture(scope="module")
def marks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marks")
    return {name: folder / f"mark-{number}" for number, name in enumerate(ATTACKS)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, marks):
    scenarios = {
        name: Scenario(
            attacked, dict(arguments, play_part=part, by=by, attack=attack, folder=str(marks[name])), parties
        )
        for name, (by, attack, part, arguments, parties, _) in ATTACKS.items()
    }
    everybody = tuple(dict.fromkeys(party for scenario in scenarios.values() for party in scenario.parties))
    return play(scenarios, tmp_path_factory.mktemp("homes"), everybody)


@pytest.mark.parametrize("name", ATTACKS)
def test_no_command_runs(runs, marks, name):
    assert not marks[name].exists()


@pytest.mark.parametrize("name", ATTACKS)
def test_every_party_learns_which_message_of_whom_cannot_be_read(runs, name):
    sentence = ATTACKS[name][-1]
    assert_refused(runs[name], sentence)
    assert all(
        "The message '" in outcome.error and "cannot be read: " in outcome.error for outcome in runs[name].values()
    )


@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_is_charged_but_what_was_sent_before(runs, name):
    sent = {
        sender for outcome in runs[name].values() for sender, message, _ in outcome.received if message == "message"
    }
    for party, outcome in runs[name].items():
        charged = [entry for entry in outcome.ledger["entries"] if entry["mechanism"] != "not private"]
        assert bool(charged) == ("-".join(party) in sent) and outcome.ledger["spent"] == 0


def test_parties_that_sent_before_another_refused_are_charged(runs):
    charged = [party for party, outcome in runs["2 MiB from the server"].items() if outcome.ledger["entries"]]
    assert charged == [GUEST, HOST]
