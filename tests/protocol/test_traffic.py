"""What `dp_hetero_lr.traffic` says of a training from public numbers is what its parties do send each other."""

from unittest import mock

import pytest

from fate_dp.components.dp_hetero_lr.settings import TrainSettings, flipback
from fate_dp.components.dp_hetero_lr.traffic import Traffic, traffic

from .scenarios import GUEST, HOST, Scenario, flip, play, tables, train

ROWS, COLUMNS = 400, (3, 4)
PARTIES = (GUEST, HOST)
SHORT = {"method": "sgd", "penalty": "l2", "alpha": 0.1, "optimizer_params": {"lr": 0.1}}
FIXED = dict(tables=tables(rows=ROWS, guest=COLUMNS[0], hosts=COLUMNS[1:]), tol=0, train_scores=False, optimizer=SHORT)
ROUNDS = {"mode": "posterior", "every": 2, "max_rounds": 2}


def counted(ctx, earlier, **arguments) -> tuple[int, int]:
    """Trains; returns the bytes that this party sent, and how many messages had to arrive one after the other.

    Every message tells how many there were before it, as in Lamport's logical clocks.
    """
    from fate.arch.federation.backends.standalone import StandaloneFederation as Federation

    push, pull, push_table = Federation._push_bytes, Federation._pull_bytes, Federation._push_table
    seen = {"bytes": 0, "delays": 0}

    def counting_push(self, v, name, tag, parties):
        seen["bytes"] += len(v) * len(parties)
        push(self, (seen["delays"] + 1).to_bytes(8, "big") + v, name, tag, parties)

    def counting_pull(self, name, tag, parties):
        contents = pull(self, name, tag, parties)
        if tag == "0":  # A greeting, which left before anything was counted.
            seen["delays"] = max(seen["delays"], 1)
            return contents
        seen["delays"] = max(seen["delays"], *(int.from_bytes(content[:8], "big") for content in contents))
        return [content[8:] for content in contents]

    def counting_push_table(self, table, name, tag, parties):
        seen["bytes"] += len(parties) * sum(len(key) + len(value) for key, value in table.table.collect())
        push_table(self, table, name, tag, parties)

    with (
        mock.patch.object(Federation, "_push_bytes", counting_push),
        mock.patch.object(Federation, "_pull_bytes", counting_pull),
        mock.patch.object(Federation, "_push_table", counting_push_table),
    ):
        train(ctx, earlier, **arguments)
    return seen["bytes"], seen["delays"]


SCENARIOS = {
    "one epoch": Scenario(counted, {**FIXED, "public": True, "epochs": 1}, PARTIES),
    "many epochs": Scenario(counted, {**FIXED, "public": True, "epochs": 40}, PARTIES),
    "flip": Scenario(flip, dict(tables=FIXED["tables"], epsilon=1.0), PARTIES, home="flips"),
    "flipback": Scenario(
        counted, {**FIXED, "labels_of": "flip", "epochs": 6, "flipback": ROUNDS, "score_cap": 4}, PARTIES, home="flips"
    ),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    return play(SCENARIOS, tmp_path_factory.mktemp("traffic"), PARTIES)


@pytest.mark.parametrize(
    "name, epochs, rounds", [("one epoch", 1, None), ("many epochs", 40, None), ("flipback", 6, ROUNDS)]
)
def test_traffic_is_what_the_parties_send(outcomes, name, epochs, rounds):
    settings = TrainSettings(epochs=epochs, **({"flipback": flipback(rounds)} if rounds else {}))
    promised = traffic(ROWS, COLUMNS, settings, flipback=rounds is not None)
    errors = [outcome.error for outcome in outcomes[name].values()]
    assert errors == [None, None]
    sent, delays = zip(*(outcome.value for outcome in outcomes[name].values()))
    # The guest's last message is the one that comes last.
    assert max(delays) == promised.delays
    # What frames messages is not in it: names, and facts and terms before the training.
    assert promised.bytes <= sum(sent) <= promised.bytes * 1.05 + 20_000


def test_waiting_is_delays_and_bytes():
    assert Traffic(bytes=10**6, delays=20).seconds(0.05, 8e6) == pytest.approx(2.0)


@pytest.mark.parametrize("delay, rate, field", [(-0.1, 1e6, "delay"), (0.1, 0.0, "rate"), (float("nan"), 1e6, "delay")])
def test_a_line_without_bandwidth_or_with_a_negative_delay_is_refused(delay, rate, field):
    with pytest.raises(ValueError, match=f"^{field} must be "):
        Traffic(1, 1).seconds(delay, rate)
